"""Bounds by Lagrangian decomposition (Bunel et al. 2020), the bounder of BDD: see `decomposition` for the dual."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.condensed.ascent import Seeds, first_logits
from netproof.bounds.condensed.confirm import as_kept, confirmed
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.passes import packed_lines, pull
from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.linear.lined_graph import initial_slopes
from netproof.bounds.neurons.rebound import renew
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import SEARCH_MARGIN
from netproof.paper.rivals.decomposition import Hull, prove, solve
from netproof.paper.rivals.decomposition_ascent import Prices, Rule, climb_prices
from netproof.problem.problem import Problem

NEURON_RATE = 0.25  # step size of the neurons' own slopes at the root


@dataclass(frozen=True)
class Bdd(Bounder):
    """Prices from the linear bound or the parent, whichever is better, and climbed; the rest by linear relaxation.

    A sub-domain keeps its prices where others keep multipliers.
    """

    root_steps: int = 200
    neuron_steps: int = 0
    steps: int = 100
    rebound: int = 0  # neurons per layer bounded again after a split, with fixed slopes: seldom worth their price
    rate: float = 0.2
    child_rate: float = 0.1
    proximal: bool = False

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        root = build_root(problem, device, Schedule(self.neuron_steps, NEURON_RATE), deadline)
        if root is None:
            return None
        return root, self.whole(root, threshold, deadline, clock)

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        rule = Rule(self.root_steps, self.rate, self.proximal)
        return _bound(root, root_domains(root), rule, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        if self.rebound:
            domains = _refreshed(root, domains, self.rebound, deadline)
        rule = Rule(self.steps, self.child_rate, self.proximal)
        bounds = _bound(root, domains, rule, threshold, deadline, clock)
        empty = (bounds.domains.lower > bounds.domains.upper).any(1)
        bound = torch.where(empty, torch.inf, bounds.domains.bound)
        return replace(bounds, domains=replace(bounds.domains, bound=bound), empty=empty)

    def domains_at_once(self, root: Root) -> int:
        return root.net32.climbs_that_fit()


def _refreshed(root: Root, domains: Domains, most: int, deadline: Deadline) -> Domains:
    """Neurons after the splits bounded again by linear relaxation, under the slopes that the root bounded them with."""
    plain = replace(domains, multipliers=torch.zeros_like(domains.multipliers))
    return replace(renew(root, plain, most, Schedule(0), deadline), multipliers=domains.multipliers)


@torch.no_grad()
def _bound(root: Root, domains: Domains, rule: Rule, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
    """Climb in float32, then let float64 say what the prices found are worth."""
    net = root.net32
    seeds = Seeds.of(net, domains.target, root.valid)
    hull = Hull.of(net, domains.lower, domains.upper)
    start, scale = _start(net, seeds, hull, domains)
    if rule.steps > 0 and root.count > 0:
        margin = (threshold + SEARCH_MARGIN * (1 + threshold.abs())).float()
        start = climb_prices(net, seeds, hull, scale, start, rule, margin, deadline)
    began = time.monotonic()
    bounds = _confirm(root, domains, start)
    clock.confirm += time.monotonic() - began
    return bounds


def _start(net: Condensed, seeds: Seeds, hull: Hull, domains: Domains) -> tuple[Prices, Tensor]:
    """The parent's prices or the linear bound's, by which is better, and the size (domain, U) of a layer's."""
    logits = first_logits(domains.weights)
    seed = seeds.mix(seeds.weights(logits))
    lines = packed_lines(net, domains.known, proof=False)
    linear = pull(net, seed, lines, initial_slopes(net.layers, domains.lower, domains.upper), None)
    parent = domains.multipliers.float()
    better = solve(net, seed, hull, parent).value > linear.value
    scale = torch.empty_like(parent)
    for layer in net.layers:
        scale[:, layer.packed] = linear.after[:, layer.packed].abs().mean(1, keepdim=True)
    return Prices(torch.where(better[:, None], parent, linear.before), logits), scale


def _confirm(root: Root, domains: Domains, found: Prices) -> Bounds:
    """What the prices found are worth in float64, with rounding charged."""
    net = root.net64
    hull = Hull.of(net, domains.lower.double(), domains.upper.double())
    seeds = Seeds.of(net, domains.target, root.valid)
    weights = seeds.weights(found.logits.double())
    proof = prove(net, seeds.mix(weights), hull, found.rho.double())
    return confirmed(root, replace(domains, multipliers=as_kept(found.rho)), seeds, weights, proof)
