"""Filtered branching: a cheap score names a few neurons, and one backward pass for each side says which is best."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.condensed.ascent import Seeds
from netproof.bounds.condensed.passes import Packed, packed_lines, pull, within
from netproof.bounds.condensed.scope import Scope
from netproof.bounds.domains import Domains
from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher


@dataclass(frozen=True)
class Filtered(Brancher):
    """`probes` neurons a sub-domain are tried with the slopes and multipliers it has; the better child decides.

    Measured on 29 OVAL properties, mean sub-domains with four probes: by the better child 241, by the sum of both gains
    255, by their product 282, without probes 330, by the worse child more than that. With eight probes 223, with twelve
    216.
    """

    probes: int = 6

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        return Babsr().scores(scope, bounds)

    @torch.no_grad()
    def reorder(self, scope: Scope, domains: Domains) -> Tensor:
        """The candidates (domain, k) with the best of the first `probes` in front."""
        count, k = len(domains), min(self.probes, domains.candidates.shape[1])
        if count == 0 or k < 2:
            return domains.candidates
        tried = domains.candidates[:, :k]
        real = tried >= 0
        chunk = max(1, scope.net32.climbs_that_fit() // (2 * k))
        parts = torch.arange(count, device=tried.device).split(chunk)
        every = [children(scope, domains.select(i), tried[i].clamp(min=0)) for i in parts]
        values = torch.cat(every)  # (domain, k, 2)
        missing = values.clamp(max=0)  # past a proof nothing counts
        worth = torch.where(real, missing.amax(2) + 0.1 * missing.amin(2), -torch.inf)
        order = worth.sort(dim=1, descending=True, stable=True).indices
        return torch.cat([tried.gather(1, order), domains.candidates[:, k:]], 1)


def children(scope: Scope, domains: Domains, neurons: Tensor) -> Tensor:
    """The bounds of both children for each neuron (domain, k): (domain, k, 2)."""
    net, (count, k) = scope.net32, neurons.shape
    lines = packed_lines(net, domains.lower, domains.upper, domains.splits, proof=False)
    slopes = within(lines, domains.slopes.float())
    seed = Seeds.of(net, domains.target, scope.valid).mix(domains.weights)
    origin = torch.arange(count, device=neurons.device).repeat_interleave(2 * k)
    at = neurons.repeat_interleave(2, dim=1).reshape(-1, 1)
    active = torch.tensor([1.0, 0.0], device=neurons.device).repeat(count * k)[:, None]
    leak = scope.leaks[at]
    fixed = active + (1 - active) * leak
    slope = lines.slope[origin].scatter_(1, at, fixed)
    none = torch.zeros_like(fixed)
    changed = Packed(slope, lines.intercept[origin].scatter_(1, at, none), slope, slope, lines.sign[origin])
    chosen = slopes[origin].scatter_(1, at, fixed)
    value = pull(net, seed[origin], changed, chosen, domains.multipliers.float()[origin]).value
    return value.view(count, k, 2)
