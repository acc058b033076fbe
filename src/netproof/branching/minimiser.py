"""The relaxed network where a bound is attained: what a branching rule can see without trying anything."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import alike
from netproof.bounds.scope import Scope
from netproof.core.forms import Interval


@dataclass(frozen=True, eq=False)
class AtMinimiser:
    """The relaxed network where the bound is attained; (domain, U) each but the bound itself."""

    value: Tensor  # (domain,)
    coef: Tensor  # a, of z
    h: Tensor
    z: Tensor


@torch.no_grad()
def at_minimiser(scope: Scope, domains: Domains) -> AtMinimiser:
    """Return the relaxed network where the bound is attained.

    One backward and one forward pass, with the slopes that the bound was got with.
    """
    dual = Dual.of(scope, domains, proof=False)
    value, pulled, _ = dual.at(DualPoint.of(domains))
    there = dual.both_ways.forward(pulled)
    return AtMinimiser(value, pulled.after, there.h, there.z(pulled))


def changes(scope: Scope, domains: Domains, at: AtMinimiser) -> tuple[Tensor, Tensor]:
    """Estimate by how much the bound changes to the left and to the right of each neuron's split: (domain, U) both.

    For networks of max(h, a·h) alone, which is linear on either side. The bound is what the relaxed network is at its
    minimiser, so with other lines of one neuron it changes, to first order, by the neuron's coefficient times how far
    the lines are apart there. That is never less than what trying the neuron would show, since the minimiser may move.
    """
    parts = []
    for relaxation, packed in alike(scope.layers):
        sides = relaxation.sides(Interval(domains.lower[:, packed], domains.upper[:, packed]))
        coef, h, z = at.coef[:, packed], at.h[:, packed], at.z[:, packed]
        parts.append([coef * (slope * h - z) for slope in sides])
    left, right = (side[0] if len(side) == 1 else torch.cat(side, 1) for side in zip(*parts, strict=True))
    return left, right
