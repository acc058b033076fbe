"""Folding of nodes whose inputs are all constants.

Integers and data movements are exact, so numpy or onnx's own reference implementation evaluates them. Float
arithmetic goes through `netproof.model.origin.constant`, which carries a radius, and any other through `by_converter`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from netproof.model.onnx.context import Context, Value
from netproof.model.onnx.folding.by_converter import fold_by_converter
from netproof.model.onnx.folding.reference import evaluate
from netproof.model.onnx.operators.arithmetic import broadcast
from netproof.model.onnx.operators.data.casts import as_cast, cast_constant
from netproof.model.onnx.operators.data.rearrange import MOVED, rearranged
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

MOVES = {
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze", "Neg", "Relu", "Abs", "Max", "Min", "Clip",
}  # fmt: skip
INTEGER_ONLY = {
    "Add", "Sub", "Mul", "Div", "Mod", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Range", "Not",
    "And", "Or", "Xor", "NonZero",
}  # fmt: skip
SPECIAL = {
    "Constant", "ConstantOfShape", "Shape", "Size", "Cast", "CastLike", "Dropout", "MatMul", "Reciprocal", "ReduceMean",
}  # fmt: skip
COMPARISONS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
ARITHMETIC: dict[str, Callable[..., Constant]] = {
    "Add": constant.add,
    "Sub": constant.subtract,
    "Mul": constant.multiply,
    "Div": constant.divide,
    "Sqrt": constant.square_root,
}
FOLDED = frozenset().union(SPECIAL, MOVES, MOVED, INTEGER_ONLY, COMPARISONS, ARITHMETIC)
STEADY = {"Abs", "Neg", "Relu"}  # elementwise, and no two results are farther apart than what they are of


def foldable(operator: str) -> bool:
    """Say whether some constant form of the operator can be folded."""
    return operator in FOLDED


def fold(c: Context) -> list[Value]:
    """Compute the outputs of a node all of whose inputs are constants."""
    inputs = [None if v is None else c.constant(i) for i, v in enumerate(c.inputs)]
    floats = any(v is not None and v.is_float for v in inputs)
    if c.op in ("Cast", "Reciprocal"):
        c.claim(c.constant(0).shape)
    if c.op == "CastLike":
        c = as_cast(c)
    if c.op == "Cast":
        return [cast_constant(c)]
    if c.op == "Dropout":
        return [c.constant(0)]
    if c.op == "ConstantOfShape":
        return [_constant_of_shape(c)]
    if c.op == "Reciprocal":
        return [_finite(c, constant.divide(constant.constant(1.0), c.constant(0)))]
    if c.op == "MatMul" and floats:
        return [_finite(c, _matrix_product(c))]
    if c.op in ("ReduceSum", "ReduceMean") and floats:
        return [_finite(c, _reduced(c))]
    if c.op in ("ReduceMax", "ReduceMin") and floats and not constant.loose(constant.radius, *inputs):
        return list(_exactly(c, inputs))
    if floats and c.op in ARITHMETIC:
        operands = [c.constant(i) for i in range(1 if c.op == "Sqrt" else 2)]
        c.claim(broadcast(c, *(operand.shape for operand in operands)))
        return [_finite(c, ARITHMETIC[c.op](*operands))]
    if c.op in MOVED and c.op != "Pad":
        return [rearranged(c)]
    if c.op in MOVES or (c.op in INTEGER_ONLY | COMPARISONS and not floats):
        return list(_exactly(c, inputs))
    if c.op in COMPARISONS and all(v is not None and v.radius is None for v in inputs):
        return list(_exactly(c, inputs))
    return fold_by_converter(c)


def _reduced(c: Context) -> Constant:
    """Sum, or average, a float constant over axes: a product with ones."""
    k = c.constant(0)
    rank = len(k.shape)
    axes = c.attr_or_input("axes", 1)
    if not axes and c.attr("noop_with_empty_axes", 0) == 1:
        return k
    over = sorted({c.axis(axis, rank) for axis in axes or range(rank)})
    rest = [axis for axis in range(rank) if axis not in over]
    count = math.prod(k.shape[axis] for axis in over)
    c.claim(k.shape)
    flat = k.moved(lambda entries: entries.transpose(*rest, *over).reshape(-1, count))
    total = constant.matrix_product(flat, constant.constant(np.ones((count, 1))))
    if c.op == "ReduceMean":
        total = constant.divide(total, constant.constant(float(count)))
    kept = bool(c.attr("keepdims", 1))
    shape = [1 if axis in over else size for axis, size in enumerate(k.shape) if kept or axis not in over]
    return total.moved(lambda entries: entries.reshape(shape))


def _matrix_product(c: Context) -> Constant:
    left, right = c.constant(0), c.constant(1)
    try:
        shape = np.matmul(*(np.broadcast_to(0.0, k.shape) for k in (left, right))).shape
    except ValueError:
        c.refuse(f"shapes {left.shape} and {right.shape} do not fit", "check it with onnx.checker")
    c.claim(shape)
    return constant.matrix_product(left, right)


def _finite(c: Context, result: Constant) -> Constant:
    if not np.isfinite(result.value).all():
        c.refuse("folding its constants gives NaN or infinity", "repair the weights")
    if result.radius is not None and not np.isfinite(result.radius).all():
        c.refuse("folding its constants may divide by zero", "repair the weights")
    return result


def _exactly(c: Context, inputs: list[Constant | None]) -> Sequence[Value]:
    radii = [v is not None and v.radius is not None for v in inputs]
    values = evaluate(c, [None if v is None else v.value for v in inputs])
    if not any(radii):
        return [_like(c, v, None, inputs) for v in values]
    if c.op in STEADY:
        return [_like(c, v, None if k is None else k.radius, inputs) for v, k in zip(values, inputs, strict=True)]
    if c.op == "Concat":
        widths = [None if v is None else constant.widths(constant.radius, v) for v in inputs]
        return [_like(c, values[0], evaluate(c, widths)[0], inputs)]
    if c.op not in {"Identity", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
                    "Unsqueeze", "Expand"} or any(radii[1:]):  # fmt: skip
        return fold_by_converter(c)
    first = inputs[0]
    assert first is not None
    moved = evaluate(c, [first.radius, *(None if v is None else v.value for v in inputs[1:])])
    return [_like(c, v, np.asarray(r), inputs) for v, r in zip(values, moved, strict=True)]


def _like(c: Context, value: np.ndarray, radius: np.ndarray | None, inputs: list[Constant | None]) -> Constant:
    """Make a result in its inputs' float type. It is no farther from a runtime's than they are:

    every entry is one of theirs, or a function of them that never widens a distance, as Max is.
    """
    value = np.asarray(value)
    floats = [v for v in inputs if v is not None and v.is_float]
    if value.dtype != np.float64 or not floats:
        return Constant(value, radius)
    widths = [float(v.slack.max(initial=0.0)) for v in floats if v.slack is not None]
    slack = np.full(value.shape, max(widths)) if widths else None
    return Constant(value, radius, slack, constant.coarsest(*floats))


def _constant_of_shape(c: Context) -> Constant:
    fill: Constant | None = c.attr("value")
    shape = c.integers(0) or []
    if any(size < 0 for size in shape):
        c.refuse(f"a size is negative in shape {shape}", "export the model again")
    if fill is not None and fill.value.size != 1:
        c.refuse("its value is not one number", "check it with onnx.checker")
    c.claim(shape)
    try:
        if fill is None:
            return Constant(np.zeros(shape))
        return replace(fill, value=np.full(shape, fill.value.reshape(-1)[0], dtype=fill.value.dtype))
    except ValueError as error:  # more axes than numpy has
        c.refuse(f"shape {shape[:8]} cannot be made: {error}", "export the model again")


def constant_attribute(c: Context) -> Constant:
    """Return the value of a Constant node, in any of its forms."""
    if (tensor := c.attr("value")) is not None:
        return tensor  # type: ignore[no-any-return]
    for name in ("value_float", "value_floats"):
        if (number := c.attr(name)) is not None:
            return Constant(np.asarray(number, dtype=np.float64))
    for name in ("value_int", "value_ints"):
        if (number := c.attr(name)) is not None:
            return Constant(np.asarray(number, dtype=np.int64))
    c.refuse("its value is neither numbers nor a dense tensor")
