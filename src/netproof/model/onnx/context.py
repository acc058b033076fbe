"""What a converter of one ONNX operator sees, and the registry of converters.

One operator is one registration:

    @converts("Neg")
    def _neg(c: Context) -> Value:
        return c.emit(Scale(mult=...), c.node(0))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnx
import torch

from netproof.core.limits import LARGEST, entries
from netproof.core.machine.allowance import unless_out_of_memory
from netproof.core.plug_ins import offered
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.graph import Node
from netproof.model.moves import Expand, Index, Reshape, Transpose
from netproof.model.nonlinear import Relu
from netproof.model.onnx.elements import ZEROS, Held, all_held, held_by, is_real, kind_of, result_elements
from netproof.model.onnx.file import OnnxFile, read_tensor
from netproof.model.onnx.schema import attribute_types
from netproof.model.ops import Affine, Input, Nonlinear, Op
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


@dataclass(frozen=True)
class Ref:
    """A value that depends on the network's input: a node of the graph being built."""

    index: int
    shape: tuple[int, ...]
    element: int = onnx.TensorProto.FLOAT  # the file's type of it, a TensorProto.DataType: see `elements`


Value = Constant | Ref


def element_of(value: Value) -> int:
    """Return the file's type of a value."""
    return value.element if isinstance(value, Ref) else kind_of(value)


def as_number(value: Value) -> Value:
    """Return a constant of integers or truth values as the floats that they are; anything else as it is."""
    if isinstance(value, Constant) and not value.is_float:
        return constant.constant(value.value.astype(np.float64))
    return value


TOO_LARGE = f"layers and folded constants may come to {LARGEST} numbers"
MOST_AXES = 1024  # numbers in a list of axes, sizes or pads: more than any runtime takes
_ATTRIBUTES = {
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INT,
    onnx.AttributeProto.STRING,
    onnx.AttributeProto.TENSOR,
    onnx.AttributeProto.FLOATS,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.STRINGS,
}
Converter = Callable[["Context"], Value | Sequence[Value]]
CONVERTERS: dict[str, Converter] = {}


def converts(*operators: str) -> Callable[[Converter], Converter]:
    """Enter a converter for ONNX operators of the default domain."""

    def enter(converter: Converter) -> Converter:
        for operator in operators:
            CONVERTERS[operator] = converter
        return converter

    return enter


def is_known(operator: str) -> bool:
    """Say whether there is a converter; where there is none yet, load the modules that other packages offer first."""
    if operator not in CONVERTERS:
        _load_operators()
    return operator in CONVERTERS


@functools.cache
def _load_operators() -> None:
    """Import what the entry points of `netproof.operators` name: importing it enters its converters."""
    for _ in offered("netproof.operators"):
        pass


class Builder:
    """Nodes in topological order, each shape found by running the op on an empty batch."""

    def __init__(
        self, shape: tuple[int, ...], name: str, element: int = onnx.TensorProto.FLOAT, room: int = LARGEST
    ) -> None:
        """Begin with the input alone. `room`: how many numbers the nodes and the folded constants may have in all."""
        self.nodes = [Node(0, Input(), (), shape, name)]
        self.room = room
        self.held = [Held(element)]  # of each node
        self.rewritten: dict[str, onnx.NodeProto] = {}  # by their first output: nodes that onnxruntime is given instead
        self.slack: dict[int, Affine] = {}  # of nodes whose constants a runtime rounds: how far its own may lie
        self.argmax: dict[int, tuple[int, bool]] = {}
        self.softmax: dict[int, tuple[int, bool]] = {}  # see `Trace`
        self.hidden: dict[int, np.ndarray] = {}  # of scores, which a mask hides: see `operators.composite.masked`
        self.is_nan: dict[int, int] = {}  # of nodes that say whether another is NaN, that one

    def add(
        self, op: Op, inputs: Sequence[Ref], name: str, slack: Affine | None = None, element: int | None = None
    ) -> Ref:
        """Add a node. element: the type that a runtime computes it in, that of the first input where none is said."""
        element = inputs[0].element if element is None else element
        empty = [torch.zeros(0, *ref.shape, dtype=torch.float64) for ref in inputs]
        shape = tuple(op.forward(*empty).shape[1:])
        if isinstance(op, Nonlinear) and inputs[0].shape != (shape if op.arity == 1 else (op.arity, *shape)):
            raise RuntimeError(f"{op.arity} operands of shape {shape} are not a value of shape {inputs[0].shape}")
        if isinstance(op, Nonlinear) and shape == ():
            return self._add_to_number(op, inputs[0], name, slack, element)
        node = Node(len(self.nodes), op, tuple(ref.index for ref in inputs), shape, name)
        self.nodes.append(node)
        self.held.append(self._held(op, inputs, element))
        if slack is not None:
            self.slack[node.index] = slack
        return Ref(node.index, shape, element)

    def _held(self, op: Op, inputs: Sequence[Ref], element: int) -> Held:
        """Return what values a node has: those of its inputs where it only moves them, and 0 where it fills with it."""
        moves = isinstance(op, Expand | Index) or (isinstance(op, Affine) and not op.fan and op.offset() is None)
        if not moves and not isinstance(op, Relu):
            return held_by(element)
        found = all_held(self.held[ref.index] for ref in inputs)
        return found if isinstance(op, Expand | Index | Reshape | Transpose) else all_held([found, ZEROS])

    def _add_to_number(self, op: Nonlinear, x: Ref, name: str, slack: Affine | None, element: int) -> Ref:
        """Add a nonlinear op of one number without axes: its neuron has an axis, as all neurons have."""
        line = self.add(Reshape(x.shape, (*x.shape, 1)), [x], name)
        return self.add(Reshape((1,), ()), [self.add(op, [line], name, slack, element)], name)

    def anything(self, name: str, shape: tuple[int, ...], element: int) -> Ref:
        """Add a value of which only the shape and the type are known, in place of one that cannot be converted."""
        node = Node(len(self.nodes), Input(), (), shape, name)
        self.nodes.append(node)
        self.held.append(held_by(element))
        return Ref(node.index, shape, element)


