"""Looking for a counterexample by projected gradient descent, on every target at once, before the search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.region import Region
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.numerics import generator
from netproof.problem.problem import Problem
from netproof.search.goals import Decide, Judge


@dataclass(frozen=True)
class Pgd:
    """Signed steps on the worst row of each target, from the centre, from corners and from random points."""

    restarts: int = 30
    steps: int = 40

    def find(self, problem: Problem, goal: Decide, device: torch.device, seed: int, deadline: Deadline) -> bool:
        """Offer what is found to the goal; True when it is a witness."""
        graph = problem.graph.to(device, torch.float32)
        region = Region.of(problem.input_set, device, torch.float32)
        judge = Judge(graph, problem.rows.to(device))
        target = torch.arange(len(problem.disjuncts), device=device).repeat_interleave(self.restarts)
        x = self._starts(region, len(problem.disjuncts), seed)
        if goal.offer(judge, x, target):
            return True
        for step in range(self.steps):
            if deadline.expired:
                return False
            gradient = _gradient(graph, judge, x, target)
            # A full step lands on a corner of the box, where ties of piecewise linear networks lie.
            corner = region.minimiser(gradient)
            rate = 0.5 * (1 - step / self.steps) + 0.01
            x = _into(region, x - rate * gradient.sign() * (region.upper - region.lower))
            both = torch.cat([x, corner])
            if goal.offer(judge, both, torch.cat([target, target])):
                return True
        return False

    def _starts(self, region: Region, targets: int, seed: int) -> Tensor:
        """(target·restarts, *input)."""
        shape = (targets, self.restarts, *region.centre.shape)
        uniform = torch.rand(shape, generator=generator(seed)).to(region.centre.device)
        uniform[:, self.restarts // 2 :].round_()  # half of them corners
        x = region.lower + uniform * (region.upper - region.lower)
        x[:, 0] = region.centre
        return _into(region, x.flatten(0, 1))


def _gradient(graph: Graph, judge: Judge, x: Tensor, target: Tensor) -> Tensor:
    """Of each point's worst row; a row that is satisfied already pulls no more."""
    x = x.detach().requires_grad_(True)
    value = judge.worst_row(graph.forward(x), target)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    return gradient


def _into(region: Region, x: Tensor) -> Tensor:
    """Into the box, and towards the ball's centre until inside it."""
    x = x.maximum(region.lower).minimum(region.upper)
    if region.ball_centre is None:
        return x
    away = x - region.ball_centre
    size = away.flatten(1).norm(p=float(region.p or 2), dim=1).clamp(min=1e-30)
    share = (region.ball_radius / size).clamp(max=1.0)
    return region.ball_centre + away * share.view(-1, *(1,) * (x.dim() - 1))
