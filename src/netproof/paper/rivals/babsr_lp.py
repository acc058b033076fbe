"""Bounds by LP in every sub-domain, as BaBSR has them (Bunel et al. 2020): no gradient, no batch.

The neurons' bounds come from backward passes with fixed slopes, the better of these, of intervals and of the parent's;
after a split all that it can move are bounded again. On them the triangle LP is solved from the parent's basis, and
no further than to a proof. What its duals prove is evaluated in float64 (`programs/check.py`); its
claimed value is never taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.confirm import confirm
from netproof.bounds.domains import Domains, names_of, parents
from netproof.bounds.dual import DualPoint
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.root import Root, SlopeRule, build_root
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.numerics import SEARCH_MARGIN
from netproof.paper.rivals.optimum import Optimum
from netproof.paper.rivals.rebound import rebound_all
from netproof.problem.problem import Problem
from netproof.programs.ball import solve_in_ball
from netproof.programs.check import clip_signs, proved_by, reduced_cost
from netproof.programs.condensed import CondensedLP, Places
from netproof.programs.highs import Basis, solve_from
from netproof.programs.model import Floats, LinearProgram

PAIR = 2  # sub-domains at once: a parent's children, which start from its basis


@dataclass
class _Open:
    """The LP of one root, and the bases and optima of its sub-domains that may still be split."""

    lp: CondensedLP
    bases: dict[bytes, Basis] = field(default_factory=dict)
    optima: dict[bytes, Optimum] = field(default_factory=dict)

    def forget(self, names: Iterable[bytes]) -> None:
        for name in names:
            self.bases.pop(name, None)
            self.optima.pop(name, None)


@dataclass(frozen=True, eq=False)
class Solved:
    """bound: checked, +inf where the sub-domain is empty, −inf where nothing is proved."""

    bound: float
    point: Floats | None = None  # (input,)
    weights: Floats | None = None  # (valid row,) λ
    theta: tuple[Floats, Floats] | None = None  # (U,) slopes and (U,) multipliers that say what the duals say


@dataclass(frozen=True)
class BabsrLP(Bounder):
    """The triangle LP on bounds of the neurons by fixed slopes."""

    rebound: bool = True  # bound neurons again after a split
    parallel: bool = True  # the root's neurons by parallel slopes, as the original; else by CROWN's
    keeps_duals: bool = False  # sub-domains keep the LP's duals, as slopes and multipliers, for branching to read
    keeps_optima: bool = False  # what the LP's optimum says of each neuron is kept while a sub-domain may be split
    _open: WeakKeyDictionary[Root, _Open] = field(default_factory=WeakKeyDictionary, repr=False, compare=False)

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        root = build_root(problem, device, Schedule(0), deadline, slopes=SlopeRule(self.parallel))
        return None if root is None else (root, self.whole(root, threshold, deadline, clock))

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        return self._bound(root, root_domains(root), threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        bounds = self.bound_children(root, domains, threshold, deadline, clock)
        self.forget_parents(root, domains)
        return bounds

    def bound_children(
        self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock
    ) -> Bounds:
        """Bound sub-domains as `bound` does, and keep the bases of their parents: others may start from them too."""
        began = time.monotonic()
        if self.keeps_duals:  # the parent's are not the child's, and the first pass is to be the same as without them
            domains = replace(domains, multipliers=torch.zeros_like(domains.multipliers))
        if self.rebound:
            domains = rebound_all(root, domains, deadline)
        clock.confirm += time.monotonic() - began
        return self._bound(root, domains, threshold, deadline, clock)

    def domains_at_once(self, root: Root) -> int:
        return PAIR

    def _bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Bound sub-domains by a backward pass with fixed slopes; by the LP where that is not enough."""
        began = time.monotonic()
        slopes = initial_slopes(root.layers, domains.lower, domains.upper, parallel=True)
        bounds = confirm(root, domains, DualPoint(slopes, None, domains.weights.clamp(min=1e-6)))
        clock.confirm += time.monotonic() - began
        empty = (domains.lower > domains.upper).any(1)
        open_ = ~empty & (bounds.domains.bound <= threshold)
        bound, point, weights = bounds.domains.bound.clone(), bounds.point.clone(), bounds.domains.weights.clone()
        slopes, multipliers = slopes.clone(), bounds.domains.multipliers.clone()
        for i in open_.nonzero()[:, 0].tolist():
            solved = self._solve(root, bounds.domains.select(slice(i, i + 1)), float(threshold[i]), deadline, clock)
            bound[i] = max(float(bound[i]), solved.bound)
            empty[i] = solved.bound == np.inf
            if solved.point is not None:
                point[i] = torch.from_numpy(solved.point).view(point.shape[1:]).to(point)
            if solved.weights is not None:
                valid = root.valid[domains.target[i]]
                weights[i, valid] = torch.from_numpy(solved.weights).to(weights)
            if solved.theta is not None:
                slopes[i], multipliers[i] = (torch.from_numpy(part).to(slopes) for part in solved.theta)
        bound = torch.where(empty, torch.inf, bound)
        nobody = torch.zeros_like(bounds.domains.evaluated)  # an LP gave these, and θ does not give them again
        kept = {"weights": weights, "slopes": slopes, "multipliers": multipliers}
        found = replace(bounds.domains, bound=bound, evaluated=nobody, **kept)
        return Bounds(found, empty, bounds.coef, point)

    def _solve(self, root: Root, domain: Domains, threshold: float, deadline: Deadline, clock: Clock) -> Solved:
        """Solve the LP of one sub-domain; past the deadline nothing is proved."""
        try:
            if root not in self._open:
                self._open[root] = _Open(CondensedLP(root, deadline))
            deadline.check()
        except DeadlineExpired:
            return Solved(-np.inf)
        known = self._open[root]
        (target,) = domain.target.tolist()
        program, layout = known.lp.program(target, domain.lower[0], domain.upper[0]), known.lp.layout(target)
        (own,), (parent,) = names_of(domain), names_of(replace(domain, splits=parents(domain)))
        # Where it stops at a proof that then fails by a rounding, its point is no optimum.
        cutoff = np.inf if self.keeps_optima else threshold + SEARCH_MARGIN * (1 + abs(threshold))
        answer, basis = solve_from(program, layout, known.bases.get(parent), cutoff, deadline)
        if basis is not None:
            known.bases[own] = basis
        answer = solve_in_ball(program, layout, answer, deadline.remaining(), cutoff)
        if answer.duals is None:
            return Solved(-np.inf)
        began = time.monotonic()
        bound = proved_by(program, answer.duals, infeasible=answer.infeasible)
        clock.confirm += time.monotonic() - began
        if answer.infeasible:
            return Solved(bound)
        point = answer.within(program, known.lp.places.x)
        rows = int(root.problem.rows.valid[target].sum())
        duals = clip_signs(program, answer.duals)
        theta = _theta(program, duals, known.lp.places, domain.splits[0]) if self.keeps_duals else None
        optimum = Optimum.of(program, known.lp.places, answer, duals) if self.keeps_optima else None
        if optimum is not None and bound <= threshold:
            known.optima[own] = optimum
        return Solved(bound, point, _simplex(-duals[len(duals) - rows :]), theta)

    def forget_parents(self, root: Root, domains: Domains) -> None:
        """Forget the parents' bases: the children are bounded, so nothing will start from them again."""
        known = self._open.get(root)
        if known is not None:
            known.forget(names_of(replace(domains, splits=parents(domains)).select(domains.depth > 0)))

    def optimum(self, root: Root, domain: Domains) -> Optimum | None:
        """Return what the LP of one sub-domain said of its neurons; None where it is not kept."""
        known = self._open.get(root)
        return None if known is None else known.optima.get(names_of(domain)[0])

    def forget(self, root: Root, domains: Domains) -> None:
        """Forget the bases of sub-domains that will not be split."""
        known = self._open.get(root)
        if known is not None:
            known.forget(names_of(domains))


def _theta(program: LinearProgram, duals: Floats, places: Places, splits: Tensor) -> tuple[Floats, Floats]:
    """Return slopes and multipliers (U,) by which a backward pass has the duals' coefficients; splits (U,).

    With a > 0 before it p costs (1 − α)·a and w costs α·a. Split to h >= 0 only p >= 0 is left to pay for, which is
    that split, and to h <= 0 only w >= 0. With a < 0 the line is the chord, whatever the slope.
    """
    cost, _ = reduced_cost(program, duals)
    positive, negative = cost[places.positive].clip(min=0), cost[places.negative].clip(min=0)
    both, sign = positive + negative, splits.sign().cpu().numpy()
    slopes = np.where(both > 0, negative / np.where(both > 0, both, 1.0), 0.0)
    return slopes, np.where(sign > 0, positive, np.where(sign < 0, negative, 0.0))


def _simplex(weights: Floats) -> Floats | None:
    """Return λ of a target's rows from their duals; None where these say nothing."""
    total = float(weights.sum())
    return weights / total if total > 0 else None
