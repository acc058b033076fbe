"""Converters of sums along an axis, and of means of several values."""

from __future__ import annotations

import numpy as np

from netproof.model.onnx.context import Context, Value, converts
from netproof.model.onnx.operators.arithmetic import all_added, linear, reciprocal, scale
from netproof.model.onnx.operators.moves import turned_last
from netproof.model.origin import constant


@converts("CumSum")
def _cumsum(c: Context) -> Value:
    """Multiply by a triangle of ones along the axis, exactly."""
    x, axes = c.node(0), c.integers(1) or []
    if len(axes) != 1:
        c.refuse(f"{len(axes)} axes are not one", "check it with onnx.checker")
    axis = c.axis(axes[0], len(x.shape))
    size = x.shape[axis]
    c.claim((size, size))
    # Row i of the matrix says what is added up to the i-th sum.
    ones = np.tril(np.ones((size, size)), -1 if c.attr("exclusive", 0) else 0)
    weight = ones[::-1, ::-1] if c.attr("reverse", 0) else ones
    return turned_last(c, x, axis, lambda y: linear(c, y, constant.constant(np.ascontiguousarray(weight))))


@converts("Mean")
def _mean(c: Context) -> Value:
    """Add up the inputs and divide by their number."""
    return scale(c, all_added(c), reciprocal(c, constant.constant(float(len(c.inputs)))))
