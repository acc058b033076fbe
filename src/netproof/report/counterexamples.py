"""Counterexamples of a campaign: each as a file, and where the input is an image as a picture beside its start."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from netproof.campaign.names import file_name, readable, short_hash, stable_name
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.core.files import write_whole
from netproof.core.shown.picture import small_layout
from netproof.core.shown.seen import MIDDLE, Seen

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
    """Draw the counterexample as SVG, beside the middle of its input set where that is known, and the difference.

    None where the input is no image, or its shape is not known.
    """
    import numpy as np

    from netproof.core.shown.panels import panels

    shape, values = _shape(result), _values(result.witness)
    layout = None if shape is None else small_layout(shape)
    if layout is None or len(values) != layout.height * layout.width * layout.colours:
        return None
    found = (values, "counterexample", _read_as(result.read_as))
    before = [float(value) for value in (result.original or "").split()]
    images = [(before, "middle of the set", _read_as(result.was)), found] if len(before) == len(values) else [found]
    return panels(
        [(layout.picture(np.array(numbers)), name, words) for numbers, name, words in images], "counterexample"
    )


def words_of(result: Result) -> str:
    """Say how the counterexample compares with the middle of its input set; empty where that is not known."""
    if result.changed is None:
        return ""
    return Seen(result.read_as, result.was, result.changed, start=MIDDLE).words


def _read_as(output: int | None) -> str:
    return "" if output is None else f"read as {output}"


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
