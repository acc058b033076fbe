"""Converters of sums along an axis or of many values, and of casts that take their type from another value."""

from __future__ import annotations

import numpy as np

from netproof.model.affine import Sum
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import broadcast, expand, linear, reciprocal, scale
from netproof.model.onnx.operators.moves import turned_last
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


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
    values = [c.value(i) for i in range(len(c.inputs))]
    shape = broadcast(c, *(v.shape for v in values))
    branches = [expand(c, v, shape) for v in values if isinstance(v, Ref)]
    total = branches[0] if len(branches) == 1 else c.emit(Sum((1,) * len(branches)), *branches)
    for value in values:
        if isinstance(value, Constant):
            total = scale(c, total, None, value)
    return scale(c, total, reciprocal(c, constant.constant(float(len(values)))))
