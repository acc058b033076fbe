"""Neurons bounded again after a split, all that it can move, by one backward pass with fixed slopes each."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.domains import Domains, Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import initial_slopes, splittable
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.numerics import float32_down, float32_up


@torch.no_grad()
def rebound_all(root: Root, domains: Domains, deadline: Deadline) -> Domains:
    """Return the sub-domains with the better of old and new bounds, confirmed, of every neuron after a new split."""
    parts = [_one(root, domains.select(slice(i, i + 1)), deadline) for i in range(len(domains))]
    if not parts:
        return domains
    return replace(domains, lower=torch.cat([p[0] for p in parts]), upper=torch.cat([p[1] for p in parts]))


def _one(root: Root, domain: Domains, deadline: Deadline) -> tuple[Tensor, Tensor]:
    lower, upper = domain.lower.clone(), domain.upper.clone()
    moved = domain.splits[0].abs() > domain.settled[0]  # (U,): split since it was last bounded, or bounded again
    net = root.condensed64
    for depth, layer in enumerate(net.layers):
        if layer.start == 0 or deadline.expired:
            continue
        reads = net.matrix[layer.packed, net.base : net.base + layer.start]
        reached = (reads[:, moved[: layer.start]] != 0).any(1)
        unstable = splittable(root.layers, lower, upper)[0, layer.packed]
        neurons = (reached & unstable).nonzero()[:, 0]
        if len(neurons):
            low, high = _bounds(root, depth, neurons, lower, upper, domain.splits)
            column = layer.start + neurons
            lower[0, column] = lower[0, column].fmax(low)
            upper[0, column] = upper[0, column].fmin(high)
            moved[column] = True
    return lower, upper


def _bounds(
    root: Root, depth: int, neurons: Tensor, lower: Tensor, upper: Tensor, splits: Tensor
) -> tuple[Tensor, Tensor]:
    """Bound a layer's neurons (n,): float32, rounded outward."""
    proof, start = root.net64.upto(depth), root.layers[depth].start
    known = Known(lower, upper, splits, None).upto(start)
    slopes = initial_slopes(root.layers[:depth], known.lower, known.upper, parallel=True)
    theta = DualPoint(slopes, None, torch.ones(1, 1, device=lower.device))
    found = []
    for some in neurons.split(max(1, proof.climbs_that_fit() // 2)):
        forms, error = root.net64.neurons(depth, some)
        dual = Dual.of_forms(proof, torch.cat([forms, -forms]), torch.cat([error, error]), known)
        found.append(dual.at(theta).value.view(2, -1))
    sides = torch.cat(found, 1)
    return float32_down(sides[0]), float32_up(-sides[1])
