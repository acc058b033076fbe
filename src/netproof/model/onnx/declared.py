"""What a file declares of itself, read by onnx alone: torch takes a second or more to import."""

from __future__ import annotations

from pathlib import Path

import onnx

from netproof.core.files import find_file, read_bounded
from netproof.model.onnx.external import parse_proto
from netproof.model.origin.external import model_data

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


def only_input_shape(path: str) -> Shape | None:
    """Return the shape of a model's input; None where the file has several, or does not fix it."""
    found = find_file(Path(path))
    if found is None:
        return None
    graph = parse_proto(model_data(read_bounded(found), str(found)), str(found)).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return fixed_shape(inputs[0].type) if len(inputs) == 1 else None
