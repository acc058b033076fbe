"""A network as a directed acyclic graph of typed nodes in topological order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.model.canonical import graph_hash
from netproof.model.ops import Affine, Nonlinear, Op


@dataclass(frozen=True, eq=False)
class Node:
    index: int
    op: Op
    inputs: tuple[int, ...]  # indices of earlier nodes
    shape: tuple[int, ...]  # as in the file, symbolic batch = 1; the axis of evaluation is not in it
    name: str  # the file's name for it, for messages

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def append(nodes: list[Node], op: Op, inputs: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
    """Add a node behind others; return its index."""
    nodes.append(Node(len(nodes), op, inputs, shape, name))
    return len(nodes) - 1


@dataclass(frozen=True, eq=False)
class Graph:
    """`nodes[0]` is the input, `nodes[-1]` the output; one of each."""

    nodes: tuple[Node, ...]
    _copies: dict[tuple[torch.device, torch.dtype], Graph] = field(default_factory=dict, init=False, repr=False)

    @property
    def input(self) -> Node:
        return self.nodes[0]

    @property
    def output(self) -> Node:
        return self.nodes[-1]

    @property
    def entries(self) -> int:
        """Count the numbers in all nodes together."""
        return sum(node.size for node in self.nodes)

    @cached_property
    def sha256(self) -> str | None:
        """Return the hash that tells it from other graphs, see `canonical`: of weights as they are on the CPU."""
        return graph_hash(self.nodes)

    @cached_property
    def nonlinear(self) -> tuple[int, ...]:
        """Return the indices of the nonlinear nodes, in topological order."""
        return tuple(n.index for n in self.nodes if isinstance(n.op, Nonlinear))

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """Return for each node itself and every node that it depends on."""
        found: list[frozenset[int]] = []
        for node in self.nodes:
            found.append(frozenset({node.index}).union(*(found[i] for i in node.inputs)))
        return tuple(found)

    def ending_at(self, index: int) -> tuple[Graph, list[int]]:
        """Return the graph whose output is this node, without what it does not need; also which nodes it kept."""
        kept = sorted(self.ancestors[index] | {0})
        place = {old: new for new, old in enumerate(kept)}
        nodes = [self.nodes[i] for i in kept]
        moved = [replace(n, index=place[n.index], inputs=tuple(place[i] for i in n.inputs)) for n in nodes]
        return Graph(tuple(moved)), kept

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Graph:
        """Return the same graph there; the copy is kept, since every part of a run asks for it.

        Two threads may do so at once: both get the copy that was there first.
        """
        key = torch.device(device), dtype
        if key not in self._copies:
            self._copies.setdefault(key, Graph(tuple(replace(n, op=n.op.to(*key)) for n in self.nodes)))
        return self._copies[key]

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the network: (batch, *input) -> (batch, *output)."""
        return self.values(x)[-1]

    def values(self, x: Tensor) -> list[Tensor]:
        """Return every node's value at (batch, *input)."""
        values: list[Tensor] = []
        for node in self.nodes:
            xs = (x,) if not node.inputs else tuple(values[i] for i in node.inputs)
            values.append(node.op.forward(*xs))
        return values

    def gradient(self, values: Sequence[Tensor], coef: Tensor) -> Tensor:
        """Return the gradient of coef·output with respect to the input, at the points that have these `values`.

        (batch, *output) -> (batch, *input). Half the work of automatic differentiation where networks are small.
        """
        found = {self.output.index: coef}
        for node in reversed(self.nodes[1:]):
            here = found.pop(node.index, None)
            if here is None:  # nothing that the output depends on
                continue
            op = node.op
            if isinstance(op, Affine):
                parts = op.adjoint(here)
            else:
                assert isinstance(op, Nonlinear)
                parts = (op.pull_back(here, values[node.inputs[0]]),)
            for i, part in zip(node.inputs, parts, strict=True):
                found[i] = found[i] + part if i in found else part
        return found[0] if 0 in found else torch.zeros_like(values[0])
