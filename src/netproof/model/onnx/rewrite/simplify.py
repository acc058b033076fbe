"""Rewriting of a graph that changes no number: identities go, reshapes merge, biases join their matrix.

The logarithm of a sigmoid becomes one function here and not as the file is read: a runtime rounds the sigmoid between,
which near 0 is all of it, so each node is compared with the runtime's by itself, and the function with both in float64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from netproof.model.affine import Linear, Scale
from netproof.model.graph import Graph, Node
from netproof.model.moves import Expand, Index, Reshape, Transpose
from netproof.model.nonlinear.smooth import Log, LogSigmoid, Sigmoid
from netproof.model.onnx.context import Builder, Ref
from netproof.model.ops import Input


def simplify(nodes: Sequence[Node], output: int) -> tuple[Graph, tuple[int, ...]]:
    """Simplify `nodes`, in topological order with the input first; the result ends with the output.

    Returns also, for each of its nodes, the one of `nodes` that has the same value.
    """
    uses = Counter(i for node in nodes for i in node.inputs)
    replaced: dict[int, int] = {}
    merged: list[Node] = []
    for node in nodes:
        inputs = tuple(replaced[i] for i in node.inputs)
        node = replace(node, inputs=inputs)
        if len(inputs) == 1:
            node = _joined(node, merged, only_use=uses[nodes[node.index].inputs[0]] == uses[inputs[0]] == 1)
        merged.append(node)
        replaced[node.index] = node.inputs[0] if _is_identity(node) else node.index
    return pruned(merged, replaced[output])


def _joined(node: Node, merged: list[Node], *, only_use: bool) -> Node:
    """Merge the node with the one before it, where that rounds nothing; else return the node."""
    before = merged[node.inputs[0]]
    if isinstance(node.op, Reshape) and isinstance(before.op, Reshape):
        source = merged[before.inputs[0]]
        return replace(node, op=Reshape(source.shape, node.shape), inputs=(source.index,))
    if isinstance(node.op, Log) and isinstance(before.op, Sigmoid):
        return replace(node, op=LogSigmoid(), inputs=before.inputs)
    if only_use and isinstance(node.op, Scale) and isinstance(before.op, Linear):
        scale, matrix = node.op, before.op
        exact = scale.radius is None and matrix.radius is None
        if exact and scale.mult is None and scale.add is not None and matrix.bias is None:
            size = int(matrix.weight.shape[0])
            if scale.add.numel() == size and scale.add.shape[-1:] == (size,):
                return replace(node, op=Linear(matrix.weight, scale.add.reshape(size)), inputs=before.inputs)
    return node


def _is_identity(node: Node) -> bool:
    op = node.op
    if isinstance(op, Reshape | Expand):
        return op.in_shape == op.out_shape
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(op.perm)))
    return isinstance(op, Scale) and op.mult is None and op.add is None


def pruned(nodes: list[Node], output: int) -> tuple[Graph, tuple[int, ...]]:
    """Keep only the input and what the output depends on, renumbered, the output last."""
    needed = {0, output}
    for node in reversed(nodes[: output + 1]):
        if node.index in needed:
            needed.update(node.inputs)
    kept = [node for node in nodes[: output + 1] if node.index in needed]
    index = {node.index: position for position, node in enumerate(kept)}
    result = [replace(n, index=index[n.index], inputs=tuple(index[i] for i in n.inputs)) for n in kept]
    if isinstance(result[-1].op, Input):  # the output is the input: an identity keeps them apart
        shape = result[0].shape
        result.append(Node(1, Reshape(shape, shape), (0,), shape, result[0].name))
        kept.append(kept[0])
    return Graph(tuple(result)), tuple(node.index for node in kept)


def constant_output(builder: Builder, value: Tensor, name: str) -> Ref:
    """Add a node that is `value` whatever the input: one entry of the input, expanded, times 0, plus value."""
    source = builder.nodes[0]
    flat = builder.add(Reshape(source.shape, (source.size,)), [Ref(0, source.shape, builder.held[0].element)], name)
    first = builder.add(Index(0, torch.tensor([0]), source.size), [flat], name)
    ones = (1,) * value.ndim
    spread = builder.add(Reshape((1,), ones), [first], name)
    spread = builder.add(Expand(ones, tuple(value.shape)), [spread], name)
    return builder.add(Scale(torch.zeros((), dtype=torch.float64), value), [spread], name)
