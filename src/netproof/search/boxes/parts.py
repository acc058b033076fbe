"""Batches of boxes of the input: those of a search over boxes, and those that it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder
from netproof.core.batch import Batch
from netproof.search.evidence import Outcome

TOGETHER = 1024  # open boxes that are searched at once, worst first
MEMBERS = 64  # problems that are searched at once, at most
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
class OpenBoxes(Batch):
    """Parts of problems' input sets on which a target is undecided, worst bound first. On the CPU."""

    target: Tensor  # (box,)
    home: Tensor  # (box,) the problem that its target is of
    lower: Tensor  # (box, input) float64
    upper: Tensor
    bound: Tensor  # (box,)
    level: Tensor  # (box,)
    signs: Tensor  # (box, N)

    @classmethod
    def of(cls, boxes: Boxes, home: Tensor) -> OpenBoxes:
        """Make them of boxes on the CPU; home (target,): each target's problem."""
        some = boxes.select(boxes.bound.argsort(stable=True))
        return cls(some.target, home[some.target], some.lower, some.upper, some.bound, some.level, some.signs)

    def together(self) -> Iterator[Tensor]:
        """Yield places (n,) of boxes of one problem to be searched at once: those with the worst box first."""
        for home in dict.fromkeys(self.home.tolist()):
            yield from (self.home == home).nonzero()[:, 0].split(TOGETHER)

    def alike(self) -> list[Tensor]:
        """Return groups of targets (n,) to be searched at once: their problems leave much the same neurons open."""
        groups: list[list[Tensor]] = []
        above = below = torch.zeros(0, dtype=torch.bool)  # whether a neuron may be on that side in the last group
        alone = 0  # neurons that the worst of its problems leaves open
        for home in self.home.unique().tolist():
            mine = self.home == home
            up, down = (self.signs[mine] >= 0).any(0), (self.signs[mine] <= 0).any(0)
            own = int((up & down).sum())
            if groups and len(groups[-1]) < MEMBERS and _both(above, up, below, down) <= ALIKE * max(alone, own):
                groups[-1].append(self.target[mine])
                above, below, alone = above | up, below | down, max(alone, own)
            else:
                groups.append([self.target[mine]])
                above, below, alone = up, down, own
        return [torch.cat(group).unique() for group in groups]


def _both(above: Tensor, up: Tensor, below: Tensor, down: Tensor) -> int:
    """Count the neurons that may be on both sides in a group, once another problem is in it."""
    return int(((above | up) & (below | down)).sum())


@dataclass(frozen=True, eq=False)
class SplitResult:
    """What a search over boxes has established, and what it leaves."""

    outcome: Outcome  # of all problems together: their targets one problem after the other
    open: OpenBoxes
    parts: tuple[float, ...]  # by target, the least bound of its parts that are proved: what `open` leaves out
    bounder: BoxBounder  # that knows what was learnt of the neurons on each
