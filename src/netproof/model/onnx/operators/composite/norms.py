"""Converters of normalisations by the data themselves: by layer, instance, group, root mean square, norm.

Deviations from a mean are one affine form of the input, so that what is common to all entries cancels; their squares
are relaxed one by one, the inverse root of the mean square (at least epsilon, known from intervals, as squares are not
negative) and its product with each deviation.
"""

from __future__ import annotations

import math

import numpy as np

from netproof.model.nonlinear.smooth import InverseRoot, Reciprocal, Sqrt, Square
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import added, deviations, reduce_axes, reshaped, scale
from netproof.model.onnx.operators.hinges import absolute, clipped
from netproof.model.onnx.operators.moves import reshape
from netproof.model.onnx.operators.products import product
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

Axes = tuple[int, ...]
EPSILON = float(np.float32(1e-5))  # what ONNX says in the absence of the attribute, a float32
TINY_DEVIATION = float(np.float32(1e-9))  # that MeanVarianceNormalization adds to the standard deviation


def inverse_root(c: Context, x: Ref, axes: Axes, epsilon: Constant) -> Ref:
    """Add 1 / sqrt(mean of x² over the axes + epsilon), the axes with size 1."""
    if not float(epsilon.value) > 0.0:
        c.refuse(f"its epsilon {float(epsilon.value)} is not positive", "export with a positive epsilon")
    square = reduce_axes(c, c.emit(Square(), x), axes, mean=True, keep=True)
    return c.emit(InverseRoot(), scale(c, square, None, epsilon))


def normalised(c: Context, x: Ref, inverse: Ref, most: float) -> Ref:
    """Add x · inverse, of which it is known that its size is at most `most`, and say so by two hinges.

    They change no value, and bounds of the product alone, which know nothing of what both depend on, may be far larger.
    """
    limit = constant.constant(most * (1.0 + 2.0**-40))
    return clipped(c, product(c, x, inverse), constant.negate(limit), limit)


def largest_deviation(x: Ref, axes: Axes) -> float:
    """Return √(n − 1): no deviation from a mean of n numbers is larger in units of their standard deviation."""
    return math.sqrt(math.prod(x.shape[axis] for axis in axes) - 1)


def _epsilon(c: Context) -> Constant:
    return constant.constant(float(c.attr("epsilon", EPSILON)))


def _scaled(c: Context, y: Ref, factor: Value | None, bias: Value | None) -> Ref:
    """Add y · factor + bias with broadcasting, each where there is one."""
    y = y if factor is None else product(c, y, factor)
    return y if bias is None else added(c, y, bias)


def _by_channel(c: Context, value: Value, channels: int, rank: int) -> Value:
    """Return one number for each channel in the shape that broadcasts along axis 1."""
    if value.shape != (channels,):
        c.refuse(f"its parameter of shape {value.shape} does not fit {channels} channels")
    shape = (channels, *(1,) * (rank - 2))
    return reshaped(value, shape) if isinstance(value, Constant) else reshape(c, value, shape)


@converts("LayerNormalization")
def _layer_normalization(c: Context) -> list[Value]:
    """Relax squares of deviations, the inverse root of their mean plus epsilon, and products with it."""
    x = c.node(0)
    first = c.axis(int(c.attr("axis", -1)), len(x.shape))
    axes = tuple(range(first, len(x.shape)))
    away, mean = deviations(c, x, axes)
    inverse = inverse_root(c, away, axes, _epsilon(c))
    y = normalised(c, away, inverse, largest_deviation(x, axes))
    return [_scaled(c, y, c.value(1), c.input(2)), mean, inverse]


@converts("RMSNormalization")
def _rms_normalization(c: Context) -> Value:
    """Relax squares, the inverse root of their mean plus epsilon, and products with it."""
    x = c.node(0)
    first = c.axis(int(c.attr("axis", -1)), len(x.shape))
    axes = tuple(range(first, len(x.shape)))
    most = math.sqrt(math.prod(x.shape[first:]))
    return _scaled(c, normalised(c, x, inverse_root(c, x, axes, _epsilon(c)), most), c.value(1), None)


@converts("InstanceNormalization")
def _instance_normalization(c: Context) -> Value:
    """Relax as LayerNormalization does, over the axes behind the channels."""
    x = c.node(0)
    rank = len(x.shape)
    if rank < 3:
        c.refuse(f"an input of shape {x.shape} has no axes behind its channels")
    axes = tuple(range(2, rank))
    away, _ = deviations(c, x, axes)
    y = normalised(c, away, inverse_root(c, away, axes, _epsilon(c)), largest_deviation(x, axes))
    return _scaled(c, y, *(_by_channel(c, c.value(i), x.shape[1], rank) for i in (1, 2)))


@converts("GroupNormalization")
def _group_normalization(c: Context) -> Value:
    """Relax as LayerNormalization does, over groups of channels; scale and bias by group before opset 21."""
    x, groups = c.node(0), int(c.attr("num_groups", 0))
    rank, channels = len(x.shape), x.shape[1]
    if groups < 1 or channels % groups:
        c.refuse(f"{channels} channels do not make {groups} groups", "check it with onnx.checker")
    grouped = reshape(c, x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    away, _ = deviations(c, grouped, (2,))
    y = normalised(c, away, inverse_root(c, away, (2,), _epsilon(c)), largest_deviation(grouped, (2,)))
    if c.opset < 21:
        y = _scaled(c, y, *(_by_channel(c, c.value(i), groups, 3) for i in (1, 2)))
        return reshape(c, y, x.shape)
    return _scaled(c, reshape(c, y, x.shape), *(_by_channel(c, c.value(i), channels, rank) for i in (1, 2)))


@converts("MeanVarianceNormalization")
def _mean_variance_normalization(c: Context) -> Value:
    """Relax as LayerNormalization does; the divisor is the standard deviation plus 1e-9."""
    x = c.node(0)
    axes = tuple(sorted({c.axis(int(axis), len(x.shape)) for axis in c.attr("axes", [0, 2, 3])}))
    away, _ = deviations(c, x, axes)
    deviation = c.emit(Sqrt(), reduce_axes(c, c.emit(Square(), away), axes, mean=True, keep=True))
    divisor = scale(c, deviation, None, constant.constant(TINY_DEVIATION))
    return normalised(c, away, c.emit(Reciprocal(), divisor), largest_deviation(x, axes))


@converts("LpNormalization")
def _lp_normalization(c: Context) -> Value:
    """Relax the reciprocal of a norm that is known to be positive, and products with it; 1-norms by hinges."""
    x, p = c.node(0), int(c.attr("p", 2))
    axis = c.axis(int(c.attr("axis", -1)), len(x.shape))
    if p not in (1, 2):
        c.refuse(f"p = {p}", "ONNX has p = 1 and p = 2 only")
    sizes = absolute(c, x) if p == 1 else c.emit(Square(), x)
    norm = reduce_axes(c, sizes, (axis,), mean=False, keep=True)
    return normalised(c, x, c.emit(Reciprocal() if p == 1 else InverseRoot(), norm), 1.0)
