"""Converters of the arithmetic operators: matrix products, elementwise arithmetic, activations."""

from __future__ import annotations

import numpy as np
import torch

from netproof.model.affine import Linear, Matrices, Scale, Sum
from netproof.model.moves import Expand, Reshape, SumAxes, Transpose
from netproof.model.nonlinear import Relu
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

# --- building blocks ---------------------------------------------------------------------------------------


def linear(c: Context, x: Ref, weight: Constant, bias: Constant | None = None) -> Ref:
    """Add x W^T + b along the last axis, with the radius that rounded weights need."""
    if x.shape[-1:] != weight.shape[1:]:
        c.refuse(f"its matrix {weight.shape[::-1]} does not fit an input of shape {x.shape}")

    def around(bound: constant.Bound) -> Linear | None:
        if not constant.loose(bound, weight, bias):
            return None
        return Linear(torch.from_numpy(constant.widths(bound, weight)), constant.bound_tensor(bound, bias))

    op = Linear(weight.tensor(), None if bias is None else bias.tensor(), around(constant.radius))
    return c.emit(op, x, slack=around(constant.slack))


def scale(c: Context, x: Ref, mult: Constant | None, add: Constant | None = None) -> Ref:
    """Add mult · x + add with broadcasting, x expanded first where a constant is larger."""
    shapes = [k.shape for k in (mult, add) if k is not None]
    x = expand(c, x, broadcast(c, x.shape, *shapes))

    def around(bound: constant.Bound) -> Scale | None:
        if not constant.loose(bound, mult, add):
            return None
        factor = constant.bound_tensor(bound, mult)
        return Scale(
            torch.zeros((), dtype=torch.float64) if factor is None else factor, constant.bound_tensor(bound, add)
        )

    op = Scale(None if mult is None else mult.tensor(), None if add is None else add.tensor(), around(constant.radius))
    return c.emit(op, x, slack=around(constant.slack))


