"""What a graph network is told of each neuron: bounds, bias, relaxation and dual values, all without a scale.

A bound is attained at some x* of the relaxed network, where neuron i reads h* and its relaxation puts out z*. With a
the coefficient of z in the bound (its dual value), fixing the neuron active turns z into h, fixing it inactive into 0,
and with all else as it is the bound can gain no more than

    a (h* − z*)   and   a (0 − z*).

For at x* the new bound's function is larger by just this, and its minimum is no larger than its value there. BaBSR
asks the same at the bias instead of at h*. Every number is divided by one of its own kind, so that scaling a neuron,
a layer or the property changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.linear.layers import alike, splittable
from netproof.bounds.scope import Scope
from netproof.branching.minimiser import at_minimiser
from netproof.core.forms import Interval

COUNT = 22
BABSR = 20  # the column with the logarithm of that rule's scores
SMALL = 1e-4  # shares below this look alike on a logarithmic scale


def features(scope: Scope, bounds: Bounds, babsr: Tensor) -> Tensor:
    """Return the features of every neuron, (domain, U, COUNT) float32. babsr: (domain, U), that rule's scores."""
    domains = bounds.domains
    low, high = domains.lower, domains.upper
    unstable = splittable(scope.layers, low, high)
    at = at_minimiser(scope, bounds.domains)
    width = torch.where(unstable, high - low, torch.ones_like(low))
    above = (high / width).clamp(0, 1)
    lost = torch.where(unstable, -at.coef.clamp(max=0) * (-low) * above, 0.0)
    active = torch.where(unstable, at.coef * (at.h - at.z), 0.0)
    inactive = torch.where(unstable, at.coef * (leaks(scope) * at.h - at.z), 0.0)
    total = lost.sum(1, keepdim=True)
    gap = (-domains.bound).float().clamp(min=0)[:, None]
    better, worse = torch.maximum(active, inactive), torch.minimum(active, inactive)
    babsr = torch.where(unstable, babsr, 0.0)
    bias = torch.where(unstable, scope.bias / width, 0.0)
    columns = [
        unstable.float(),
        domains.splits.sign().float(),
        above,
        _log(width, _largest_of_layer(scope, torch.where(unstable, width, 0.0))),
        domains.slopes.float(),
        bias.clamp(-3, 3),
        ((at.h - low) / width).clamp(-1, 2),
        at.coef.sign(),
        _log(at.coef.abs() * width, total),
        _log(lost, total),
        _share(lost, _largest(lost)),
        _share(at.coef * scope.bias, total),
        _share(active, total),
        _share(inactive, total),
        _log(better.clamp(min=0), _largest(better)),
        _share(better, _largest(better)),
        _share(worse, _largest(better)),
        _share(better, gap),
        _share(worse, gap),
        _share(babsr, _largest(babsr)),
        _log(babsr.clamp(min=0), _largest(babsr)),
        _depths(scope).expand(len(domains), -1),
    ]
    return torch.stack(columns, -1).nan_to_num(nan=0.0, posinf=3.0, neginf=-3.0)


def leaks(scope: Scope) -> Tensor:
    """Return the slope of each neuron's nonlinearity left of its split, (U,)."""
    nothing = torch.zeros(1, scope.count, device=scope.device)
    parts = [r.sides(Interval(nothing[0, packed], nothing[0, packed]))[0] for r, packed in alike(scope.layers)]
    return torch.cat([nothing[0, :0], *parts])


def _largest(value: Tensor) -> Tensor:
    """Return the largest value of each domain, (domain, 1), not negative."""
    if value.shape[1] == 0:
        return value.new_zeros(len(value), 1)
    return value.nan_to_num(0.0, 0.0, 0.0).amax(1, keepdim=True).clamp(min=0)


def _largest_of_layer(scope: Scope, value: Tensor) -> Tensor:
    """Return for each neuron the largest value of its own layer, (domain, U)."""
    parts = value.split([layer.count for layer in scope.layers], 1)
    return torch.cat([value[:, :0], *(_largest(part).expand_as(part) for part in parts)], 1)


def _share(value: Tensor, of: Tensor) -> Tensor:
    return (value / of.clamp(min=1e-30)).clamp(-3, 3)


def _log(value: Tensor, of: Tensor) -> Tensor:
    """Return the share `value` / `of` on a logarithm: 0 for nothing, 1 for all of it."""
    share = (value / of.clamp(min=1e-30)).clamp(0, 1 / SMALL)
    return 1 + (share + SMALL).log10() / 4


def _depths(scope: Scope) -> Tensor:
    """Return how deep each neuron's layer is, (U,): 0 for the first layer, 1 for the last."""
    sizes = [layer.count for layer in scope.layers]
    last = max(1, len(sizes) - 1)
    parts = [torch.full((size,), k / last, device=scope.device) for k, size in enumerate(sizes)]
    return torch.cat([torch.zeros(0, device=scope.device), *parts])
