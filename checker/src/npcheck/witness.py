"""A counterexample: whether the real-valued network breaks the specification at this point.

    witness = ["sat"] ( (X_0 number) … (X_n number) (Y_0 number) … )

or numpy's file of an array, with the numbers of X alone.

A specification describes violations. A point breaks it if it lies in the set of some disjunct, exactly as written, and
all rows of that disjunct hold there for the network's outputs. The numbers of X stand for floats of the type that the
model's input has: each is the nearest one. The outputs are computed here, without rounding or with all of it charged
(`values`); those of the file, which are from a run in rounded arithmetic, only serve to say what it saw.

An input that a disjunct pins to one number, which no float of the type equals, takes the float nearest to it. Rows see
the number that is written, and the network the float.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from npcheck import vnnlib_file
from npcheck.errors import Refused
from npcheck.files import read
from npcheck.network import Input, Network
from npcheck.onnx_file import read_network
from npcheck.statement import Array
from npcheck.values import Enclosed, enclosed_values, exact_values
from npcheck.vnnlib_file import Disjunct, Question, Row, number, read_question

MOST_TEXT = 1 << 25  # bytes
_BEGIN = re.compile(rb"\s*(sat\b|\()|\x93NUMPY")
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '(<f4|<f8)', 'fortran_order': False, 'shape': \([0-9, ]*\), \} *\n", re.DOTALL
)
_PAIR = re.compile(r"\(\s*([XY])_(0|[1-9][0-9]{0,8})\s+([^\s()]+)\s*\)")


def is_witness(path: Path) -> bool:
    """Say whether a file begins as a witness does; a certificate does not. What can be read only once is none."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _BEGIN.match(file.read(64)) is not None
    except OSError:
        return False


@dataclass(frozen=True)
class Witness:
    """The numbers of a witness file, as they are written."""

    inputs: list[Fraction]
    outputs: list[Fraction]


def read_witness(data: bytes) -> Witness:
    """Read a witness."""
    array = _ARRAY.match(data)
    if array is not None:
        rest = data[array.end() :]
        if int.from_bytes(array[1], "little") + 10 != array.end() or len(rest) % int(array[2][2:]):
            raise Refused("this is no witness: the array is damaged")
        return Witness(_fractions(np.frombuffer(rest, array[2].decode()).astype(np.float64)), [])
    if data.startswith(b"\x93NUMPY"):
        raise Refused("only arrays of float32 and float64 in C order are witnesses")
    try:
        text = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise Refused("this is no witness: it is not a text in ASCII") from None
    text = text.removeprefix("sat").strip()
    if not (text.startswith("(") and text.endswith(")")):
        raise Refused("this is no witness: it is not a list of (X_0 number) … (Y_0 number) in parentheses")
    sides: dict[str, list[Fraction]] = {"X": [], "Y": []}
    at, end = 1, len(text) - 1
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        pair = _PAIR.match(text, at, end)
        if pair is None:
            raise Refused(f"this is no witness: (X_i number) or (Y_i number) does not stand at character {at + 1}")
        side, place, token = pair.groups()
        value = number(token)
        if value is None:
            raise Refused(f"{side}_{place}: {token[:40]!r} is no number, or is out of range")
        if int(place) != len(sides[side]):
            raise Refused(f"{side}_{place} stands where {side}_{len(sides[side])} is expected")
        sides[side].append(value)
        at = pair.end()
    return Witness(sides["X"], sides["Y"])


def _fractions(values: Array) -> list[Fraction]:
    if not np.isfinite(values).all():
        raise Refused("this is no witness: a number is not finite")
    return [Fraction(value) for value in values.tolist()]


@dataclass(frozen=True)
class Judged:
    """What a witness shows."""

    violated: bool
    lines: tuple[str, ...]  # why, in words
    model: str  # sha256 of the files' content
    spec: str


