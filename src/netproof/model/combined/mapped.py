"""A network behind a linear map of its input: x = c + E ξ, so that boxes of ξ are the sets that are asked about.

A network takes floats, and c + E ξ need not be one. What is replayed is x rounded to its type, and a proof covers all
points that are as near to c + E ξ as that, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from netproof.model.affine import Linear
from netproof.model.graph import Graph, Node
from netproof.model.moves import Reshape
from netproof.model.network import Network
from netproof.model.ops import Input

# By the type that a network takes: the rounding of x to it, by way of float32, and those of the sums in float64 before,
# as a share of |c| + |E| |ξ|; and the same where x is so small that the type cannot hold it to within its share.
NEAREST = {"float16": (2.0**-10, 2.0**-24), "float32": (2.0**-23, 2.0**-149), "float64": (2.0**-23, 2.0**-149)}


@dataclass(frozen=True, eq=False)
class LinearMap:
    """x = centre + generators · ξ, each number the float64 nearest to the one that was given."""

    centre: Tensor  # (input,) float64
    generators: Tensor  # (input, ξ) float64

    def op(self, dtype: str) -> Linear:
        """Return the map as an op, with how far the x that a network of this type takes may lie from the exact one."""
        share, least = NEAREST[dtype]
        around = Linear(self.generators.abs() * share, self.centre.abs() * share + least)
        return Linear(self.generators, self.centre, around)

    def __call__(self, points: Tensor) -> Tensor:
        """Return x (n, input) at points ξ (n, ξ), float64."""
        return torch.nn.functional.linear(points, self.generators, self.centre)


@dataclass(frozen=True, eq=False)
class Mapped:
    """A network of ξ; to the search, one like any other."""

    network: Network
    map: LinearMap

    @cached_property
    def graph(self) -> Graph:
        inner = self.network.graph
        size = inner.input.size
        nodes = [
            Node(0, Input(), (), (self.map.generators.shape[1],), "ξ"),
            Node(1, self.map.op(self.network.input_dtype), (0,), (size,), "c + E ξ"),
            Node(2, Reshape((size,), inner.input.shape), (1,), inner.input.shape, inner.input.name),
        ]
        nodes += [
            Node(node.index + 2, node.op, tuple(i + 2 for i in node.inputs), node.shape, node.name)
            for node in inner.nodes[1:]
        ]
        return Graph(tuple(nodes))

    @property
    def path(self) -> str:
        return self.network.path

    @property
    def models(self) -> dict[str, bytes]:
        return self.network.models

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.graph.input.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.network.output_shape

    @property
    def input_dtype(self) -> str:
        return "float32"  # of ξ, which no network takes

    def x(self, point: np.ndarray) -> np.ndarray:
        """Return the network's input at ξ: (ξ,) -> (*input)."""
        exact = self.map(torch.from_numpy(np.asarray(point, dtype=np.float64)).reshape(1, -1))
        found: np.ndarray = exact.numpy().reshape(self.network.input_shape).astype(np.float32)
        return found

    def replay(self, point: np.ndarray) -> np.ndarray:
        """Return onnxruntime's answer at ξ: (ξ,) -> (*output)."""
        return self.network.replay(self.x(point))

    def parts(self, points: Tensor) -> Iterator[tuple[Network, Tensor]]:
        """Yield the network with its inputs (n, *input) at points (n, ξ)."""
        yield self.network, self.map(points).reshape(len(points), *self.network.input_shape)
