"""The only home of tolerances and error arithmetic, of seeds and of TF32 being off.

Standard model of floating point: fl(a∘b) = (a∘b)(1+δ) + η, |δ| <= u, |η| <= tiny. A sum of n products in
any order differs from the exact one by at most γ_n Σ|a_i b_i|, γ_n = nu/(1−nu) (Higham, chapter 3). That holds
for matrix products and direct convolutions, not for Winograd or FFT ones, which proofs therefore avoid.

A proof elsewhere says what it charges, how many roundings of numbers of what size; what that costs is said here:
`rounding` of a sum, `few_roundings` of one number, `vanishing` products. What is added up of these is computed in
floats too and `enlarged` for that, then taken off a value (`lowered`) or put on it (`raised`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Amount = TypeVar("Amount", Tensor, NDArray[np.float64], float)  # sizes or charges, not negative

UNIT = {torch.float16: 2.0**-11, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
FLOATS = tuple(UNIT)  # the types whose rounding is known

# Every product that underflows in float64 adds at most 2^-1074; 1e-290 covers 1e33 of them.
UNDERFLOW = 1e-290

# What one operation may lose below the normal numbers, in a runtime that flushes them to zero too.
TINY = {torch.float16: 2.0**-14, torch.float32: 2.0**-126, torch.float64: UNDERFLOW}

# A proof in float32 keeps to numbers of at most 2^20, or 2^40 on the way through an affine start, and to sums of fewer
# than 2^20 products. Each product may lose 2^-126 (1 + |a| + |b|) < 2^-85 below the normal numbers, where these are
# flushed to zero before and after it; all of a sum less than 2^-64, which this covers sixteen times.
SINGLE_LIMIT = 2.0**20
SINGLE_LOST = 2.0**-60

# Slack on the error terms themselves, which are computed in float64 too.
INFLATE = 1.0 + 1e-6

# What a library's exp, expm1, log, log1p, sigmoid, tanh, erf, atan, sin and cos may be off by, in roundings of the
# largest number that goes into the result: 8 ulp, where vendors document 1 to 4. The same of a runtime that answers for
# a node or replays a witness: onnxruntime's float32 functions are polynomials of its own, off by 4 roundings at most as
# measured. Tests compare many arguments with many-digit values, in float32 and float64, on whichever device there is.
LIBM = 16

# Values and slopes beyond this are no numbers to compute with: products of them overflow float32, in which is searched.
HUGE = 2.0**96

# The search calls a domain decided only above this multiple of the float32 noise; proofs do not use it.
SEARCH_MARGIN = 1e-6


def gamma(n: int, dtype: torch.dtype = torch.float64) -> float:
    """Return γ_n, the relative error of a sum of n products, inflated for its own evaluation."""
    nu = n * UNIT[dtype]
    if nu >= 0.5:
        raise ValueError(f"a sum of {n} terms is beyond the error analysis of {dtype}")
    return nu / (1.0 - nu) * INFLATE


def compounded(n: int, dtype: torch.dtype) -> float:
    """Bound |Π (1 + δ_i) − 1| over any number n of roundings δ_i: γ_n, and e^{nu} − 1 where γ_n is not defined."""
    nu = n * UNIT[dtype]
    if nu < 0.5:
        return gamma(n, dtype)
    return math.expm1(nu) * INFLATE if nu < 700.0 else math.inf


def coarseness(dtype: torch.dtype) -> float:
    """Return how many times as large as float64's the roundings of a type are."""
    return UNIT[dtype] / UNIT[torch.float64]


# --- what rounding may cost ---------------------------------------------------------------------------------


def rounding(size: Amount, terms: int, dtype: torch.dtype = torch.float64) -> Amount:
    """Return what rounding may cost a sum of `terms` products whose sizes add up to `size`, in any order.

    The slack within γ pays for the rounding of `size` itself. A size of 1.0 gives the cost per unit of size.
    """
    return size * gamma(terms, dtype)


def enlarged_rounding(size: Amount, terms: int) -> Amount:
    """Return what `rounding` says of float64, `enlarged` already: for a charge that is not added to others first."""
    return size * (gamma(terms) * INFLATE)


def few_roundings(size: Amount, count: int, dtype: torch.dtype = torch.float64) -> Amount:
    """Return what fewer than `count` roundings may cost one number of this size, before or after they were made.

    The last of `count` pays for products of roundings: γ_n <= (n + 1)u while n(n + 1)u <= 1.
    """
    return size * (count * UNIT[dtype])


