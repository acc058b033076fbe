"""The strongest linear bound: slopes, and a multiplier for every split, optimised together on the condensed network.

The bounds of the neurons are the root's, with the splits applied. With multipliers the optimum is that of the triangle
LP on those bounds, splits included, so a conflict between splits shows as a bound that grows without limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.condensed.ascent import Seeds, Start, climb, first_logits
from netproof.bounds.condensed.confirm import confirm_packed
from netproof.bounds.condensed.passes import packed_lines
from netproof.bounds.condensed.scope import Scope
from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.neurons.rebound import renew
from netproof.bounds.neurons.root import Deepen, Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import SEARCH_MARGIN
from netproof.problem.problem import Problem

MIN_LEVELS = 6  # splits between two renewals of the neurons' bounds, at least
TRIALS = 4  # sub-domains on which a renewal is tried,
TRIAL_AFTER = 64  # once the search has cost so many times as much as one
WORTH = 0.2  # of the distance to a proof that a renewal must gain there for others to follow


@dataclass(frozen=True)
class Beta(Bounder):
    """α and β together; the neurons' bounds stay the root's, unless a trial shows that renewing them pays."""

    root_steps: int = 20
    neuron_steps: int = 20
    steps: int = 5
    rate: float = 0.25
    child_rate: float = 0.1
    rebound: int = 32  # neurons per layer bounded again after many splits

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        root = build_root(problem, device, Schedule(0), deadline)
        if root is None:
            return None
        return root, self.whole(root, threshold, deadline, clock)

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """The whole input set, one domain a target."""
        schedule = Schedule(self.root_steps, self.rate)
        return self._bound(root, root_domains(root), schedule, threshold, deadline, clock)

    def tighter(self, root: Root, deepen: Deepen | None, deadline: Deadline) -> Root | None:
        if self.neuron_steps == 0 or len(root.graph32.layers) < 2:
            return None
        return build_root(root.problem, root.device, Schedule(self.neuron_steps, self.rate), deadline, root, deepen)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        domains = self._renewed(root, domains, threshold, deadline, clock)
        bounds = self._bound(root, domains, Schedule(self.steps, self.child_rate), threshold, deadline, clock)
        empty = (bounds.domains.lower > bounds.domains.upper).any(1)
        bound = torch.where(empty, torch.inf, bounds.domains.bound)
        return replace(bounds, domains=replace(bounds.domains, bound=bound), empty=empty)

    def _renewed(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Domains:
        """With the neurons bounded again where enough was decided since they were last, if that pays here."""
        rows = 2 * sum(min(self.rebound, layer.count) for layer in root.graph32.layers[1:])
        levels = max(MIN_LEVELS, rows.bit_length())
        root.bounded += len(domains)
        if rows == 0 or root.renewal_pays is False or root.bounded < TRIAL_AFTER * rows:
            return domains
        due = (domains.depth - domains.renewed >= levels).nonzero()[:, 0]
        affordable = root.bounded // rows - root.renewed  # all renewals together cost no more than the search itself
        due = due[: TRIALS if root.renewal_pays is None else max(0, affordable)]
        if len(due) == 0:
            return domains
        root.renewed += len(due)
        stale = domains.select(due)
        fresh = renew(root, stale, self.rebound, Schedule(self.steps, self.child_rate), deadline)
        if root.renewal_pays is None:
            root.renewal_pays = self._gain(root, stale, fresh, threshold[due], deadline, clock) > WORTH
        return domains.put(due, fresh)

    def _gain(
        self, root: Root, stale: Domains, fresh: Domains, threshold: Tensor, deadline: Deadline, clock: Clock
    ) -> float:
        """What renewal gains of the distance to a proof."""
        schedule = Schedule(self.steps, self.child_rate)
        before, after = (self._bound(root, d, schedule, threshold, deadline, clock) for d in (stale, fresh))
        missing = (threshold - before.domains.bound).clamp(min=0)
        left = (threshold - after.domains.bound).clamp(min=0)
        return float(1 - left.sum() / missing.sum().clamp(min=1e-12))

    def of_neurons(self) -> Beta:
        return self

    def tightening_cost(self, root: Root) -> int:
        """Return what slopes of their own for all neurons cost, in sub-domains of the search."""
        return sum(layer.count for layer in root.layers[1:]) * self.neuron_steps // max(1, self.steps)

    def bound_part(self, part: Scope, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """`bound`, for any scope."""
        return self._bound(part, domains, Schedule(self.steps, self.child_rate), threshold, deadline, clock)

    def domains_at_once(self, root: Root) -> int:
        return root.net32.climbs_that_fit()

    @torch.no_grad()
    def _bound(
        self,
        scope: Scope,
        domains: Domains,
        schedule: Schedule,
        threshold: Tensor,
        deadline: Deadline,
        clock: Clock,
    ) -> Bounds:
        net = scope.net32
        start = Start(domains.slopes.float(), domains.multipliers.float(), first_logits(domains.weights))
        if schedule.steps > 0 and scope.count > 0:
            lines = packed_lines(net, domains.known, proof=False)
            seeds = Seeds.of(net, domains.target, scope.valid)
            margin = (threshold + SEARCH_MARGIN * (1 + threshold.abs())).float()
            _, start = climb(net, seeds, lines, start, schedule, margin, deadline)
        began = time.monotonic()
        bounds = confirm_packed(scope, domains, start)
        clock.confirm += time.monotonic() - began
        return bounds
