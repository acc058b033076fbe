"""What a search over boxes has established: thresholds and bounds by target, boxes given up, points tried."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.problem.problem import Problem
from netproof.search.boxes.parts import Boxes
from netproof.search.goals import Goal, Judge
from netproof.search.ledger import Tally

TRIES = 64  # points per batch that are looked at more closely, best first


class BoxLedger(Tally[Boxes]):
    """Shared by the parts of one search."""

    def __init__(self, problem: Problem, goal: Goal, device: torch.device) -> None:
        super().__init__(goal, len(problem.disjuncts), device)
        self.rows = problem.rows.to(device)
        self._every = torch.arange(len(problem.disjuncts), device=device)
        self.tau = goal.thresholds(self._every)  # (target,): a bound above proves
        self._strict = self.rows.strict & self.rows.valid
        self._shape = problem.graph.input.shape
        self._judge = Judge(problem.graph.to(device, torch.float32), self.rows)
        self._upper = torch.full_like(self.tau, torch.inf)

    def decided(self, least: Tensor, target: Tensor) -> Tensor:
        """Say which boxes (box,) are proved: a row of least (box, row) is above the threshold, or strict and on it."""
        tau = self.tau[target][:, None]
        rows = self._strict.shape[1]  # past these stands a combination, which is never taken to be strict
        on_it = self._strict[target] & (least[:, :rows] == tau)
        return (least > tau).any(1) | on_it.any(1)

    def offer(self, points: Tensor, target: Tensor) -> Tensor:
        """Try points (n, input) for their targets (n,): those that may be a witness go to the goal.

        Returns (n,) bool: which points may be a violation, as far as float32 can tell.
        """
        x = points.float().view(-1, *self._shape)
        value, noise = self._judge.judge(self._judge.outputs(x), target)
        self._upper = self._upper.scatter_reduce(0, target, value.double(), "amin")
        if len(value):
            best = int(value.nan_to_num(nan=torch.inf).argmin())
            self.goal.see(float(value[best]), x[best], int(target[best]))
        likely = value - noise <= self.tau[target]
        good = likely.nonzero()[:, 0]
        if len(good) and not self.done:
            good = good[(value - noise)[good].argsort(stable=True)[:TRIES]]
            self.goal.offer(self._judge, x[good], target[good])
            self.tau = self.goal.thresholds(self._every)
        return likely

    def tell_goal(self) -> None:
        """Let the goal know the least values seen."""
        self.goal.learn(self._upper.cpu())
