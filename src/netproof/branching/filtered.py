"""Filtered branching: an estimate names a few neurons, and one backward pass per side says which is best."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import alike, split_at_zero, split_points
from netproof.bounds.packed import families, lines_at
from netproof.bounds.scope import Scope
from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher
from netproof.branching.minimiser import at_minimiser, changes
from netproof.core.forms import Interval
from netproof.relax import Lines

WORSE = 0.4  # of what the worse child gains that counts beside what the better one does


@dataclass(frozen=True)
class Filtered(Brancher):
    """Neurons of a sub-domain are tried with its slopes and multipliers; the worse child counts less than half.

    Measured on 18 properties of OVAL, mnist_fc and relusplitter, sub-domains in all: with four probes 8304, with three
    8360, with two 8475, with none 9145, with six as with four. Where BaBSR's gains name the neurons, two of these
    properties stay open after 4·10^6 sub-domains that are proved by 686 and 932 here: deep in the tree that score sees
    next to nothing. On a network of sigmoids, where they do, six probes are better than four: 808 against over 1200.
    """

    @torch.no_grad()
    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        """Score neurons by what trying them would show at most; where not all are split at 0, by BaBSR's gains."""
        domains = bounds.domains
        if len(domains) == 0 or not split_at_zero(scope.layers):
            return Babsr().scores(scope, bounds)
        at = at_minimiser(scope, domains)
        missing = torch.where(at.value < 0, -at.value, torch.inf)[:, None]  # past a proof nothing counts
        left, right = (torch.minimum(change, missing) for change in changes(scope, domains, at))
        worth = torch.maximum(left, right) + WORSE * torch.minimum(left, right)
        return worth + 1e-12 * (domains.upper - domains.lower)  # what has no influence now may be all that is left

    @torch.no_grad()
    def reorder(self, scope: Scope, domains: Domains, probes: int) -> Tensor:
        """Return the candidates (domain, k), the first `probes` sorted by what trying them showed, best first."""
        count, k = len(domains), min(probes, domains.candidates.shape[1])
        if count == 0 or k < 2:
            return domains.candidates
        tried = domains.candidates[:, :k]
        real = tried >= 0
        chunk = max(1, scope.net32.climbs_that_fit() // (2 * k))
        parts = torch.arange(count, device=tried.device).split(chunk)
        every = [children(scope, domains.select(i), tried[i].clamp(min=0)) for i in parts]
        values = torch.cat(every)  # (domain, k, 2)
        missing = values.clamp(max=0)  # past a proof nothing counts
        worth = torch.where(real, missing.amax(2) + WORSE * missing.amin(2), -torch.inf)
        order = worth.sort(dim=1, descending=True, stable=True).indices
        return torch.cat([tried.gather(1, order), domains.candidates[:, k:]], 1)


def children(scope: Scope, domains: Domains, neurons: Tensor) -> Tensor:
    """Bound both children for each neuron (domain, k): (domain, k, 2)."""
    dual, theta, (count, k) = Dual.of(scope, domains, proof=False), DualPoint.of(domains), neurons.shape
    slopes = theta.slopes
    origin = torch.arange(count, device=neurons.device).repeat_interleave(2 * k)
    at = neurons.repeat_interleave(2, dim=1).reshape(-1, 1)
    if any(layer.arity > 1 for layer in scope.layers):
        return dual.with_lines(theta, origin, _lines_of_halves(scope, domains, origin, at)).view(count, k, 2)
    changed = []
    for old, new in zip(dual.packed.at(slopes), _halves(scope, domains, neurons, slopes), strict=True):
        if new is not None:
            whole = slopes.new_zeros(()) if old is None else old
            changed.append(whole.expand_as(slopes)[origin].scatter_(1, at, new))
    return dual.with_lines(theta, origin, Lines(*changed)).view(count, k, 2)


def _lines_of_halves(scope: Scope, domains: Domains, origin: Tensor, at: Tensor) -> Lines:
    """Return the lines (n, U) of all neurons once that at `at` (n, 1) is split, right and left in turn.

    A split of one operand moves what its neuron's line is in all of them, so all are drawn again.
    """
    lower, upper = domains.lower[origin], domains.upper[origin]
    points = split_points(scope.layers, domains.lower, domains.upper, at.view(len(domains), -1))
    assert points is not None  # 0 is not where a neuron of several operands is split
    point, right = points.reshape(-1, 1), torch.arange(len(at), device=at.device)[:, None] % 2 == 0
    lower = lower.scatter(1, at, torch.where(right, point, lower.gather(1, at)))
    upper = upper.scatter(1, at, torch.where(right, upper.gather(1, at), point))
    return lines_at(families(scope.layers, Interval(lower, upper), proof=False), domains.slopes[origin])


def _halves(scope: Scope, domains: Domains, neurons: Tensor, slopes: Tensor) -> Lines:
    """Return the lines of the neurons (domain, k) on either side of their split: (domain·k·2, 1), right before left."""
    low, high, t = (side.gather(1, neurons) for side in (domains.lower, domains.upper, slopes))
    found: list[Tensor | None] | None = None
    for relaxation, packed in alike(scope.layers):
        point = relaxation.split_point(Interval(low, high))
        h = Interval(torch.stack([point, low], 2), torch.stack([high, point], 2))
        lines = relaxation.family(h, proof=False).at(t[:, :, None])
        mine = ((neurons >= packed.start) & (neurons < packed.stop))[:, :, None]
        if found is None:
            found = [None if new is None else new.expand_as(h.lower) for new in lines]
        else:
            found = [_either(mine, new, old) for new, old in zip(lines, found, strict=True)]
    assert found is not None
    return Lines(*(None if new is None else new.reshape(-1, 1) for new in found))  # type: ignore[arg-type]


def _either(mine: Tensor, new: Tensor | None, old: Tensor | None) -> Tensor | None:
    """Return `new` where `mine` says so, else `old`; a missing intercept is 0."""
    if new is None and old is None:
        return None
    zero = torch.zeros((), device=mine.device)
    return torch.where(mine, zero if new is None else new, zero if old is None else old)
