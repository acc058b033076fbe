"""How much an affine op may lengthen a vector: rigorous upper bounds of its spectral norm.

Errors that go through a deep network entry by entry grow by Σ|w| in every layer, their length by the spectral norm: for
random weights the former is larger by the square root of the number of terms.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from netproof.model.affine import Linear, Scale, Sum
from netproof.model.conv import Conv, ConvTranspose, Kernel
from netproof.model.moves import Concat, Index, Pad, Reshape, Transpose
from netproof.model.ops import Affine
from netproof.numerics import enlarged, rounding, with_vanishing

SQUARINGS = 3  # A^8: its row sums are at most √n times its norm, so that of A is found within the 8th root of √n


def length_gain(op: Affine) -> Tensor | float | None:
    """Return a number that ‖W x‖₂ <= it · ‖x‖₂ for each input x of an op; None where none is known."""
    if isinstance(op, Conv | ConvTranspose):
        return kernel_norm(op.kernel)
    if isinstance(op, Linear):
        return matrix_norm(op.weight)
    if isinstance(op, Scale):
        return 1.0 if op.mult is None else op.mult.abs().max()
    if isinstance(op, Index):
        return math.sqrt(max(1, op.fan)) * (1.0 + 1e-12)
    return 1.0 if isinstance(op, Sum | Concat | Pad | Reshape | Transpose) else None


def kernel_norm(kernel: Kernel) -> Tensor:
    """Bound the norm of a kernel's map, in either direction.

    Its result at a place is R·(the patch there), and an entry of the image is in so many patches at most.
    """
    patches = 1
    for size, step, apart in zip(kernel.window, kernel.stride, kernel.dilation, strict=True):
        patches *= -(-size // (step // math.gcd(step, apart)))
    rows = kernel.weight.reshape(kernel.groups, kernel.weight.shape[0] // kernel.groups, -1)
    return enlarged(matrix_norm(rows) * math.sqrt(patches))


def matrix_norm(matrix: Tensor) -> Tensor:
    """Bound the spectral norm of matrices (*batch, rows, columns), float64: the largest of all, ()."""
    if matrix.shape[-2] > matrix.shape[-1]:
        matrix = matrix.mT
    most = float(matrix.abs().max())
    if most == 0.0:
        return matrix.new_zeros(())
    exponent = math.frexp(most)[1]
    if exponent > 1023 or not math.isfinite(most):
        return matrix.new_full((), math.inf)
    scale = 2.0**exponent
    matrix = matrix / scale
    # The norm of what `power` is off by is at most `missed`.
    power, missed = matrix @ matrix.mT, rounding(_sums(matrix.abs() @ matrix.abs().mT), matrix.shape[-1])
    for _ in range(SQUARINGS):
        size = _sums(power.abs()) + missed
        missed = missed * (2.0 * size + missed) + rounding(size * size, power.shape[-1] + 4)
        power = power @ power.mT
    largest = enlarged(_sums(power.abs()) + missed)
    norm: Tensor = with_vanishing(enlarged(largest ** (0.5**SQUARINGS / 2.0) * scale))
    return norm


def _sums(matrix: Tensor) -> Tensor:
    """Return the largest sum of a row or a column, for entries that are not negative: no norm is larger, ()."""
    return torch.maximum(matrix.sum(-1).max(), matrix.sum(-2).max())
