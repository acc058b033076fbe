"""Constants of a file, and arithmetic on them that knows its own rounding.

Floats are held in float64, which holds every float16, float32 and float64 exactly. Two elementwise bounds go
with a value. Its radius, for proofs: |exact − value| <= radius, where float64 cannot hold the result. And its
slack, for the comparison with onnxruntime: |runtime's − value| <= slack, since a runtime rounds the result of
every operation to the file's own type. (One rounding is charged as two, which also covers a runtime that multiplies
by a rounded reciprocal where a quotient is meant.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netproof.numerics import coarseness, enlarged, few_roundings, with_vanishing

_SPLIT = 2.0**27 + 1.0  # Veltkamp's constant, which halves a float64's 53 bits
_SAFE = (2.0**-480, 2.0**480)  # magnitudes whose products, halves and remainders stay normal


@dataclass(frozen=True, eq=False)
class Constant:
    value: np.ndarray  # float64, an integer type or bool
    radius: np.ndarray | None = None  # None when exact
    slack: np.ndarray | None = None  # None when a runtime must hold the very same value
    dtype: torch.dtype = torch.float32  # of a float in the file; what a number inside a converter has is float64

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def is_float(self) -> bool:
        return self.value.dtype == np.float64

    def tensor(self) -> Tensor:
        return torch.from_numpy(np.array(self.value, dtype=np.float64))

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Constant:
        """Return the constant with its entries moved, and its bounds with them."""
        radius, slack = (None if k is None else np.array(move(k), order="C") for k in (self.radius, self.slack))
        return Constant(np.array(move(self.value), order="C"), radius, slack, self.dtype)


Bound = Callable[[Constant], np.ndarray | None]  # one of the two below
Widths = np.ndarray | float


def radius(a: Constant) -> np.ndarray | None:
    return a.radius


def slack(a: Constant) -> np.ndarray | None:
    return a.slack


def loose(bound: Bound, *constants: Constant | None) -> bool:
    """Say whether one of the constants needs the bound."""
    return any(a is not None and bound(a) is not None for a in constants)


def bound_tensor(bound: Bound, a: Constant | None) -> Tensor | None:
    found = None if a is None else bound(a)
    return None if found is None else torch.from_numpy(np.array(found, dtype=np.float64))


def widths(bound: Bound, a: Constant) -> np.ndarray:
    """Return the bound of every entry, 0 where the constant needs none."""
    found = bound(a)
    return np.zeros(a.shape) if found is None else np.array(found, dtype=np.float64)


def constant(value: float | np.ndarray) -> Constant:
    """Make an exact number of a converter's own."""
    return Constant(np.asarray(value, dtype=np.float64), dtype=torch.float64)


def coarsest(*operands: Constant) -> torch.dtype:
    """Return the type that a runtime computes in: the file's, and not that of a converter's own numbers."""
    return max((operand.dtype for operand in operands), key=coarseness)


def _with(
    value: np.ndarray, exact: np.ndarray, inherited: Callable[..., np.ndarray | float], *operands: Constant
) -> Constant:
    """Make `value`, rounded once where not `exact`, with bounds that include those of the operands."""
    size = np.abs(value)
    own = np.where(exact, 0.0, with_vanishing(few_roundings(size, 2)))
    if loose(radius, *operands):
        own = with_vanishing(own + inherited(*(_width(radius, operand) for operand in operands)))
    dtype = coarsest(*operands)
    brought = inherited(*(_width(slack, operand) for operand in operands))
    # What a runtime rounds is its own value, which is as far from ours as what was brought.
    theirs = (brought + few_roundings(size, 2, dtype)) * (1.0 + few_roundings(1.0, 2, dtype))
    theirs = enlarged(with_vanishing(theirs, dtype=dtype))
    return Constant(value, enlarged(own) if np.any(own) else None, theirs, dtype)


def _width(bound: Bound, a: Constant) -> Widths:
    found = bound(a)
    return 0.0 if found is None else found


