"""Converters of Softmax and LogSoftmax along rows of entries.

An entry of a softmax is one function of its whole row; of a log softmax, −log Σ_j exp(x_j − x_k): exponentials of
differences, so that a shift of all x is no change, and the term j = k is 1 exactly, so that the sum is at least 1.
A score that a mask hides (see `masked`) takes no part in its row, and its entry is 0.
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
from netproof.model.onnx.operators.moves import joined, reshape, select
from netproof.model.origin import constant

EACH_AXIS = 13  # from this opset on the axis alone is normalised, before it everything from the axis on


def softmax(c: Context, x: Ref) -> Ref:
    """Add softmax along the last axis."""
    return c.is_softmax(_entries(c, x), x, log=False)


def _entries(c: Context, x: Ref) -> Ref:
    """Add every entry of a softmax as a function of its row, turned so that it comes first."""
    *lead, count = x.shape
    if count == 1:
        return _ones(c, x)
    c.claim((count, *x.shape))
    turns = (np.arange(count)[:, None] + np.arange(count)).reshape(-1) % count  # (operand, entry)
    turned = reshape(c, select(c, x, len(lead), turns), (*lead, count, count))
    operands = c.emit(Transpose((len(lead), *range(len(lead)), len(lead) + 1)), turned)
    return c.emit(SoftmaxEntry(count), operands)


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


def masked_softmax(c: Context, x: Ref, hidden: np.ndarray) -> Ref:
    """Add softmax along the last axis over what each row shows; rows that show the same places are one batch."""
    count = x.shape[-1]
    by_row = hidden.reshape(-1, count)
    flat = reshape(c, x, by_row.shape)
    patterns, which = np.unique(by_row, axis=0, return_inverse=True)
    parts: list[Value] = []
    place, start = np.full(by_row.size, -1), 0
    for number, pattern in enumerate(patterns):
        shown, rows = np.flatnonzero(~pattern), np.flatnonzero(which.reshape(-1) == number)
        if not len(shown):
            c.refuse("a row of its input is hidden throughout, which has no softmax", "leave that row out")
        part = _entries(c, select(c, select(c, flat, 0, rows), 1, shown))
        parts.append(reshape(c, part, (part.shape[0] * part.shape[1],)))
        place[(rows[:, None] * count + shown).reshape(-1)] = start + np.arange(len(rows) * len(shown))
        start += len(rows) * len(shown)
    if start < by_row.size:
        parts.append(constant.constant(np.zeros(1)))
        place[place < 0] = start
    return reshape(c, select(c, joined(c, parts, 0), 0, place), x.shape)


@converts("Softmax")
def _softmax(c: Context) -> Value:
    """Relax each entry between tangent planes, over the axes that the opset means; what a mask hides is 0."""
    x = c.node(0)
    hidden = c.builder.hidden.get(x.index)
    if hidden is None:
        return _over_axes(c, softmax)
    rank = len(x.shape)
    if c.axis(int(c.attr("axis", -1 if c.opset >= EACH_AXIS else 1)), rank) != rank - 1:
        c.refuse("its input is masked with -inf, and its axis is not the last", "put the masked axis last")
    return masked_softmax(c, x, hidden)


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
