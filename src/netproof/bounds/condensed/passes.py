"""Bounds of the condensed network, and their gradient, by matrix products.

For a form c over (1, y, z), lines of every neuron and a multiplier β >= 0 for every split s·(h − q) >= 0:

    a_k = c_k + Σ_{j>k} p_j M_jk             the coefficient of z_k
    p_k = a_k⁺ α_k + a_k⁻ u_k − s_k β_k       the coefficient of h_k
    bound = c_1 + Σ p M_1 + Σ (a⁺ b + a⁻ c + sβq) + min_x (c_y + Σ p M_y)·y(x)

where α·h + b is the lower line, u·h + c the upper one, and s·(h − q) >= 0 a split at q. A split's term −sβ(h − q) is
at most 0 where the split holds, so the bound is sound for any β >= 0. By the envelope theorem its gradient needs no
tape: evaluate the relaxed network forwards at the minimiser x*, each neuron on the line that its coefficient chose;
then ∂/∂line = a_k times the line's own change at h_k, and ∂/∂β_k = −s_k (h_k − q_k).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed, trunk_bound
from netproof.bounds.domains import Known
from netproof.core.forms import Interval
from netproof.numerics import INFLATE, gamma
from netproof.relax import Family, Fan, Lines


@dataclass(frozen=True, eq=False)
class Packed:
    """The packed neurons of sub-domains: their lines for every value of the parameters, and how they are split."""

    runs: tuple[tuple[slice, Family], ...]  # (domain, ·) each, or (1, ·) where all share them
    sign: Tensor  # (domain, U) or (1, U): +1, −1 where it is split, else 0; of a free multiplier +1 and 0
    band: Band | None  # None: every split is at 0

    def select(self, index: Tensor) -> Packed:
        """Return those of some sub-domains; what all share stays shared."""
        runs = tuple((packed, family.select(index)) for packed, family in self.runs)
        return Packed(runs, _some(self.sign, index), None if self.band is None else self.band.select(index))

    def splits(self, index: Tensor) -> Packed:
        """Return how some sub-domains are split, without any lines."""
        return replace(self, runs=()).select(index)

    def at(self, t: Tensor) -> Lines:
        """Return the lines at parameters t (domain, U)."""
        if len(self.runs) == 1:
            return self.runs[0][1].at(t)
        found = [family.at(t[:, packed]) for packed, family in self.runs]
        full = [[torch.zeros_like(lines.lower_slope) if one is None else one for one in lines] for lines in found]
        return Lines(*(torch.cat([one.expand(len(t), -1) for one in part], 1) for part in zip(*full, strict=True)))

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        """Write what the bound gains by t, up to a positive factor for each neuron, to `out` (domain, U)."""
        for packed, family in self.runs:
            family.gradient(t[:, packed], coef[:, packed], h[:, packed], out[:, packed])

    def multiplier_gradient(self, multipliers: Tensor, h: Tensor, out: Tensor) -> None:
        """Write what the bound gains by the multipliers to `out` (domain, U)."""
        if self.band is not None:
            force = self.sign * multipliers
            low, high, _ = self.band
            between = h.maximum(low).minimum(high)
            h = h - torch.where(force > 0, low, torch.where(force < 0, high, between))
        torch.mul(h, self.sign, out=out).neg_()

    def project_(self, multipliers: Tensor) -> Tensor:
        """Make the multipliers (domain, U) sound, in place: not negative, but where they are free."""
        if self.band is None:
            return multipliers.clamp_(min=0)
        return multipliers.copy_(torch.where(self.band.free, multipliers, multipliers.clamp(min=0)))


class Band(NamedTuple):
    """Where splits keep h: (domain, U) or (1, U) each. At a kink both sides are its point.

    A neuron without a kink is split again and again, so that it is held from both sides; then its multiplier is free,
    and its sign says which side it is of.
    """

    low: Tensor
    high: Tensor
    free: Tensor  # (U,) bool

    def select(self, index: Tensor) -> Band:
        """Return those of some sub-domains."""
        return Band(_some(self.low, index), _some(self.high, index), self.free)


def _some(shared: Tensor, index: Tensor) -> Tensor:
    return shared if shared.shape[0] == 1 else shared[index]


def packed_lines(net: Condensed, known: Known, *, proof: bool) -> Packed:
    """Relax the neurons on what is known of them; with `proof`, in float64 and rounded so that the lines are sound."""
    lower, upper, splits, points = known.to(net.matrix.dtype)
    found = [
        (packed, relaxation.family(Interval(lower[:, packed], upper[:, packed]), proof=proof))
        for relaxation, packed in net.alike
    ]
    fans = [family for _, family in found if isinstance(family, Fan)]
    if len(fans) == len(found) != 1:  # as one: it is the number of operations that counts
        every = Fan(lower, lower, lower, lower, None) if not fans else Fan.joined(fans)
        found = [(slice(0, net.count), every)]
    sign = splits.sign().to(lower.dtype)
    if points is None:
        return Packed(tuple(found), sign, None)
    free = torch.cat([torch.full((layer.count,), layer.relaxation.kink is None) for layer in net.layers])
    free = free.to(lower.device)
    band = Band(torch.where(free, lower, points), torch.where(free, upper, points), free)
    return Packed(tuple(found), torch.where(free, sign.abs(), sign), band)


def within(t: Tensor) -> Tensor:
    """Return the parameters in their range; rounding may have taken them just outside."""
    return t.clamp(0.0, 1.0)


class Pulled(NamedTuple):
    """A form carried back to the input."""

    value: Tensor  # (domain,)
    after: Tensor  # (domain, U): a, the coefficient of z
    before: Tensor  # (domain, U): p, the coefficient of h
    at_input: Tensor  # (domain, *input)
    lines: Lines | None = None  # that it was carried back by; None where it was not by lines

    def select(self, index: Tensor) -> Pulled:
        """Return those of some sub-domains."""
        lines = self.lines and Lines(*(None if t is None else _some(t, index) for t in self.lines))  # type: ignore[arg-type]
        return Pulled(self.value[index], self.after[index], self.before[index], self.at_input[index], lines)


def pull(
    net: Condensed, seed: Tensor, packed: Packed, t: Tensor, multipliers: Tensor | None, lines: Lines | None = None
) -> Pulled:
    """Bound each seed (domain, 1 + Y + U) from below at parameters t (domain, U); lines: those at t, where known.

    multipliers: β (domain, U), 0 where nothing is split; None: none anywhere. Where it is free, β < 0 is the multiplier
    of h <= u and β > 0 that of h >= l. In a proof copy rounding is charged.
    """
    lines = packed.at(t) if lines is None else lines
    count, base, first = net.count, net.base, net.direct
    after, before = seed[:, base:].clone(), torch.empty_like(t.expand(len(seed), -1))
    # Taking many small views costs as much as the arithmetic on a GPU, so they are taken all at once.
    upper, lower = lines.upper_slope.split(net.sizes, 1), lines.lower_slope.split(net.sizes, 1)
    a, p = after.split(net.sizes, 1), before.split(net.sizes, 1)
    force = None if multipliers is None else packed.sign * multipliers
    split = None if force is None else force.split(net.sizes, 1)
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
    lost = (after.clamp(max=0) * lines.upper_intercept).sum(1)
    if lines.lower_intercept is not None:
        lost = lost + (after.clamp(min=0) * lines.lower_intercept).sum(1)
    offset = None
    if force is not None and packed.band is not None:
        offset = force.clamp(min=0) * packed.band.low + force.clamp(max=0) * packed.band.high
    if net.charges is not None:
        return proved(net, seed, at_base, lost, after, before, offset)._replace(lines=lines)
    at_input = net.trunk.pull(at_base[:, 1:])
    value = at_base[:, 0] + at_base[:, 1:] @ net.trunk.centre + lost + net.region.least_of(at_input)
    if offset is not None:
        value = value + offset.sum(1)
    return Pulled(value, after, before, at_input, lines)


def proved(
    net: Condensed,
    seed: Tensor,
    at_base: Tensor,
    lost: Tensor,
    after: Tensor,
    before: Tensor,
    offset: Tensor | None = None,
) -> Pulled:
    """at_base (domain, 1 + Y) over (1, y), and what the neurons lose (domain,), with every rounding taken off.

    offset: (domain, U), what the splits give besides, where they are not at 0.
    """
    charges = net.charges
    assert charges is not None
    form = trunk_bound(net, at_base[:, 1:])
    least = net.region.least(form)
    charge = before.abs() @ charges.before + after.abs() @ charges.after + seed.abs() @ charges.seed
    charge = charge + charges.lost
    if offset is not None:  # one rounding of each product, and those of their sum
        lost = lost + offset.sum(1)
        charge = charge + offset.abs().sum(1) * gamma(net.count + 16)
    size = at_base[:, 0].abs() + lost.abs() + least.abs() + charge
    value = at_base[:, 0] + lost + least - charge * INFLATE - size * gamma(8)
    return Pulled(value, after, before, form.coef)


def push(net: Condensed, pulled: Pulled) -> tuple[Tensor, Tensor]:
    """h (domain, U) and v = (1, y, z) (domain, 1 + Y + U) of the relaxed network at the bound's minimiser."""
    lines = pulled.lines
    assert lines is not None
    base, count = net.base, net.count
    values = pulled.value.new_empty(len(pulled.value), base + count)
    values[:, 0] = 1.0
    values[:, 1:base] = net.trunk.push(net.region.minimiser(pulled.at_input))
    h = torch.empty_like(pulled.after)
    falls = pulled.after < 0
    slope = torch.where(falls, lines.upper_slope, lines.lower_slope)
    lift = torch.where(falls, lines.upper_intercept, 0.0 if lines.lower_intercept is None else lines.lower_intercept)
    read, z = h.split(net.sizes, 1), values[:, base:].split(net.sizes, 1)
    slope_of, lift_of = slope.split(net.sizes, 1), lift.split(net.sizes, 1)
    for k, layer in enumerate(net.layers):
        if layer.packed.stop <= net.direct:
            read[k].copy_(values[:, 1 : 1 + net.direct])
        else:
            torch.mm(values[:, : base + layer.start], net.from_before[k], out=read[k])
        torch.addcmul(lift_of[k], slope_of[k], read[k], out=z[k])
    return h, values
