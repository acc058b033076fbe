"""The norm of a convolution by its symbol M(ω) = Σ_t W_t·exp(i t·ω): at most the largest ‖M(ω)‖ of all frequencies ω.

A convolution of an image with zeros around it is one of the whole plane with rows and columns left out, and the norm of
that one is this supremum. A stride takes each of the image's phases as channels of their own.

‖M‖ is looked at on a grid. A real trigonometric polynomial of degree n whose largest value is p is at least p·cos(n·d)
at a distance d <= π/n from there (M. Riesz), and one of N points lies within π/N. Taps counted from their middle have
the degree ⌊taps/2⌋, and one axis is taken after the other.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from netproof.bounds.linear.memory import entries_at_once, holds_for_a_while
from netproof.core.deadline import Deadline
from netproof.model.conv import Kernel
from netproof.numerics import LIBM, enlarged, rounding, with_vanishing

POINTS = (16, 8)  # for each degree: the norm is found within 2 % or 8 % an axis; the first that is affordable
AFFORDABLE = {"cpu": 1 << 36, "cuda": 1 << 38}  # multiply-adds: some seconds on a core, in parts
STEPS = 24  # of the power method: it finds the number that a Cholesky factor then proves
SLACKS = (0.01, 0.03, 0.1, 0.3)  # above what it finds, tried one after the other
TURN = 16 + LIBM  # roundings of an angle below 4π, and of its sine


def symbol_norm(kernel: Kernel, deadline: Deadline) -> float:
    """Bound the norm of a kernel's map, in either direction; infinite where that takes too much work."""
    return _supremum(by_phases(kernel), deadline)


def dense_norm(matrix: Tensor, deadline: Deadline) -> float:
    """Bound the spectral norm of a matrix (rows, columns), float64; infinite where that takes too much work."""
    return _supremum(matrix[None, :, :, None], deadline)


def by_phases(kernel: Kernel) -> Tensor:
    """Return the weight with the image's phases as channels, (groups, D, C·phases, *taps): strides are 1 then."""
    weight = kernel.weight.reshape(kernel.groups, -1, *kernel.weight.shape[1:])
    for axis, (step, apart) in enumerate(zip(kernel.stride, kernel.dilation, strict=True), start=3):
        if step > 1 and apart == 1:  # else what the stride leaves out is counted in, which is no less
            more = list(weight.shape)
            more[axis] = -weight.shape[axis] % step
            whole = torch.cat([weight, weight.new_zeros(more)], axis)
            weight = whole.unflatten(axis, (-1, step)).movedim(axis + 1, 3).flatten(2, 3)
    return weight


def _supremum(weight: Tensor, deadline: Deadline) -> float:
    """Bound the norms of symbols at all frequencies; weight (groups, D, C, *taps), float64."""
    if weight.shape[1] > weight.shape[2]:
        weight = weight.transpose(1, 2)
    taps = weight.shape[3:]
    parts = 1 if math.prod(taps) == 1 else 8  # of a matrix with real entries, or with complex ones
    for points in POINTS:
        counts = [points * (size // 2) or 1 for size in taps]
        work = weight.shape[0] * math.prod(counts) * parts * weight.shape[1] ** 2 * weight.shape[2]
        if work <= AFFORDABLE[weight.device.type]:
            break
    else:
        return math.inf
    between = math.prod(1.0 / math.cos(math.pi * (size // 2) / n) for size, n in zip(taps, counts, strict=True))
    waves = _waves(taps, counts, weight)
    weight = weight.flatten(3)
    each = 4 * parts * weight[..., 0].numel()  # numbers at one frequency: the symbol, products and a factor
    if not holds_for_a_while(each * torch.float64.itemsize, weight.device):
        return math.inf
    largest = 0.0
    for some in waves.split(max(1, entries_at_once(weight.device) // each), 1):
        found = _at(weight, some, deadline)
        if not math.isfinite(found):
            return math.inf
        largest = max(largest, found)
    return enlarged(largest * between)


def _waves(taps: tuple[int, ...], counts: list[int], like: Tensor) -> Tensor:
    """Return cos and sin of t·ω at the grid's points, (2, points, taps); those of −ω give the same norm."""
    halved = [n // 2 + 1 if axis == 0 else n for axis, n in enumerate(counts)]
    points = like.new_tensor(list(itertools.product(*map(range, halved))))
    places = like.new_tensor(list(itertools.product(*map(range, taps))))
    turns = torch.stack([points[:, None, i] * places[:, i] % n / n for i, n in enumerate(counts)]).sum(0)
    angles = turns % 1.0 * (2.0 * math.pi)
    return torch.stack([angles.cos(), angles.sin()])


def _at(weight: Tensor, waves: Tensor, deadline: Deadline) -> float:
    """Bound the norm of M at some frequencies: weight (groups, D, C, taps), waves (2, points, taps)."""
    if weight.shape[3] == 1:
        return enlarged(with_vanishing(_norm(weight[..., 0], deadline)))
    real, imaginary = (torch.einsum("gdct,pt->gpdc", weight, wave) for wave in waves)
    size = float(torch.linalg.vector_norm(weight.abs().sum(3), dim=(1, 2)).max())
    missed = rounding(2.0 * size, weight.shape[3] + TURN)  # of both parts: √2 each at most
    matrix = torch.cat([torch.cat([real, -imaginary], 3), torch.cat([imaginary, real], 3)], 2).flatten(0, 1)
    return enlarged(_norm(matrix, deadline) + with_vanishing(missed))


def _norm(matrix: Tensor, deadline: Deadline) -> float:
    """Bound the spectral norms of matrices (n, rows, columns), the largest of all; infinite where none is proved."""
    deadline.check()
    most = float(matrix.abs().max())
    if most == 0.0:
        return 0.0
    if not math.isfinite(most):
        return math.inf
    scale = 2.0 ** max(-1000, min(1000, math.frexp(most)[1]))
    matrix = matrix / scale
    gram = matrix @ matrix.mT
    rows, columns = matrix.shape[1:]
    # That of |A||Aᵀ| is at most the square of A's Frobenius norm.
    missed = rounding(_square(matrix), 2 * columns + 16)
    deadline.check()
    found = _power(gram)
    one = torch.eye(rows, dtype=gram.dtype, device=gram.device)
    for slack in SLACKS:
        deadline.check()
        tried = found * (1.0 + slack)
        below = tried * one - gram
        factor, failed = torch.linalg.cholesky_ex(below)
        if not bool(failed.any()):
            # AAᵀ = tried·1 − LLᵀ − E with whatever L there is, and LLᵀ is nowhere negative: only E is to be bounded.
            off = math.sqrt(_square(below - factor @ factor.mT)) + rounding(_square(factor) + tried, 2 * rows + 16)
            proved = enlarged(tried + off + with_vanishing(missed))
            return enlarged(math.sqrt(proved) * scale) if math.isfinite(proved) else math.inf
    return math.inf


def _square(matrix: Tensor) -> float:
    """Return the square of the Frobenius norm of matrices (n, rows, columns), the largest of all, up to rounding."""
    return float(matrix.square().sum((1, 2)).max())


def _power(gram: Tensor) -> float:
    """Return about the largest eigenvalue of positive semidefinite matrices (n, rows, rows), the largest of all."""
    begin = torch.randn(gram.shape[1], 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vector = begin.to(gram.device).expand(len(gram), -1, -1)
    for _ in range(STEPS):
        vector = gram @ torch.nn.functional.normalize(vector, dim=1)
    return float(torch.linalg.vector_norm(vector, dim=1).max())
