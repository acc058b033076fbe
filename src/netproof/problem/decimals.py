"""Many decimal literals at once: exact, and rounded to floats without a fraction for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from netproof.problem.decimal import decimal
from netproof.problem.rounding import Doubles, Rounded

Integers = NDArray[np.int64]

_DIGITS = 18  # decimal digits that always fit into an int64
_POWERS = np.array([float(10**k) for k in range(23)])  # the powers of ten that float64 holds exactly
_SPLIT = 2.0**27 + 1.0  # Veltkamp's constant, which halves a float64's 53 bits


@dataclass(frozen=True, eq=False)
class Decimals(Sequence[Fraction]):
    """The values of decimal literals. There may be thousands, so they become fractions only where that is needed."""

    texts: tuple[str, ...]  # each one that `decimal` accepts, in ASCII

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Fraction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Fraction]: ...
    def __getitem__(self, index: int | slice) -> Fraction | Sequence[Fraction]:
        return Decimals(self.texts[index]) if isinstance(index, slice) else _value(self.texts[index])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Decimals) and self.texts == other.texts:
            return True
        return self._all == tuple(other) if isinstance(other, tuple | Decimals) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)  # that of the equal tuple

    @cached_property
    def _all(self) -> tuple[Fraction, ...]:
        return tuple(map(_value, self.texts))

    @cached_property
    def rounded(self) -> Rounded:
        """Round as `Rounded.of` does. OverflowError where a value is beyond float64 or the limits of a literal."""
        near: Doubles = np.array([float(text) for text in self.texts], dtype=np.float64) + 0.0  # no negative zero
        count, places, plain = _digits(self.texts)
        rest, sure = _side(np.where(plain, np.abs(near), 0.0), count, places)
        rest = np.where(near < 0, -rest, rest)
        unsure = np.flatnonzero(~(sure & plain)).tolist()
        if unsure:
            exact = Rounded.of([_value(self.texts[i]) for i in unsure])
            near[unsure], rest[unsure] = exact.near, exact.rest
        return Rounded(near, rest)


def _value(text: str) -> Fraction:
    value = decimal(text)
    if value is None:
        raise ValueError(f"{text!r} is not a decimal literal")
    return value


def _digits(texts: Sequence[str]) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return of literals such as -0.125 their digits as a number (n,), and how many of these are decimals (n,).

    The third array (n,) says which literals are so plain; of others, with an exponent or too many digits, the first
    two are 0.
    """
    joined = np.array(texts, dtype=np.bytes_)
    codes = joined.view(np.uint8).reshape(len(texts), joined.itemsize)  # one row per literal, filled up with zeros
    digit = codes - np.uint8(ord("0"))  # anything else wraps around to 10 or more
    is_digit, is_dot = digit < 10, codes == ord(".")
    other = is_dot | (codes == 0) | (codes == ord("-")) | (codes == ord("+"))
    significant = is_digit & np.logical_or.accumulate(is_digit & (digit > 0), axis=1)
    places = (is_digit & np.logical_or.accumulate(is_dot, axis=1)).sum(axis=1)
    plain = (is_digit | other).all(axis=1) & (significant.sum(axis=1) <= _DIGITS) & (places < len(_POWERS))
    count = np.zeros(len(texts), dtype=np.int64)
    for here, value in zip((significant & plain[:, None]).T, digit.T, strict=True):
        count = np.where(here, 10 * count + value, count)
    places = np.where(plain, places, 0)
    return count, places, plain


def _side(near: Doubles, count: Integers, places: Integers) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return the sign of x − near for x = count / 10^places and its nearest float64, near >= 0; and where it is sure.

    It is that of count − near·10^places. Both terms are taken as sums of two floats, exactly; the difference of the
    larger parts is exact too, because they are within a factor of two of each other (Sterbenz).
    """
    power = _POWERS[places]
    product = near * power
    high = count.astype(np.float64)
    low = (count - high.astype(np.int64)).astype(np.float64)
    small, lost = _difference(low, _product_error(near, power, product))
    total = (high - product) + small
    # A rounded sum of two floats has the sign of the exact one; so it is enough that what was lost is smaller.
    sure = (lost == 0.0) | (np.abs(total) > 2.0 * np.abs(lost))
    return np.sign(total).astype(np.int8), sure


def _product_error(a: Doubles, b: Doubles, product: Doubles) -> Doubles:
    """Return a·b − product, exactly (Dekker); far from overflow and underflow."""
    a_high, b_high = (big - (big - x) for x, big in ((a, _SPLIT * a), (b, _SPLIT * b)))
    a_low, b_low = a - a_high, b - b_high
    error: Doubles = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return error


def _difference(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a − b, rounded, and what the rounding lost, exactly (Knuth)."""
    total = a - b
    part = total - a
    return total, (a - (total - part)) - (b + part)
