"""What a dual point is worth: with all rounding charged, in float64, or in float32 where that is enough."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint, Evaluated
from netproof.bounds.scope import Scope
from netproof.numerics import float32_is_strict


@torch.no_grad()
def confirm(scope: Scope, domains: Domains, theta: DualPoint) -> Bounds:
    """Evaluate θ in float64, as it is kept, and keep it with what it proves."""
    kept = _with(domains, theta)
    return confirmed(scope, kept, Dual.of(scope, kept, proof=True).at(DualPoint.of(kept)))


@torch.no_grad()
def confirm_past(scope: Scope, domains: Domains, theta: DualPoint, threshold: Tensor) -> Bounds:
    """Evaluate θ as `confirm` does, in float32 where that tells whether it proves more than a threshold (domain,).

    What float32 says holds as well, less a larger rounding term. Float64 is asked where the threshold lies within that
    term, where float32 says nothing, and where there is no threshold (inf).
    """
    if not float32_is_strict() or scope.single is None:
        return confirm(scope, domains, theta)
    kept = _with(domains, theta)
    done = Dual.on(scope.single, scope.valid, kept).at(DualPoint.of(kept))
    assert done.pulled.charge is not None
    found = confirmed(scope, kept, done, single=True)
    # The exact value is at most so much more; both the charge and what float64 takes off are counted twice over.
    most = done.value + 4 * done.pulled.charge
    told = (done.value > threshold) | ((most <= threshold) & threshold.isfinite())
    near = (~told).nonzero()[:, 0]
    if len(near) == 0:
        return found
    if len(near) == len(kept):
        return confirm(scope, domains, theta)
    some = kept.select(near)
    finer = confirmed(scope, some, Dual.of(scope, some, proof=True).at(DualPoint.of(some)))
    return found.replaced(near, finer)


def _with(domains: Domains, theta: DualPoint) -> Domains:
    """Return sub-domains that keep θ."""
    beta = domains.multipliers if theta.multipliers is None else theta.multipliers
    return replace(domains, slopes=theta.slopes, multipliers=beta, weights=theta.weights)


def confirmed(scope: Scope, domains: Domains, done: Evaluated, *, single: bool = False) -> Bounds:
    """Return the sub-domains with what a proof says of them, in float64 or in float32."""
    count, device = len(domains), scope.device
    inherited = ~(done.value >= domains.bound)  # what held for the parent holds here; a NaN never wins
    place = torch.arange(count, device=device)
    evaluated = torch.stack([torch.full_like(place, -count if single else count), place], 1)
    evaluated = evaluated.masked_fill(inherited[:, None], 0)
    bound = torch.where(inherited, domains.bound, done.value)
    return Bounds(
        replace(domains, bound=bound, evaluated=evaluated, settled=domains.depth),
        torch.zeros(count, dtype=torch.bool, device=device),
        done.pulled.after.float(),
        done.pulled.region.minimiser(done.pulled.at_input.double()).float(),
    )


def mark_empty(bounds: Bounds) -> Bounds:
    """Return the same with those marked empty whose bounds of a neuron contradict each other."""
    empty = (bounds.domains.lower > bounds.domains.upper).any(1)
    bound = torch.where(empty, torch.inf, bounds.domains.bound)
    return replace(bounds, domains=replace(bounds.domains, bound=bound), empty=empty)
