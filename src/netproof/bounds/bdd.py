"""Bounds by Lagrangian decomposition (Bunel et al. 2020), the bounder of BDD: see `decomposition` for the dual."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounder, Bounds, Clock, root_domains
from netproof.bounds.climb import Seeds
from netproof.bounds.condense import Condensed
from netproof.bounds.decomposition import Hull, prove, solve
from netproof.bounds.dual import packed_lines, pull, within
from netproof.bounds.optimise import Schedule
from netproof.bounds.prices import Prices, Rule, climb_prices
from netproof.bounds.renew import renew
from netproof.bounds.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import INFLATE, SEARCH_MARGIN, gamma
from netproof.problem.domains import Domains
from netproof.problem.problem import Problem

MOST = 6e4  # of a price, which is kept as a float16
LEAST_WEIGHT = 0.02  # that a row starts with: from next to nothing it would take many steps to come back
NEURON_RATE = 0.25  # step size of the neurons' own slopes at the root


@dataclass(frozen=True)
class Bdd(Bounder):
    """Prices from the linear bound or the parent, whichever is better, and climbed; the rest by linear relaxation.

    A sub-domain keeps its prices where others keep multipliers.
    """

    root_steps: int = 200
    neuron_steps: int = 0
    steps: int = 100
    refresh: int = 0  # neurons a layer bounded again after a split, with fixed slopes: seldom worth their price
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
        if self.refresh:
            domains = _refreshed(root, domains, self.refresh, deadline)
        rule = Rule(self.steps, self.child_rate, self.proximal)
        bounds = _bound(root, domains, rule, threshold, deadline, clock)
        empty = (bounds.domains.lower > bounds.domains.upper).any(1)
        bound = torch.where(empty, torch.inf, bounds.domains.bound)
        return replace(bounds, domains=replace(bounds.domains, bound=bound), empty=empty)

    def domains_at_once(self, root: Root) -> int:
        return root.packed.climbs_that_fit()


def _refreshed(root: Root, domains: Domains, most: int, deadline: Deadline) -> Domains:
    """Neurons after the splits bounded again by linear relaxation, under the slopes that the root bounded them with."""
    plain = replace(domains, multipliers=torch.zeros_like(domains.multipliers))
    return replace(renew(root, plain, most, Schedule(0), deadline), multipliers=domains.multipliers)


@torch.no_grad()
def _bound(root: Root, domains: Domains, rule: Rule, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
    """Climb in float32, then let float64 say what the prices found are worth."""
    net = root.packed
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
    logits = domains.weights.clamp(min=LEAST_WEIGHT).log()
    seed = seeds.mix(seeds.weights(logits))
    lines = packed_lines(net, domains.lower, domains.upper, domains.splits, proof=False)
    linear = pull(net, seed, lines, within(lines, _fixed_slopes(net, domains)), None)
    parent = domains.multipliers.float()
    better = solve(net, seed, hull, parent).value > linear.value
    scale = torch.empty_like(parent)
    for layer in net.layers:
        scale[:, layer.packed] = linear.after[:, layer.packed].abs().mean(1, keepdim=True)
    return Prices(torch.where(better[:, None], parent, linear.before), logits), scale


def _fixed_slopes(net: Condensed, domains: Domains) -> Tensor:
    """(domain, U), as CROWN chooses them."""
    slopes = torch.empty_like(domains.lower)
    for layers, packed in net.alike:
        slopes[:, packed] = layers[0].relaxation.initial(domains.lower[:, packed], domains.upper[:, packed])
    return slopes


def _confirm(root: Root, domains: Domains, found: Prices) -> Bounds:
    """What the prices found are worth in float64, with rounding charged."""
    net = root.condensed
    assert net.charges is not None
    hull = Hull.of(net, domains.lower.double(), domains.upper.double())
    seeds = Seeds.of(net, domains.target, root.valid)
    weights = seeds.weights(found.logits.double())
    proof = prove(net, seeds.mix(weights), hull, found.rho.double())
    off = (weights * net.error[domains.target]).sum(1)  # of the rows themselves, and of their mix
    if seeds.free:
        off = off + (weights * (seeds.forms.abs() @ net.charges.seed)).sum(1)
    bound = proof.value - off * INFLATE - proof.value.abs() * gamma(4)
    return Bounds(
        replace(
            domains,
            multipliers=found.rho.clamp(-MOST, MOST).half(),
            weights=weights.float(),
            bound=domains.bound.fmax(bound),  # what held for the parent holds here; a NaN never wins
            settled=domains.depth,
        ),
        torch.zeros(len(domains), dtype=torch.bool, device=root.device),
        proof.after.float(),
        net.region.minimiser(proof.at_input).float(),
    )
