"""Batches of boxes of the input, what a search over them leaves, and which of that is searched at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder
from netproof.core.batch import Batch
from netproof.search.evidence import Outcome

TOGETHER = 1024  # open boxes that are searched at once, worst first
MEMBERS = 64  # input sets that are searched at once, at most
ALIKE = 1.5  # and only up to so many times as many open neurons as the worst of them has alone


@dataclass(frozen=True, eq=False)
class Boxes(Batch):
    """Parts of the input sets that are boxes, each with the target that is open on it."""

    target: Tensor  # (box,) int64
    lower: Tensor  # (box, input) float64
    upper: Tensor  # (box, input) float64
    bound: Tensor  # (box,) float64: proved of the target's best row
    score: Tensor  # (box, input) float64: what splitting a coordinate is worth, per unit of its width
    signs: Tensor  # (box, N) int8: the neurons whose sign is known
    level: Tensor  # (box,) int64


@dataclass(frozen=True, eq=False)
class SplitResult:
    """What a search over boxes has established, and what it leaves."""

    outcome: Outcome  # of all problems together: their targets one problem after the other
    open: Boxes  # worst bound first, on the CPU
    least: tuple[float, ...]  # by target, the least bound of its parts that are proved: what `open` leaves out
    bounder: BoxBounder  # that knows what was learnt of the neurons on each


def together(boxes: Boxes, home: Tensor) -> Iterator[Tensor]:
    """Yield places (n,) of boxes inside one input set, to be searched at once; home (target,): each target's set.

    The set with the worst box comes first.
    """
    inside = home[boxes.target]
    for one in dict.fromkeys(inside.tolist()):
        yield from (inside == one).nonzero()[:, 0].split(TOGETHER)


def alike(boxes: Boxes, home: Tensor, free: int = 0) -> list[Tensor]:
    """Return groups of targets (n,) to be searched at once: their sets leave much the same neurons open.

    home (target,): each target's set; free: open neurons of a group that are no reason against it.
    """
    inside, groups = home[boxes.target], list[list[Tensor]]()
    above = below = torch.zeros(0, dtype=torch.bool)  # whether a neuron may be on that side in the last group
    alone = 0  # neurons that the worst of its sets leaves open
    for one in inside.unique().tolist():
        mine = inside == one
        up, down = (boxes.signs[mine] >= 0).any(0), (boxes.signs[mine] <= 0).any(0)
        own = int((up & down).sum())
        most = max(free, ALIKE * max(alone, own))
        if groups and len(groups[-1]) < MEMBERS and _both(above, up, below, down) <= most:
            groups[-1].append(boxes.target[mine])
            above, below, alone = above | up, below | down, max(alone, own)
        else:
            groups.append([boxes.target[mine]])
            above, below, alone = up, down, own
    return [torch.cat(group).unique() for group in groups]


def _both(above: Tensor, up: Tensor, below: Tensor, down: Tensor) -> int:
    """Count the neurons that may be on both sides in a group, once another set is in it."""
    return int(((above | up) & (below | down)).sum())