class Context:
    """One ONNX node with its inputs resolved."""

    def __init__(
        self, proto: onnx.NodeProto, inputs: list[Value | None], builder: Builder, file: OnnxFile, name: str
    ) -> None:
        self.proto = proto
        self.op = proto.op_type
        self.inputs = inputs
        self.opset = file.opset
        self.name = name
        self.file = file
        self.notes: list[str] = []
        self.fused = False  # whether the result stands for a pattern of several nodes that ends with this one
        self.builder = builder
        self._attributes = {a.name: a for a in proto.attribute}

    def attr(self, name: str, default: Any = None, *, infinite: bool = False) -> Any:
        """Return the attribute as int, float, str, list or Constant; `default` where it is absent.

        infinite: whether a float may be.
        """
        found = self._attributes.get(name)
        if found is None:
            return default
        declared = attribute_types(self.op, self.opset).get(name, found.type)
        if found.type not in _ATTRIBUTES or found.type != declared or found.ref_attr_name:
            self.refuse(f"attribute {name!r} is not of the type that ONNX gives it", "check it with onnx.checker")
        value = onnx.helper.get_attribute_value(found)
        if not (infinite and found.type == onnx.AttributeProto.FLOAT and np.isinf(value)):
            self._check_finite(found, value)
        if isinstance(value, onnx.TensorProto):
            return read_tensor(value, f"{self.name}.{name}", self.file)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        value = value if isinstance(value, int | float | str) else list(value)
        if default is not None and not isinstance(value, type(default)):
            self.refuse(f"attribute {name!r} is not of type {type(default).__name__}", "export the model again")
        return value

    def _check_finite(self, found: onnx.AttributeProto, value: Any) -> None:
        floats = {onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS}
        if found.type in floats and not np.isfinite(value).all():
            raise ModelError(
                f"attribute {found.name!r} holds NaN or infinity",
                file=self.file.path,
                place=f"node {self.name!r}",
                remedy="repair or retrain the weights",
            )

    def input(self, position: int) -> Value | None:
        """Return the input at this position; None where the node leaves an optional one out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def value(self, position: int) -> Value:
        found = self.input(position)
        return found if found is not None else self.refuse(f"input {position} is missing")

    def node(self, position: int) -> Ref:
        found = self.value(position)
        if isinstance(found, Constant):
            self.refuse(f"input {position} is a constant that cannot be folded here")
        return found

    def constant(self, position: int) -> Constant:
        found = self.value(position)
        if isinstance(found, Ref):
            self.refuse(f"input {position} must be a constant, but depends on the network's input")
        return found

    def optional_constant(self, position: int) -> Constant | None:
        return None if self.input(position) is None else self.constant(position)

    def integers(self, position: int) -> list[int] | None:
        """Read a constant list of integers; None when the input is left out."""
        found = self.optional_constant(position)
        if found is None:
            return None
        if found.is_float:
            self.refuse(f"input {position} must hold integers")
        if found.value.size > MOST_AXES:
            self.refuse(f"input {position} lists {found.value.size} sizes or axes", "check it with onnx.checker")
        return [int(v) for v in np.atleast_1d(found.value).reshape(-1)]

    def attr_or_input(self, name: str, position: int) -> list[int] | None:
        """Read integers that older opsets keep in an attribute and newer ones in an input."""
        found = self.attr(name)
        return self.integers(position) if found is None else [int(v) for v in found]

    def axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            self.refuse(f"axis {axis} is out of range for {rank} axes")
        return axis % rank

    @functools.cached_property
    def results(self) -> list[int | None]:
        """Return the element type of each result, None where ONNX leaves it open; refuse inputs that it forbids."""
        try:
            return result_elements(self.proto, self._elements, self.opset)
        except TypeError as error:
            self.refuse(str(error), "check it with onnx.checker")

    @property
    def _elements(self) -> list[int | None]:
        return [None if value is None else element_of(value) for value in self.inputs]

    @functools.cached_property
    def element(self) -> int:
        """Return the type that the node computes in: that of its result, or of what it compares."""
        known = [*self.results[:1], *self._elements]
        reals = (element for element in known if element is not None and is_real(element))
        return next(reals, next((element for element in known if element is not None), onnx.TensorProto.FLOAT))

    def held(self, ref: Ref) -> Held:
        """Return what values a node has; the file may have cast it to a type that holds more."""
        return self.builder.held[ref.index]

    def holds(self, ref: Ref, held: Held) -> Ref:
        """Note that a node has such values only; return it."""
        self.builder.held[ref.index] = held
        return ref

    # --- what was read before, for patterns of several nodes ---

    def made(self, index: int) -> Node:
        """Return a node of the graph being built."""
        return self.builder.nodes[index]

    def ref(self, index: int) -> Ref:
        """Return the value of a node that was emitted before."""
        return Ref(index, self.builder.nodes[index].shape, self.element)

    def slack_of(self, index: int) -> Affine | None:
        """Return how far a runtime's own constants may lie from those of a node."""
        return self.builder.slack.get(index)

    def maker(self, tensor: str) -> onnx.NodeProto | None:
        """Return the node of the file that makes a tensor; None where it is a constant or an input."""
        return next((node for node in self.file.model.graph.node if tensor in node.output), None)

    def before(self, tensor: str, kind: str) -> Ref | None:
        """Return what the node that makes a tensor reads, where it is of this kind: it is then read past that node."""
        node, own = self.maker(tensor), None
        for position, name in enumerate(self.proto.input):
            if name == tensor and isinstance(found := self.input(position), Ref):
                own = self.made(found.index)
        if node is None or own is None or node.op_type != kind or len(own.inputs) != 1:
            return None
        self.fused = True
        return self.ref(own.inputs[0])

    def emit(self, op: Op, *inputs: Ref, slack: Affine | None = None) -> Ref:
        """Add a node. A runtime's own constants may lie up to `slack` from those of the op."""
        try:
            result = self.builder.add(op, inputs, self.name, slack, self.element)
        except RuntimeError as error:  # what torch raises for shapes that do not fit
            unless_out_of_memory(error)
            self.refuse(f"its inputs do not fit: {str(error).splitlines()[0]}", "check it with onnx.checker")
        self.claim(result.shape)
        return result

    def is_softmax(self, result: Ref, of: Ref, *, log: bool) -> Ref:
        """Remember that a result is the softmax of another node along its last axis; return it."""
        self.builder.softmax[result.index] = (of.index, log)
        return result

    def instead(self, op: str, inputs: list[Value | None], **attributes: Any) -> Context:
        """Return another node in place of this one."""
        proto = onnx.helper.make_node(op, [f"in{i}" for i in range(len(inputs))], self.proto.output, **attributes)
        return Context(proto, inputs, self.builder, self.file, self.name)

    def with_inputs(self, inputs: list[Value | None]) -> Context:
        """Return the same node, with the types that it has, where numbers stand for its inputs."""
        other = Context(self.proto, inputs, self.builder, self.file, self.name)
        other.__dict__.update(results=self.results, element=self.element)
        return other

    def give_runtime(self, **attributes: Any) -> None:
        """Give onnxruntime the node with these attributes, which mean the same and which it can run."""
        if self.maker(self.proto.output[0]) is None:
            self.refuse("onnxruntime does not run it inside another node", "export with explicit pads")
        node = onnx.NodeProto()
        node.CopyFrom(self.proto)
        kept = [attribute for attribute in node.attribute if attribute.name not in attributes]
        del node.attribute[:]
        node.attribute.extend([*kept, *(onnx.helper.make_attribute(key, value) for key, value in attributes.items())])
        self.builder.rewritten[self.proto.output[0]] = node

    def fits(self, *sizes: int, what: str = "its sizes") -> None:
        """Refuse numbers that no array within the limit can have, before they are computed with."""
        if any(abs(size) > LARGEST for size in sizes):
            self.refuse(f"{what} go beyond {LARGEST}", TOO_LARGE)

    def claim(self, shape: Sequence[int]) -> None:
        """Refuse a result of this shape, before it is made, where all of them together would be too large."""
        count = entries(shape)
        if count > self.builder.room:
            size = "x".join(map(str, shape))
            self.refuse(f"its result of shape {size} makes the network too large", TOO_LARGE)
        self.builder.room -= count

    def refuse(self, why: str, remedy: str | None = None) -> NoReturn:
        raise UnsupportedOp(self.op, node=self.name, why=why, file=self.file.path, remedy=remedy)
