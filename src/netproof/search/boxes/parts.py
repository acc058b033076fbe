"""Batches of boxes of the input: those of a search over boxes, and those that it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounder
from netproof.core.batch import Batch
from netproof.search.evidence import Outcome

TOGETHER = 1024  # open boxes that are searched at once, worst first


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


@dataclass(frozen=True, eq=False)
class SplitResult:
    """What a search over boxes has established, and what it leaves."""

    outcome: Outcome  # of all problems together: their targets one problem after the other
    open: OpenBoxes
    parts: tuple[float, ...]  # by target, the least bound of its parts that are proved: what `open` leaves out
    bounder: BoxBounder  # that knows what was learnt of the neurons on each
