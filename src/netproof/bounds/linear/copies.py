"""Which entries of a node are copies of each other, so that one of them is bounded for all.

The operands of a product of matrices are gathered from the same few entries again and again.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from netproof.model.graph import Graph, Node
from netproof.model.moves import Concat, Expand, Index, Reshape, Transpose


@lru_cache(maxsize=64)
def first_copies(graph: Graph, index: int) -> Tensor | None:
    """Return for each entry of the flattened node the first entry that it is a copy of, itself mostly: (size,) int64.

    None where there are no copies. On the CPU.
    """
    labels: dict[int, Tensor] = {}
    node, used = graph.nodes[index], 0
    for i in sorted(_moved(graph, index)):
        part = graph.nodes[i]
        if _moves(part) and all(j in labels for j in part.inputs):
            moved = part.op.to(torch.device("cpu"), torch.float64)
            labels[i] = moved.forward(*(labels[j] for j in part.inputs))
        else:  # its entries are told apart
            labels[i] = torch.arange(used, used + part.size, dtype=torch.float64).view(1, *part.shape)
            used += part.size
    _, group = labels[index].flatten().unique(return_inverse=True)
    count = int(group.max()) + 1
    if count == node.size:
        return None
    places = torch.arange(node.size)
    first = torch.full((count,), node.size).scatter_reduce(0, group, places, "amin")
    return first[group]


def _moves(node: Node) -> bool:
    """Say whether every entry of a node is an entry of what it reads."""
    if isinstance(node.op, Concat):
        return all(part is None for part in node.op.parts)
    return isinstance(node.op, Reshape | Transpose | Expand | Index)


def _moved(graph: Graph, index: int) -> set[int]:
    """Return the nodes that a node is moved from, and those on the way."""
    found, stack = set[int](), [index]
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack.extend(graph.nodes[i].inputs if _moves(graph.nodes[i]) else ())
    return found
