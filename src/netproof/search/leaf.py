"""Sub-domains decided by LP: leaves, and whole parts of the tree when bounds get stuck.

A leaf has nothing left to split, so on it the network is linear and the triangle LP is exact. It is the LP's
*value* that makes the search complete: a leaf's linear bound is over the box, not over the leaf. On an ℓ2 ball
quadratic programs follow the LP (`programs/ball.py`), and are exact too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.programs.triangle import LPOutcome, LPTask, TriangleLP, solve_many


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What the LPs say of each sub-domain; `bound` is checked: +inf where it is empty, −inf where the LP failed."""

    bound: Tensor  # (domain,) float64
    point: Tensor  # (domain, *input) float32; NaN where the LP gave none


class LeafLP:
    """The LP of one problem, built when first needed."""

    def __init__(self, root: Root, workers: int) -> None:
        self.root = root
        self._workers = workers
        self._lp: TriangleLP | None = None

    def decide(self, domains: Domains, deadline: Deadline) -> Outcomes:
        """Solve the LPs of sub-domains; those for which there is no time have failed."""
        return with_less(lambda: self._decide(domains, deadline), self.root.device)

    def _decide(self, domains: Domains, deadline: Deadline) -> Outcomes:
        root = self.root
        lower, upper = domains.lower.cpu().double(), domains.upper.cpu().double()
        bounds = [self._bounds(*sides) for sides in zip(lower, upper, strict=True)]
        for found, box in zip(bounds, domains.inside.cpu().numpy(), strict=True):
            if len(box):  # node 0 is the input
                found[0] = (box[0], box[1])
        tasks = [LPTask(root.problem.rows, t, b) for t, b in zip(domains.target.tolist(), bounds, strict=True)]
        try:
            outcomes = solve_many(self._build(deadline), tasks, workers=self._workers, deadline=deadline)
        except DeadlineExpired:
            outcomes = [LPOutcome("failed")] * len(tasks)
        return self._gather(outcomes)

    def _build(self, deadline: Deadline) -> TriangleLP:
        if self._lp is None:
            problem = self.root.problem
            intervals = [(i.lower.cpu(), i.upper.cpu()) for i in self.root.intervals.of]
            self._lp = TriangleLP(problem.graph, problem.input_set, intervals, deadline)
        return self._lp

    def _bounds(self, lower: Tensor, upper: Tensor) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return by nonlinear node the bounds of its whole input: the root's, the domain's where it was unstable."""
        found = {}
        for layer in self.root.graph32.layers:
            at_root = self.root.intervals.of[layer.pre]
            low, high = at_root.lower.flatten().cpu().clone(), at_root.upper.flatten().cpu().clone()
            index = layer.index.cpu()
            low[index], high[index] = lower[layer.packed], upper[layer.packed]
            found[layer.node] = (low.numpy(), high.numpy())
        return found

    def _gather(self, outcomes: list[LPOutcome]) -> Outcomes:
        shape, device = self.root.graph32.graph.input.shape, self.root.device
        points = [
            torch.full(shape, torch.nan) if o.point is None else torch.from_numpy(o.point).view(shape).float()
            for o in outcomes
        ]
        return Outcomes(
            torch.tensor([o.bound for o in outcomes], dtype=torch.float64, device=device),
            torch.stack(points).to(device),
        )


def with_bounds(domains: Domains, bound: Tensor) -> Domains:
    """Return the sub-domains with the bounds (domain,) where better; these do not come from the sub-domain's own θ."""
    better = bound > domains.bound
    evaluated = domains.evaluated.masked_fill(better[:, None], 0)
    return replace(domains, bound=torch.where(better, bound, domains.bound), evaluated=evaluated)
