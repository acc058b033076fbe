"""How much an affine op may lengthen a vector: rigorous upper bounds of its spectral norm.

Errors that go through a deep network entry by entry grow by Σ|w| in every layer, their length by the spectral norm: for
random weights the former is larger by the square root of the number of terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from netproof.bounds.linear.memory import attempted
from netproof.bounds.zonotope.symbols import dense_norm, symbol_norm
from netproof.core.deadline import Deadline
from netproof.model.affine import Linear, Scale, Sum
from netproof.model.conv import Conv, ConvTranspose, Kernel
from netproof.model.moves import Concat, Index, Pad, Reshape, Transpose
from netproof.model.ops import Affine
from netproof.numerics import enlarged, raised, rounding, with_vanishing

T = TypeVar("T")

SQUARINGS = 3  # A^8: its Frobenius norm is at most √n times its norm, so that of A is found within the 8th root of √n

MANY = 1024  # rows and columns of a matrix beyond which its powers take longer than all else at its layer


def length_gain(op: Affine, within: Deadline | None = None) -> Tensor | float | None:
    """Return a number that ‖W x‖₂ <= it · ‖x‖₂ for each input x of an op; None where none is known.

    within: it is to be nearly as small as there is, at some work, or DeadlineExpired is raised.
    """
    if isinstance(op, Conv | ConvTranspose):
        found = kernel_norm(op.kernel)
        return found if within is None else min(found, _sharp(symbol_norm, op.kernel, op.kernel.weight, within))
    if isinstance(op, Linear):
        found = matrix_norm(op.weight)
        return found if within is None else min(found, _sharp(dense_norm, op.weight, op.weight, within))
    if isinstance(op, Scale):
        return 1.0 if op.mult is None else op.mult.abs().max()
    if isinstance(op, Index):
        return math.sqrt(max(1, op.fan)) * (1.0 + 1e-12)
    return 1.0 if isinstance(op, Sum | Concat | Pad | Reshape | Transpose) else None


def _sharp(norm: Callable[[T, Deadline], float], of: T, weight: Tensor, deadline: Deadline) -> float:
    """Return a norm that takes more memory than others; infinite where there is too little."""
    found = attempted(lambda: norm(of, deadline), weight.device)
    return math.inf if found is None else found


def kernel_norm(kernel: Kernel) -> float:
    """Bound the norm of a kernel's map, in either direction.

    Its result at a place is R·(the patch there), and an entry of the image is in so many patches at most.
    """
    patches = 1
    for size, step, apart in zip(kernel.window, kernel.stride, kernel.dilation, strict=True):
        patches *= -(-size // (step // math.gcd(step, apart)))
    rows = kernel.weight.reshape(kernel.groups, kernel.weight.shape[0] // kernel.groups, -1)
    return enlarged(matrix_norm(rows) * math.sqrt(patches))


def matrix_norm(matrix: Tensor) -> float:
    """Bound the spectral norm of matrices (*batch, rows, columns), float64: the largest of all."""
    if matrix.shape[-2] > matrix.shape[-1]:
        matrix = matrix.mT
    most = float(matrix.abs().max())
    if most == 0.0:
        return 0.0
    exponent = math.frexp(most)[1]
    if exponent > 1023 or not math.isfinite(most):
        return math.inf
    scale = 2.0**exponent
    if matrix.shape[-2] > MANY:
        return with_vanishing(enlarged(float(_frobenius(matrix / scale)) * scale))
    powers = [matrix / scale]
    for _ in range(1 + SQUARINGS):
        powers.append(powers[-1] @ powers[-1].mT)
    size, *sizes = map(float, torch.stack([_frobenius(power) for power in powers]).tolist())
    # The norm of what a power is off by is at most `missed`: that of |A||B| is at most the product of theirs.
    missed = rounding(size * size, matrix.shape[-1] + 4)
    for size in sizes[:-1]:
        whole = size + missed
        missed = missed * (2.0 * whole + missed) + rounding(whole * whole, matrix.shape[-2] + 4)
    largest = enlarged(sizes[-1] + missed)
    return with_vanishing(enlarged(math.pow(largest, 0.5**SQUARINGS / 2.0) * scale))


def _frobenius(matrix: Tensor) -> Tensor:
    """Bound the Frobenius norm of matrices (*batch, rows, columns), the largest of all: no spectral norm is larger.

    It is that of the absolute values too.
    """
    norm: Tensor = torch.linalg.vector_norm(matrix, dim=(-2, -1)).max()
    return raised(norm, matrix.shape[-2] * matrix.shape[-1] + 8)
