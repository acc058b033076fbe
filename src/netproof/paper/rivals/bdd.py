"""Bounds by Lagrangian decomposition (Bunel et al. 2020), the bounder of BDD: see `decomposition` for the dual."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.confirm import confirmed, mark_empty
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint, Evaluated, by_logits, first_logits
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.root import Root, SlopeRule, build_root
from netproof.bounds.packed import Packed
from netproof.core.deadline import Deadline
from netproof.numerics import with_margin
from netproof.paper.rivals.decomposition import Hull, prove, solve
from netproof.paper.rivals.decomposition_ascent import Prices, Rule, climb_prices
from netproof.paper.rivals.rebound import rebound_all
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
    rebound: bool = False  # bound neurons again after a split, as the original: seldom worth its price
    parallel: bool = False  # the root's neurons by parallel slopes, as the original; else by CROWN's
    rate: float = 0.2
    child_rate: float = 0.1
    proximal: bool = False

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        schedule = Schedule(self.neuron_steps, NEURON_RATE)
        root = build_root(problem, device, schedule, deadline, slopes=SlopeRule(self.parallel))
        if root is None:
            return None
        return root, self.whole(root, threshold, deadline, clock)

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        rule = Rule(self.root_steps, self.rate, self.proximal)
        return _bound(root, root_domains(root), rule, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        if self.rebound:
            domains = rebound_all(root, domains, deadline)
        rule = Rule(self.steps, self.child_rate, self.proximal)
        return mark_empty(_bound(root, domains, rule, threshold, deadline, clock))

    def domains_at_once(self, root: Root) -> int:
        return root.condensed32.climbs_that_fit()


@torch.no_grad()
def _bound(root: Root, domains: Domains, rule: Rule, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
    """Climb in float32, then let float64 say what the prices found are worth."""
    dual = _dual(root, domains, proof=False)
    hull = Hull.of(root.condensed32, domains.lower, domains.upper)
    start, scale = _start(dual, hull, domains)
    if rule.steps > 0 and root.count > 0:
        margin = with_margin(threshold)
        start = climb_prices(dual, hull, scale, start, rule, margin, deadline)
    began = time.monotonic()
    bounds = _confirm(root, domains, start)
    clock.confirm += time.monotonic() - began
    return bounds


def _dual(root: Root, domains: Domains, *, proof: bool) -> Dual:
    """Return the dual function by lines on the condensed network, for its rows and as a start."""
    net, target = root.condensed64 if proof else root.condensed32, domains.target
    packed = Packed.of(net.layers, domains.known.to(net.dtype), proof=proof)
    return Dual(net, net.rows[target], net.error[target], root.valid[target], packed)


def _start(dual: Dual, hull: Hull, domains: Domains) -> tuple[Prices, Tensor]:
    """Return the parent's prices or the linear bound's, whichever are better, and the size (domain, U) of a layer's."""
    logits = first_logits(domains.weights)
    weights = by_logits(logits, dual.valid)
    slopes = initial_slopes(dual.net.layers, domains.lower, domains.upper)
    linear, seed = dual.at(DualPoint(slopes, None, weights)).pulled, dual.mix(weights)
    parent = domains.multipliers.float()
    better = solve(hull, seed, parent).value > linear.value
    scale = torch.empty_like(parent)
    for layer in dual.net.layers:
        scale[:, layer.packed] = linear.after[:, layer.packed].abs().mean(1, keepdim=True)
    return Prices(torch.where(better[:, None], parent, linear.before), logits), scale


def _confirm(root: Root, domains: Domains, found: Prices) -> Bounds:
    """Evaluate in float64, with rounding charged, what the prices found are worth."""
    dual = _dual(root, domains, proof=True)
    hull = Hull.of(root.condensed64, domains.lower.double(), domains.upper.double())
    weights = by_logits(found.logits.double(), dual.valid)
    proof = prove(hull, dual.mix(weights), found.rho.double())
    done = Evaluated(dual.less(proof.value, weights), proof, weights)
    bounds = confirmed(root, replace(domains, multipliers=found.rho, weights=weights.float()), done)
    nobody = torch.zeros_like(domains.evaluated)  # prices gave these, which are no θ
    return replace(bounds, domains=replace(bounds.domains, evaluated=nobody))
