"""The strongest linear bound: slopes, and a multiplier for every split, optimised together on the condensed network.

The bounds of the neurons are the root's, with the splits applied. With multipliers the optimum is that of the triangle
LP on those bounds, splits included, so a conflict between splits shows as a bound that grows without limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounder, Bounds, Clock, root_domains
from netproof.bounds.climb import Seeds, Start, climb
from netproof.bounds.condense import Condensed
from netproof.bounds.dual import Packed, Pulled, packed_lines, pull, within
from netproof.bounds.optimise import Schedule
from netproof.bounds.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import INFLATE, SEARCH_MARGIN, gamma
from netproof.problem.domains import Domains
from netproof.problem.problem import Problem

MOST = 6e4  # of a multiplier, which is kept as a float16
LEAST_WEIGHT = 0.02  # that a row starts with: from next to nothing it would take many steps to come back


@dataclass(frozen=True)
class Beta(Bounder):
    """α and β together; the neurons' bounds stay the root's."""

    root_steps: int = 50
    neuron_steps: int = 20
    steps: int = 10
    rate: float = 0.25
    child_rate: float = 0.1

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        quick = build_root(problem, device, Schedule(0), deadline)
        if quick is None:
            return None
        climb = Schedule(self.root_steps, self.rate)
        bounds = self._bound(quick, root_domains(quick), climb, threshold, deadline, clock)
        proved = bool((bounds.domains.bound > threshold).all())
        if proved or self.neuron_steps == 0 or len(quick.search.layers) < 2:
            return quick, bounds
        root = build_root(problem, device, Schedule(self.neuron_steps, self.rate), deadline, quick)
        if root is None:
            return quick, bounds
        return root, self._bound(root, root_domains(root), climb, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        return self._bound(root, domains, Schedule(self.steps, self.child_rate), threshold, deadline, clock)

    def domains_at_once(self, root: Root) -> int:
        return root.packed.climbs_that_fit()

    @torch.no_grad()
    def _bound(
        self,
        root: Root,
        domains: Domains,
        schedule: Schedule,
        threshold: Tensor,
        deadline: Deadline,
        clock: Clock,
    ) -> Bounds:
        net = root.packed
        start = Start(
            domains.slopes.float(), domains.multipliers.float(), domains.weights.clamp(min=LEAST_WEIGHT).log()
        )
        if schedule.steps > 0 and root.count > 0:
            lines = packed_lines(net, domains.lower, domains.upper, domains.splits, proof=False)
            seeds = Seeds.of(net, domains.target, root.rows.valid)
            margin = (threshold + SEARCH_MARGIN * (1 + threshold.abs())).float()
            _, start = climb(net, seeds, lines, start, schedule, margin, deadline)
        began = time.monotonic()
        bounds = _confirm(root, domains, start)
        clock.confirm += time.monotonic() - began
        return bounds


def _confirm(root: Root, domains: Domains, found: Start) -> Bounds:
    """What the parameters found are worth in float64, with rounding charged."""
    net = root.condensed
    lines = packed_lines(net, domains.lower.double(), domains.upper.double(), domains.splits, proof=True)
    seeds = Seeds.of(net, domains.target, root.rows.valid)
    weights = seeds.weights(found.logits.double())
    beta = None if found.multipliers is None else found.multipliers.double()
    pulled = pull(net, seeds.mix(weights), lines, within(lines, found.slopes.double()), beta)
    bound = _less(net, pulled, seeds, weights, net.error[domains.target])
    return Bounds(
        replace(
            domains,
            slopes=found.slopes.half(),
            multipliers=domains.multipliers if found.multipliers is None else found.multipliers.clamp(max=MOST).half(),
            weights=weights.float(),
            bound=domains.bound.fmax(bound),  # what held for the parent holds here; a NaN never wins
            settled=domains.depth,
        ),
        torch.zeros(len(domains), dtype=torch.bool, device=root.device),
        pulled.after.float(),
        net.region.minimiser(pulled.at_input).float(),
    )


def _less(net: Condensed, pulled: Pulled, seeds: Seeds, weights: Tensor, error: Tensor) -> Tensor:
    """The value less what the rows themselves may be off by, and the rounding of their mix."""
    assert net.charges is not None
    off = (weights * error).sum(1)
    if seeds.free:
        off = off + (weights * (seeds.forms.abs() @ net.charges.seed)).sum(1)
    return pulled.value - off * INFLATE - pulled.value.abs() * gamma(4)


