"""Shapes and types that an ONNX file declares, or that onnx infers of one node. A symbolic batch counts as 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from netproof.core.machine.allowance import unless_out_of_memory
from netproof.model.onnx.context import Value, element_of
from netproof.model.onnx.declared import Shape, fixed_shape
from netproof.model.onnx.schema import ERRORS, schema_of
from netproof.model.origin.constant import Constant

Form = tuple[Shape, int]  # with the element type, a TensorProto.DataType


def declared_forms(graph: onnx.GraphProto) -> dict[str, Form]:
    """Return by name the shapes and types that the file declares for its values."""
    return _fixed((value.name, value.type) for value in (*graph.value_info, *graph.output))


def result_forms(node: onnx.NodeProto, inputs: Mapping[str, Value], opset: int) -> dict[str, Form]:
    """Infer by name the shapes and types of a node's results, by onnx; those that it cannot infer are left out.

    opset: of the node's own domain.
    """
    schema = schema_of(node.op_type, opset, node.domain)
    if schema is None:
        return {}
    kinds = {name: onnx.helper.make_tensor_type_proto(element_of(v), v.shape) for name, v in inputs.items()}
    data = {
        name: onnx.numpy_helper.from_array(np.asarray(value.value))
        for name, value in inputs.items()
        if isinstance(value, Constant) and not value.is_float  # shapes and axes; floats say nothing about a shape
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, node, kinds, data)
    except (*ERRORS, KeyError, ValueError, RuntimeError) as error:
        unless_out_of_memory(error)
        return {}
    return _fixed(found.items())


def _fixed(values: Iterable[tuple[str, onnx.TypeProto]]) -> dict[str, Form]:
    forms = ((name, fixed_shape(kind), kind.tensor_type.elem_type) for name, kind in values)
    return {name: (shape, element) for name, shape, element in forms if shape is not None and element}
