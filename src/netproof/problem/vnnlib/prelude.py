"""The plain form of VNN-LIB 1.0 in bulk: declarations, then one bound per assertion, then anything else.

Nearly every file begins so, with thousands of such lines. Anything out of the ordinary in them is left to the full
reader, which takes the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from netproof.problem.decimals import Decimals
from netproof.problem.property import Box
from netproof.problem.vnnlib.sexpr import BLANKS

_COMMENT = re.compile(r";[^\r\n]*")
_GAP = f"[{BLANKS}]+"
_INDEX = r"(?:0|[1-9][0-9]{0,8})"
_NUMBER = r"(-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)"
_DECLARATION = re.compile(rf"\(declare-const{_GAP}([XY]_{_INDEX}){_GAP}Real\)")
_BOUND = re.compile(rf"\(assert{_GAP}\(([<>]=){_GAP}(X_{_INDEX}){_GAP}{_NUMBER}\)\)")


@dataclass(frozen=True)
class Plain:
    """What such a beginning says, and the text after it."""

    inputs: tuple[str, ...]  # X_0, X_1, ...
    outputs: tuple[str, ...]
    box: Box
    rest: str


def plain_beginning(text: str) -> Plain | None:
    """Read a plain beginning; None where the text has none, or where the full reader would report an error in it."""
    if '"' in text or "|" in text:  # in these, a semicolon need not begin a comment
        return None
    # Only blanks may lie between the pieces, so each of them is a command and not a part of another one.
    head, *pieces = _BOUND.split(_COMMENT.sub("", text))
    *between, rest = pieces[3::4] or [""]
    declared = _declared(head)
    if declared is None or not _blank(between) or "declare" in rest:
        return None
    box = _box(declared[0], pieces[0::4], pieces[1::4], pieces[2::4])
    return None if box is None else Plain(*declared, box, rest)


def _declared(head: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the inputs and outputs that are declared; None unless there is nothing else, and each of them once."""
    pieces = _DECLARATION.split(head)
    names = pieces[1::2]
    inputs = sum(name.startswith("X") for name in names)
    declared = _names("X", inputs), _names("Y", len(names) - inputs)
    if not _blank(pieces[0::2]) or not all(declared) or set(names) != {*declared[0], *declared[1]}:
        return None
    return declared


@lru_cache(maxsize=8)
def _names(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}_{i}" for i in range(count))


def _box(inputs: tuple[str, ...], relations: list[str], names: list[str], numbers: list[str]) -> Box | None:
    """Make the box; None unless every input has one bound on each side."""
    sides: dict[str, dict[str, str]] = {"<=": {}, ">=": {}}
    for relation, name, number in zip(relations, names, numbers, strict=True):
        sides[relation][name] = number
    if len(numbers) != 2 * len(inputs) or any(side.keys() != set(inputs) for side in sides.values()):
        return None
    lower, upper = (Decimals(tuple(map(side.__getitem__, inputs))) for side in (sides[">="], sides["<="]))
    try:
        _ = lower.rounded, upper.rounded
    except OverflowError:  # a number beyond the limits; the full reader says where it stands
        return None
    return Box(lower, upper)


def _blank(pieces: list[str]) -> bool:
    return not "".join(pieces).strip(BLANKS)
