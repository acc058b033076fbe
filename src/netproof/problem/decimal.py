"""Decimal literals as exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")

# A number such as 1e999999999 would fill the memory when read exactly, and float64 ends near 1e308.
MAX_EXPONENT = 400
MAX_LENGTH = 1000  # characters

LIMITS = f"use at most {MAX_LENGTH} characters and exponents within ±{MAX_EXPONENT}"


def decimal(text: str) -> Fraction | None:
    """Return the value of a decimal literal; None when it is not one, OverflowError when it is beyond the limits.

    >>> decimal("-2.5e-1"), decimal("x")
    (Fraction(-1, 4), None)
    """
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, decimals, exponent = match[1], match[2], match[3] or "", match[4] or "0"
    if len(text) > MAX_LENGTH or abs(int(exponent)) > MAX_EXPONENT:
        raise OverflowError("the number is too long or too extreme")
    digits = int(sign + whole + decimals)
    power = int(exponent) - len(decimals)
    return Fraction(digits * 10**power) if power >= 0 else Fraction(digits, 10**-power)
