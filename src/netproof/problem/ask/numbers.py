"""Numbers and lists as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

MOST = 6  # parts of a list that are shown
LONG = 80  # characters


def shown_number(value: Fraction) -> str:
    """Write a number shortly: as the float that it is, or else as a fraction, or about.

    >>> shown_number(Fraction(0.1)), shown_number(Fraction(1, 10)), shown_number(Fraction(1, 3)), shown_number(5)
    ('0.1', '0.1', '1/3', '5')
    """
    value = Fraction(value)
    if value.denominator == 1:
        return str(value) if abs(value) < 10**16 else f"{float(value):g}" if abs(value) < 10**300 else "a huge number"
    try:
        near = float(value)
    except OverflowError:
        return "a huge number"
    if Fraction(near) == value or Fraction(repr(near)) == value:
        return repr(near)
    return str(value) if len(str(value)) <= 16 else f"{near:.6g}"


def together(words: Sequence[str], between: str, most: int = MOST) -> str:
    """Join words, without the middle of many."""
    if len(words) <= most:
        return between.join(words)
    return between.join([*words[: most - 2], f"... {len(words) - most + 1} more ...", words[-1]])


def brief(value: object) -> str:
    """Show a value in a message: the beginning of its text, where that is long."""
    try:
        text = repr(value)
    except RecursionError:
        return "deeply nested"
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."
