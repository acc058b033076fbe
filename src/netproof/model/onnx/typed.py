"""Conversion of one node by types: what may be done with integers and truth values, and what types results have.

Such values are moved, compared, cast, and read as truths, which is the same for integers and for real numbers; all else
is refused by name, and so is a node whose result has no certain type.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from onnx import TensorProto

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value, element_of
from netproof.model.onnx.elements import TRUTHS, is_real
from netproof.model.onnx.file import FLOATS, INTEGERS, type_name
from netproof.model.origin.constant import Constant

_MOVES = {
    "Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Expand", "Tile",
}  # fmt: skip
_TRUTHS = {"Not", "And", "Or", "Xor"}
_COMPARISONS = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}
_READERS = {"Cast", "Where", *_TRUTHS, *_COMPARISONS}


def converted(c: Context) -> list[Value]:
    """Convert a node that depends on the network's input; of integers only what is the same for real numbers."""
    types = [_certain(c, position) for position, name in enumerate(c.proto.output) if name or position == 0]
    refuse_integers(c, _MOVES | _READERS)
    if c.op == "Where" and not is_real(types[0]):
        c.refuse("it chooses between integers", "choose between floats")
    found = CONVERTERS[c.op](c)
    results: list[Value] = [found] if isinstance(found, Constant | Ref) else list(found)
    return [_of_type(c, result, c.results[position]) for position, result in enumerate(results[: len(c.results)])]


def _certain(c: Context, position: int) -> int:
    """Return the type of a result that the file names; refuse one that ONNX's rules leave open, or that is not read."""
    element = c.results[position]
    if element is None:
        c.refuse("the type of its result is not certain", "cast it to a float type, or export with a newer opset")
    if element not in FLOATS and element not in INTEGERS:
        c.refuse(f"its result has type {type_name(element)}, which is not supported", "keep it float32")
    return element


def _of_type(c: Context, result: Value, element: int | None) -> Value:
    """Return a result with its type: a converter's own steps have the one that the node computes in."""
    if element is None:  # an output that the file leaves out
        return result
    if isinstance(result, Ref):
        typed = replace(result, element=element)
        return c.holds(typed, TRUTHS) if element == TensorProto.BOOL else typed
    if is_real(element) and result.is_float:
        return replace(result, dtype=getattr(torch, FLOATS[element]))
    if element_of(result) != element:
        c.refuse(f"its result, a constant, is not of type {type_name(element)}", "fold constants when exporting")
    return result


def refuse_integers(c: Context, but: set[str]) -> None:
    """Refuse a node that reads integers that depend on the network's input, but for these operators."""
    if c.op not in but and any(isinstance(value, Ref) and not is_real(value.element) for value in c.inputs):
        c.refuse("it computes with integers that depend on the network's input", "cast them to a float type first")
