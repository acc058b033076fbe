"""From one root to a tighter one, which has fewer unstable neurons: bounds of neurons, and sub-domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.neurons.root import Root
from netproof.core.forms import Interval


def intervals_with(root: Root, lower: Tensor, upper: Tensor) -> Intervals:
    """Return the root's bounds of all nodes with others (U,), confirmed on the whole set, of the packed neurons."""
    found = root.intervals.copy()
    for layer in root.layers:
        sides = zip(found.of[layer.pre], (lower, upper), (torch.maximum, torch.minimum), strict=True)
        tight = [_improved(old, layer.index, new[layer.packed], better) for old, new, better in sides]
        found.tighten(layer.pre, Interval(*tight))
    return found


def _improved(side: Tensor, places: Tensor, given: Tensor, better: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return one side of a node's bounds (*node) with the better of old and given (n,) at places (n,)."""
    flat = side.flatten().clone()
    flat[places] = better(flat[places], given.to(flat))
    return flat.view_as(side)


def repack(domains: Domains, old: Root, new: Root) -> tuple[Domains, Domains]:
    """Put sub-domains into the packing of `new`; and return those that are dropped.

    A decision on a neuron that is now linear is implied, or it contradicts its bounds: then every point that is left
    lies in the other half too, whose sub-domains are open or proved, and this one is dropped. One that is neither is
    forgotten, which makes the sub-domain larger.
    """
    places = _places(old, new)
    gone = torch.ones(old.count, dtype=torch.bool, device=old.device)
    gone[places] = False
    known = _sides(old, new, domains)
    against = (domains.splits.sign() * known)[:, gone] < 0
    dropped = against.any(1)
    left = domains.select(~dropped)
    lower, upper = new.bounds_of(left.target)
    moved = replace(
        left,
        splits=left.splits[:, places],
        lower=left.lower[:, places].maximum(lower),
        upper=left.upper[:, places].minimum(upper),
        points=left.points[:, places] if new.points.shape[1] else left.points[:, :0],
        slopes=_slopes(left, places, new),
        multipliers=left.multipliers[:, places],
        candidates=_candidates(left.candidates, places, old),
    )
    return moved, domains.select(dropped)


def moved_slopes(slopes: Mapping[int, Tensor], old: Root, new: Root) -> dict[int, Tensor]:
    """Return what neurons of a layer have for all neurons before it (*lead, U'), by layer, in the packing of `new`."""
    places, layers = _places(old, new), {layer.node: k for k, layer in enumerate(old.layers)}
    named = [(k, layer, slopes.get(layers[layer.node])) for k, layer in enumerate(new.layers)]
    return {k: own[..., places[: layer.start]] for k, layer, own in named if own is not None}


def _slopes(domains: Domains, places: Tensor, new: Root) -> Tensor:
    """Return the slopes of what was packed at `places`; where there are planes, those of the first layer are theirs."""
    kept = domains.slopes[:, places]
    if new.planes is None or new.planed is None:
        return kept
    first = new.planes.reads.count
    return torch.cat([new.planed[domains.target, :first], kept[:, first:]], 1)


def _candidates(named: Tensor, places: Tensor, old: Root) -> Tensor:
    """Return the neurons to split (domain, k) by their new places, those that are gone as −1 at the end."""
    now = torch.full((old.count + 1,), -1, dtype=named.dtype, device=named.device)  # the last is for −1
    now[places] = torch.arange(len(places), dtype=named.dtype, device=named.device)
    moved = now[named]
    order = (moved < 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return moved.gather(1, order)


def _places(old: Root, new: Root) -> Tensor:
    """Return (U of new,): where each neuron was packed."""
    parts = [torch.zeros(0, dtype=torch.int64, device=old.device)]
    by_node = {layer.node: layer for layer in old.graph32.layers}
    for layer in new.graph32.layers:
        before = by_node[layer.node]
        parts.append(before.start + torch.searchsorted(before.index, layer.index))
    return torch.cat(parts)


def _sides(old: Root, new: Root, domains: Domains) -> Tensor:
    """Return ±1 where the new root knows on which side of its split a neuron is, else 0: (domain or 1, U of old)."""
    parts = []
    for layer in old.layers:
        bounds = new.intervals.of[layer.pre]
        low, high = (side.flatten()[layer.index][None] for side in bounds)
        point = domains.points[:, layer.packed].double() if domains.points.shape[1] else torch.zeros_like(low)
        parts.append((low >= point).short() - (high <= point).short())
    return torch.cat(parts, 1) if parts else torch.zeros(1, 0, dtype=torch.int16, device=old.device)