def judge(witness: Path, model: Path, spec: Path) -> Judged:
    """Evaluate the network at a witness; Refused where nothing can be said."""
    network, of_model = read(model, read_network)
    question, of_spec = read(spec, read_question, vnnlib_file.MOST_TEXT)
    text, _ = read(witness, read_witness, MOST_TEXT)
    for what, size, asked, said in (
        ("inputs", network.nodes[0].size, question.inputs, len(text.inputs)),
        ("outputs", network.nodes[-1].size, question.outputs, len(text.outputs) or question.outputs),
    ):
        if not size == asked == said:
            raise Refused(f"the model has {size} {what}, the specification speaks of {asked}, the witness of {said}")
    violated, lines = _judged(network, question, text)
    return Judged(violated, tuple(lines), of_model, of_spec)


def _judged(network: Network, question: Question, text: Witness) -> tuple[bool, list[str]]:
    op = network.nodes[0].op
    kind: type[np.floating] = np.float64 if isinstance(op, Input) and op.double else np.float32
    point = _nearest(text.inputs, kind)
    places = _Places(point, kind)
    inside = {place: places.of(disjunct) for place, disjunct in enumerate(question.disjuncts)}
    held = {place: spot for place, spot in inside.items() if not spot.outside}
    if not held:
        why = inside[0].outside if len(inside) == 1 else f"outside of that of disjunct 0, {inside[0].outside}"
        return False, [f"the point is outside of the specification's set: {why}"]
    seen = _said(question, held, text, kind)
    with np.errstate(all="ignore"):
        found = _verdict(question, held, enclosed_values(network, point))
    how = "in float64 with all rounding charged"
    if found is None:
        found, how = _verdict(question, held, exact_values(network, point)), "exactly"
    assert found is not None, "exact values decide"
    place, row, margin, violated = found
    about = f"disjunct {place}" if len(question.disjuncts) > 1 else "the specification"
    note = []
    if held[place].pinned:
        note = [
            f"inputs pinned to a number that no {kind.__name__} equals, and at the nearest one: {held[place].pinned}"
        ]
    if violated:
        by = f", every row by {_number(margin)}" if margin else ""
        line = f"the real-valued network breaks {about} at this point of its set{by} ({how})"
        return True, [line, *note]
    line = f"the real-valued network does not break {about} there: row {row} is missed by {_number(margin)} ({how})"
    return False, [line, *seen, *note]


def _number(value: Fraction) -> str:
    if not value:
        return "0, and it is strict"
    near = _float(value, np.float64)
    return f"about {near:.3g}" if np.isfinite(near) else "more than 1e308"


def _said(question: Question, held: dict[int, _Spot], text: Witness, kind: type[np.floating]) -> list[str]:
    """Say what the outputs of the file, from a run in rounded arithmetic, do."""
    if not text.outputs:
        return []
    outputs: list[Fraction | None] = [Fraction(value) for value in _nearest(text.outputs, kind).tolist()]
    found = _verdict(question, held, Enclosed(outputs, outputs))
    if found is not None and found[3]:
        return ["the outputs that the witness says do break it: only a run in rounded arithmetic has them"]
    return ["the outputs that the witness says do not break it either"]


def _nearest(numbers: list[Fraction], kind: type[np.floating]) -> Array:
    """Return the floats of a type that are nearest to numbers, as float64; Refused beyond its largest."""
    floats = [_float(value, kind) for value in numbers]
    if not np.isfinite(floats).all():
        raise Refused(f"the witness has a number beyond {kind.__name__}")
    return np.array(floats)


def _float(value: Fraction, kind: type[np.floating]) -> float:
    try:
        near = float(value)  # to nearest
    except OverflowError:
        return np.inf
    if kind is np.float64:
        return near
    with np.errstate(over="ignore"):
        single = np.float32(near)
    if np.isfinite(single) and Fraction(near) != value:  # near was rounded already: a tie may go the wrong way
        others = (np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf))
        single = min(
            (single, *others), key=lambda one: abs(Fraction(float(one)) - value) if np.isfinite(one) else 1 << 200
        )
    return float(single)


