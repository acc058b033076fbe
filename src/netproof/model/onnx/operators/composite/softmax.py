"""Converters of Softmax and LogSoftmax along rows of entries.

An entry of a softmax is one function of its whole row; of a log softmax, −log Σ_j exp(x_j − x_k): exponentials of
differences, so that a shift of all x is no change, and the term j = k is 1 exactly, so that the sum is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from netproof.model.affine import Scale, Sum
from netproof.model.moves import Transpose
from netproof.model.nonlinear import SoftmaxEntry
from netproof.model.nonlinear.smooth import Exp, Log
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import reduce_axes, scale
from netproof.model.onnx.operators.moves import reshape, select
from netproof.model.origin import constant

EACH_AXIS = 13  # from this opset on the axis alone is normalised, before it everything from the axis on


def softmax(c: Context, x: Ref) -> Ref:
    """Add softmax along the last axis: every entry as a function of its row, turned so that it comes first."""
    *lead, count = x.shape
    if count == 1:
        return c.is_softmax(_ones(c, x), x, log=False)
    c.claim((count, *x.shape))
    turns = (np.arange(count)[:, None] + np.arange(count)).reshape(-1) % count  # (operand, entry)
    turned = reshape(c, select(c, x, len(lead), turns), (*lead, count, count))
    operands = c.emit(Transpose((len(lead), *range(len(lead)), len(lead) + 1)), turned)
    return c.is_softmax(c.emit(SoftmaxEntry(count), operands), x, log=False)


def log_softmax(c: Context, x: Ref) -> Ref:
    """Add log softmax along the last axis."""
    return c.is_softmax(scale(c, c.emit(Log(), _sums(c, x)), constant.constant(-1.0)), x, log=True)


def _sums(c: Context, x: Ref) -> Ref:
    """Add 1 + Σ_{j≠k} exp(x_j − x_k) for every k along the last axis."""
    *lead, count = x.shape
    axis = len(lead)
    if count == 1:
        return _ones(c, x)
    c.claim((*lead, count, count - 1))
    each = np.arange(count)
    others = np.stack([np.delete(each, k) for k in each]).reshape(-1)
    away = c.emit(Sum((1, -1)), select(c, x, axis, others), select(c, x, axis, each.repeat(count - 1)))
    terms = c.emit(Exp(), reshape(c, away, (*lead, count, count - 1)))
    return scale(c, reduce_axes(c, terms, (axis + 1,), mean=False, keep=False), None, constant.constant(1.0))


def _ones(c: Context, x: Ref) -> Ref:
    return c.emit(Scale(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)), x)


@converts("Softmax")
def _softmax(c: Context) -> Value:
    """Relax each entry between tangent planes, over the axes that the opset means."""
    return _over_axes(c, softmax)


@converts("LogSoftmax")
def _log_softmax(c: Context) -> Value:
    """Write each entry as −log(Σ exp(x_j − x_k)), with both functions relaxed, over the axes that the opset means."""
    return _over_axes(c, log_softmax)


def _over_axes(c: Context, row: Callable[[Context, Ref], Ref]) -> Value:
    """Apply a function of rows along the last axis to those that the node means."""
    x = c.node(0)
    rank = len(x.shape)
    if c.opset < EACH_AXIS:
        axis = int(c.attr("axis", 1))
        axis = axis + rank if axis < 0 else axis
        if not 0 <= axis <= rank:
            c.refuse(f"axis {axis} is out of range for {rank} axes")
        flat = reshape(c, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return reshape(c, row(c, flat), x.shape)
    axis = c.axis(int(c.attr("axis", -1)), rank)
    if axis == rank - 1:
        return row(c, x)
    swap = [*range(rank)]
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return c.emit(Transpose(tuple(swap)), row(c, c.emit(Transpose(tuple(swap)), x)))
