"""The messages of an ONNX file: a graph of nodes, with constant tensors, as plain data.

What a field says is in ONNX's own onnx.proto; the numbers below are from there. Nothing is computed here, and nothing
is known of operators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npcheck.errors import Refused
from npcheck.protobuf import EIGHT, FOUR, Message

MOST_BYTES = 1 << 31  # of a file: protocol buffers allow no more
MOST_AXES = 16  # of a value
MOST_ENTRIES = 1 << 28  # of all tensors of a file together
ENTRIES_OF_NAME = 64  # how many entries a node, or a name or attribute of it, counts as: they take as much memory

# A constant of the file is an array of float64 (also for what is stored as float32, exactly), int64 or bool.
Constant = NDArray[Any]
Attribute = int | float | str | Constant | tuple[int, ...] | tuple[float, ...]

_MODEL = {
    1: "-ir_version", 2: "-producer_name", 3: "-producer_version", 4: "-domain", 5: "-model_version",
    6: "-doc_string", 7: "graph", 8: "opset_import", 14: "-metadata_props", 20: "!training_info", 25: "!functions",
}  # fmt: skip
_OPSET = {1: "domain", 2: "version"}
_GRAPH = {
    1: "node", 2: "-name", 5: "initializer", 10: "-doc_string", 11: "input", 12: "output", 13: "-value_info",
    14: "!quantization_annotation", 15: "!sparse_initializer", 16: "-metadata_props",
}  # fmt: skip
_NODE = {
    1: "input", 2: "output", 3: "name", 4: "op_type", 5: "attribute", 6: "-doc_string", 7: "domain", 8: "overload",
    9: "-metadata_props",
}  # fmt: skip
_ATTRIBUTE = {
    1: "name", 2: "f", 3: "i", 4: "s", 5: "t", 6: "!a graph", 7: "floats", 8: "ints", 9: "!a list of strings",
    10: "!a list of tensors", 11: "!a list of graphs", 13: "-doc_string", 14: "!a type", 15: "!a list of types",
    20: "type", 21: "!a reference to a function's attribute", 22: "!a sparse tensor", 23: "!a list of sparse tensors",
}  # fmt: skip
_TENSOR = {
    1: "dims", 2: "data_type", 3: "!a segment", 4: "float_data", 5: "int32_data", 6: "!string_data", 7: "int64_data",
    8: "name", 9: "raw_data", 10: "double_data", 11: "!uint64_data", 12: "-doc_string",
    13: "!external data (save the model in one file)", 14: "data_location", 16: "-metadata_props",
}  # fmt: skip
_VALUE = {1: "name", 2: "type", 3: "-doc_string", 4: "-metadata_props"}
_TYPE = {1: "tensor", 4: "!a sequence", 5: "!a map", 6: "-denotation", 8: "!a sparse tensor", 9: "!an optional"}
_TENSOR_TYPE = {1: "elem_type", 2: "shape"}
_SHAPE = {1: "dim"}
_DIM = {1: "value", 2: "param", 3: "-denotation"}

FLOAT, INT32, INT64, BOOL, DOUBLE = 1, 6, 7, 9, 11
_RAW = {FLOAT: "<f4", INT32: "<i4", INT64: "<i8", BOOL: "|u1", DOUBLE: "<f8"}
TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip


@dataclass(frozen=True)
class FileNode:
    """A node of the file; `where` names it in messages."""

    op: str
    inputs: tuple[str, ...]  # "" where an optional one is left out
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    where: str


@dataclass(frozen=True)
class Declared:
    """An input or output as the graph declares it; None stands for an axis without a number."""

    name: str
    type: int
    shape: tuple[int | None, ...] | None  # None: nothing is said about its shape


@dataclass(frozen=True)
class FileGraph:
    """A graph of the file: nodes in its order, constants by name, and the version of the operators' definitions."""

    opset: int
    nodes: tuple[FileNode, ...]
    constants: dict[str, Constant]
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]


