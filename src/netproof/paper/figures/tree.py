"""A tree of splits, grown one sub-domain at a time by the parts that `lirpa` is made of, and kept to be looked at.

The search of `search.loop` keeps only what is open. Here every node stays, with the linear bound that it got and,
beside it, the value of its LP: what the splits' own constraints would add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.domains import split
from netproof.bounds.neurons.root import Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.search.leaf import LeafLP


@dataclass(frozen=True)
class Neuron:
    """h^(layer)_index, both counted from 1 as in the paper."""

    layer: int
    index: int

    def __str__(self) -> str:
        return f"h{self.layer}_{self.index}"


@dataclass(frozen=True)
class TreeNode:
    """One sub-domain: how it was cut out, what bounds it, and where it was cut again."""

    number: int
    parent: int | None
    neuron: Neuron | None  # that the parent was split on; None at the root
    side: str  # ">= 0" or "<= 0" of that neuron
    bound: float  # confirmed, linear; +inf where the sub-domain is proved empty
    lp: float  # the LP's certified value on it; +inf where it is empty
    split_on: Neuron | None  # None: a leaf of the tree
    proved_by: str  # "bound", "LP", or "" where it was split again or stays open


def grow(
    root: Root, first: Bounds, bounder: Bounder, brancher: Brancher, *, every: bool = False, most: int = 64
) -> list[TreeNode]:
    """Split the worst open sub-domain until none is open; at most `most` nodes.

    With `every`, proved ones are split as well until no neuron is unstable, and no sub-domain takes over its parent's
    bound: what linear bounds alone say of each.
    """
    never = Deadline()
    lp = LeafLP(root, 1)
    nodes: list[TreeNode] = []
    waiting: list[tuple[Bounds, int | None, Neuron | None, str]] = [(first, None, None, "")]
    while waiting and len(nodes) < most:
        worst = min(range(len(waiting)), key=lambda i: float(waiting[i][0].domains.bound))
        bounds, parent, neuron, side = waiting.pop(worst)
        domains = bounds.domains
        linear = float(domains.bound)
        chosen = brancher.choose(root, bounds, root.count)
        value = float(lp.decide(domains, never).bound)
        here = len(nodes)
        packed = int(chosen[0, 0])
        if linear > 0 and (packed < 0 or not every):
            proved, cut = "bound", None
        elif packed < 0:
            proved, cut = ("LP" if value > 0 else ""), None
        else:
            proved, cut = "", _neuron(root, packed)
            children = split(replace(domains, candidates=chosen), chosen[:, :1])
            for i, word in enumerate((">= 0", "<= 0")):
                child = children.select(torch.tensor([i], device=root.device))
                if every:
                    child = replace(child, bound=torch.full_like(child.bound, -torch.inf))
                threshold = torch.zeros(1, dtype=torch.float64, device=root.device)
                waiting.append((bounder.bound(root, child, threshold, never, Clock()), here, cut, word))
        nodes.append(TreeNode(here, parent, neuron, side, linear, value, cut, proved))
    return nodes


def _neuron(root: Root, packed: int) -> Neuron:
    """Name a packed neuron by its layer and its place in it."""
    for layer in root.graph32.layers:
        if layer.packed.start <= packed < layer.packed.stop:
            hidden = root.graph32.graph.nonlinear.index(layer.node)
            return Neuron(hidden + 1, int(layer.index[packed - layer.start]) + 1)
    raise AssertionError(f"no neuron {packed}")
