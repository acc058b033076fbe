"""Merging of ReLUs whose arguments are multiples of each other, exactly.

With h the argument of one and s·h that of its twin, relu(s·h) is s·relu(h), or |s|·(relu(h) − h) where s < 0. So a
group of twins needs one ReLU at most, and beside it h itself where some s is negative; where what its readers take of
the ReLU cancels, none. Multiples are powers of two, which scale without rounding, and weights are added only where the
sum is exact: the result is the same function of real numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from netproof.model.affine import Linear, Sum
from netproof.model.conv import Conv
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import Relu
from netproof.model.onnx.rewrite.simplify import pruned
from netproof.model.ops import Op

Layer = Linear | Conv
Origin = tuple[int | None, ...]


class Twins(NamedTuple):
    """Rows of a layer that are multiples of the first of them."""

    rows: list[int]
    scales: list[float]  # ±2^k


@dataclass(frozen=True, eq=False)
class Merging:
    """What becomes of a layer whose ReLUs are merged: rows that keep one, rows that are taken as they are."""

    layer: Node
    relu: Node
    bent: list[int]
    straight: list[int]
    columns: dict[int, tuple[Tensor, Tensor]]  # by reader, its weights on both: (out, rows, …)


def merge_twins(graph: Graph, origin: Sequence[int | None]) -> tuple[Graph, Origin]:
    """Merge twins wherever a layer, its ReLU and all that reads it allow.

    origin: for each node, what it was; one that is new was nothing, None.
    """
    # The last first: where twins are merged their readers may become sums, which have no rows to compare.
    while (merging := next(filter(None, (_merging(graph, node) for node in reversed(graph.nodes))), None)) is not None:
        graph, origin = _Rebuilt().with_merging(graph, origin, merging)
    return graph, tuple(origin)


class _Rebuilt:
    """A graph that is written again, node by node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.origins: list[int | None] = []

    def add(self, op: Op, inputs: Sequence[int], like: Node, shape: tuple[int, ...], was: int | None = None) -> int:
        self.nodes.append(Node(len(self.nodes), op, tuple(inputs), shape, like.name))
        self.origins.append(was)
        return len(self.nodes) - 1

    def with_merging(self, graph: Graph, origin: Sequence[int | None], merging: Merging) -> tuple[Graph, Origin]:
        """Write the graph with one layer's ReLUs merged."""
        made: dict[int, int] = {}  # by node of the graph, the one here with the same value
        parts: list[int] = []
        for node in graph.nodes:
            if node.index == merging.relu.index:
                parts = self._parts(merging, [made[i] for i in merging.layer.inputs])
            elif node.index in merging.columns:
                made[node.index] = self._read(node, merging.columns[node.index], parts, origin[node.index])
            else:
                inputs = [made[i] for i in node.inputs]
                made[node.index] = self.add(node.op, inputs, node, node.shape, origin[node.index])
        merged, kept = pruned(self.nodes, len(self.nodes) - 1)
        return merged, tuple(self.origins[i] for i in kept)

    def _parts(self, merging: Merging, source: Sequence[int]) -> list[int]:
        """Add what the readers read now: relu(h) of some rows, and h of some."""
        layer, found = merging.layer, []
        for rows, bends in ((merging.bent, True), (merging.straight, False)):
            if rows:
                shape = _with_size(layer, len(rows))
                h = self.add(_with_rows(_op(layer), rows, shape), source, layer, shape)
                found.append(self.add(Relu(), [h], merging.relu, shape) if bends else h)
        return found

    def _read(self, node: Node, weights: Sequence[Tensor], parts: Sequence[int], was: int | None) -> int:
        """Add a reader of these parts, with its weights on each."""
        there = [w for w in weights if w.shape[1]]
        ends = [_with_columns(_op(node), w, self.nodes[h].shape) for w, h in zip(there, parts, strict=True)]
        if len(ends) == 1:
            return self.add(ends[0], parts, node, node.shape, was)
        first = self.add(ends[0], parts[:1], node, node.shape)
        second = self.add(ends[1].linear(), parts[1:], node, node.shape)  # the bias counts once
        return self.add(Sum((1, 1)), (first, second), node, node.shape, was)


def _op(node: Node) -> Layer:
    assert isinstance(node.op, Linear | Conv)
    return node.op


def _merging(graph: Graph, relu: Node) -> Merging | None:
    """Return what is to become of the layer before a ReLU; None where nothing can be merged."""
    if not isinstance(relu.op, Relu) or relu.index == graph.output.index:
        return None
    layer = graph.nodes[relu.inputs[0]]
    readers = [node for node in graph.nodes if relu.index in node.inputs]
    if not all(type(node.op) is type(layer.op) and _is_plain(node.op) for node in (layer, *readers)) or not readers:
        return None
    groups = [group for group in _twins(_rows(_op(layer))) if all(_adds_exactly(_op(node), group) for node in readers)]
    return _planned(layer, relu, readers, groups) if groups else None


def _planned(layer: Node, relu: Node, readers: Sequence[Node], groups: Sequence[Twins]) -> Merging | None:
    """Say which rows keep a ReLU and which are taken as they are; None where nothing of the layer is read."""
    merged = {row for group in groups for row in group.rows}
    alone = [Twins([row], [1.0]) for row in range(len(_weight(_op(layer)))) if row not in merged]
    every = sorted((*groups, *alone), key=lambda group: group.rows[0])
    taken = {node.index: _taken(_op(node), every) for node in readers}  # by reader, (out, group, …) of both sides
    rows, columns = [], []
    for side in (0, 1):
        kept = torch.stack([weights[side].transpose(0, 1).flatten(1).any(1) for weights in taken.values()]).any(0)
        rows.append([group.rows[0] for group, keep in zip(every, kept.tolist(), strict=True) if keep])
        columns.append({index: weights[side][:, kept] for index, weights in taken.items()})
    if not rows[0] and not rows[1]:
        return None
    return Merging(layer, relu, rows[0], rows[1], {index: (columns[0][index], columns[1][index]) for index in taken})


