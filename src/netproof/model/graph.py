"""A network as a directed acyclic graph of typed nodes in topological order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.model.ops import Nonlinear, Op


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


@dataclass(frozen=True, eq=False)
class Graph:
    """`nodes[0]` is the input, `nodes[-1]` the output; one of each."""

    nodes: tuple[Node, ...]

    @property
    def input(self) -> Node:
        return self.nodes[0]

    @property
    def output(self) -> Node:
        return self.nodes[-1]

    @cached_property
    def nonlinear(self) -> tuple[int, ...]:
        """Indices of the nonlinear nodes, in topological order."""
        return tuple(n.index for n in self.nodes if isinstance(n.op, Nonlinear))

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """For each node, itself and every node that it depends on."""
        found: list[frozenset[int]] = []
        for node in self.nodes:
            found.append(frozenset({node.index}).union(*(found[i] for i in node.inputs)))
        return tuple(found)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Graph:
        device = torch.device(device)
        return Graph(tuple(replace(n, op=n.op.to(device, dtype)) for n in self.nodes))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, *input) -> (batch, *output)."""
        return self.values(x)[-1]

    def values(self, x: Tensor) -> list[Tensor]:
        """Every node's value at (batch, *input)."""
        values: list[Tensor] = []
        for node in self.nodes:
            xs = (x,) if not node.inputs else tuple(values[i] for i in node.inputs)
            values.append(node.op.forward(*xs))
        return values