def broadcast(c: Context, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        c.refuse(f"shapes {' and '.join(map(str, shapes))} do not broadcast")


def expand(c: Context, x: Ref, shape: tuple[int, ...]) -> Ref:
    if x.shape == shape:
        return x
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    if padded != x.shape:
        x = c.emit(Reshape(x.shape, padded), x)
    return x if padded == shape else c.emit(Expand(padded, shape), x)


def swap_last(c: Context, x: Ref) -> Ref:
    rank = len(x.shape)
    return c.emit(Transpose((*range(rank - 2), rank - 1, rank - 2)), x)


def transposed(k: Constant) -> Constant:
    return k.moved(np.transpose)


def reshaped(k: Constant, shape: tuple[int, ...]) -> Constant:
    return k.moved(lambda entries: entries.reshape(shape))


# --- matrix products ---------------------------------------------------------------------------------------


def matmul_by_constant(c: Context, left: Value, right: Value) -> Value:
    """Add left @ right, of which one is a constant: vectors, matrices or batches of matrices."""
    one, other = len(left.shape) == 1, len(right.shape) == 1
    if isinstance(left, Ref):
        assert isinstance(right, Constant)
        x = c.emit(Reshape(left.shape, (1, *left.shape)), left) if one else left
        y = _times(c, x, reshaped(right, (-1, 1)) if other else right)
    else:
        assert isinstance(right, Ref)
        x = c.emit(Reshape(right.shape, (*right.shape, 1)), right) if other else right
        turned = (reshaped(left, (1, -1)) if one else left).moved(lambda entries: entries.swapaxes(-1, -2))
        y = swap_last(c, _times(c, swap_last(c, x), turned))
    shape = (*y.shape[:-2], *y.shape[-2:][one : 2 - other])  # an axis that a vector was given goes again
    return y if shape == y.shape else c.emit(Reshape(y.shape, shape), y)


def _times(c: Context, x: Ref, matrices: Constant) -> Ref:
    """Add x @ matrices: (…, n, in) by (in, out), or by a batch of such."""
    leading = matrices.shape[:-2]
    if set(leading) <= {1} and len(leading) <= len(x.shape) - 2:
        return linear(c, x, transposed(reshaped(matrices, matrices.shape[-2:])))
    if x.shape[-1] != matrices.shape[-2]:
        c.refuse(f"its matrices {matrices.shape} do not fit an input of shape {x.shape}")
    x = expand(c, x, (*broadcast(c, x.shape[:-2], leading), *x.shape[-2:]))

    def around(bound: constant.Bound) -> Matrices | None:
        found = constant.bound_tensor(bound, matrices)
        return None if found is None else Matrices(found)

    return c.emit(Matrices(matrices.tensor(), around(constant.radius)), x, slack=around(constant.slack))


def gemm_by_constant(c: Context) -> Value:
    """Add what a Gemm node says, of whose factors one is a constant."""
    left, right = c.value(0), c.value(1)
    alpha, beta = constant.constant(c.attr("alpha", 1.0)), constant.constant(c.attr("beta", 1.0))
    if isinstance(left, Constant) and isinstance(right, Constant):
        c.refuse("both factors are constants", "fold constants when exporting")
    if len(left.shape) != 2 or len(right.shape) != 2:
        c.refuse(f"its factors {left.shape} and {right.shape} are not matrices")
    addend = c.input(2)
    if isinstance(addend, Constant):
        addend = constant.multiply(addend, beta)
    if isinstance(left, Ref):
        assert isinstance(right, Constant)
        x = swap_last(c, left) if c.attr("transA", 0) else left
        weight = constant.multiply(right if c.attr("transB", 0) else transposed(right), alpha)
        bias = _bias(addend, weight.shape[0])
        y = linear(c, x, weight, bias)
        return y if bias is not None or addend is None else with_addend(c, y, addend, beta)
    assert isinstance(right, Ref)
    x = right if c.attr("transB", 0) else swap_last(c, right)
    weight = constant.multiply(transposed(left) if c.attr("transA", 0) else left, alpha)
    y = swap_last(c, linear(c, x, weight))
    return y if addend is None else with_addend(c, y, addend, beta)


def _bias(addend: Value | None, outputs: int) -> Constant | None:
    """Return the addend as one number per column; None where it is not that."""
    if not isinstance(addend, Constant) or addend.value.size != outputs or addend.shape[-1:] != (outputs,):
        return None
    return reshaped(addend, (outputs,))


def with_addend(c: Context, y: Ref, addend: Value, beta: Constant) -> Ref:
    """Add what a Gemm node adds to its product; beta is in an addend already that is a constant."""
    if broadcast(c, y.shape, addend.shape) != y.shape:
        c.refuse(f"its addend {addend.shape} does not fit a product of shape {y.shape}")
    return added(c, y, addend if isinstance(addend, Constant) or beta.value == 1.0 else scale(c, addend, beta))


# --- elementwise arithmetic --------------------------------------------------------------------------------


def added(c: Context, x: Ref, value: Value) -> Ref:
    """Add x + value with broadcasting."""
    if isinstance(value, Constant):
        return scale(c, x, None, value)
    shape = broadcast(c, x.shape, value.shape)
    return c.emit(Sum((1, 1)), expand(c, x, shape), expand(c, value, shape))


@converts("Add", "Sub")
def _add(c: Context) -> Value:
    """Add or subtract, exactly."""
    left, right = c.value(0), c.value(1)
    minus = c.op == "Sub"
    if isinstance(right, Constant):
        assert isinstance(left, Ref)
        return scale(c, left, None, constant.negate(right) if minus else right)
    if isinstance(left, Constant):
        return scale(c, right, constant.constant(-1.0) if minus else None, left)
    shape = broadcast(c, left.shape, right.shape)
    return c.emit(Sum((1, -1 if minus else 1)), expand(c, left, shape), expand(c, right, shape))


@converts("Sum")
def _sum(c: Context) -> Value:
    """Add up all inputs, exactly."""
    return all_added(c)


def all_added(c: Context) -> Ref:
    """Add the sum of all inputs of the node, with broadcasting."""
    values = [c.value(i) for i in range(len(c.inputs))]
    shape = broadcast(c, *(v.shape for v in values))
    branches = [expand(c, v, shape) for v in values if isinstance(v, Ref)]
    total = branches[0] if len(branches) == 1 else c.emit(Sum((1,) * len(branches)), *branches)
    for value in values:
        if isinstance(value, Constant):
            total = scale(c, total, None, value)
    return total


def reciprocal(c: Context, k: Constant) -> Constant:
    inverse = constant.divide(constant.constant(1.0), k)
    if not np.isfinite(inverse.value).all() or not np.isfinite(_radius(inverse)).all():
        c.refuse("it may divide by zero", "repair the constant")
    return inverse


def _radius(k: Constant) -> np.ndarray:
    return np.zeros(()) if k.radius is None else k.radius


@converts("Neg")
def _neg(c: Context) -> Value:
    """Negate, exactly."""
    return scale(c, c.node(0), constant.constant(-1.0))


@converts("BatchNormalization")
def _batch_normalization(c: Context) -> Value:
    """Scale and shift each channel; what is rounded in that goes into a radius."""
    x = c.node(0)
    if c.attr("training_mode", 0) or any(c.proto.output[1:]):
        c.refuse("it is in training mode", "export the model in eval mode")
    if not c.attr("spatial", 1):
        c.refuse("spatial=0 normalises each pixel by itself", "export with a newer opset")
    gamma, beta, mean, variance = (c.constant(i) for i in range(1, 5))
    if any(k.shape != x.shape[1:2] for k in (gamma, beta, mean, variance)):
        c.refuse(f"its parameters do not fit the channels of an input of shape {x.shape}")
    epsilon = constant.constant(c.attr("epsilon", float(np.float32(1e-5))))
    spread = constant.square_root(constant.add(variance, epsilon))
    mult = constant.divide(gamma, spread)
    add = constant.subtract(beta, constant.multiply(mean, mult))
    for k in (mult, add):
        if not np.isfinite(k.value).all() or not np.isfinite(_radius(k)).all():
            c.refuse("its variance plus epsilon is not positive", "repair the weights")
    shape = (-1, *(1 for _ in x.shape[2:]))
    return scale(c, x, reshaped(mult, shape), reshaped(add, shape))


# --- sums and means over axes ------------------------------------------------------------------------------


@converts("ReduceSum", "ReduceMean")
def _reduce(c: Context) -> Value:
    """Add up along axes, exactly."""
    axes = axes_to_reduce(c)
    return c.node(0) if axes is None else reduce_axes(c, c.node(0), axes, mean=c.op == "ReduceMean", keep=keeps(c))


def axes_to_reduce(c: Context) -> tuple[int, ...] | None:
    """Return the axes that a reduction names, all where it names none; None where it says that nothing is reduced."""
    rank, axes = len(c.node(0).shape), c.attr_or_input("axes", 1)
    if axes:
        return tuple(sorted({c.axis(axis, rank) for axis in axes}))
    return None if c.attr("noop_with_empty_axes", 0) == 1 else tuple(range(rank))


def keeps(c: Context) -> bool:
    """Say whether a reduction keeps the axes that it reduces, with size 1."""
    return bool(c.attr("keepdims", 1))


@converts("GlobalAveragePool")
def _global_average_pool(c: Context) -> Value:
    """Sum over all of an image and divide by its size."""
    x = c.node(0)
    return reduce_axes(c, x, tuple(range(2, len(x.shape))), mean=True, keep=True)


def reduce_axes(c: Context, x: Ref, axes: tuple[int, ...], *, mean: bool, keep: bool) -> Ref:
    y = c.emit(SumAxes(x.shape, axes), x)
    if mean:
        count = float(np.prod([x.shape[axis] for axis in axes]))
        y = scale(c, y, reciprocal(c, constant.constant(count)))
    if keep:
        return y
    rest = tuple(size for axis, size in enumerate(y.shape) if axis not in axes)
    return c.emit(Reshape(y.shape, rest), y)


def deviations(c: Context, x: Ref, axes: tuple[int, ...]) -> tuple[Ref, Ref]:
    """Add x − mean over the axes, and the mean, whose axes stay with size 1."""
    mean = reduce_axes(c, x, axes, mean=True, keep=True)
    return c.emit(Sum((1, -1)), x, expand(c, mean, x.shape)), mean


# --- activations -------------------------------------------------------------------------------------------


@converts("Relu")
def _relu(c: Context) -> Value:
    """Bound it by the triangle of its three lines; splits at 0 make it linear."""
    return c.emit(Relu(), c.node(0))