class _Budget:
    """Count the entries of all tensors, so that a small file cannot ask for much memory."""

    def __init__(self) -> None:
        self.left = MOST_ENTRIES

    def spend(self, entries: int, where: str) -> None:
        self.left -= entries
        if self.left < 0:
            raise Refused(f"{where}: the tensors of the file have more than {MOST_ENTRIES} entries")


def read_graph(data: bytes) -> FileGraph:
    """Read the bytes of an ONNX file."""
    if len(data) >= MOST_BYTES:
        raise Refused(f"the file has {len(data)} bytes, more than {MOST_BYTES - 1}")
    model = Message(memoryview(data), "model", _MODEL, 1)
    graphs = model.messages("graph")
    if len(graphs) != 1:
        raise Refused(f"model: it has {len(graphs)} graphs, not one: is this an ONNX file?")
    graph = Message(graphs[0], "graph", _GRAPH, 2)
    budget = _Budget()
    constants: dict[str, Constant] = {}
    for content in graph.messages("initializer"):
        name, tensor = _tensor(content, "initializer", 3, budget)
        if not name or name in constants:
            raise Refused(f"initializer {name!r}: its name is empty, or there are two of it")
        constants[name] = tensor
    return FileGraph(
        _opset(model),
        tuple(_node(content, place, budget) for place, content in enumerate(graph.messages("node"))),
        constants,
        tuple(_declared(content, "input") for content in graph.messages("input")),
        tuple(_declared(content, "output") for content in graph.messages("output")),
    )


def _opset(model: Message) -> int:
    """Return the version of ONNX's own operators. Versions of other domains do not matter: their nodes are refused."""
    versions: list[int | None] = []
    for content in model.messages("opset_import"):
        opset = Message(content, "opset_import", _OPSET, 2)
        if opset.text("domain") in ("", "ai.onnx"):
            versions.append(opset.integer("version"))
    # Some files name it under both names, with the same version.
    if len(set(versions)) != 1 or versions[0] is None:
        raise Refused(f"model: it names {len(set(versions))} versions of ONNX's operators, not one")
    return versions[0]


def _node(content: memoryview, place: int, budget: _Budget) -> FileNode:
    node = Message(content, f"node {place}", _NODE, 3)
    op, name = node.text("op_type"), node.text("name")
    where = f"node {place} ({op} {name!r})" if name else f"node {place} ({op})"
    if node.text("domain") not in ("", "ai.onnx") or node.text("overload"):
        raise Refused(f"{where}: operators of the domain {node.text('domain')!r} are not supported")
    attributes: dict[str, Attribute] = {}
    for part in node.messages("attribute"):
        key, value = _attribute(part, where, budget)
        if key in attributes:
            raise Refused(f"{where}: its attribute {key!r} is given twice")
        attributes[key] = value
    inputs, outputs = node.texts("input"), node.texts("output")
    budget.spend(ENTRIES_OF_NAME * (1 + len(inputs) + len(outputs) + len(attributes)), where)
    return FileNode(op, tuple(inputs), tuple(outputs), attributes, where)


def _attribute(content: memoryview, where: str, budget: _Budget) -> tuple[str, Attribute]:
    """Read an attribute, which says of what type it is: the field of that type is its value."""
    attribute = Message(content, f"{where}, attribute", _ATTRIBUTE, 4)
    name = attribute.text("name")
    here = f"{where}, attribute {name!r}"
    values: dict[int, tuple[str, Attribute]] = {
        1: ("f", attribute.number("f") or 0.0),
        2: ("i", attribute.integer("i") or 0),
        3: ("s", attribute.text("s")),
        6: ("floats", tuple(attribute.numbers("floats", FOUR).tolist())),
        7: ("ints", tuple(attribute.integers("ints"))),
    }
    kind = attribute.integer("type")
    fields = {key for key in ("f", "i", "s", "t", "floats", "ints") if key in attribute}
    if kind == 4 and fields == {"t"}:
        tensors = attribute.messages("t")
        if len(tensors) != 1:
            raise Refused(f"{here}: it has {len(tensors)} tensors")
        return name, _tensor(tensors[0], here, 5, budget)[1]
    if kind not in values or not fields <= {values[kind][0]}:
        raise Refused(f"{here}: its type {kind} is not known, or is not that of its value")
    return name, values[kind][1]


