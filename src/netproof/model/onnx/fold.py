"""Folding of nodes whose inputs are all constants.

Integers and data movements are exact, so numpy or onnx's own reference implementation evaluates them. Float
arithmetic goes through `netproof.model.origin.constant`, which carries a radius. Any other float operator is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import torch
from onnx import helper

from netproof.model.onnx.context import Context, Value
from netproof.model.onnx.file import FLOATS, INTEGERS
from netproof.model.onnx.operators.arithmetic import broadcast
from netproof.model.onnx.size import claim_result
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant
from netproof.numerics import coarseness

MOVES = {
    "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
    "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where", "Neg", "Relu", "Abs",
    "Max", "Min", "Clip",
}  # fmt: skip
INTEGER_ONLY = {
    "Add", "Sub", "Mul", "Div", "Mod", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Range", "Not",
    "And", "Or", "NonZero", "ScatterND",
}  # fmt: skip
COMPARISONS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
ARITHMETIC: dict[str, Callable[..., Constant]] = {
    "Add": constant.add,
    "Sub": constant.subtract,
    "Mul": constant.multiply,
    "Div": constant.divide,
    "Sqrt": constant.square_root,
}
STEADY = {"Abs", "Neg", "Relu"}  # elementwise, and no two results are farther apart than what they are of


def foldable(operator: str) -> bool:
    """Say whether some constant form of the operator can be folded."""
    special = ("Constant", "ConstantOfShape", "Shape", "Size", "Cast", "Dropout", "MatMul", "Reciprocal")
    known = MOVES | INTEGER_ONLY | COMPARISONS | ARITHMETIC.keys()
    return operator in special or operator in known


def fold(c: Context) -> list[Value]:
    """Compute the outputs of a node all of whose inputs are constants."""
    inputs = [None if v is None else c.constant(i) for i, v in enumerate(c.inputs)]
    floats = any(v is not None and v.is_float for v in inputs)
    if c.op in ("Cast", "Reciprocal"):
        c.claim(c.constant(0).shape)
    if c.op == "Cast":
        return [_cast(c)]
    if c.op == "Dropout":
        return [c.constant(0)]
    if c.op == "ConstantOfShape":
        return [_constant_of_shape(c)]
    if c.op == "Reciprocal":
        return [_finite(c, constant.divide(constant.constant(1.0), c.constant(0)))]
    if c.op == "MatMul" and floats:
        return [_finite(c, _matrix_product(c))]
    if floats and c.op in ARITHMETIC:
        operands = [c.constant(i) for i in range(1 if c.op == "Sqrt" else 2)]
        c.claim(broadcast(c, *(operand.shape for operand in operands)))
        return [_finite(c, ARITHMETIC[c.op](*operands))]
    if c.op in MOVES or (c.op in INTEGER_ONLY | COMPARISONS and not floats):
        return list(_exactly(c, inputs))
    if c.op in COMPARISONS and all(v is not None and v.radius is None for v in inputs):
        return list(_exactly(c, inputs))
    c.refuse("its constant inputs cannot be folded exactly", "fold constants when exporting, e.g. with onnxsim")


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


def _exactly(c: Context, inputs: list[Constant | None]) -> list[Constant]:
    radii = [v is not None and v.radius is not None for v in inputs]
    values = _evaluate(c, [None if v is None else v.value for v in inputs])
    if not any(radii):
        return [_like(c, v, None, inputs) for v in values]
    if c.op in STEADY:
        return [_like(c, v, None if k is None else k.radius, inputs) for v, k in zip(values, inputs, strict=True)]
    if c.op not in {"Identity", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
                    "Unsqueeze", "Expand"} or any(radii[1:]):  # fmt: skip
        c.refuse("the rounding of its folded constants cannot be carried", "fold constants when exporting")
    first = inputs[0]
    assert first is not None
    moved = _evaluate(c, [first.radius, *(None if v is None else v.value for v in inputs[1:])])
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


def _evaluate(c: Context, arrays: list[np.ndarray | None]) -> list[np.ndarray]:
    """Run one node on arrays in place of its inputs; None stands for an input that is left out."""
    there = [array for array in arrays if array is not None]
    try:
        claim_result(c, there)
        moved = _moved(c, there)
        with np.errstate(all="ignore"):  # sizes that overflow are refused, not warned of
            outputs = _reference(c, arrays) if moved is None else [moved]
    except (ValueError, LookupError, RuntimeError, TypeError, AttributeError, ArithmeticError) as error:
        c.refuse(f"its constant inputs do not fit: {error}", "export the model again")
    if any(np.asarray(output).dtype == object for output in outputs):
        c.refuse("its constant inputs have no numbers for a result", "export the model again")
    return [np.asarray(output) for output in outputs]


def _moved(c: Context, arrays: list[np.ndarray]) -> np.ndarray | None:
    """Compute by numpy what an exported `x.view(x.size(0), -1)` is made of; None for anything else.

    Nearly every model has that, and importing the reference implementation takes longer than reading the model.
    """
    if c.op == "Gather" and arrays[1].size:
        return np.take(arrays[0], arrays[1], axis=c.attr("axis", 0))
    if c.op == "Unsqueeze" and (axes := c.attr_or_input("axes", 1)):
        return np.expand_dims(arrays[0], tuple(axes))
    if c.op == "Concat" and (axis := c.attr("axis")) is not None:
        return np.concatenate(arrays, axis=axis)
    return None


def _reference(c: Context, arrays: list[np.ndarray | None]) -> list[np.ndarray]:
    """Run one node by onnx's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    names = [f"in{i}" if array is not None else "" for i, array in enumerate(arrays)]
    node = onnx.NodeProto()
    node.CopyFrom(c.proto)
    del node.input[:]
    node.input.extend(names)
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), None)
        for name, array in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
    graph = helper.make_graph([node], "constant", declared, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", c.opset)])
    return list(ReferenceEvaluator(model).run(None, feeds))


def _cast(c: Context) -> Constant:
    source = c.constant(0)
    target = c.attr("to")
    if target in FLOATS:
        if source.is_float:
            return _rounded(c, source, FLOATS[target])
        value = source.value.astype(np.float64)
        narrow = value.astype(helper.tensor_dtype_to_np_dtype(target))
        if not np.array_equal(narrow.astype(np.float64), value) or np.abs(value).max(initial=0) > 2**53:
            c.refuse(f"an integer does not fit {FLOATS[target]} exactly")
        return Constant(value, dtype=getattr(torch, FLOATS[target]))
    if target not in INTEGERS:
        c.refuse("it casts to a type that is not supported")
    if source.radius is not None:
        c.refuse("a rounded constant cannot become an integer")
    return Constant(source.value.astype(helper.tensor_dtype_to_np_dtype(target)))


def _rounded(c: Context, source: Constant, kind: str) -> Constant:
    """Convert a float constant to another float type, rounded as the file says."""
    dtype = getattr(torch, kind)
    if coarseness(dtype) <= coarseness(source.dtype):
        return replace(source, dtype=dtype)
    if constant.loose(constant.radius, source) or constant.loose(constant.slack, source):
        c.refuse("a rounded constant is rounded again", "fold constants when exporting, e.g. with onnxsim")
    with np.errstate(over="ignore"):
        narrow = source.value.astype(kind).astype(np.float64)
    if not np.isfinite(narrow).all():
        c.refuse(f"a constant overflows {kind}", "export the model in float32")
    return Constant(narrow, dtype=dtype)


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
