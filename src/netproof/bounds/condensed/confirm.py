"""What parameters found on the condensed network are worth: float64, with all rounding charged."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.condensed.ascent import Seeds, Start
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.passes import Pulled, packed_lines, pull, within
from netproof.bounds.condensed.scope import Scope
from netproof.bounds.domains import Domains
from netproof.numerics import INFLATE, gamma

MOST = 6e4  # of a multiplier, which is kept as a float16


def confirm_packed(scope: Scope, domains: Domains, found: Start) -> Bounds:
    """Slopes and multipliers."""
    net = scope.net64
    lines = packed_lines(net, domains.known, proof=True)
    seeds = Seeds.of(net, domains.target, scope.valid)
    weights = seeds.weights(found.logits.double())
    beta = None if found.multipliers is None else lines.project_(found.multipliers.double().clone())
    pulled = pull(net, seeds.mix(weights), lines, within(found.slopes.double()), beta)
    kept = replace(domains, slopes=found.slopes.half())
    if found.multipliers is not None:
        kept = replace(kept, multipliers=as_kept(found.multipliers))
    return confirmed(scope, kept, seeds, weights, pulled)


def as_kept(multipliers: Tensor) -> Tensor:
    """As a sub-domain keeps them, to start from; what they were is in the bound already."""
    return multipliers.clamp(-MOST, MOST).half()


def confirmed(scope: Scope, domains: Domains, seeds: Seeds, weights: Tensor, pulled: Pulled) -> Bounds:
    """The sub-domains with what a form of row weights (domain, row), pulled in a proof copy, says of them."""
    net = scope.net64
    bound = _less(net, pulled, seeds, weights, net.error[domains.target])
    return Bounds(
        replace(
            domains,
            weights=weights.float(),
            bound=domains.bound.fmax(bound),  # what held for the parent holds here; a NaN never wins
            settled=domains.depth,
        ),
        torch.zeros(len(domains), dtype=torch.bool, device=scope.device),
        pulled.after.float(),
        net.region.minimiser(pulled.at_input).float(),
    )


def _less(net: Condensed, pulled: Pulled, seeds: Seeds, weights: Tensor, error: Tensor) -> Tensor:
    """The value less what the rows themselves may be off by, and the rounding of their mix."""
    assert net.charges is not None
    off = (weights * error).sum(1)
    if seeds.free:
        off = off + (weights * (seeds.forms.abs() @ net.charges.seed)).sum(1) + net.charges.lost
    return pulled.value - off * INFLATE - pulled.value.abs() * gamma(4)
