"""What a walk with windows will keep, told from the frames alone: whether it pays, and how much memory it takes."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from netproof.bounds.windows.frame import Frame
from netproof.bounds.windows.moves import image_sides, moves, united
from netproof.model.graph import Graph
from netproof.model.ops import Affine

PAYS = 0.5  # of the numbers that dense coefficients have: windows cost more work for each
# Numbers in all of a dense walk up to which that is quicker whatever windows save: on a GPU these are more launches.
FEW = {"cpu": 0, "cuda": 1 << 24}


def windows_pay(graph: Graph, start: int) -> bool:
    """Say whether forms that begin at one entry of node `start` are better kept as windows, where they can be."""
    if image_sides(graph.nodes[start].shape) is None:
        return False
    kept = _kept(graph, start)
    return sum(kept.values()) <= PAYS * sum(graph.nodes[i].size for i in kept)


def widest(graph: Graph, start: int) -> int:
    """Return how many numbers a form that begins at one entry of node `start` has where it has most."""
    if windows_pay(graph, start):
        return max(_kept(graph, start).values())
    return max(graph.nodes[i].size for i in graph.ancestors[start])


def walked(graph: Graph, start: int) -> int:
    """Return how many numbers a form that begins at one entry of node `start` has at all nodes of its walk."""
    return sum(_kept(graph, start).values()) if windows_pay(graph, start) else dense_walk(graph, start)


def dense_walk(graph: Graph, start: int) -> int:
    """Return how many numbers a dense form has at all nodes of a walk from node `start`."""
    return sum(graph.nodes[i].size for i in graph.ancestors[start])


_plans: WeakKeyDictionary[Graph, dict[int, dict[int, int]]] = WeakKeyDictionary()


def _kept(graph: Graph, start: int) -> dict[int, int]:
    """Return by node how many coefficients a form has there; kept, since every pass from this node asks for it."""
    plans = _plans.setdefault(graph, {})
    if start not in plans:
        plans[start] = _planned(graph, start)
    return plans[start]


def _planned(graph: Graph, start: int) -> dict[int, int]:
    """Return what `_kept` does, by the frames of a walk to the input."""
    sides = image_sides(graph.nodes[start].shape)
    pending: dict[int, list[Frame | None]] = {start: [None if sides is None else Frame(sides)]}
    kept: dict[int, int] = {}
    for node in reversed(graph.nodes[: start + 1]):
        if node.index not in pending:
            continue
        frame = united(pending.pop(node.index))
        kept[node.index] = node.size if frame is None else frame.area * node.shape[1]
        for index, after in zip(node.inputs, _before(node.op, frame, len(node.inputs)), strict=True):
            pending.setdefault(index, []).append(after)
    return kept


def _before(op: object, frame: Frame | None, count: int) -> list[Frame | None]:
    """Return the frames of what an op reads; a function of every entry leaves them, one of several has none."""
    if frame is not None and isinstance(op, Affine):
        found = moves(op, frame)
        return [None] * count if found is None else [move.frame for move in found]
    return [None if getattr(op, "arity", 1) > 1 else frame] * count
