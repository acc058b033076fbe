"""Shapes that an ONNX file declares, or that onnx infers of one node. A symbolic batch counts as 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from netproof.model.origin.constant import Constant

Shape = tuple[int, ...]


def fixed_shape(kind: onnx.TypeProto) -> Shape | None:
    """Return the shape of a value; None where an axis after the first is symbolic, one is 0, or none is declared."""
    if not kind.tensor_type.HasField("shape"):
        return None
    shape: list[int] = []
    for axis, dim in enumerate(kind.tensor_type.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif axis == 0 and not dim.HasField("dim_value"):
            shape.append(1)
        else:
            return None
    return tuple(shape)


def declared_shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    """Return by name the shapes that the file declares for its values."""
    return _fixed((value.name, value.type) for value in (*graph.value_info, *graph.output))


def result_shapes(node: onnx.NodeProto, inputs: Mapping[str, Shape | Constant], opset: int) -> dict[str, Shape]:
    """Infer by name the shapes of a node's results, by onnx; those that it cannot infer are left out."""
    kinds = {name: _kind(value) for name, value in inputs.items()}
    data = {
        name: onnx.numpy_helper.from_array(np.asarray(value.value))
        for name, value in inputs.items()
        if isinstance(value, Constant) and not value.is_float  # shapes and axes; floats say nothing about a shape
    }
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        found = onnx.shape_inference.infer_node_outputs(schema, node, kinds, data)
    except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, KeyError, ValueError, RuntimeError):
        return {}
    return _fixed(found.items())


def _kind(value: Shape | Constant) -> onnx.TypeProto:
    if not isinstance(value, Constant):
        return onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, value)
    dtype = np.dtype(np.float32) if value.is_float else np.asarray(value.value).dtype
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(dtype), value.shape)


def _fixed(values: Iterable[tuple[str, onnx.TypeProto]]) -> dict[str, Shape]:
    shapes = ((name, fixed_shape(kind)) for name, kind in values)
    return {name: shape for name, shape in shapes if shape is not None}
