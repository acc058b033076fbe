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

from netproof.model.combined.alike import are_equal
from netproof.model.graph import Graph, Node, append
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

    @cached_property
    def same_outputs(self) -> tuple[int, ...]:
        """Return for each output the first that is equal to it at every input, itself where there is no other."""
        if len(self.members) == 1:
            return tuple(range(self.graph.output.size))
        vectors = self.graph.output.inputs  # of each member, see `merged_graph`
        places = [(index, k) for index in vectors for k in range(self.graph.nodes[index].size)]
        first = {place: k for k, place in reversed(list(enumerate(places)))}
        return tuple(first[place] for place in places)

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
    """Join the members' graphs: (size,) -> (all outputs,). What two of them compute in the same way is there once."""
    joined = _Joined(size)
    flat = [joined.output(member) for member in members]
    nodes = joined.nodes
    sizes = tuple(nodes[i].size for i in flat)
    if len(flat) == 1 and flat[0] == len(nodes) - 1:
        return Graph(tuple(nodes))
    append(nodes, Concat(0, sizes, (None,) * len(flat)), tuple(flat), (sum(sizes),), "outputs of all networks")
    return Graph(tuple(nodes))


class _Joined:
    """The graph of several members, as far as it is made."""

    def __init__(self, size: int) -> None:
        self.nodes = [Node(0, Input(), (), (size,), "inputs")]
        self._size = size
        self._known: dict[tuple[type[Op], tuple[int, ...]], list[int]] = {}

    def output(self, member: Member) -> int:
        """Add a member's nodes; return the index of its output, flat."""
        graph, name = member.network.graph, member.name
        at = 0
        if member.reads != tuple(range(self._size)):
            index = Index(0, torch.tensor(member.reads, dtype=torch.int64), self._size)
            at = self._add(index, (0,), (len(member.reads),), f"{name}: inputs")
        if graph.input.shape != (graph.input.size,):
            move = Reshape((graph.input.size,), graph.input.shape)
            at = self._add(move, (at,), graph.input.shape, f"{name}: {graph.input.name}")
        place = {0: at}
        for node in graph.nodes[1:]:
            inputs = tuple(place[i] for i in node.inputs)
            place[node.index] = self._add(node.op, inputs, node.shape, f"{name}: {node.name}")
        last, shape = place[graph.output.index], (graph.output.size,)
        if graph.output.shape == shape:
            return last
        return self._add(Reshape(graph.output.shape, shape), (last,), shape, f"{name}: {graph.output.name}, flat")

    def _add(self, op: Op, inputs: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
        """Add a node, unless one is there already that is the same."""
        known = self._known.setdefault((type(op), inputs), [])
        for index in known:
            if self.nodes[index].shape == shape and are_equal(self.nodes[index].op, op):
                return index
        known.append(append(self.nodes, op, inputs, shape, name))
        return known[-1]