def size_behind(error: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the size of numbers that one rounding costs this error."""
    return error / UNIT[dtype]


def vanishing(reach: Tensor) -> Tensor:
    """Return what coefficients lose as products with values underflow, whose sizes add up to `reach`."""
    return UNDERFLOW * (1.0 + reach)


def with_vanishing(error: Amount, products: int = 1, dtype: torch.dtype = torch.float64) -> Amount:
    """Return an error with what so many products may lose below the normal numbers; in float64, 1 stands for all."""
    return error + products * TINY[dtype]


# --- what a charge is worth ---------------------------------------------------------------------------------


def enlarged(error: Amount) -> Amount:
    """Return an error bound made larger than the roundings of its own evaluation, which was in float64."""
    return error * INFLATE


def lowered(value: Tensor, charge: Tensor | float = 0.0) -> Tensor:
    """Return a number at most value − charge, for a value and a charge that are float64 themselves."""
    return value - charge * INFLATE - value.abs() * gamma(4)


def raised(value: Amount, roundings: int, dtype: torch.dtype = torch.float64) -> Amount:
    """Return a number at least as large as what became `value` >= 0 by so many roundings but three.

    One of the three is that of the product here, one that of its factor, one pays for products of roundings. Nothing
    is added to what underflow took.
    """
    return value * (1.0 + gamma(roundings, dtype))


# --- one float and the next ---------------------------------------------------------------------------------


def down(x: Tensor, steps: int = 1) -> Tensor:
    """Return the float `steps` below each x."""
    target = torch.full_like(x, -math.inf)
    for _ in range(steps):
        x = torch.nextafter(x, target)
    return x


def up(x: Tensor, steps: int = 1) -> Tensor:
    """Return the float `steps` above each x."""
    return -down(-x, steps)


def float32_down(x: Tensor) -> Tensor:
    """Return a float32 <= x, the largest that is not subnormal (some devices flush those), for float64 x."""
    y, tiny = x.to(torch.float32), torch.finfo(torch.float32).tiny
    y = torch.nextafter(y, y.masked_fill(y.to(torch.float64) > x, -math.inf))  # itself, where it is not above x
    small = x.abs() < tiny  # asked of x, as a device may take a subnormal y for 0
    return y.masked_fill(small, 0.0).masked_fill(small & (x < 0), -tiny)


def float32_up(x: Tensor) -> Tensor:
    """Return a float32 >= x, the smallest that is not subnormal, for float64 x."""
    return -float32_down(-x)


def float32_outward(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return float32 bounds, no tighter, for float64 ones of one shape: both sides at once."""
    sides = float32_down(torch.stack([lower, -upper]))
    return sides[0], -sides[1]


def float_down(x: Fraction) -> float:
    """Return the largest float64 <= x."""
    y = float(x)
    return y if Fraction(y) <= x else math.nextafter(y, -math.inf)


def float_up(x: Fraction) -> float:
    """Return the smallest float64 >= x."""
    return -float_down(-x)


def nearest_float32(x: Fraction) -> float:
    """Return the float32 nearest to x, as a float64.

    Rounding to float64 first may tip a tie, so both neighbours are compared with the exact value.
    """
    near = np.float32(float(x))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return float(min((a for a in around if np.isfinite(a)), key=lambda a: abs(Fraction(float(a)) - x)))


# --- searches and runs --------------------------------------------------------------------------------------


def use_strict_float32() -> None:
    """Turn TF32 and bfloat16 off, with deterministic kernels: float32 means float32 on every device.

    torch has older and newer names for this; both must agree, or it refuses to say which holds.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    backends: Any = torch.backends
    for part in (backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.conv):
        part.fp32_precision = "ieee"
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def float32_is_strict() -> bool:
    """Say whether products of matrices in float32 are rounded as float32.

    A proof in it asks, as a program may change that. The older name is asked, which torch refuses to answer by where
    newer ones differ, and those newer ones too. What is said of convolutions does not matter: those of a proof are
    products of matrices (`model.conv.Kernel.summed`).
    """
    try:
        legacy = torch.get_float32_matmul_precision()
    except RuntimeError:
        return False
    backends: Any = torch.backends
    parts = (backends.cuda.matmul, backends.mkldnn.matmul)
    return legacy == "highest" and all(part.fp32_precision in ("ieee", "none") for part in parts)


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the explicit source of randomness; the same seed gives the same run on one device."""
    return torch.Generator(device=device).manual_seed(seed)


def with_margin(threshold: Tensor) -> Tensor:
    """Return thresholds (n,) of a search in float32, past which a proof of the threshold itself is likely."""
    return (threshold + SEARCH_MARGIN * (1 + threshold.abs())).float()
