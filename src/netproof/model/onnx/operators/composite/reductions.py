"""Converters of reductions that are not linear: sums of squares, norms, products, log-sum-exp."""

from __future__ import annotations

import numpy as np

from netproof.model.affine import Sum
from netproof.model.nonlinear.smooth import Exp, Log, Sqrt, Square
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import axes_to_reduce, deviations, keeps, reduce_axes
from netproof.model.onnx.operators.hinges import absolute
from netproof.model.onnx.operators.moves import joined, reshape, select
from netproof.model.onnx.operators.products import product


def _axes(c: Context) -> tuple[int, ...]:
    axes = axes_to_reduce(c)
    if axes is None:
        c.refuse("noop_with_empty_axes with no axes", "name the axes, or leave the reduction out")
    return axes


@converts("ReduceL1")
def _reduce_l1(c: Context) -> Value:
    """Add up absolute values, each by one hinge, exactly."""
    return reduce_axes(c, absolute(c, c.node(0)), _axes(c), mean=False, keep=keeps(c))


@converts("ReduceSumSquare")
def _reduce_sum_square(c: Context) -> Value:
    """Add up relaxed squares."""
    return reduce_axes(c, c.emit(Square(), c.node(0)), _axes(c), mean=False, keep=keeps(c))


@converts("ReduceL2")
def _reduce_l2(c: Context) -> Value:
    """Relax the square root of a sum of relaxed squares."""
    return c.emit(Sqrt(), reduce_axes(c, c.emit(Square(), c.node(0)), _axes(c), mean=False, keep=keeps(c)))


@converts("ReduceLogSum")
def _reduce_log_sum(c: Context) -> Value:
    """Relax the logarithm of a sum that is known to be positive."""
    return c.emit(Log(), reduce_axes(c, c.node(0), _axes(c), mean=False, keep=keeps(c)))


@converts("ReduceLogSumExp")
def _reduce_log_sum_exp(c: Context) -> Value:
    """Relax log Σ exp(x_j) as m + log Σ exp(x_j − m) with m the mean, so that a common shift costs nothing."""
    x, axes, keep = c.node(0), _axes(c), keeps(c)
    away, mean = deviations(c, x, axes)
    y = c.emit(Log(), reduce_axes(c, c.emit(Exp(), away), axes, mean=False, keep=True))
    total = c.emit(Sum((1, 1)), mean, y)
    return total if keep else reshape(c, total, [n for axis, n in enumerate(x.shape) if axis not in axes])


@converts("ReduceProd")
def _reduce_prod(c: Context) -> Value:
    """Multiply pairs of relaxed products, level by level."""
    x, axes = c.node(0), _axes(c)
    kept = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    for axis in axes:
        while x.shape[axis] > 1:
            half = x.shape[axis] // 2
            pairs = product(c, select(c, x, axis, np.arange(half)), select(c, x, axis, np.arange(half, 2 * half)))
            x = pairs if x.shape[axis] == 2 * half else _with_last(c, pairs, x, axis)
    return reshape(c, x, kept if keeps(c) else [n for axis, n in enumerate(kept) if axis not in axes])


def _with_last(c: Context, pairs: Ref, x: Ref, axis: int) -> Ref:
    """Put the last entry of x along the axis, which has no partner, into the first pair."""
    last = select(c, x, axis, np.arange(x.shape[axis] - 1, x.shape[axis]))
    count = pairs.shape[axis]
    first = product(c, select(c, pairs, axis, np.arange(1)), last)
    return first if count == 1 else joined(c, [first, select(c, pairs, axis, np.arange(1, count))], axis)
