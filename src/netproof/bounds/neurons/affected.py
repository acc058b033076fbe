"""Which intermediate bounds are worth computing again after a split: those it can move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import Layer, splittable
from netproof.bounds.neurons.root import Root
from netproof.core.forms import Interval
from netproof.model.ops import Affine, Nonlinear


def moved_neurons(root: Root, domains: Domains, most: int | None, *, ranked: bool = False) -> dict[int, Tensor]:
    """Return by layer (domain, K) the unstable neurons that new decisions reach, widest first, at most `most`.

    Entries past a domain's own are U_k. A layer of which no domain has any is left out. ranked: only those among them
    that the parent's branching ranked highest, since its bound hangs on these.
    """
    if most == 0 or len(root.layers) < 2:
        return {}
    reached = torch.cat(_reach(root, domains), 1)
    return _widest(root, domains, reached & _candidates(domains) if ranked else reached, most)


def later_neurons(root: Root, domains: Domains, most: int | None) -> dict[int, Tensor]:
    """Return in the same form all unstable neurons after the first layer: on a whole set slopes move every one."""
    return _widest(root, domains, torch.ones_like(domains.lower, dtype=torch.bool), most)


def _widest(root: Root, domains: Domains, wanted: Tensor, most: int | None) -> dict[int, Tensor]:
    """Return by layer but the first (domain, K) the unstable neurons among those wanted (domain, U), widest first."""
    found: dict[int, Tensor] = {}
    worth = splittable(root.layers, domains.lower, domains.upper) & wanted
    for k, layer in enumerate(root.layers[1:], 1):
        mask = worth[:, layer.packed]
        count = int(mask.sum(1).max()) if len(domains) else 0
        count = count if most is None else min(count, most)
        if count == 0:
            continue
        h = Interval(domains.lower[:, layer.packed], domains.upper[:, layer.packed])
        gap = torch.where(mask, layer.relaxation.loss(h), -1.0)
        value, chosen = gap.topk(count, dim=1)
        found[k] = torch.where(value > 0, chosen, layer.count)
    return found


def some_of(moved: Mapping[int, Tensor], index: Tensor, layers: Sequence[Layer]) -> dict[int, Tensor]:
    """Return the neurons of some sub-domains (n,) in the same form, no wider than they need."""
    found = {}
    for k, which in moved.items():
        mine = which[index]
        count = int((mine < layers[k].count).sum(1).max()) if len(index) else 0
        if count:
            found[k] = mine[:, :count]  # a sub-domain's own come first
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
