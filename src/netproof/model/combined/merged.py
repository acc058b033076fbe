"""Several networks as one: its input is all their inputs, equal ones once, its output all their outputs.

What is said of two networks at once, such as how far their outputs may lie apart, is then said of one graph, and
bounded in one pass back to the inputs that they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.network import Network
from netproof.model.ops import Input, Op

COARSEST = ("float16", "float32", "float64")  # a number of the first is one of all


@dataclass(frozen=True, eq=False)
class Member:
    """One use of a network: which entries of the common input are its inputs, one after the other."""

    name: str
    network: Network
    reads: tuple[int, ...]

    def inputs(self, points: Tensor) -> Tensor:
        """Return its inputs (n, *input) at points (n, entries)."""
        index = torch.tensor(self.reads, dtype=torch.int64)
        return points[:, index].reshape(len(points), *self.network.input_shape)


@dataclass(frozen=True, eq=False)
class Merged:
    """Networks that are asked about together; to the search, one network."""

    members: tuple[Member, ...]
    size: int  # of the common input

    @cached_property
    def graph(self) -> Graph:
        return merged_graph(self.members, self.size)

    @property
    def path(self) -> str:
        """Return the files' paths, for messages."""
        return ", ".join(dict.fromkeys(member.network.path for member in self.members))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.graph.input.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.graph.output.shape

    @property
    def input_dtype(self) -> str:
        """Return the type whose numbers all members take."""
        return min((member.network.input_dtype for member in self.members), key=COARSEST.index)

    @property
    def models(self) -> dict[str, bytes]:
        """Return the ONNX models by the name of their use."""
        return {member.name: member.network.model for member in self.members}

    def replay(self, x: np.ndarray) -> np.ndarray:
        """Return onnxruntime's answers of all members to x: (entries,) -> (output,), each run on its own."""
        flat = np.asarray(x).reshape(-1)
        answers = [
            member.network.replay(flat[list(member.reads)].reshape(member.network.input_shape))
            for member in self.members
        ]
        return np.concatenate([answer.reshape(-1) for answer in answers])

    def parts(self, points: Tensor) -> Iterator[tuple[Network, Tensor]]:
        """Yield each network with its inputs (n, *input) at points (n, entries)."""
        for member in self.members:
            yield member.network, member.inputs(points)


def merged_graph(members: Sequence[Member], size: int) -> Graph:
    """Join the members' graphs: (size,) -> (all outputs,). A network that is used twice on one input is there once."""
    nodes = [Node(0, Input(), (), (size,), "inputs")]
    done: dict[tuple[int, tuple[int, ...]], int] = {}
    flat = []
    for member in members:
        key = (id(member.network), member.reads)
        if key not in done:
            done[key] = _append(nodes, member, size)
        flat.append(done[key])
    sizes = tuple(nodes[i].size for i in flat)
    if len(flat) == 1 and flat[0] == len(nodes) - 1:
        return Graph(tuple(nodes))
    _add(nodes, Concat(0, sizes, (None,) * len(flat)), tuple(flat), (sum(sizes),), "outputs of all networks")
    return Graph(tuple(nodes))


def _append(nodes: list[Node], member: Member, size: int) -> int:
    """Add a member's nodes; return the index of its output, flat."""
    graph, name = member.network.graph, member.name
    at = 0
    if member.reads != tuple(range(size)):
        index = Index(0, torch.tensor(member.reads, dtype=torch.int64), size)
        at = _add(nodes, index, (0,), (len(member.reads),), f"{name}: inputs")
    if graph.input.shape != (graph.input.size,):
        move = Reshape((graph.input.size,), graph.input.shape)
        at = _add(nodes, move, (at,), graph.input.shape, f"{name}: {graph.input.name}")
    place = {0: at}
    for node in graph.nodes[1:]:
        inputs = tuple(place[i] for i in node.inputs)
        place[node.index] = _add(nodes, node.op, inputs, node.shape, f"{name}: {node.name}")
    last = place[graph.output.index]
    shape = (graph.output.size,)
    if graph.output.shape == shape:
        return last
    return _add(nodes, Reshape(graph.output.shape, shape), (last,), shape, f"{name}: {graph.output.name}, flat")


def _add(nodes: list[Node], op: Op, inputs: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
    nodes.append(Node(len(nodes), op, inputs, shape, name))
    return len(nodes) - 1
