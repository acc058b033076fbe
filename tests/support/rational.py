"""Networks in rational arithmetic: what the floats stand for, with no rounding at all.

Arrays here are numpy arrays of Fractions. An affine op is read by its forward map on unit vectors, where floats are
exact (a product with 1 or 0, a sum with zeros).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Input
from netproof.relax import Lines
from support.exact import leak_of

Exact = np.ndarray  # of Fractions


def exact(values: Tensor | np.ndarray | Sequence[float]) -> Exact:
    """The very numbers that floats are, flattened."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    return np.array([Fraction(float(v)) for v in flat], dtype=object)


def affine_map(graph: Graph, node: Node) -> tuple[list[Exact], Exact]:
    """([W_i (out, in_i)], b (out,)) of an affine node."""
    assert isinstance(node.op, Affine)
    shapes = [graph.nodes[i].shape for i in node.inputs]
    weights = []
    for i, shape in enumerate(shapes):
        size = int(np.prod(shape))
        units = torch.eye(size, dtype=torch.float64).reshape(size, *shape)
        xs = [units if j == i else torch.zeros(size, *other, dtype=torch.float64) for j, other in enumerate(shapes)]
        columns = node.op.linear().forward(*xs).reshape(size, -1)
        weights.append(exact(columns).reshape(size, -1).T)
    offset = node.op.offset()
    bias = torch.zeros(node.shape, dtype=torch.float64) if offset is None else offset.expand(node.shape)
    return weights, exact(bias)


def exact_values(graph: Graph, x: Exact, shift: Mapping[int, tuple[Exact, Exact]] | None = None) -> list[Exact]:
    """Every node's value at x; `shift` adds (D, d) to the weight and the offset of a node with one input."""
    values: list[Exact] = []
    for node in graph.nodes:
        if isinstance(node.op, Input):
            values.append(x)
        elif isinstance(node.op, Affine):
            weights, bias = affine_map(graph, node)
            if shift and node.index in shift:
                weights = [weights[0] + shift[node.index][0]]
                bias = bias + shift[node.index][1]
            values.append(sum((w @ values[i] for w, i in zip(weights, node.inputs, strict=True)), start=bias))
        else:
            h = values[node.inputs[0]]
            values.append(np.maximum(h, Fraction(leak_of(node)) * h))
    return values


def exact_relaxed_bound(
    graph: Graph, start: int, coef: Exact, lines: Mapping[int, Lines], lower: Exact, upper: Exact
) -> Fraction:
    """The linear bound that these lines give <coef, z_start> on the box, without rounding anything."""
    pending = {start: coef}
    const = Fraction(0)
    for node in reversed(graph.nodes[: start + 1]):
        if node.index not in pending or isinstance(node.op, Input):
            continue
        here = pending.pop(node.index)
        if isinstance(node.op, Affine):
            weights, bias = affine_map(graph, node)
            const += here @ bias
            back = [here @ w for w in weights]
        else:
            below, above, lift = (exact(t.expand(1, 1, *node.shape)) for t in lines[node.index][:3])
            const += np.minimum(here, 0) @ lift
            back = [here * np.where(here < 0, above, below)]
        for index, more in zip(node.inputs, back, strict=True):
            pending[index] = pending[index] + more if index in pending else more
    at_input = pending.get(0)
    return const if at_input is None else const + np.where(at_input > 0, at_input * lower, at_input * upper).sum()
