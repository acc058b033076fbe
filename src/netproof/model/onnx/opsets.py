"""Files newer than the runtime: one in which all operators are as they were is given to onnxruntime as an older one.

A new opset changes few operators, and most of the changes only add types of numbers. What a version says of an operator
is its text: the documentation, the attributes with their defaults, the inputs and outputs. Where it is the same word
for word, the operator is the same.
"""

from __future__ import annotations

from functools import cache

import onnx

from netproof.model.onnx.schema import STANDARD, schema_of

OPSET, IR_VERSION = 21, 10  # what onnxruntime has known for long


def oldest_alike(model: onnx.ModelProto, opset: int) -> int:
    """Return the oldest opset from OPSET on in which every operator of the model is what it is in its own."""
    if opset <= OPSET:
        return opset
    found, stack = OPSET, list(model.graph.node)
    while stack:
        node = stack.pop()
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                stack.extend(graph.node)
        if node.domain in STANDARD:
            found = max(found, _since(node.op_type, opset))
    return found


@cache
def _since(operator: str, opset: int) -> int:
    """Return the opset from which on an operator has been what it is in `opset`, but for the types that it takes."""
    schema = schema_of(operator, opset)
    if schema is None:
        return opset
    while schema.since_version > OPSET:
        older = schema_of(operator, schema.since_version - 1)
        if older is None or _text(older) != _text(schema):  # it is new, or was another
            break
        schema = older
    return int(schema.since_version)


def _text(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    attributes = [
        (name, attribute.description, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in sorted(schema.attributes.items())
    ]
    values = [(value.name, value.option, value.description) for value in (*schema.inputs, *schema.outputs)]
    return " ".join(schema.doc.split()), attributes, values
