"""Which intermediate bounds are worth computing again after a split: those it can move."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import splittable
from netproof.bounds.neurons.root import Root
from netproof.core.forms import Interval
from netproof.model.ops import Affine, Nonlinear


def moved_neurons(root: Root, domains: Domains, most: int) -> dict[int, Tensor]:
    """Return by layer (domain, K) the unstable neurons that new decisions reach, widest first, at most `most`.

    Entries past a domain's own are U_k. A layer of which no domain has any is left out.
    """
    found: dict[int, Tensor] = {}
    if most == 0 or len(root.layers) < 2:
        return found
    reached = _reach(root, domains)
    worth = splittable(root.layers, domains.lower, domains.upper) & _candidates(domains)
    for k, layer in enumerate(root.layers):
        if k == 0:
            continue
        mask = reached[k] & worth[:, layer.packed]
        count = min(int(mask.sum(1).max()) if len(domains) else 0, most)
        if count == 0:
            continue
        h = Interval(domains.lower[:, layer.packed], domains.upper[:, layer.packed])
        gap = torch.where(mask, layer.relaxation.loss(h), -1.0)
        value, chosen = gap.topk(count, dim=1)
        found[k] = torch.where(value > 0, chosen, layer.count)
    return found


@torch.no_grad()
def _reach(root: Root, domains: Domains) -> list[Tensor]:
    """Per layer (domain, U_k) bool: whether a neuron's h depends on the output of a neuron just split."""
    graph = root.graph32.graph
    layers = {layer.node: k for k, layer in enumerate(root.layers)}
    last = domains.splits.abs() > domains.settled[:, None]
    values: list[Tensor] = []
    found: list[Tensor] = [last.new_zeros(0)] * len(layers)
    for node in graph.nodes:
        if isinstance(node.op, Affine):
            absolute = node.op.absolute()
            value = absolute.forward(*(values[i] for i in node.inputs))
            offset = absolute.offset()
            values.append(value if offset is None else value - offset)
            continue
        value = values[node.inputs[0]] if node.inputs else torch.zeros(len(domains), *node.shape, device=root.device)
        if node.index in layers:
            k = layers[node.index]
            layer = root.layers[k]
            flat = value.flatten(1)
            found[k] = flat[:, layer.index] > 0
            flat = flat.clone()
            flat[:, layer.index] += last[:, layer.packed].float()
            value = flat.view_as(value)
        if isinstance(node.op, Nonlinear) and node.op.arity > 1:
            value = value.sum(1)
        values.append(value)
    return found


def _candidates(domains: Domains) -> Tensor:
    """Say which neurons (domain, U) the parent's branching ranked highest: those that its bound hangs on."""
    count = domains.splits.shape[1]
    named = torch.where(domains.candidates >= 0, domains.candidates, count)
    mask = torch.zeros(len(domains), count + 1, dtype=torch.bool, device=named.device)
    return mask.scatter(1, named, True)[:, :count]
