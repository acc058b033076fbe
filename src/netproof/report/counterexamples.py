"""Counterexamples of a campaign: each as a file, and as a picture where the input is an image."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from netproof.campaign.names import file_name, readable, short_hash, stable_name
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.core.files import write_whole
from netproof.core.shown.picture import png_of

FOLDER, SUFFIX = "counterexamples", ".counterexample"
PIXEL = re.compile(r"\(\s*X_\d+\s+([^\s()]+)\s*\)")
HEAD = re.compile(r"\S+ (?:float\d+|real|Float\d+)\S* \[([\d,]*)\]")


def place_of(run: Run) -> PurePosixPath:
    """Return where a run's counterexample is written: FOLDER/BENCHMARK/MODEL__PROPERTY__CONFIGURATION__HASH.

    The hash is of the names as instances.csv has them: in the names of files `x y` and `x_y` would be the same.
    """
    result = run.result
    parts = [readable(str(PurePosixPath(name).with_suffix(""))) for name in (result.onnx, result.vnnlib)]
    name = "__".join([*parts, stable_name(result), short_hash(*result.instance)])
    return PurePosixPath(FOLDER, file_name(result.benchmark), f"{name}{SUFFIX}")


def write_counterexamples(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write the counterexample of every sat run in its property's own form; those of earlier calls go.

    A file that is there already is not written again.
    """
    written = []
    for run in runs:
        if run.result.verdict == "sat" and run.result.witness:
            path, content = folder / place_of(run), run.result.witness.encode()
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
            written.append(path)
    for stale in set((folder / FOLDER).glob(f"*/*{SUFFIX}")) - set(written):
        stale.unlink()
        with contextlib.suppress(OSError):  # it holds others
            stale.parent.rmdir()
    return written


def picture_of(result: Result) -> bytes | None:
    """Draw the counterexample as PNG; None where the input is no image, or its shape is not known."""
    import numpy as np

    shape, values = _shape(result), _values(result.witness)
    if shape is None or len(values) != int(np.prod(shape)):
        return None
    return png_of(np.array(values, dtype=np.float64).reshape(shape))


def _shape(result: Result) -> tuple[int, ...] | None:
    head = HEAD.match(result.witness)
    text = head.group(1) if head else result.input_shape
    return tuple(int(size) for size in text.split(",")) if text else None


def _values(witness: str) -> list[float]:
    """Read the input from VNN-COMP's form, or the first tensor of VNN-LIB 2.0's."""
    if HEAD.match(witness) is None:
        return [float(value) for value in PIXEL.findall(witness)]
    values: list[float] = []
    for line in witness.splitlines()[1:]:
        if HEAD.match(line):
            break
        values.append(float(line))
    return values