def _tensor(content: memoryview, where: str, depth: int, budget: _Budget) -> tuple[str, Constant]:
    """Read a tensor: its name and its entries, in the file's raw bytes or in the list of its type."""
    tensor = Message(content, where, _TENSOR, depth)
    name = tensor.text("name")
    here = f"{where} {name!r}" if name else where
    kind = tensor.integer("data_type") or 0
    if kind not in _RAW:
        raise Refused(f"{here}: tensors of type {TYPES.get(kind, kind)} are not supported")
    if tensor.integer("data_location"):
        raise Refused(f"{here}: external data is not supported: save the model in one file")
    shape = tuple(tensor.integers("dims"))
    if len(shape) > MOST_AXES or any(axis < 0 for axis in shape):
        raise Refused(f"{here}: its shape {shape[:MOST_AXES]} cannot be")
    budget.spend(math.prod(shape), here)
    raw = tensor.data("raw_data")
    given = [field for field in ("float_data", "int32_data", "int64_data", "double_data") if field in tensor]
    if raw is not None:
        if given or len(raw) != math.prod(shape) * np.dtype(_RAW[kind]).itemsize:
            raise Refused(f"{here}: its data does not fit its shape {shape}")
        entries: Constant = np.frombuffer(raw, _RAW[kind])
    else:
        entries = _entries(tensor, kind, given, here)
    if entries.size != math.prod(shape):
        raise Refused(f"{here}: it has {entries.size} entries, its shape is {shape}")
    return name, _widened(entries, kind).reshape(shape)


def _entries(tensor: Message, kind: int, given: list[str], where: str) -> Constant:
    """Read the entries from the list for this type."""
    field = {FLOAT: "float_data", DOUBLE: "double_data", INT64: "int64_data"}.get(kind, "int32_data")
    if not set(given) <= {field}:
        raise Refused(f"{where}: its data is not in {field}")
    if kind in (FLOAT, DOUBLE):
        return tensor.numbers(field, FOUR if kind == FLOAT else EIGHT)
    entries = np.array(tensor.integers(field), dtype=np.int64)
    limit = {BOOL: (0, 1), INT32: (-(2**31), 2**31 - 1)}.get(kind)
    if limit is not None and entries.size and not limit[0] <= entries.min() <= entries.max() <= limit[1]:
        raise Refused(f"{where}: an entry of {field} is not of type {TYPES[kind]}")
    return entries


def _widened(entries: Constant, kind: int) -> Constant:
    """Bring entries to one of the three types that constants have here."""
    if kind in (FLOAT, DOUBLE):
        with np.errstate(invalid="ignore"):  # some NaN make numpy warn; they are refused where they are used
            return entries.astype(np.float64)
    return entries.astype(np.bool_) if kind == BOOL else entries.astype(np.int64)


def _declared(content: memoryview, what: str) -> Declared:
    """Read the declaration of an input or output."""
    value = Message(content, what, _VALUE, 3)
    name = value.text("name")
    here = f"{what} {name!r}"
    types = [Message(part, here, _TYPE, 4) for part in value.messages("type")]
    tensors = [Message(part, here, _TENSOR_TYPE, 5) for message in types for part in message.messages("tensor")]
    if len(tensors) != 1:
        raise Refused(f"{here}: it is not declared as one tensor")
    shapes = [Message(part, here, _SHAPE, 6) for part in tensors[0].messages("shape")]
    if len(shapes) > 1:
        raise Refused(f"{here}: it has {len(shapes)} shapes")
    shape = tuple(_axis(part, here) for part in shapes[0].messages("dim")) if shapes else None
    return Declared(name, tensors[0].integer("elem_type") or 0, shape)


def _axis(content: memoryview, where: str) -> int | None:
    """Return how long an axis is; None where it has a name, or nothing, instead of a number."""
    dim = Message(content, where, _DIM, 7)
    length = dim.integer("value")
    if length is not None and (length < 1 or "param" in dim):
        raise Refused(f"{where}: an axis of length {length} is not supported")
    return length
