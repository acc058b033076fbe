"""Rebound: neurons bounded again below the root, where many splits have been decided that move them.

A sub-domain inherits its parent's bounds of the neurons, with the splits applied. Bounding its unstable neurons again,
each with slopes and multipliers of its own, costs as much as some hundred sub-domains, so it is done once in as many
levels as make as many descendants: then the cost is at most doubled, and everything below profits.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import lost, settled_at, splittable
from netproof.bounds.neurons.forms import bound_forms
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.numerics import float32_down, float32_up


@torch.no_grad()
def rebound(
    root: Root, domains: Domains, most: int, schedule: Schedule, deadline: Deadline, recorder: Recorder = NOTHING
) -> Domains:
    """Tighten the bounds of up to `most` neurons per layer: those whose relaxation costs the sub-domain most."""
    cost = _cost(root, domains)
    for depth, layer in enumerate(root.layers):
        if layer.start == 0 or deadline.expired:
            continue
        unstable = splittable(root.layers, domains.lower, domains.upper)[:, layer.packed]
        worth = torch.where(unstable, cost[:, layer.packed], -1.0)
        value, places = worth.topk(min(most, layer.count), dim=1)
        owner, column = (value > 0).nonzero(as_tuple=True)
        if len(owner):
            work = schedule, deadline, recorder
            domains = _tighten(root, depth, domains, owner, places[owner, column], work)
    return replace(domains, rebounded=domains.depth.to(domains.rebounded.dtype))


def _cost(root: Root, domains: Domains) -> Tensor:
    """Return what each neuron's lines take from the bound, and a little for width where nothing: (domain, U)."""
    pulled = Dual.of(root, domains, proof=False).at(DualPoint.of(domains)).pulled
    assert pulled.lines is not None
    h, little = Interval(domains.lower, domains.upper), torch.full_like(pulled.after, -1e-6)
    taken, wide = (lost(root.layers, coef, h, pulled.lines) for coef in (pulled.after, little))
    return taken + wide


def _tighten(
    root: Root,
    depth: int,
    domains: Domains,
    owner: Tensor,
    neuron: Tensor,
    work: tuple[Schedule, Deadline, Recorder],
) -> Domains:
    """Bound neurons (pair,) of a layer in the sub-domains `owner` (pair,), float32 rounded outward."""
    schedule, deadline, recorder = work
    nets, layer = (root.net32.upto(depth), root.net64.upto(depth)), root.layers[depth]
    lower, upper = domains.lower.clone(), domains.upper.clone()
    for some in torch.arange(len(owner), device=owner.device).split(max(1, nets[0].climbs_that_fit() // 2)):
        if deadline.expired:
            break
        at, which = owner[some], neuron[some]
        count, both = len(some), torch.cat([some, some])
        forms, error = root.net64.neurons(depth, which)
        sign = torch.cat([torch.ones_like(some), -torch.ones_like(some)]).float()
        own = root.slopes[depth]  # (2, U_k or 1, start)
        slopes = own[:, which] if own.shape[1] > 1 else own.expand(2, count, -1)
        start = slopes.reshape(2 * count, -1).float(), torch.zeros(2 * count, layer.start, device=owner.device)
        known, settled = domains.known.upto(layer.start, owner[both]), settled_at(layer.relaxation.kink, sign)
        pairs = torch.cat([forms, -forms]), torch.cat([error, error])
        value, found = bound_forms(nets, pairs, known, start, Climb(schedule, settled, deadline))
        if recorder is not NOTHING:
            beta = None if found.multipliers is None else _by_pair(found.multipliers)
            recorder.neurons(root, domains.select(at), depth, which[:, None], _by_pair(found.slopes), beta)
        column = layer.start + which
        lower[at, column] = lower[at, column].fmax(float32_down(value[:count]))
        upper[at, column] = upper[at, column].fmin(float32_up(-value[count:]))
    return replace(domains, lower=lower, upper=upper)


def _by_pair(parameters: Tensor) -> Tensor:
    """Return what gave lower and then upper bounds, (2·pair, U'), by pair: (pair, 2, 1, U')."""
    return parameters.view(2, -1, 1, parameters.shape[1]).transpose(0, 1)