def _in_range(*arrays: np.ndarray) -> np.ndarray:
    """Say where error-free transformations may be trusted: zero, or far from overflow and underflow."""
    fine = np.asarray(True)
    for array in arrays:
        size = np.abs(array)
        fine = fine & ((size == 0.0) | ((size > _SAFE[0]) & (size < _SAFE[1])))
    return fine


def _product_error(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Return a·b − product exactly (Dekker), where `_in_range`."""
    big = _SPLIT * a
    a_high = big - (big - a)
    big = _SPLIT * b
    b_high = big - (big - b)
    a_low, b_low = a - a_high, b - b_high
    error: np.ndarray = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return error


def add(a: Constant, b: Constant) -> Constant:
    with np.errstate(all="ignore"):
        total = a.value + b.value
        part = total - a.value
        remainder = (a.value - (total - part)) + (b.value - part)
        return _with(total, (remainder == 0.0) & np.isfinite(total), lambda ra, rb: ra + rb, a, b)


def negate(a: Constant) -> Constant:
    return Constant(-a.value, a.radius, a.slack, a.dtype)


def subtract(a: Constant, b: Constant) -> Constant:
    return add(a, negate(b))


def multiply(a: Constant, b: Constant) -> Constant:
    if (
        b.shape == () and not loose(radius, b) and not loose(slack, b) and b.value == 1.0
    ):  # as the factors of nearly every Gemm are
        return a
    with np.errstate(all="ignore"):
        product = a.value * b.value
        exact = _in_range(a.value, b.value) & (_product_error(a.value, b.value, product) == 0.0)

        def inherited(ra: Widths, rb: Widths) -> Widths:
            return np.asarray(np.abs(a.value) * rb + np.abs(b.value) * ra + ra * rb)

        return _with(product, exact, inherited, a, b)


def divide(a: Constant, b: Constant) -> Constant:
    """Divide a by b; where the divisor may be zero the radius is infinite."""
    with np.errstate(all="ignore"):
        quotient = a.value / b.value
        product = quotient * b.value
        exact = (product == a.value) & _in_range(quotient, b.value)
        exact = exact & (_product_error(quotient, b.value, product) == 0.0)

        def inherited(ra: Widths, rb: Widths) -> Widths:
            """Bound |a/b − a'/b'| by (ra + |a/b| rb) / (|b| − rb)."""
            least = np.abs(b.value) - rb
            width = (ra + np.abs(quotient) * rb) / (least * (1.0 - few_roundings(1.0, 8)))
            return np.where(least > 0.0, width, np.inf)

        return _with(quotient, exact, inherited, a, b)


def square_root(a: Constant) -> Constant:
    with np.errstate(all="ignore"):
        root = np.sqrt(a.value)
        product = root * root
        exact = (product == a.value) & _in_range(root) & (_product_error(root, root, product) == 0.0)
        # |√a − √a'| = |a − a'| / (√a + √a') <= ra / √a, which 0/0 is not
        return _with(root, exact, lambda ra: np.where(np.asarray(ra) == 0.0, 0.0, ra / root), a)


def matrix_product(a: Constant, b: Constant) -> Constant:
    """Multiply matrices as numpy does: sums of k products, charged for any order; a sum of zeros is exact."""
    with np.errstate(all="ignore"):
        total = np.asarray(a.value @ b.value)
        size = np.asarray(np.abs(a.value) @ np.abs(b.value))
        terms, dtype = a.shape[-1], coarsest(a, b)

        def inherited(bound: Bound) -> np.ndarray:
            left, right = widths(bound, a), widths(bound, b)
            return np.asarray(left @ np.abs(b.value) + np.abs(a.value) @ right + left @ right)

        own = np.where(size > 0.0, with_vanishing(few_roundings(size, terms + 2), terms), 0.0)
        own = enlarged(own + inherited(radius))
        brought = inherited(slack)
        theirs = (brought + few_roundings(size, terms + 2, dtype)) * (1.0 + few_roundings(1.0, terms + 2, dtype))
        theirs = enlarged(with_vanishing(theirs, terms, dtype))
        return Constant(total, own if np.any(own) else None, theirs, dtype)
