"""What ONNX says of its operators, and what its own code raises where a node is not as it says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

STANDARD = ("", "ai.onnx")  # names of ONNX's own domain

# None of these is an error of Python's own, which handlers for what does not fit would catch.
ERRORS = (
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
    DecodeError,
    EncodeError,
)


def schema_of(operator: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """Return what an opset says of an operator; None where it has none of that name."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # a damaged name is bytes, a damaged version is beyond int
        return None


@cache
def attribute_types(operator: str, opset: int) -> Mapping[str, int]:
    """Return by name the type of each attribute, an AttributeProto.AttributeType: as the opset has it, or the last did.

    Some attributes became inputs later.
    """
    found: dict[str, int] = {}
    while (schema := schema_of(operator, opset)) is not None:
        found = {name: int(attribute.type) for name, attribute in schema.attributes.items()} | found
        opset = schema.since_version - 1
    return found
