"""The question a search answers: a graph, one input set, and the targets to exclude on it.

A target is one disjunct of the property: a conjunction of rows r_j(x) = C_j·f(x) − d_j, violated when every
r_j <= 0. It holds when at every x some row is positive; a domain is proved when Σ λ_j r_j > 0 on it for some
λ >= 0 with Σ λ_j = 1. All targets that share an input set share one problem, and are bounded in one batch.

Inputs that rows read stand among the outputs of f (`extend.py`): a constraint on inputs is a row like any other, and
λ_j its multiplier.
"""

from __future__ import annotations

from collections.abc import Callable
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
class Problem:
    graph: Graph  # float64, on the CPU: the network's, with the inputs that rows read after its output
    input_set: InputSet
    rows: Rows
    disjuncts: tuple[int, ...]  # which disjunct of the property each target is

    def select(self, targets: Tensor) -> Problem:
        """Return the problem of some of its targets (n,)."""
        disjuncts = tuple(self.disjuncts[t] for t in targets.tolist())
        return replace(self, rows=self.rows.select(targets), disjuncts=disjuncts)
