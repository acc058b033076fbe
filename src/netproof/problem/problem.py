"""The question a search answers: a graph, an input set, and the targets to exclude on it or on boxes inside it.

A target is one disjunct of the property: a conjunction of rows r_j(x) = C_j·f(x) − d_j, violated when every
r_j <= 0. It holds when at every x some row is positive; a domain is proved when Σ λ_j r_j > 0 on it for some
λ >= 0 with Σ λ_j = 1. All targets that share an input set share one problem, and are bounded in one batch.

Inputs that rows read stand among the outputs of f (`extend.py`): a constraint on inputs is a row like any other, and
λ_j its multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.model.graph import Graph


@dataclass(frozen=True, eq=False)
class InputSet:
    """A box, float64 and rounded outward, and maybe an ℓ1 or ℓ2 ball that also holds.

    Proofs cover this set. It contains the set as written (exact decimals) and its nearest-float32 image.
    """

    lower: Tensor  # (*input)
    upper: Tensor  # (*input)
    centre: Tensor | None = None  # (*input); the ball's centre, nearest float64
    radius: float = 0.0  # rounded up, the centre's own rounding included
    p: int | None = None  # 1 or 2

    def to(self, device: torch.device) -> InputSet:
        centre = None if self.centre is None else self.centre.to(device)
        return InputSet(self.lower.to(device), self.upper.to(device), centre, self.radius, self.p)


@dataclass(frozen=True, eq=False)
class Rows:
    """All targets' rows, padded to the longest conjunction. float64.

    `offset` is rounded so that r = coef·y − offset is never above the exact row (d rounded up).
    """

    coef: Tensor  # (target, row, output) with the output flattened
    offset: Tensor  # (target, row)
    strict: Tensor  # (target, row) bool: the violation is r < 0, so r >= 0 excludes it
    valid: Tensor  # (target, row) bool: False on padding

    def map(self, fn: Callable[[Tensor], Tensor]) -> Rows:
        """Return the same with every tensor changed."""
        return Rows(*(fn(t) for t in (self.coef, self.offset, self.strict, self.valid)))

    def select(self, targets: Tensor) -> Rows:
        """Return those of some targets (n,), padded no further than these need."""
        some = self.map(lambda t: t[targets])
        most = int(some.valid.sum(1).max())
        padded_last = not bool(some.valid[:, most:].any())
        return some.map(lambda t: t[:, :most]) if padded_last else some

    def to(self, device: torch.device) -> Rows:
        """Return the same on a device."""
        return self.map(lambda t: t.to(device))


@dataclass(frozen=True, eq=False)
class TargetBoxes:
    """The box on which each target is asked; several may share one."""

    home: Tensor  # (target,) int64: the box of each target
    sides: Tensor  # (box, 2, input) float64: lower and upper, with the input flattened

    def of(self, target: Tensor) -> Tensor:
        """Return the boxes of targets (n,): (n, 2, input)."""
        return self.sides[self.home[target]]

    def to(self, device: torch.device) -> TargetBoxes:
        return TargetBoxes(self.home.to(device), self.sides.to(device))


@dataclass(frozen=True, eq=False)
class Problem:
    graph: Graph  # float64, on the CPU: the network's, with the inputs that rows read after its output
    input_set: InputSet  # the smallest box that holds all, where targets have boxes of their own
    rows: Rows
    disjuncts: tuple[int, ...]  # which disjunct of the property each target is
    own: TargetBoxes | None = None  # of problems that were joined; None: every target is asked on the whole input set

    def select(self, targets: Tensor) -> Problem:
        """Return the problem of some of its targets (n,)."""
        disjuncts = tuple(self.disjuncts[t] for t in targets.tolist())
        inputs, own = self.input_set, None
        if self.own is not None:
            used, home = self.own.home[targets].unique(return_inverse=True)
            sides = self.own.sides[used]
            inputs = hull(sides, self.graph.input.shape)
            own = TargetBoxes(home, sides) if len(used) > 1 else None
        return replace(self, input_set=inputs, rows=self.rows.select(targets), disjuncts=disjuncts, own=own)

    @property
    def boxes(self) -> TargetBoxes:
        """Return the box of each target, be it its own or that of all."""
        if self.own is not None:
            return self.own
        sides = torch.stack([self.input_set.lower, self.input_set.upper]).flatten(1)
        return TargetBoxes(torch.zeros(len(self.disjuncts), dtype=torch.int64), sides[None])

    def by_set(self, targets: Sequence[int]) -> list[tuple[InputSet, list[int]]]:
        """Return the sets on which some targets are asked, each with those asked on it."""
        if self.own is None:
            return [(self.input_set, list(targets))]
        asked: dict[int, list[int]] = {}
        for target in targets:
            asked.setdefault(int(self.own.home[target]), []).append(target)
        shape = self.graph.input.shape
        return [(hull(self.own.sides[home : home + 1], shape), asked[home]) for home in sorted(asked)]

    def apart(self) -> list[Problem]:
        """Return one problem for each set, with the targets that are asked on it."""
        return (
            [self]
            if self.own is None
            else [self.select(torch.tensor(some)) for _, some in self.by_set(range(len(self.disjuncts)))]
        )


def hull(sides: Tensor, shape: tuple[int, ...]) -> InputSet:
    """Return the smallest box that holds all of some (box, 2, input)."""
    return InputSet(sides[:, 0].amin(0).view(shape), sides[:, 1].amax(0).view(shape))
