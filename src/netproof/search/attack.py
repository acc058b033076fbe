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

POINTS = 320  # at once, over all targets


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
        targets = len(problem.disjuncts)
        restarts = max(3, min(self.restarts, POINTS // targets))
        x = self._starts(region, targets, restarts, seed)
        target = torch.arange(targets, device=device).repeat_interleave(restarts)
        for step in range(self.steps):
            y, gradient = _gradient(graph, judge, x, target)
            if goal.consider(judge, x, y, target):
                return True
            if deadline.expired:
                return False
            if step % 4 == 0:
                # A full step lands on a corner of the box, where ties of piecewise linear networks lie.
                corner = region.minimiser(gradient)
                if goal.offer(judge, corner, target):
                    return True
            rate = 0.5 * (1 - step / self.steps) + 0.01
            x = _into(region, x - rate * gradient.sign() * (region.upper - region.lower))
        return goal.offer(judge, x, target)

    def _starts(self, region: Region, targets: int, restarts: int, seed: int) -> Tensor:
        """(target·restarts, *input)."""
        shape = (targets, restarts, *region.centre.shape)
        uniform = torch.rand(shape, generator=generator(seed)).to(region.centre.device)
        uniform[:, restarts // 2 :].round_()  # half of them corners
        x = region.lower + uniform * (region.upper - region.lower)
        x[:, 0] = region.centre
        return _into(region, x.flatten(0, 1))


def _gradient(graph: Graph, judge: Judge, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs, and the gradient of each point's worst row."""
    x = x.detach().requires_grad_(True)
    y = graph.forward(x)
    if not y.requires_grad:  # an output that does not depend on the input
        return y, torch.zeros_like(x)
    (gradient,) = torch.autograd.grad(judge.worst_row(y, target).sum(), x)
    return y.detach(), gradient


def _into(region: Region, x: Tensor) -> Tensor:
    """Into the box, and towards the ball's centre until inside it."""
    x = x.maximum(region.lower).minimum(region.upper)
    if region.ball_centre is None:
        return x
    away = x - region.ball_centre
    size = away.flatten(1).norm(p=float(region.p or 2), dim=1).clamp(min=1e-30)
    share = (region.ball_radius / size).clamp(max=1.0)
    inside: Tensor = region.ball_centre + away * share.view(-1, *(1,) * (x.dim() - 1))
    return inside
