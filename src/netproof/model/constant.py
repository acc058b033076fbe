"""Constants of a file, and arithmetic on them that knows its own rounding.

Floats are held in float64, which holds every float16, float32 and float64 exactly. A result that float64
cannot hold carries an elementwise radius: |exact − value| <= radius.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netproof.numerics import INFLATE, UNDERFLOW, UNIT

_U = 2.0 * UNIT[torch.float64]  # one rounding, generously
_SPLIT = 2.0**27 + 1.0  # Veltkamp's constant, which halves a float64's 53 bits
_SAFE = (2.0**-480, 2.0**480)  # magnitudes whose products, halves and remainders stay normal


@dataclass(frozen=True, eq=False)
class Constant:
    value: np.ndarray  # float64, an integer type or bool
    radius: np.ndarray | None = None  # None when exact

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def is_float(self) -> bool:
        return self.value.dtype == np.float64

    def tensor(self) -> Tensor:
        return torch.from_numpy(np.array(self.value, dtype=np.float64))

    def radius_tensor(self) -> Tensor | None:
        return None if self.radius is None else torch.from_numpy(np.array(self.radius, dtype=np.float64))

    def moved(self, value: np.ndarray, radius: np.ndarray | None) -> Constant:
        return Constant(np.ascontiguousarray(value), None if radius is None else np.ascontiguousarray(radius))


def constant(value: float | np.ndarray) -> Constant:
    """A float constant, exact."""
    return Constant(np.asarray(value, dtype=np.float64))


def _with(value: np.ndarray, exact: np.ndarray, inherited: np.ndarray | float | None) -> Constant:
    """`value`, rounded once where not `exact`, plus what inexact operands bring along."""
    radius = np.where(exact, 0.0, _U * np.abs(value) + UNDERFLOW)
    if inherited is not None:
        radius = radius + inherited + UNDERFLOW
    return Constant(value, radius * INFLATE if np.any(radius) else None)


def _radius(a: Constant) -> np.ndarray | float:
    return 0.0 if a.radius is None else a.radius


def _inexact(*operands: Constant) -> bool:
    return any(operand.radius is not None for operand in operands)


def _in_range(*arrays: np.ndarray) -> np.ndarray:
    """Where error-free transformations may be trusted: zero, or far from overflow and underflow."""
    fine = np.asarray(True)
    for array in arrays:
        size = np.abs(array)
        fine = fine & ((size == 0.0) | ((size > _SAFE[0]) & (size < _SAFE[1])))
    return fine


def _product_error(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """a·b − product exactly (Dekker), where `_in_range`."""
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
        inherited = _radius(a) + _radius(b) if _inexact(a, b) else None
        return _with(total, (remainder == 0.0) & np.isfinite(total), inherited)


def negate(a: Constant) -> Constant:
    return Constant(-a.value, a.radius)


def subtract(a: Constant, b: Constant) -> Constant:
    return add(a, negate(b))


def multiply(a: Constant, b: Constant) -> Constant:
    if b.shape == () and b.radius is None and b.value == 1.0:  # as the factors of nearly every Gemm are
        return a
    with np.errstate(all="ignore"):
        product = a.value * b.value
        exact = _in_range(a.value, b.value) & (_product_error(a.value, b.value, product) == 0.0)
        ra, rb = _radius(a), _radius(b)
        inherited = np.abs(a.value) * rb + np.abs(b.value) * ra + ra * rb if _inexact(a, b) else None
        return _with(product, exact, inherited)


def divide(a: Constant, b: Constant) -> Constant:
    """a / b; where the divisor may be zero the radius is infinite."""
    with np.errstate(all="ignore"):
        least = np.abs(b.value) - _radius(b)
        quotient = a.value / b.value
        product = quotient * b.value
        exact = (product == a.value) & _in_range(quotient, b.value)
        exact = exact & (_product_error(quotient, b.value, product) == 0.0)
        # |a/b − a'/b'| <= (ra + |a/b| rb) / (|b| − rb)
        inherited = (_radius(a) + np.abs(quotient) * _radius(b)) / (least * (1.0 - 4.0 * _U))
        inherited = np.where(least > 0.0, inherited, np.inf)
        return _with(quotient, exact, inherited if _inexact(a, b) or np.any(least <= 0.0) else None)


def square_root(a: Constant) -> Constant:
    with np.errstate(all="ignore"):
        root = np.sqrt(a.value)
        product = root * root
        exact = (product == a.value) & _in_range(root) & (_product_error(root, root, product) == 0.0)
        # |√a − √a'| = |a − a'| / (√a + √a') <= ra / √a'
        return _with(root, exact, _radius(a) / root if _inexact(a) else None)
