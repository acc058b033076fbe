"""An affine op at one point with hardly more rounding than of the result itself.

The centre of affine forms is large beside what varies, and the rounding of a long sum large beside that of a number. So
weights and point are cut into a leading part of few bits, with which sums of products are exact in float64, and a rest.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from netproof.core.deadline import Deadline
from netproof.model.affine import Linear
from netproof.model.conv import Conv, ConvTranspose
from netproof.model.ops import Affine
from netproof.numerics import few_roundings, rounding

BITS = 52  # that a sum of whole numbers may have in float64, with one to spare
COPIES = 4  # of the weight: both parts of it, and the sizes of both
LEAST = -1022  # the exponent of the least unit: of smaller numbers nothing leads, all of them is the rest


def at_point(op: Affine, points: list[Tensor], deadline: Deadline) -> tuple[Tensor, Tensor]:
    """Return an op's value at a point and what rounding may have cost it: (*node) each, for points (*node) it reads.

    DeadlineExpired where there is no time for it.
    """
    if isinstance(op, Conv | ConvTranspose | Linear) and op.fan > 4:
        return _cut(op, points[0][None], deadline)
    if op.fan == 0:  # what only moves numbers rounds none
        value = op.forward(*(x[None] for x in points))[0]
        return value, torch.zeros_like(value)
    sizes = op.absolute().forward(*(x.abs()[None] for x in points))[0]
    return op.forward(*(x[None] for x in points))[0], rounding(sizes, op.fan + 8)


def weight_of(op: Affine) -> Tensor | None:
    """Return the weight of an op that has a large one; COPIES of it are held while its value is computed."""
    if isinstance(op, Conv | ConvTranspose):
        return op.kernel.weight
    return op.weight if isinstance(op, Linear) else None


def _cut(op: Conv | ConvTranspose | Linear, x: Tensor, deadline: Deadline) -> tuple[Tensor, Tensor]:
    bits = (BITS - math.ceil(math.log2(op.fan + 1))) // 2
    weight = weight_of(op)
    assert weight is not None
    first, point = _leading(weight, bits), _leading(x, bits)
    deadline.check()
    most, least = _with(op, first), _with(op, weight - first)
    large = most.forward(point)[0]
    deadline.check()
    small = most.forward(x - point)[0] + least.forward(x)[0]
    deadline.check()
    sizes = most.absolute().forward((x - point).abs())[0] + least.absolute().forward(x.abs())[0]
    offset = op.offset()
    if offset is None:
        value = large + small
        return value, rounding(sizes, op.fan + 8) + few_roundings(value.abs(), 2)
    begun = large + offset
    value = begun + small
    return value, rounding(sizes, op.fan + 8) + few_roundings(begun.abs() + value.abs(), 2)


def _leading(values: Tensor, bits: int) -> Tensor:
    """Return the values rounded to multiples of one power of 2, so that they are whole numbers of `bits` bits of it."""
    most = float(values.abs().max())
    if most == 0.0:
        return torch.zeros_like(values)
    unit = 2.0 ** max(math.frexp(most)[1] - bits, LEAST)
    return (values / unit).round() * unit


def _with(op: Conv | ConvTranspose | Linear, weight: Tensor) -> Affine:
    """Return the op with another weight and without its constant."""
    if isinstance(op, Linear):
        return Linear(weight)
    return replace(op, kernel=replace(op.kernel, weight=weight), bias=None, radius=None)
