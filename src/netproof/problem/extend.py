"""A network's graph with inputs among its outputs, for rows that read inputs.

To the engine a row is a linear form of the output. Where rows read inputs too, the output of the problems' graph is
the network's, flattened, and after it those inputs; both are moved and not computed, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.ops import Op


def with_inputs(graph: Graph, read: Sequence[int]) -> Graph:
    """Append the entries `read` of the flattened input to the graph's output: (output + read,)."""
    nodes = list(graph.nodes)
    outputs = _flat(nodes, graph.output)
    inputs = _flat(nodes, graph.input)
    index = Index(0, torch.tensor(read, dtype=torch.int64), graph.input.size)
    picked = _add(nodes, index, (inputs,), (len(read),), "inputs that rows read")
    sizes = (graph.output.size, len(read))
    _add(nodes, Concat(0, sizes, (None, None)), (outputs, picked), (sum(sizes),), "outputs, and inputs that rows read")
    return Graph(tuple(nodes))


def _flat(nodes: list[Node], node: Node) -> int:
    """Flatten a node, unless it is flat; return the flat node's index."""
    shape = (node.size,)
    if node.shape == shape:
        return node.index
    return _add(nodes, Reshape(node.shape, shape), (node.index,), shape, f"{node.name}, flat")


def _add(nodes: list[Node], op: Op, inputs: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
    nodes.append(Node(len(nodes), op, inputs, shape, name))
    return len(nodes) - 1
