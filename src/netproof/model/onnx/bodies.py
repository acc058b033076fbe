"""Nodes that stand for others: operators that ONNX defines by a body of simpler ones, and If with a known condition.

The nodes of the body are converted in its place. onnxruntime sees the node itself, so the body is one step of the
comparison with it. (A model's own functions are written out when the file is parsed: `model.onnx.file`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from netproof.core.machine.allowance import unless_out_of_memory
from netproof.model.onnx.context import Context, Ref, Value, element_of
from netproof.model.onnx.schema import ERRORS, STANDARD, schema_of


@dataclass(frozen=True, eq=False)
class Body:
    """Nodes in order, what they know under which name, and the names of the results."""

    nodes: Sequence[onnx.NodeProto]
    given: Mapping[str, Value | None]
    initializers: Sequence[onnx.TensorProto]
    results: Sequence[str]
    opset: int


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node reads: its inputs, and what graphs within it take from around them."""
    found = list(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found += _free(graph)
    return found


def _free(graph: onnx.GraphProto) -> list[str]:
    """Return the names that a graph within a node does not define itself."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    taken = [name for node in graph.node for name in reads(node)] + [value.name for value in graph.output]
    return [name for name in dict.fromkeys(taken) if name and name not in own]


def branch(c: Context) -> Body:
    """Return the branch of an If whose condition is a constant."""
    condition = c.value(0)
    if isinstance(condition, Ref) or condition.value.size != 1:
        c.refuse("its condition depends on the network's input", "export without control flow")
    wanted = "then_branch" if bool(condition.value.reshape(-1)[0]) else "else_branch"
    graph = next((attribute.g for attribute in c.proto.attribute if attribute.name == wanted), None)
    if graph is None:
        c.refuse(f"it has no {wanted}", "check it with onnx.checker")
    return Body(graph.node, {}, graph.initializer, [value.name for value in graph.output], c.opset)


def has_body(operator: str, opset: int) -> bool:
    """Say whether ONNX defines the operator by simpler ones."""
    schema = schema_of(operator, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def body(c: Context) -> Body | None:
    """Return what ONNX defines the node's operator by, its attributes filled in; None where it does not."""
    schema = schema_of(c.op, c.opset)
    if schema is None or not has_body(c.op, c.opset):
        return None
    function = onnx.FunctionProto()
    if schema.has_function:
        version = max(v for v in (*schema.function_opset_versions, schema.since_version) if v <= c.opset)
        function.ParseFromString(schema.get_function_with_opset_version(version))
    else:
        known = schema.context_dependent_function_opset_versions
        version = max((v for v in known if v <= c.opset), default=schema.since_version)
        kinds = [_kind(value).SerializeToString() for value in c.inputs]
        try:
            whole = schema.get_context_dependent_function_with_opset_version(
                version, c.proto.SerializeToString(), kinds
            )
        except (*ERRORS, RuntimeError, ValueError, TypeError) as error:
            unless_out_of_memory(error)
            c.refuse(f"onnx cannot write it out: {error}", "check it with onnx.checker")
        if not whole:
            return None
        function.ParseFromString(whole)
    values = [*c.inputs, *([None] * len(function.input))]
    given = dict(zip(function.input, values, strict=False))
    told = {attribute.name: attribute for attribute in schema_defaults(schema)}
    told |= {attribute.name: attribute for attribute in c.proto.attribute}
    opset = next((entry.version for entry in function.opset_import if entry.domain in STANDARD), version)
    nodes = [_filled(node, told) for node in function.node]
    return Body(nodes, given, (), list(function.output), int(opset))


def schema_defaults(schema: onnx.defs.OpSchema) -> Iterable[onnx.AttributeProto]:
    """Yield the attributes that a node has where it does not say so."""
    for attribute in schema.attributes.values():
        if attribute.default_value is not None and attribute.default_value.type:
            yield attribute.default_value


def _filled(node: onnx.NodeProto, told: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Return a node of a function with the attributes of the call in place of references to them."""
    filled = onnx.NodeProto()
    filled.CopyFrom(node)
    del filled.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            filled.attribute.append(attribute)
        elif attribute.ref_attr_name in told:
            own = onnx.AttributeProto()
            own.CopyFrom(told[attribute.ref_attr_name])
            own.name = attribute.name
            filled.attribute.append(own)
    return filled


def _kind(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(element_of(value), value.shape)
