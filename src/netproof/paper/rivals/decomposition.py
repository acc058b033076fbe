"""Lagrangian decomposition (Bunel et al. 2020): the relaxed network as subproblems that share copies of their neurons.

Every pre-activation h is given two copies: ẑ_A, which the layers before produce, and ẑ_B, which its own ReLU reads. A
price ρ on ẑ_A − ẑ_B = 0 takes the subproblems apart. On the condensed network (h = M·v, v = (1, y, z)) the objective
c·v becomes

    c·v + ρ·(M v − ẑ_B) = (c_1 + ρM_1) + (c_y + ρM_y)·y + Σ_k (a_k z_k − ρ_k ẑ_B,k),   a = c_z + ρM_z,

so the input has a subproblem of its own, a linear form over a box, and each neuron one of its own: (ẑ_B, z) in the
triangle over [l, u], whose least value is at a corner. That is the original's subproblem of a layer, ẑ_B and the next
layer's ẑ_A = W z, after its W is moved onto ρ. For every ρ the sum of the least values is a lower bound, concave in ρ,
with supergradient ẑ_A − ẑ_B at the minimisers; its greatest value is that of the triangle LP. A split is no more than a
smaller [l, u], so the bound sees what the splits say of h, too.

Neurons that are stable on the whole input set have no copies: their z is linear in ẑ_A, so condensing has put the best
ρ in their place. What linear bounds choose is one ρ among others: p of `Net.backward`, with the same value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed
from netproof.bounds.linear.layers import alike
from netproof.bounds.net import Pulled
from netproof.core.forms import Interval
from netproof.numerics import enlarged, rounding, with_vanishing


@dataclass(frozen=True, eq=False)
class Hull:
    """The corners of the set in which each packed neuron's (ẑ_B, z) lies, (domain, U) each."""

    net: Condensed
    lower: Tensor  # l, u: the ends of ẑ_B
    upper: Tensor
    at_lower: Tensor  # z there
    at_upper: Tensor
    kink: Tensor  # 0, the value at the corner (0, 0), where there is one; +inf where the neuron is stable

    @classmethod
    def of(cls, net: Condensed, lower: Tensor, upper: Tensor) -> Hull:
        """Make the hulls from bounds (domain, U) of h."""
        at_lower, at_upper, kink = (torch.empty_like(lower) for _ in range(3))
        for relaxation, packed in alike(net.layers):
            corners = relaxation.hull(Interval(lower[:, packed], upper[:, packed]))
            assert corners is not None, "a method that needs hulls is asked only where there are"
            at_lower[:, packed], at_upper[:, packed], kink[:, packed] = corners
        return cls(net, lower, upper, at_lower, at_upper, kink)

    def select(self, index: Tensor) -> Hull:
        corners = (self.lower, self.upper, self.at_lower, self.at_upper, self.kink)
        return Hull(self.net, *(t[index] for t in corners))


class Solved(NamedTuple):
    """Every subproblem solved under the prices at hand."""

    value: Tensor  # (domain,): the dual bound
    residual: Tensor  # (domain, U): ẑ_A − ẑ_B at the minimisers, the bound's supergradient
    values: Tensor  # (domain, 1 + Y + U): v at the minimisers


def solve(hull: Hull, seed: Tensor, rho: Tensor) -> Solved:
    """Solve every subproblem under the prices rho (domain, U); seed: (domain, 1 + Y + U).

    Two matrix products, no loop over layers; not for proofs.
    """
    net = hull.net
    base, first = net.base, net.direct
    carried = _carry(net, seed, rho)
    after = carried[:, base:]
    low = torch.mul(after, hull.at_lower).addcmul_(rho, hull.lower, value=-1)
    high = torch.mul(after, hull.at_upper).addcmul_(rho, hull.upper, value=-1)
    rises, least = high < low, torch.minimum(low, high)
    off = least <= hull.kink  # not at the corner (0, 0)
    values = torch.empty_like(carried)
    values[:, 0] = 1.0
    torch.mul(torch.where(rises, hull.at_upper, hull.at_lower), off, out=values[:, base:])
    copy = torch.where(rises, hull.upper, hull.lower).mul_(off)
    at_input = net.trunk.pull(carried[:, 1:base])
    values[:, 1:base] = net.trunk.push(net.region.minimiser(at_input))
    value = carried[:, 0] + carried[:, 1:base] @ net.trunk.centre + torch.minimum(least, hull.kink).sum(1)
    residual = copy.neg_()
    residual[:, :first] += values[:, 1 : 1 + first]
    if first < net.count:
        residual[:, first:].addmm_(values, net.matrix[first:].mT)
    return Solved(value + net.region.least_of(at_input), residual, values)


def prove(hull: Hull, seed: Tensor, rho: Tensor) -> Pulled:
    """Evaluate the dual bound in a proof copy, rounding charged: the exact ρ is whatever float64 it is given as.

    The products with M and the errors of the forms are charged as for `Condensed.backward`. A neuron's term takes three
    roundings, the corner's z one more where the nonlinearity leaks, and their sum one each.
    """
    net, base = hull.net, hull.net.base
    carried = _carry(net, seed, rho)
    after = carried[:, base:]
    low, high = after * hull.at_lower - rho * hull.lower, after * hull.at_upper - rho * hull.upper
    terms = torch.minimum(torch.minimum(low, high), hull.kink)
    widest = torch.maximum(hull.lower.abs(), hull.upper.abs())
    highest = torch.maximum(hull.at_lower.abs(), hull.at_upper.abs())
    size = (after.abs() * highest + rho.abs() * widest).sum(1)
    lost = terms.sum(1) - enlarged(with_vanishing(rounding(size, net.count + 8), net.count))
    return net.proved(seed, carried[:, :base], lost, after, rho)


def _carry(net: Condensed, seed: Tensor, rho: Tensor) -> Tensor:
    """Return c + ρM, (domain, 1 + Y + U)."""
    first = net.direct
    carried = torch.addmm(seed, rho[:, first:], net.matrix[first:]) if first < net.count else seed.clone()
    carried[:, 1 : 1 + first] += rho[:, :first]
    return carried
