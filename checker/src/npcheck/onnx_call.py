"""What the translation of one node of an ONNX file works with: its attributes, its inputs, and the nodes it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npcheck.errors import Refused
from npcheck.network import Array, Index, Node, Op, OrderMap, Relu, Sum, Take, require_tame
from npcheck.onnx_messages import Attribute, Constant, FileNode

MOST_ENTRIES = 1 << 24  # of one value, or of one constant that is computed
MOST_COMPUTED = 1 << 27  # entries of all of these together
MOST_NODES = 1 << 17


@dataclass(frozen=True)
class Variable:
    """A value of the file that depends on the input: a node of the network, seen in a shape."""

    place: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Value = Variable | Constant


class Builder:
    """The nodes made so far, and how much may still be made."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.maps: dict[int, OrderMap] = {}  # by node
        self.uncut: set[int] = set()
        self.whole: set[int] = set()  # nodes whose values the file has as integers
        self._left = MOST_COMPUTED

    def spend(self, shape: Sequence[int]) -> None:
        """Refuse values that together are too large, before they are made."""
        if math.prod(shape) > MOST_ENTRIES:
            raise Refused(f"a value has more than {MOST_ENTRIES} entries")
        self._left -= math.prod(shape)
        if self._left < 0:
            raise Refused(f"the values of the network have more than {MOST_COMPUTED} entries together")

    def add(self, op: Op, inputs: Sequence[Variable], shape: tuple[int, ...], name: str) -> Variable:
        """Add a node; return its value."""
        self.spend(shape)
        if len(self.nodes) >= MOST_NODES:
            raise Refused(f"the network has more than {MOST_NODES} nodes")
        self.nodes.append(Node(op, tuple(x.place for x in inputs), math.prod(shape), name))
        return Variable(len(self.nodes) - 1, shape)


