"""Several problems on one graph as one, so that their sub-domains can stand in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from netproof.errors import UsageError
from netproof.problem.problem import InputSet, Problem, Rows


@dataclass(frozen=True, eq=False)
class Joined:
    """The targets of all problems one after the other, each on a box of its own."""

    problem: Problem  # on the smallest box that holds all
    home: Tensor  # (target,) int64: the problem that each target is of
    lower: Tensor  # (problem, input) float64: its box
    upper: Tensor

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Joined:
        """Join problems; UsageError unless they are `joinable`."""
        if not joinable(problems):
            raise UsageError("input splitting needs input sets that are boxes", remedy="use another --method")
        shape = problems[0].graph.input.shape
        lower, upper = (
            torch.stack([getattr(p.input_set, side).flatten() for p in problems]) for side in ("lower", "upper")
        )
        problem = replace(
            problems[0],
            input_set=InputSet(lower.amin(0).view(shape), upper.amax(0).view(shape)),
            rows=_rows([p.rows for p in problems]),
            disjuncts=tuple(disjunct for p in problems for disjunct in p.disjuncts),
        )
        counts = torch.tensor([len(p.disjuncts) for p in problems])
        return cls(problem, torch.arange(len(problems)).repeat_interleave(counts), lower, upper)

    def parts(self, problems: Sequence[Problem], targets: Tensor) -> list[Problem]:
        """Return the problems that some targets (n,) are of, each with these."""
        first = torch.searchsorted(self.home, torch.arange(len(problems)))
        every = targets.unique()
        return [
            problems[home].select(every[self.home[every] == home] - first[home])
            for home in self.home[every].unique().tolist()
        ]


def joinable(problems: Sequence[Problem]) -> bool:
    """Say whether these can be searched together: boxes, no balls, and one network."""
    return all(p.input_set.centre is None and p.graph is problems[0].graph for p in problems)


def _rows(parts: Sequence[Rows]) -> Rows:
    """Join the rows of all targets, padded to the longest conjunction of any."""
    most = max(rows.valid.shape[1] for rows in parts)
    padded = [rows if rows.valid.shape[1] == most else _padded(rows, most) for rows in parts]
    names = ("coef", "offset", "strict", "valid")
    return Rows(*(torch.cat([getattr(rows, name) for rows in padded]) for name in names))


def _padded(rows: Rows, most: int) -> Rows:
    more = most - rows.valid.shape[1]
    sides = (pad(t, (0, more)) for t in (rows.offset, rows.strict, rows.valid))
    return Rows(pad(rows.coef, (0, 0, 0, more)), *sides)