def _is_plain(op: Op) -> bool:
    """Say whether an op is a layer with exact weights, each of its rows a function of all that comes in."""
    return (isinstance(op, Linear) or (isinstance(op, Conv) and op.kernel.groups == 1)) and op.radius is None


def _weight(op: Layer) -> Tensor:
    return op.weight if isinstance(op, Linear) else op.kernel.weight


def _rows(op: Layer) -> np.ndarray:
    """Return the weights of every row, and its bias last: (rows, n)."""
    weight = _weight(op).flatten(1).numpy()
    bias = np.zeros(len(weight)) if op.bias is None else op.bias.numpy()
    return np.concatenate([weight, bias[:, None]], 1)


@np.errstate(all="ignore")  # what overflows or vanishes is no multiple, which is seen below
def _twins(rows: np.ndarray) -> list[Twins]:
    """Group rows (rows, n), two or more, that are each other's multiples by ±2^k; one without weights is nobody's."""
    weights = rows[:, :-1] != 0
    first = rows[np.arange(len(rows)), weights.argmax(1)]
    scales = np.copysign(np.ldexp(1.0, np.frexp(first)[1]), first)
    places = np.flatnonzero(weights.any(1))
    for width in (4, rows.shape[1]):  # few columns tell nearly all rows apart
        some = rows[places, -width:] / scales[places, None] + 0.0  # no negative zeros
        names = [row.tobytes() for row in some]
        counts = Counter(names)
        several = [counts[name] > 1 for name in names]
        places, names = places[several], list(compress(names, several))
    groups: dict[bytes, Twins] = defaultdict(lambda: Twins([], []))
    for place, name in zip(places.tolist(), names, strict=True):
        unit = rows[place] / scales[place]
        if np.array_equal(unit * scales[place], rows[place]):  # nothing underflows
            groups[name].rows.append(place)
            groups[name].scales.append(float(scales[place]))
    found = (Twins(group.rows, [s / group.scales[0] for s in group.scales]) for group in groups.values())
    return [group for group in found if len(group.rows) > 1]


def _scaled(op: Layer, group: Twins) -> list[Tensor]:
    weight = _weight(op)
    return [weight[:, row] * abs(scale) for row, scale in zip(group.rows, group.scales, strict=True)]


def _adds_exactly(op: Layer, group: Twins) -> bool:
    """Say whether the weights on the group can be scaled, and added as `_taken` adds them, without rounding."""
    weight = _weight(op)
    parts = _scaled(op, group)
    scaled = zip(group.rows, group.scales, parts, strict=True)
    if not all(torch.equal(part / abs(scale), weight[:, row]) for row, scale, part in scaled):
        return False
    return all(_exact_sum(some)[1] for some in (parts, _against(parts, group)))


def _against(parts: Sequence[Tensor], group: Twins) -> list[Tensor]:
    """Return those of rows that are negative multiples."""
    return [part for part, scale in zip(parts, group.scales, strict=True) if scale < 0]


def _exact_sum(parts: Sequence[Tensor]) -> tuple[Tensor, bool]:
    """Add from left to right, and say whether nothing was lost on the way (Knuth's two-sum)."""
    total, exact = parts[0] if parts else torch.zeros(()), True
    for part in parts[1:]:
        after = total + part
        seen = after - total
        lost = (total - (after - seen)) + (part - seen)
        exact = exact and not bool((lost != 0).any()) and bool(after.isfinite().all())
        total = after
    return total, exact


def _taken(op: Layer, groups: Sequence[Twins]) -> tuple[Tensor, Tensor]:
    """Return what a reader takes of relu(h) and of h, with h the argument of a group's first: (out, group, …) each."""
    bent, straight = [], []
    for group in groups:
        parts = _scaled(op, group)
        against = _against(parts, group)
        bent.append(_exact_sum(parts)[0])
        straight.append(-_exact_sum(against)[0] if against else torch.zeros_like(parts[0]))
    return torch.stack(bent, 1), torch.stack(straight, 1)


def _with_size(layer: Node, rows: int) -> tuple[int, ...]:
    """Return the shape of a layer's result with so many rows: the last axis, or channels."""
    axis = 1 if isinstance(layer.op, Conv) else len(layer.shape) - 1
    return (*layer.shape[:axis], rows, *layer.shape[axis + 1 :])


def _with_rows(op: Layer, rows: list[int], shape: tuple[int, ...]) -> Layer:
    """Return some rows of a layer, whose result then has this shape."""
    bias = None if op.bias is None else op.bias[rows]
    if isinstance(op, Linear):
        return Linear(op.weight[rows], bias)
    return replace(op, kernel=replace(op.kernel, weight=op.kernel.weight[rows]), bias=bias, out_shape=shape)


def _with_columns(op: Layer, weight: Tensor, shape: tuple[int, ...]) -> Layer:
    """Return a layer with other weights, that reads a value of this shape."""
    if isinstance(op, Linear):
        return Linear(weight, op.bias)
    image = (int(weight.shape[1]), *op.kernel.image[1:])
    return replace(op, kernel=replace(op.kernel, weight=weight, image=image), in_shape=shape)