class Call:
    """A node of the file as its translation sees it: attributes, inputs, and the nodes to be made.

    Attributes are asked for by name. What was not asked for in the end is not known here, and is refused.
    """

    def __init__(self, node: FileNode, opset: int, inputs: list[Value | None], builder: Builder) -> None:
        self.node, self.opset, self.builder = node, opset, builder
        self._inputs, self._attributes = inputs, dict(node.attributes)

    # --- attributes ---

    def _attribute(self, name: str, kind: type | tuple[type, ...]) -> Attribute | None:
        value = self._attributes.pop(name, None)
        if value is not None and not isinstance(value, kind):
            raise Refused(f"its attribute {name!r} is not of the type that it should be")
        return value

    def integer(self, name: str, default: int) -> int:
        value = self._attribute(name, int)
        return value if isinstance(value, int) else default

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an attribute that is 0 or 1; runtimes differ in what other numbers mean."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise Refused(f"{name}={value} is neither 0 nor 1")
        return value == 1

    def number(self, name: str, default: float) -> float:
        """Return a float32; the default, too, is the nearest float32, as in the standard."""
        value = self._attribute(name, float)
        return value if isinstance(value, float) else float(np.float32(default))

    def text(self, name: str, default: str) -> str:
        value = self._attribute(name, str)
        return value if isinstance(value, str) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self._attribute(name, tuple)
        if value is None:
            return None
        assert isinstance(value, tuple)
        if not all(isinstance(entry, int) for entry in value):
            raise Refused(f"its attribute {name!r} is not a list of integers")
        return tuple(int(entry) for entry in value)

    def tensor(self, name: str) -> Constant | None:
        value = self._attribute(name, np.ndarray)
        return value if isinstance(value, np.ndarray) else None

    def ignore(self, *names: str) -> None:
        """Pass over attributes that do not change what is computed."""
        for name in names:
            self._attributes.pop(name, None)

    def only(self, name: str, allowed: int) -> None:
        """Refuse any other value of an attribute than this one, which is also its default."""
        value = self.integer(name, allowed)
        if value != allowed:
            raise Refused(f"{name}={value} is not supported")

    def finish(self) -> None:
        """Refuse attributes that nothing asked for."""
        if self._attributes:
            raise Refused(f"its attribute {next(iter(self._attributes))!r} is not known")

    # --- inputs ---

    def has(self, i: int) -> bool:
        return i < len(self._inputs) and self._inputs[i] is not None

    def value(self, i: int) -> Value:
        """Return an input."""
        value = self._inputs[i] if i < len(self._inputs) else None
        if value is None:
            raise Refused(f"its input {i} is missing")
        return value

    def variable(self, i: int) -> Variable:
        """Return an input that depends on the network's input."""
        value = self.value(i)
        if not isinstance(value, Variable):
            raise Refused(f"its input {i} is a constant: fold it in the file")
        return value

    def constant(self, i: int) -> Constant:
        """Return an input that is known now."""
        value = self.value(i)
        if isinstance(value, Variable):
            raise Refused(f"its input {i} depends on the network's input, where only a constant is supported")
        return value

    def floats(self, i: int) -> Array:
        """Return a constant input of floats."""
        return as_floats(self.constant(i))

    def indices(self, i: int) -> tuple[int, ...]:
        """Return a constant input that is a list of integers."""
        constant = self.constant(i)
        if constant.dtype != np.int64 or constant.ndim > 1:
            raise Refused(f"its input {i} is not a list of integers")
        return tuple(int(entry) for entry in constant.reshape(-1))

    def listed(self, name: str, i: int, since: int) -> tuple[int, ...] | None:
        """Return integers that were an attribute before a version of the operators, and are an input since then."""
        if self.opset < since:
            return self.integers(name)
        return self.indices(i) if self.has(i) else None

    def at_most(self, count: int) -> None:
        """Refuse more inputs than the operator has."""
        if len(self._inputs) > count:
            raise Refused(f"it has {len(self._inputs)} inputs, more than {count}")

    @property
    def all(self) -> list[Value]:
        """All inputs, none of them left out."""
        return [self.value(i) for i in range(max(1, len(self._inputs)))]

    # --- nodes ---

    def emit(self, op: Op, inputs: Sequence[Variable], shape: tuple[int, ...]) -> Variable:
        """Add a node to the network."""
        return self.builder.add(op, inputs, shape, self.node.where)

    def again(self, node: Node, op: Op, shape: tuple[int, ...]) -> Variable:
        """Add a node that reads what another does."""
        read = [Variable(place, (self.builder.nodes[place].size,)) for place in node.inputs]
        return self.emit(op, read, shape)

    def relu(self, x: Variable) -> Variable:
        return self.emit(Relu(), [x], x.shape)

    def sum(self, x: Variable, y: Variable, sign: int = 1) -> Variable:
        """Return x + y or x − y, for values of one shape."""
        return self.emit(Sum((1, sign), x.size), [x, y], x.shape)

    def take(self, index: Index, inputs: Sequence[Variable], bias: Array | None = None) -> Variable:
        """Pick entries of values laid one behind the other; no node is made where all stay in their places."""
        flat = index.reshape(-1)
        if not len(flat):
            raise Refused("a value without entries is not supported")
        x = inputs[0]
        if len(inputs) == 1 and bias is None and len(flat) == x.size and np.array_equal(flat, np.arange(x.size)):
            return Variable(x.place, index.shape)
        return self.emit(Take(flat, tuple(i.size for i in inputs), bias=bias), inputs, index.shape)

    def lifted(self, constant: Constant) -> Variable:
        """Return a constant of floats as a node, which does not depend on the input."""
        floats = as_floats(constant)
        nothing = np.full(floats.size, -1, dtype=np.int64)
        source = Variable(0, (self.builder.nodes[0].size,))
        return self.emit(Take(nothing, (source.size,), bias=floats.reshape(-1)), [source], floats.shape)

    def view(self, x: Value, function: Callable[[Constant], Constant]) -> Value:
        """Apply what only moves, picks or repeats entries: to a constant, or to the places of a value's entries."""
        if not isinstance(x, Variable):
            return function(x)
        return self.look(x, function)

    def look(self, x: Variable, function: Callable[[Constant], Constant]) -> Variable:
        """Apply what only moves, picks or repeats entries to a value."""
        return self.take(function(places(x)).astype(np.int64), [x])


def places(x: Variable, first: int = 0) -> Index:
    """Return an array of the value's shape that has the place of each entry."""
    return np.arange(first, first + x.size).reshape(x.shape)


def as_floats(constant: Constant) -> Array:
    """Return a constant of floats; weights and the like must be that."""
    if constant.dtype != np.float64:
        raise Refused("a constant of integers stands where one of floats is needed")
    floats: Array = np.asarray(constant, dtype=np.float64)
    require_tame(floats)
    return floats
