"""Bounds of Clip that no number passes: an infinite one on its own side is none, as one that is left out.

Infinity is no number to compute with, so that a constant that holds it is refused. Of these alone nothing is computed:
they are not read at all. onnxruntime is given the file's own node with them, and the step is compared with its answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import numpy_helper

from netproof.model.onnx.bodies import reads
from netproof.model.onnx.file import FLOATS

_SIDES = {1: -math.inf, 2: math.inf}  # of Clip's inputs, from opset 11 on: the bound that is none


def no_bounds(
    order: Sequence[onnx.NodeProto], initializers: Mapping[str, onnx.TensorProto], outputs: Iterable[str]
) -> set[str]:
    """Return the constants, by name, that are nothing but infinite bounds of Clip nodes."""
    numbers = {name: _number(tensor) for name, tensor in initializers.items()}
    for node in order:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name in ("value", "value_float"):
                numbers[node.output[0]] = _number(attribute.t) if attribute.name == "value" else attribute.f
        if _passes(node) and node.input[0] in numbers:
            numbers[node.output[0]] = numbers[node.input[0]]
    asked = set(outputs)
    found = {name: number for name, number in numbers.items() if math.isinf(number) and name not in asked}
    for node in reversed(order) if found else ():  # what a node passes on is judged before what it reads
        on = _passes(node) and node.output[0] in found
        for position, name in enumerate(reads(node)):
            bound = node.op_type == "Clip" and _SIDES.get(position) == found.get(name)
            if not on and not bound:
                found.pop(name, None)
    return set(found)


def _passes(node: onnx.NodeProto) -> bool:
    """Say whether a node hands infinity on as it is: exporters cast a bound to the type of what is clipped."""
    if node.op_type == "Cast" and len(node.input) == 1:
        return any(attribute.name == "to" and attribute.i in FLOATS for attribute in node.attribute)
    return node.op_type == "Identity" and len(node.input) == 1


def _number(tensor: onnx.TensorProto) -> float:
    """Return the float that a tensor is; NaN where it is anything else."""
    if tensor.data_type not in FLOATS or list(tensor.dims) not in ([], [1]):
        return math.nan
    try:
        return float(numpy_helper.to_array(tensor).reshape(()))
    except ValueError:  # data that do not fit the shape: refused where the tensor is read
        return math.nan
