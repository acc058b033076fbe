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
    found = {name: number for name, number in numbers.items() if math.isinf(number)}
    for node in order if found else ():
        clip = node.op_type == "Clip" and node.domain in ("", "ai.onnx")
        for position, name in enumerate(reads(node)):
            if name in found and not (clip and _SIDES.get(position) == found[name]):
                del found[name]
    return set(found).difference(outputs)


def _number(tensor: onnx.TensorProto) -> float:
    """Return the float that a tensor is; NaN where it is anything else."""
    if tensor.data_type not in FLOATS or list(tensor.dims) not in ([], [1]):
        return math.nan
    try:
        return float(numpy_helper.to_array(tensor).reshape(()))
    except ValueError:  # data that do not fit the shape: refused where the tensor is read
        return math.nan
