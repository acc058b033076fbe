"""Optimised LiRPA, the bounder of the paper: slopes fixed, or chosen by gradient and then confirmed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.confirm import confirm, mark_empty
from netproof.bounds.domains import Domains
from netproof.bounds.dual import DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.affected import moved_neurons
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import with_margin
from netproof.problem.problem import Problem


@dataclass(frozen=True)
class Lirpa(Bounder):
    """Optimised LiRPA: slopes by gradient, jointly through the intermediate bounds that a split moves."""

    root_steps: int = 100
    neuron_steps: int = 20
    steps: int = 10
    rebound: int = 16
    rate: float = 0.25
    child_rate: float = 0.1

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        # Cheap first: where fixed slopes for the neurons suffice, nothing else is computed.
        quick = build_root(problem, device, Schedule(0), deadline)
        if quick is None:
            return None
        bounds = self.whole(quick, threshold, deadline, clock)
        proved = bool((bounds.domains.bound > threshold).all())
        if proved or self.neuron_steps == 0 or len(quick.layers) < 2:
            return quick, bounds
        root = build_root(problem, device, Schedule(self.neuron_steps, self.rate), deadline, quick.confirmed)
        if root is None:
            return quick, bounds
        return root, self.whole(root, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        rebound = moved_neurons(root, domains, self.rebound)
        start = _inherited(root, domains, rebound) if self.steps else _fixed(root, domains)
        climb = Climb(Schedule(self.steps, self.child_rate), with_margin(threshold), deadline)
        return optimise_and_confirm(root, domains, rebound, start, climb, clock)

    def domains_at_once(self, root: Root) -> int:
        return max(1, root.net32.climbs_that_fit() // (1 + self.rebound))  # a neuron has no multipliers nor moments

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        climb = Climb(Schedule(self.root_steps, self.rate), with_margin(threshold), deadline)
        domains = root_domains(root)
        start = DualPoint(domains.slopes, None, domains.weights)
        return optimise_and_confirm(root, domains, {}, start, climb, clock)


def _inherited(root: Root, domains: Domains, rebound: Mapping[int, Tensor]) -> DualPoint:
    """Return the parent's slopes for the output; for each neuron the root's own, good wherever it is unstable."""
    neurons = {}
    for depth, which in rebound.items():
        own = root.slopes[depth]  # (2, U_k or 1, U')
        neurons[depth] = own[:, which.clamp(max=own.shape[1] - 1)].transpose(0, 1).float()
    return DualPoint(domains.slopes, None, domains.weights, neurons)


def _fixed(root: Root, domains: Domains) -> DualPoint:
    """Return CROWN's choice for the bounds at hand, the same in every pass."""
    return DualPoint(initial_slopes(root.layers, domains.lower, domains.upper), None, domains.weights)


def optimise_and_confirm(
    root: Root, domains: Domains, rebound: Mapping[int, Tensor], theta: DualPoint, climb: Climb, clock: Clock
) -> Bounds:
    """Climb in float32, then let float64 say what the slopes found are worth."""
    if climb.schedule.steps > 0 and root.count > 0:
        _, theta = ascend(Joint.of(root, domains, rebound, proof=False), theta, climb)
    began = time.monotonic()
    bounds = confirm_jointly(root, domains, rebound, theta, clock)
    clock.confirm += time.monotonic() - began
    return bounds


@torch.no_grad()
def confirm_jointly(
    root: Root, domains: Domains, rebound: Mapping[int, Tensor], theta: DualPoint, clock: Clock
) -> Bounds:
    """Confirm the neurons' bounds, round them to what is kept, and confirm the bound that rests on them.

    Every sub-domain passes through here, proved or not, so no number in the frontier is a float32 guess: what a child
    inherits from its parent is confirmed already, and an infeasible sub-domain (lower > upper) is empty for certain.
    """
    lower, upper = Joint.of(root, domains, rebound, proof=True).neurons(theta)
    domains = replace(domains, lower=lower.float(), upper=upper.float())  # as they are: rounded to these already
    for depth, which in rebound.items():
        shared = theta.slopes[:, None, None, : root.layers[depth].start]
        clock.recorder.neurons(root, domains, depth, which, theta.neurons.get(depth, shared), None)
    return mark_empty(confirm(root, domains, theta))
