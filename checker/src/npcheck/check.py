"""A certificate, a model and a specification: whether the one proves that the other holds of the third."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from npcheck.errors import Invalid, Refused
from npcheck.exact import Sample
from npcheck.files import read
from npcheck.last import before_last_map
from npcheck.network import Network
from npcheck.onnx_file import read_network
from npcheck.region import check_region
from npcheck.statement import state
from npcheck.stream import Stream, read_header
from npcheck.vnnlib_file import MOST_TEXT, read_question
from npcheck.work import Here, Jobs, Told


@dataclass(frozen=True)
class Checked:
    """What was shown, in numbers."""

    model: str  # sha256 of the files' content
    spec: str
    targets: int  # disjuncts of the specification
    empty: int  # of them those that no input can be in
    pinned: int  # inputs with one value
    balls: int  # disjuncts with one
    leaves: int
    exact: tuple[int, int] | None = None  # leaves and neurons' bounds that were done again in exact arithmetic
    seed: int = 0  # what they were chosen by
    maps: tuple[str, ...] = ()  # at the end of the network, before which the rows are asked
    operators: tuple[str, ...] = ()  # beyond ReLUs and affine ones


@dataclass(frozen=True)
class At:
    """Where a check is."""

    what: str  # a disjunct, a node or a neuron
    leaves: int  # more that hold, since the last time
    share: float  # of the certificate that was read


Progress = Callable[[At], None]


def check(
    certificate: Path,
    model: Path,
    spec: Path,
    progress: Progress = lambda at: None,
    *,
    exact: int = 0,
    seed: int | None = None,
    only: Collection[str] | None = None,
    jobs: int = 1,
) -> Checked:
    """Check a certificate of `unsat`; Invalid where it does not hold, Refused where that cannot be said.

    exact: how many leaves, and how many neurons' bounds, are done again in exact arithmetic. seed: they are chosen by.
    only: the operators beyond affine ones that a proof may rest on, by name; None: all that are known.
    jobs: how many other processes compute bounds, if more than one.
    """
    if jobs > 1 and exact:
        raise Refused("exact arithmetic follows the one process that checks: leave out the number of jobs")
    network, of_model = read(model, read_network)
    question, of_spec = read(spec, read_question, MOST_TEXT)
    with _opened(certificate) as file:
        header = read_header(file)
        for what, path, found in (("model", model, of_model), ("spec", spec, of_spec)):
            if header.get(what) != found:
                raise Invalid(f"the certificate is of another {what} than {path}")
        if header.get("claim") != "unsat":
            raise Invalid("the certificate's claim is not unsat")
        _fit(network.nodes[0].size, question.inputs, "inputs")
        _fit(network.nodes[-1].size, question.outputs, "outputs")
        network, question, maps = before_last_map(network, question)
        if only is not None:
            _require_only(only, network, maps, model)
        statement, stream = state(question), Stream(file)
        size = os.fstat(file.fileno()).st_size - file.tell() if file.seekable() else 0
        seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        sample = Sample(network, question, exact, seed) if exact > 0 else None

        def tell(what: str, leaves: int) -> None:
            progress(At(what, leaves, min(stream.read_of_file / size, 1.0) if size > 0 else 0.0))

        # What is not a number proves nothing: see `bound`.
        with np.errstate(all="ignore"), _jobs(network, tell, jobs) as workers:
            try:
                leaves = sum(check_region(network, region, stream, workers, sample) for region in statement.regions)
            except Invalid:  # perhaps of what was read, before all that comes earlier was checked
                workers.wait()
                raise
        stream.end()
    again = None
    if sample is not None:
        sample.check(tell)
        again = len(sample.leaves.kept), len(sample.neurons.kept)
    balls = sum(disjunct.ball is not None for disjunct in question.disjuncts)
    counts = statement.targets, len(statement.empty), statement.pinned, balls, leaves
    return Checked(of_model, of_spec, *counts, again, seed, maps, tuple(sorted(set(network.nonlinear.values()))))


def _require_only(only: Collection[str], network: Network, maps: Sequence[str], model: Path) -> None:
    """Refuse what a proof may not rest on."""
    for place, name in network.nonlinear.items():
        if name not in only:
            raise Refused(f"{model}: {network.nodes[place].name}: the operator {name} is not among --only")
    if network.relus and "relu" not in only:
        raise Refused(f"{model}: {network.nodes[network.relus[0]].name}: the operator relu is not among --only")
    if maps and "order" not in only:
        raise Refused(f"{model}: rows are asked before the last {maps[0]}, and order is not among --only")


def _jobs(network: Network, tell: Told, count: int) -> Jobs:
    if count == 1:
        return Here(network, tell)
    from npcheck.jobs import Pool  # what it imports takes a while

    return Pool(network, tell, count)


def _opened(certificate: Path) -> BinaryIO:
    try:
        return certificate.open("rb")
    except OSError as error:
        raise Refused(f"{certificate}: {error.strerror or error}") from None


def _fit(of_model: int, of_spec: int, what: str) -> None:
    if of_model != of_spec:
        raise Invalid(f"the model has {of_model} {what}, the specification speaks of {of_spec}")
