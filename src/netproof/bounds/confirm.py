"""What a dual point is worth: float64, with all rounding charged."""

from __future__ import annotations

from dataclasses import replace

import torch

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint, Evaluated
from netproof.bounds.scope import Scope


@torch.no_grad()
def confirm(scope: Scope, domains: Domains, theta: DualPoint) -> Bounds:
    """Evaluate θ in proof arithmetic, as it is kept, and keep it with what it proves."""
    beta = domains.multipliers if theta.multipliers is None else theta.multipliers
    kept = replace(domains, slopes=theta.slopes, multipliers=beta, weights=theta.weights)
    return confirmed(scope, kept, Dual.of(scope, kept, proof=True).at(DualPoint.of(kept)))


def confirmed(scope: Scope, domains: Domains, done: Evaluated) -> Bounds:
    """Return the sub-domains with what a proof says of them."""
    count, device = len(domains), scope.device
    inherited = ~(done.value >= domains.bound)  # what held for the parent holds here; a NaN never wins
    place = torch.arange(count, device=device)
    evaluated = torch.stack([torch.full_like(place, count), place], 1).masked_fill(inherited[:, None], 0)
    bound = torch.where(inherited, domains.bound, done.value)
    return Bounds(
        replace(domains, bound=bound, evaluated=evaluated, settled=domains.depth),
        torch.zeros(count, dtype=torch.bool, device=device),
        done.pulled.after.float(),
        done.pulled.region.minimiser(done.pulled.at_input).float(),
    )


def mark_empty(bounds: Bounds) -> Bounds:
    """Return the same with those marked empty whose bounds of a neuron contradict each other."""
    empty = (bounds.domains.lower > bounds.domains.upper).any(1)
    bound = torch.where(empty, torch.inf, bounds.domains.bound)
    return replace(bounds, domains=replace(bounds.domains, bound=bound), empty=empty)
