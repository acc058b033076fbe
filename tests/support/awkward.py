"""Graphs whose weights float64 does not like: thirds, large numbers that cancel, and tiny ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from netproof.model.affine import Linear, Scale, Sum
from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Input, Op

Numbers = Callable[..., np.ndarray]


class GraphBuilder:
    """Any ops, in topological order; only a Graph, no file."""

    def __init__(self, *shape: int) -> None:
        self.nodes = [Node(0, Input(), (), shape, "x0")]

    def add(self, op: Op, *inputs: int, shape: tuple[int, ...] | None = None) -> int:
        index = len(self.nodes)
        self.nodes.append(Node(index, op, inputs, shape or self.nodes[inputs[0]].shape, f"x{index}"))
        return index

    def linear(self, node: int, weight: np.ndarray, bias: np.ndarray | None = None) -> int:
        op = Linear(torch.from_numpy(weight), None if bias is None else torch.from_numpy(bias))
        return self.add(op, node, shape=(1, len(weight)))

    def relu(self, node: int, leak: float = 0.0) -> int:
        return self.add(LeakyRelu(leak) if leak else Relu(), node)

    def sum(self, *inputs: int, signs: tuple[int, ...] | None = None) -> int:
        return self.add(Sum(signs or (1,) * len(inputs)), *inputs)

    def concat(self, *inputs: int) -> int:
        sizes = tuple(self.nodes[i].size for i in inputs)
        return self.add(Concat(1, sizes, (None,) * len(inputs)), *inputs, shape=(1, sum(sizes)))

    def finish(self) -> Graph:
        return Graph(tuple(self.nodes))


def awkward_numbers(rng: np.random.Generator) -> Numbers:
    """Mostly thirds and sevenths; some rows get a pair such as 1e8 and −1e8, or 1e-12."""

    def draw(*shape: int) -> np.ndarray:
        value = rng.integers(-9, 10, shape) / rng.choice([3.0, 7.0, 10.0], shape)
        value = np.where(rng.random(shape) < 0.15, value * 1e-12, value)
        if len(shape) == 2 and shape[1] >= 2:
            for row in value:
                if rng.random() < 0.3:
                    i, j = rng.choice(shape[1], 2, replace=False)
                    row[i] += 1e8
                    row[j] -= 1e8
        return value

    return draw


def awkward_graph(seed: int) -> Graph:
    """Two nonlinear layers with a residual sum over both, or a concatenation, and a scaled branch."""
    rng = np.random.default_rng(seed)
    numbers = awkward_numbers(rng)
    build = GraphBuilder(1, 3)
    a = build.linear(0, numbers(4, 3), numbers(4))
    h = build.relu(a, 0.1 if rng.random() < 0.5 else 0.0)
    scaled = build.add(Scale(torch.from_numpy(numbers(1, 4)), torch.from_numpy(numbers(1, 4))), h)
    b = build.linear(scaled, numbers(4, 4), numbers(4))
    g = build.relu(b)
    joined = build.concat(g, h) if rng.random() < 0.3 else build.sum(g, h, b, signs=(1, -1, 1))
    build.linear(joined, numbers(2, build.nodes[joined].size), numbers(2))
    return build.finish()
