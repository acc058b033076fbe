"""A certificate, a model and a specification: whether the one proves that the other holds of the third."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from npcheck.errors import Invalid, Refused
from npcheck.files import read
from npcheck.onnx_file import read_network
from npcheck.region import Progress, check_region
from npcheck.statement import state
from npcheck.stream import Stream, read_header
from npcheck.vnnlib_file import read_question


@dataclass(frozen=True)
class Checked:
    """What was shown, in numbers."""

    model: str  # sha256 of the files' content
    spec: str
    targets: int  # disjuncts of the specification
    empty: int  # of them those that no input can be in
    pinned: int  # inputs with one value
    leaves: int


def check(certificate: Path, model: Path, spec: Path, progress: Progress = lambda what, count: None) -> Checked:
    """Check a certificate of `unsat`; Invalid where it does not hold, Refused where that cannot be said."""
    network, of_model = read(model, read_network)
    question, of_spec = read(spec, read_question)
    with _opened(certificate) as file:
        header = read_header(file)
        for what, path, found in (("model", model, of_model), ("spec", spec, of_spec)):
            if header.get(what) != found:
                raise Invalid(f"the certificate is of another {what} than {path}")
        if header.get("claim") != "unsat":
            raise Invalid(f"the certificate claims {header.get('claim')!r}, not unsat")
        _fit(network.nodes[0].size, question.inputs, "inputs")
        _fit(network.nodes[-1].size, question.outputs, "outputs")
        statement, stream = state(question), Stream(file)
        with np.errstate(all="ignore"):  # what is not a number proves nothing: see `bound`
            leaves = sum(check_region(network, region, stream, progress) for region in statement.regions)
        stream.end()
    return Checked(of_model, of_spec, statement.targets, len(statement.empty), statement.pinned, leaves)


def _opened(certificate: Path) -> BinaryIO:
    try:
        return certificate.open("rb")
    except OSError as error:
        raise Refused(f"{certificate}: {error.strerror or error}") from None


def _fit(of_model: int, of_spec: int, what: str) -> None:
    if of_model != of_spec:
        raise Invalid(f"the model has {of_model} {what}, the specification speaks of {of_spec}")
