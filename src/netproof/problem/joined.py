"""Several problems on one graph as one, so that their sub-domains can stand in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn.functional import pad

from netproof.errors import UsageError
from netproof.problem.problem import Problem, Rows, TargetBoxes, hull


def join(problems: Sequence[Problem]) -> Problem:
    """Make one problem of all their targets, each on its own box; UsageError for balls."""
    if any(p.input_set.centre is not None for p in problems):
        raise UsageError("input splitting needs input sets that are boxes", remedy="use another --method")
    if not joinable(problems):
        raise ValueError("these problems are on different graphs")
    problems = [part for problem in problems for part in problem.apart()]
    if len(problems) == 1:
        return problems[0]
    sides = torch.cat([problem.boxes.sides for problem in problems])
    counts = torch.tensor([len(problem.disjuncts) for problem in problems])
    return replace(
        problems[0],
        input_set=hull(sides, problems[0].graph.input.shape),
        rows=join_rows([p.rows for p in problems]),
        disjuncts=tuple(disjunct for p in problems for disjunct in p.disjuncts),
        own=TargetBoxes(torch.arange(len(problems)).repeat_interleave(counts), sides),
    )


def joinable(problems: Sequence[Problem]) -> bool:
    """Say whether these can be searched together: boxes, no balls, and one network."""
    return all(p.input_set.centre is None and p.graph is problems[0].graph for p in problems)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join the rows of all targets, padded to the longest conjunction of any."""
    most = max(rows.valid.shape[1] for rows in parts)
    padded = [rows if rows.valid.shape[1] == most else _padded(rows, most) for rows in parts]
    names = ("coef", "offset", "strict", "valid")
    return Rows(*(torch.cat([getattr(rows, name) for rows in padded]) for name in names))


def _padded(rows: Rows, most: int) -> Rows:
    more = most - rows.valid.shape[1]
    sides = (pad(t, (0, more)) for t in (rows.offset, rows.strict, rows.valid))
    return Rows(pad(rows.coef, (0, 0, 0, more)), *sides)
