"""Tiny random networks that exist twice, as a Graph and as an ONNX model, with properties to ask of them.

Weights, boxes and specs are small dyadic numbers, so float32 and float64 agree on almost everything. A
generator takes its decisions through a `Pick`: a seeded one for plain loops, or hypothesis, which then
shrinks what fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import torch
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from netproof.model.affine import Linear, Sum
from netproof.model.conv import Conv, Kernel
from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Input, Op
from netproof.problem.problem import InputSet, Rows
from netproof.problem.property import Box, Disjunct, Property, Row

Pick = Callable[[int, int], int]  # an integer in [least, most]

LEAKS = (0.125, 0.25, 0.5)


@dataclass(frozen=True, eq=False)
class TinyNetwork:
    graph: Graph
    model: onnx.ModelProto

    @property
    def neurons(self) -> int:
        return sum(self.graph.nodes[i].size for i in self.graph.nonlinear)

    def save(self, path: Path) -> Path:
        onnx.save(self.model, str(path))
        return path


@dataclass(frozen=True, eq=False)
class Question:
    """A network, and a property whose disjuncts share one box."""

    network: TinyNetwork
    property: Property

    @property
    def graph(self) -> Graph:
        return self.network.graph

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        box = self.property.disjuncts[0].box
        lower, upper = (np.array([float(v) for v in side]) for side in (box.lower, box.upper))
        return lower, upper


class NetworkBuilder:
    """Adds each layer to the graph and to the ONNX model; nodes are numbered as in the graph."""

    def __init__(self, inputs: int) -> None:
        self.nodes = [Node(0, Input(), (), (1, inputs), "x0")]
        self._protos: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def width(self, node: int) -> int:
        return self.nodes[node].size

    def linear(self, node: int, weight: np.ndarray, bias: np.ndarray) -> int:
        """weight (out, in), bias (out,)."""
        op = Linear(torch.from_numpy(weight), torch.from_numpy(bias))
        constants = [self._constant(weight), self._constant(bias)]
        return self._add(op, (node,), (1, len(bias)), "Gemm", constants, transB=1)

    def conv(self, node: int, weight: np.ndarray, bias: np.ndarray, *, padding: int) -> int:
        """A vector of c·h·h elements as an image; weight (out, c, k, k). The result is a vector again."""
        channels, k = weight.shape[1], weight.shape[2]
        side = round((self.width(node) / channels) ** 0.5)
        image = self.reshape(node, (1, channels, side, side))
        out = side + 2 * padding - k + 1
        kernel = Kernel(torch.from_numpy(weight), (1, 1), (padding, padding), (1, 1), 1, (channels, side, side))
        shape = (1, len(bias), out, out)
        op = Conv(kernel, torch.from_numpy(bias), (1, channels, side, side), shape)
        constants = [self._constant(weight), self._constant(bias)]
        made = self._add(op, (image,), shape, "Conv", constants, pads=[padding] * 4)
        return self.reshape(made, (1, len(bias) * out * out))

    def reshape(self, node: int, shape: tuple[int, ...]) -> int:
        constants = [self._constant(np.array(shape, dtype=np.int64))]
        return self._add(Reshape(self.nodes[node].shape, shape), (node,), shape, "Reshape", constants)

    def relu(self, node: int) -> int:
        return self._add(Relu(), (node,), self.nodes[node].shape, "Relu")

    def leaky_relu(self, node: int, alpha: float) -> int:
        return self._add(LeakyRelu(alpha), (node,), self.nodes[node].shape, "LeakyRelu", alpha=alpha)

    def add(self, left: int, right: int, sign: int = 1) -> int:
        shape = self.nodes[left].shape
        return self._add(Sum((1, sign)), (left, right), shape, "Add" if sign > 0 else "Sub")

    def concat(self, left: int, right: int) -> int:
        sizes = (self.width(left), self.width(right))
        return self._add(Concat(1, sizes, (None, None)), (left, right), (1, sum(sizes)), "Concat", axis=1)

    def slice(self, node: int, start: int, end: int) -> int:
        op = Index(1, torch.arange(start, end), self.width(node))
        constants = [self._constant(np.array([v], dtype=np.int64)) for v in (start, end, 1)]  # the axis last
        return self._add(op, (node,), (1, end - start), "Slice", constants)

    def finish(self) -> TinyNetwork:
        """The last node is the output."""
        ends = [
            helper.make_tensor_value_info(node.name, TensorProto.FLOAT, node.shape)
            for node in (self.nodes[0], self.nodes[-1])
        ]
        graph = helper.make_graph(self._protos, "tiny", ends[:1], ends[1:], self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        return TinyNetwork(Graph(tuple(self.nodes)), model)

    def _constant(self, value: np.ndarray) -> str:
        name = f"c{len(self._constants)}"
        stored = value if value.dtype == np.int64 else value.astype(np.float32)
        self._constants.append(numpy_helper.from_array(stored, name))
        return name

    def _add(
        self,
        op: Op,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        kind: str,
        constants: list[str] | None = None,
        **attributes: object,
    ) -> int:
        index = len(self.nodes)
        names = [self.nodes[i].name for i in inputs] + (constants or [])
        self._protos.append(helper.make_node(kind, names, [f"x{index}"], **attributes))
        self.nodes.append(Node(index, op, inputs, shape, f"x{index}"))
        return index


# --- generators ---


def random_network(pick: Pick, *, neurons: int = 10, inputs: int = 4) -> TinyNetwork:
    """1 to 3 nonlinear layers on at most `inputs` inputs, with at most `neurons` nonlinear neurons in all."""
    build = NetworkBuilder(pick(1, inputs))
    left = neurons
    last = 0
    for _ in range(pick(1, 3)):
        if left == 0:
            break
        skip = last
        last = _mix(build, pick, last, left)
        left -= build.width(last)
        last = build.relu(last) if pick(0, 3) else build.leaky_relu(last, LEAKS[pick(0, 2)])
        last = _join(build, pick, last, skip)
    build.linear(last, *_dense(pick, build.width(last), pick(1, 3)))
    return build.finish()


def _mix(build: NetworkBuilder, pick: Pick, node: int, most: int) -> int:
    """A linear or small convolutional layer of at most `most` elements."""
    if build.width(node) == 4 and most >= 4 and pick(0, 1):
        k = pick(1, 2)
        channels = pick(1, most // 4) if k == 1 else pick(1, min(2, most))
        return build.conv(node, _numbers(pick, channels, 1, k, k), _numbers(pick, channels), padding=0)
    return build.linear(node, *_dense(pick, build.width(node), pick(1, min(4, most))))


def _join(build: NetworkBuilder, pick: Pick, node: int, skip: int) -> int:
    """Maybe a residual sum, a concatenation with what came before, or a slice."""
    kind = pick(0, 5)
    if kind == 1:
        if build.width(skip) != build.width(node):
            skip = build.linear(skip, *_dense(pick, build.width(skip), build.width(node)))
        return build.add(node, skip, 1 if pick(0, 1) else -1)
    if kind == 2:
        return build.concat(node, skip)
    if kind == 3 and build.width(node) > 1:
        start = pick(0, build.width(node) - 2)
        return build.slice(node, start, pick(start + 1, build.width(node)))
    return node


def _numbers(pick: Pick, *shape: int) -> np.ndarray:
    """Quarters in [−1.5, 1.5]."""
    size = int(np.prod(shape))
    return np.array([pick(-6, 6) / 4 for _ in range(size)], dtype=np.float64).reshape(shape)


def _dense(pick: Pick, inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    return _numbers(pick, outputs, inputs), _numbers(pick, outputs)


def random_box(pick: Pick, size: int) -> Box:
    """Sides of 0 to 2; one in eight has a side of 0."""
    lower = [Fraction(pick(-4, 4), 4) for _ in range(size)]
    widths = [Fraction(pick(1, 8) if pick(0, 7) else 0, 4) for _ in range(size)]
    return Box(tuple(lower), tuple(lo + width for lo, width in zip(lower, widths, strict=True)))


def random_property(pick: Pick, network: TinyNetwork, *, disjuncts: int = 3, rows: int = 3) -> Property:
    """1 to `disjuncts` conjunctions of 1 to `rows` rows, all on one box."""
    graph = network.graph
    box = random_box(pick, graph.input.size)
    found = [
        Disjunct(box, tuple(_random_row(pick, graph.output.size) for _ in range(pick(1, rows))))
        for _ in range(pick(1, disjuncts))
    ]
    return Property(tuple(found), graph.input.size, graph.output.size, "random")


def _random_row(pick: Pick, outputs: int) -> Row:
    coefs = {i: Fraction(pick(-4, 4), 2) for i in range(outputs)}
    coefs[pick(0, outputs - 1)] = Fraction(1 if pick(0, 1) else -1)
    return Row({i: c for i, c in coefs.items() if c}, Fraction(pick(-24, 8), 8))


def random_question(pick: Pick, *, neurons: int = 10, inputs: int = 4) -> Question:
    network = random_network(pick, neurons=neurons, inputs=inputs)
    return Question(network, random_property(pick, network))


def seeded(seed: int) -> Pick:
    return random.Random(seed).randint


@st.composite
def questions(draw: st.DrawFn, *, neurons: int = 10, inputs: int = 4) -> Question:
    return random_question(lambda least, most: draw(st.integers(least, most)), neurons=neurons, inputs=inputs)


# --- the same in netproof's terms ---


def input_set(lower: np.ndarray, upper: np.ndarray, shape: tuple[int, ...]) -> InputSet:
    return InputSet(*(torch.from_numpy(np.asarray(side, np.float64)).reshape(shape) for side in (lower, upper)))


def rows_tensor(coef: np.ndarray, offset: np.ndarray) -> Rows:
    """One target: coef (row, output), offset (row,)."""
    offsets = torch.from_numpy(np.asarray(offset, np.float64))[None]
    mask = torch.ones_like(offsets, dtype=torch.bool)
    return Rows(torch.from_numpy(np.asarray(coef, np.float64))[None], offsets, ~mask, mask)
