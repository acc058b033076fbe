"""Bounds of the condensed network, and their gradient, by matrix products.

For a form c over (1, y, z), lines of every neuron and a multiplier β >= 0 for every split s·h >= 0:

    a_k = c_k + Σ_{j>k} p_j M_jk             the coefficient of z_k
    p_k = a_k⁺ α_k + a_k⁻ u_k − s_k β_k       the coefficient of h_k
    bound = c_1 + Σ p M_1 + Σ a⁻ t + min_x (c_y + Σ p M_y)·y(x)

where α is the lower slope and u·h + t the upper line. A split's term −sβh is at most 0 where the split holds, so the
bound is sound for any β >= 0. By the envelope theorem its gradient needs no tape: evaluate the relaxed network forwards
at the minimiser x*, each neuron on the line that its coefficient chose; then ∂/∂α_k = a_k⁺ h_k and ∂/∂β_k = −s_k h_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed, trunk_bound
from netproof.numerics import INFLATE, gamma


@dataclass(frozen=True, eq=False)
class Packed:
    """The lines of the packed neurons in each sub-domain; (domain, U) each, or (1, U) where all share them."""

    slope: Tensor  # u of the upper line
    intercept: Tensor  # t
    low: Tensor  # the range of the lower slope: one value where the neuron is stable here
    high: Tensor
    sign: Tensor  # +1, −1 where it is split, else 0

    def select(self, index: Tensor) -> Packed:
        """Of some sub-domains; what all share stays shared."""
        parts = (self.slope, self.intercept, self.low, self.high, self.sign)
        return Packed(*(t if t.shape[0] == 1 else t[index] for t in parts))


def packed_lines(net: Condensed, lower: Tensor, upper: Tensor, splits: Tensor, *, proof: bool) -> Packed:
    """From the bounds (domain, U) of h and the splits, (domain, U) or (1, U)."""
    slope, intercept = torch.empty_like(lower), torch.empty_like(lower)
    low, high = torch.empty_like(lower), torch.empty_like(lower)
    for layers, packed in net.alike:
        relaxation = layers[0].relaxation
        lo, hi = lower[:, packed], upper[:, packed]
        line = relaxation.upper_line(lo, hi, proof=proof)
        slope[:, packed], intercept[:, packed] = line
        unstable = relaxation.unstable(lo, hi)
        ends = relaxation.project(torch.full_like(lo, -torch.inf)), relaxation.project(torch.full_like(lo, torch.inf))
        low[:, packed] = torch.where(unstable, ends[0], line[0])
        high[:, packed] = torch.where(unstable, ends[1], line[0])
    return Packed(slope, intercept, low, high, splits.sign().to(lower.dtype))


def within(lines: Packed, slopes: Tensor) -> Tensor:
    """The slopes in the range that is sound; rounding may have taken them just outside."""
    return slopes.clamp(min=lines.low, max=lines.high)


class Pulled(NamedTuple):
    """A form carried back to the input."""

    value: Tensor  # (domain,)
    after: Tensor  # (domain, U): a, the coefficient of z
    before: Tensor  # (domain, U): p, the coefficient of h
    at_input: Tensor  # (domain, *input)


def pull(net: Condensed, seed: Tensor, lines: Packed, slopes: Tensor, multipliers: Tensor | None) -> Pulled:
    """The lower bound of each seed (domain, 1 + Y + U). slopes: α (domain, U), within the range of `lines`.

    multipliers: β (domain, U), 0 where nothing is split; None: none anywhere. In a proof copy rounding is charged.
    """
    count, base, first = net.count, net.base, net.direct
    after, before = seed[:, base:].clone(), torch.empty_like(slopes.expand(len(seed), -1))
    # Taking many small views costs as much as the arithmetic on a GPU, so they are taken all at once.
    upper, lower = lines.slope.split(net.sizes, 1), slopes.split(net.sizes, 1)
    a, p = after.split(net.sizes, 1), before.split(net.sizes, 1)
    split = None if multipliers is None else (lines.sign * multipliers).split(net.sizes, 1)
    for k in reversed(range(len(net.layers))):
        if net.onto[k].shape[0]:
            a[k].addmm_(before[:, net.layers[k].packed.stop :], net.onto[k])
        torch.mul(a[k], torch.where(a[k] < 0, upper[k], lower[k]), out=p[k])
        if split is not None:
            p[k].sub_(split[k])
    at_base = seed[:, :base]
    if first < count:
        at_base = torch.addmm(at_base, before[:, first:], net.onto_base)
    if first:
        at_base = at_base.clone() if first == count else at_base
        at_base[:, 1 : 1 + first].add_(before[:, :first])
    lost = (after.clamp(max=0) * lines.intercept).sum(1)
    if net.charges is not None:
        return proved(net, seed, at_base, lost, after, before)
    at_input = net.trunk.pull(at_base[:, 1:])
    value = at_base[:, 0] + at_base[:, 1:] @ net.trunk.centre + lost + net.region.least_of(at_input)
    return Pulled(value, after, before, at_input)


def proved(net: Condensed, seed: Tensor, at_base: Tensor, lost: Tensor, after: Tensor, before: Tensor) -> Pulled:
    """at_base (domain, 1 + Y) over (1, y), and what the neurons lose (domain,), with every rounding taken off."""
    charges = net.charges
    assert charges is not None
    form = trunk_bound(net, at_base[:, 1:])
    least = net.region.least(form)
    charge = before.abs() @ charges.before + after.abs() @ charges.after + seed.abs() @ charges.seed
    charge = charge + charges.lost
    size = at_base[:, 0].abs() + lost.abs() + least.abs() + charge
    value = at_base[:, 0] + lost + least - charge * INFLATE - size * gamma(8)
    return Pulled(value, after, before, form.coef)


def push(net: Condensed, pulled: Pulled, lines: Packed, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """h (domain, U) and v = (1, y, z) (domain, 1 + Y + U) of the relaxed network at the bound's minimiser."""
    base, count = net.base, net.count
    values = pulled.value.new_empty(len(pulled.value), base + count)
    values[:, 0] = 1.0
    values[:, 1:base] = net.trunk.push(net.region.minimiser(pulled.at_input))
    h = torch.empty_like(pulled.after)
    falls = pulled.after < 0
    slope = torch.where(falls, lines.slope, slopes)
    lift = torch.where(falls, lines.intercept, 0.0)
    read, z = h.split(net.sizes, 1), values[:, base:].split(net.sizes, 1)
    slope_of, lift_of = slope.split(net.sizes, 1), lift.split(net.sizes, 1)
    for k, layer in enumerate(net.layers):
        if layer.packed.stop <= net.direct:
            read[k].copy_(values[:, 1 : 1 + net.direct])
        else:
            torch.mm(values[:, : base + layer.start], net.from_before[k], out=read[k])
        torch.addcmul(lift_of[k], slope_of[k], read[k], out=z[k])
    return h, values
