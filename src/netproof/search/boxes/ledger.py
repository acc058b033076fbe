"""What a search over boxes has established: thresholds and bounds by target, boxes given up, points tried.

Targets are counted over all problems, one problem after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from netproof.core.batch import concatenate
from netproof.core.verdict import Witness
from netproof.model.graph import Graph
from netproof.problem.problem import Problem, Rows
from netproof.search.boxes.parts import Boxes
from netproof.search.evidence import Cover
from netproof.search.goals import Goal, Judge

TRIES = 64  # points per batch that are looked at more closely, best first


class BoxLedger:
    """Shared by the parts of one search."""

    def __init__(self, problems: Sequence[Problem], goals: Sequence[Goal], device: torch.device) -> None:
        self._problems, self._goals, self._device = problems, goals, device
        counts = torch.tensor([len(p.disjuncts) for p in problems])
        self.owner = torch.arange(len(problems)).repeat_interleave(counts).to(device)  # (target,) its problem
        self.first = (counts.cumsum(0) - counts).tolist()  # by problem, its first target
        self.rows = joined_rows([p.rows for p in problems]).to(device)
        self.tau = torch.zeros(len(self.owner), dtype=torch.float64, device=device)  # (target,): a bound above proves
        for problem, goal in enumerate(goals):
            if goal.moves:  # others' thresholds are 0, and there may be thousands
                self._read_thresholds(problem)
        self._strict = self.rows.strict & self.rows.valid
        self._graph: Graph = problems[0].graph.to(device, torch.float32)
        self._judge = Judge(self._graph, self.rows)
        self._upper = torch.full_like(self.tau, torch.inf)
        self._proved = torch.full_like(self.tau, torch.inf)
        self._cover = Cover(len(self.owner))
        self._stuck: list[Boxes] = []
        self.witness: Witness | None = None  # the first that a goal has
        self._lowest: tuple[float, Tensor, int] | None = None  # the least value seen, its point and its target

    # --- bounds ---

    def decided(self, least: Tensor, target: Tensor) -> Tensor:
        """Say which boxes (box,) are proved: a row of least (box, row) is above the threshold, or strict and on it."""
        tau = self.tau[target][:, None]
        rows = self._strict.shape[1]  # past these stands a combination, which is never taken to be strict
        on_it = self._strict[target] & (least[:, :rows] == tau)
        return (least > tau).any(1) | on_it.any(1)

    def book(self, target: Tensor, bound: Tensor) -> None:
        """Book parts of the targets' sets as proved, with their bounds; target, bound: (n,)."""
        self._proved = self._proved.scatter_reduce(0, target, bound, "amin")

    def close(self, boxes: Boxes) -> None:
        """Count boxes as proved: by their bounds, or since clipping left nothing of them."""
        self._cover.close(boxes.target, boxes.level)

    def shares(self) -> tuple[Fraction, ...]:
        """Return by target the share of its set that is proved."""
        return self._cover.shares()

    def give_up(self, boxes: Boxes) -> None:
        """Keep undecided boxes: they must degrade the verdict."""
        if len(boxes):
            self._stuck.append(boxes)

    def open(self, frontier: Boxes) -> Boxes:
        """Return everything undecided: the frontier and what was given up."""
        return concatenate([frontier, *self._stuck])

    def target_bounds(self, frontier: Boxes) -> Tensor:
        """Return by target (target,) the least bound of all its boxes; it holds on the target's whole set."""
        bounds = self._proved
        for boxes in (*self._stuck, frontier):
            bounds = bounds.scatter_reduce(0, boxes.target, boxes.bound, "amin")
        return bounds

    def proved(self) -> tuple[float, ...]:
        """Return by target the least bound of its parts that are proved, +inf where none is."""
        return tuple(self._proved.tolist())

    # --- points ---

    def offer(self, points: Tensor, target: Tensor) -> Tensor:
        """Try points (n, input) for their targets (n,): those that may be a witness go to their problem's goal.

        Returns (n,) bool: which points may be a violation, as far as float32 can tell.
        """
        x = points.float().view(-1, *self._graph.input.shape)
        value, noise = self._judge.judge(self._judge.outputs(x), target)
        self._upper = self._upper.scatter_reduce(0, target, value.double(), "amin")
        self._see(value, x, target)
        likely = value - noise <= self.tau[target]
        good = likely.nonzero()[:, 0]
        if len(good) and self.witness is None:
            self._look_closer(x, target, good[(value - noise)[good].argsort(stable=True)[:TRIES]])
        return likely

    def _look_closer(self, x: Tensor, target: Tensor, good: Tensor) -> None:
        owner = self.owner[target[good]]
        for problem in owner.unique().tolist():
            mine = good[owner == problem]
            if self._offer_to(problem, x[mine], target[mine] - self.first[problem]):
                self.witness = self._goals[problem].witness
                return

    def _see(self, value: Tensor, x: Tensor, target: Tensor) -> None:
        if len(value):
            at = int(value.nan_to_num(nan=torch.inf).argmin())
            least = float(value[at])
            if self._lowest is None or least < self._lowest[0]:
                self._lowest = least, x[at], int(target[at])

    def _offer_to(self, problem: int, x: Tensor, target: Tensor) -> bool:
        goal, rows = self._goals[problem], self._problems[problem].rows.to(self._device)
        over = goal.offer(Judge(self._graph, rows), x, target)
        self._read_thresholds(problem)
        return over

    def _read_thresholds(self, problem: int) -> None:
        targets = torch.arange(len(self._problems[problem].disjuncts), device=self._device)
        self.tau[targets + self.first[problem]] = self._goals[problem].thresholds(targets)

    def tell_goals(self) -> None:
        """Let the goals know the least values seen."""
        upper = self._upper.cpu()
        for problem in self.owner.cpu()[upper.isfinite()].unique().tolist():
            goal, first = self._goals[problem], self.first[problem]
            goal.learn(upper[first : first + len(goal.upper)])
        if self._lowest is not None:
            value, point, target = self._lowest
            problem = int(self.owner[target])
            self._goals[problem].see(value, point, target - self.first[problem])


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Join the rows of all targets, padded to the longest conjunction of any."""
    most = max(rows.valid.shape[1] for rows in parts)
    padded = [rows if rows.valid.shape[1] == most else _padded(rows, most) for rows in parts]
    names = ("coef", "offset", "strict", "valid")
    return Rows(*(torch.cat([getattr(rows, name) for rows in padded]) for name in names))


def _padded(rows: Rows, most: int) -> Rows:
    more = most - rows.valid.shape[1]
    sides = (torch.nn.functional.pad(t, (0, more)) for t in (rows.offset, rows.strict, rows.valid))
    return Rows(torch.nn.functional.pad(rows.coef, (0, 0, 0, more)), *sides)