@dataclass(frozen=True)
class _Spot:
    """Where a point is with respect to a disjunct's set."""

    outside: str  # how it is outside; empty: it is in it
    exact: list[Fraction]  # the inputs as rows see them
    pinned: int


class _Places:
    """Finds where a point is in boxes; disjuncts share them."""

    def __init__(self, point: Array, kind: type[np.floating]) -> None:
        self._kind = kind
        self._exact = [Fraction(value) for value in point.tolist()]
        self._seen: dict[tuple[int, int, int], _Spot] = {}

    def of(self, disjunct: Disjunct) -> _Spot:
        """Say where the point is."""
        key = id(disjunct.lower), id(disjunct.upper), id(disjunct.ball)
        if key not in self._seen:
            self._seen[key] = self._of(disjunct)
        return self._seen[key]

    def _of(self, disjunct: Disjunct) -> _Spot:
        exact, pinned = list(self._exact), 0
        for i, (low, high, x) in enumerate(zip(disjunct.lower, disjunct.upper, self._exact, strict=True)):
            if low == high and x != low and x == _float(low, self._kind):
                exact[i], pinned, x = low, pinned + 1, low
            if x < low or (x == low and i in disjunct.open[0]):
                return _Spot(f"X_{i} is {float(x)!r}, {_side(x, low, 'below')} {_text(low)}", exact, pinned)
            if x > high or (x == high and i in disjunct.open[1]):
                return _Spot(f"X_{i} is {float(x)!r}, {_side(x, high, 'above')} {_text(high)}", exact, pinned)
        if disjunct.ball is not None and not disjunct.ball.contains(exact):
            return _Spot("it is not in the ball", exact, pinned)
        return _Spot("", exact, pinned)


def _side(x: Fraction, end: Fraction, word: str) -> str:
    return "not strictly within" if x == end else word


def _text(end: Fraction) -> str:
    try:
        return repr(float(end))
    except OverflowError:
        return "its end"


_Found = tuple[int, int, Fraction, bool]  # the disjunct, a row of it, by how much, and whether it is broken


def _verdict(question: Question, held: dict[int, _Spot], outputs: Enclosed) -> _Found | None:
    """Return the disjunct that is broken by most, or else the one that is nearest to it; None: the ends do not tell."""
    broken: list[_Found] = []
    missed: list[_Found] = []
    for place, spot in held.items():
        held_by, missed_by = [], []  # margins of rows, with their places
        for j, row in enumerate(question.disjuncts[place].rows):
            low, high = _row(row, spot.exact, outputs)
            if high is not None and (high < 0 or (high == 0 and not row.strict)):
                held_by.append((-high, j))
            elif low is not None and (low > 0 or (low == 0 and row.strict)):
                missed_by.append((low, j))
        if len(held_by) == len(question.disjuncts[place].rows):
            margin, j = min(held_by, default=(Fraction(0), 0))
            broken.append((place, j, margin, True))
        elif missed_by:
            margin, j = max(missed_by)
            missed.append((place, j, margin, False))
    if broken:
        return max(broken, key=_margin)
    return min(missed, key=_margin) if len(missed) == len(held) else None


def _margin(found: _Found) -> Fraction:
    return found[2]


def _row(row: Row, inputs: list[Fraction], outputs: Enclosed) -> tuple[Fraction | None, Fraction | None]:
    """Return the ends of a row's left side less its right one."""
    known = sum((factor * inputs[i] for i, factor in row.inputs.items()), -row.right)
    ends: list[Fraction | None] = []
    for low, high in ((outputs.lower, outputs.upper), (outputs.upper, outputs.lower)):
        parts = [(factor, (low if factor > 0 else high)[i]) for i, factor in row.outputs.items()]
        some = [factor * value for factor, value in parts if value is not None]
        ends.append(sum(some, known) if len(some) == len(parts) else None)
    return ends[0], ends[1]
