"""Intermediate bounds refreshed below the root: where many splits have been decided, the neurons after them move.

A sub-domain inherits its parent's bounds of the neurons, with the splits applied. Bounding its unstable neurons again,
each with slopes and multipliers of its own, costs as much as some hundred sub-domains, so it is done once in as many
levels as make as many descendants: then the cost is at most doubled, and everything below profits.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.condensed.ascent import Seeds, climb_forms
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.passes import packed_lines, pull, within
from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.linear.lined_graph import Layer, splittable
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.numerics import float32_down, float32_up


@torch.no_grad()
def renew(root: Root, domains: Domains, most: int, schedule: Schedule, deadline: Deadline) -> Domains:
    """The sub-domains with tighter bounds of up to `most` neurons a layer: those whose relaxation costs them most."""
    cost = _cost(root, domains)
    for depth, layer in enumerate(root.net32.layers):
        if layer.start == 0 or deadline.expired:
            continue
        unstable = splittable(root.layers, domains.lower, domains.upper)[:, layer.packed]
        worth = torch.where(unstable, cost[:, layer.packed], -1.0)
        value, places = worth.topk(min(most, layer.count), dim=1)
        owner, column = (value > 0).nonzero(as_tuple=True)
        if len(owner):
            domains = _tighten(root, depth, layer, domains, owner, places[owner, column], schedule, deadline)
    return replace(domains, renewed=domains.depth.to(domains.renewed.dtype))


def _cost(root: Root, domains: Domains) -> Tensor:
    """(domain, U): what each neuron's upper line takes from the bound, and a little for width where it takes none."""
    net = root.net32
    lines = packed_lines(net, domains.known, proof=False)
    seed = Seeds.of(net, domains.target, root.valid).mix(domains.weights)
    slopes = within(domains.slopes.float())
    after = pull(net, seed, lines, slopes, domains.multipliers.float()).after
    lost = lines.at(slopes).upper_intercept
    return -after.clamp(max=0) * lost + 1e-6 * lost


def _tighten(
    root: Root,
    depth: int,
    layer: Layer,
    domains: Domains,
    owner: Tensor,
    neuron: Tensor,
    schedule: Schedule,
    deadline: Deadline,
) -> Domains:
    """Bounds of the layer's neurons `neuron` (pair,) in the sub-domains `owner` (pair,)."""
    search, proof = root.net32.upto(depth), root.net64.upto(depth)
    lower, upper = domains.lower.clone(), domains.upper.clone()
    for some in torch.arange(len(owner), device=owner.device).split(max(1, search.climbs_that_fit() // 2)):
        if deadline.expired:
            break
        at, which = owner[some], neuron[some]
        own = root.slopes[depth]  # (2, U_k or 1, start)
        slopes = own[:, which] if own.shape[1] > 1 else own.expand(2, len(which), -1)
        low, high = _bounds(root, search, proof, layer, domains.select(at), which, slopes, schedule, deadline)
        column = layer.start + which
        lower[at, column] = lower[at, column].fmax(low)
        upper[at, column] = upper[at, column].fmin(high)
    return replace(domains, lower=lower, upper=upper)


def _bounds(
    root: Root,
    search: Condensed,
    proof: Condensed,
    layer: Layer,
    owners: Domains,
    neuron: Tensor,
    slopes: Tensor,
    schedule: Schedule,
    deadline: Deadline,
) -> tuple[Tensor, Tensor]:
    """Confirmed bounds of one neuron (pair,) in each of `owners`, float32 rounded outward."""
    count, start = len(neuron), layer.start
    both = torch.arange(count, device=neuron.device).repeat(2)
    sign = torch.ones(2 * count, 1, device=neuron.device).index_fill_(
        0, torch.arange(count, 2 * count, device=neuron.device), -1.0
    )
    known = owners.known.upto(start, both)
    begin = (slopes.reshape(2 * count, -1).float(), torch.zeros(2 * count, start, device=neuron.device))
    charges = root.net64.charges
    assert charges is not None
    forms = root.net64.matrix[start + neuron, : proof.base + start][both] * sign.double()
    error = charges.forms[start + neuron][both]
    settled = layer.settled_at(sign[:, 0])
    value, _ = climb_forms(search, proof, forms, error, known, begin, settled, schedule, deadline)
    return float32_down(value[:count]), float32_up(-value[count:])
