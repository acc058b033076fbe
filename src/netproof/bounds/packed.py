"""The lines of the packed neurons of a batch of sub-domains, for every value of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.domains import Known
from netproof.bounds.linear.layers import Layer, alike
from netproof.bounds.linear.region import BoxRegion
from netproof.bounds.planes.planes import Lift
from netproof.core.forms import Interval
from netproof.relax import Family, Fan, Lines


class Lagrangian(NamedTuple):
    """What stands for the constraints of sub-domains in a bound: lines for neurons, multipliers for splits, boxes."""

    lines: Lines  # (domain or 1, U) each
    signed: Tensor | None = None  # (domain, U): sβ, the multiplier of each split s·(h − q) >= 0 with its sign; None: 0
    offset: Tensor | None = None  # (domain, U): sβq; None: 0
    region: BoxRegion | None = None  # the boxes of the input, as `Net.over` gives them; None: the whole input set
    lift: Lift | None = None  # what goes to planes of the first layer's neurons; None: nothing


@dataclass(frozen=True, eq=False)
class Packed:
    """The packed neurons of sub-domains: their lines for every value of the parameters, and how they are split."""

    runs: tuple[tuple[slice, Family], ...]  # (domain, ·) each, or (1, ·) where all share them
    sign: Tensor  # (domain, U) or (1, U): +1, −1 where it is split, else 0; of a free multiplier +1 and 0
    band: Band | None  # None: every split is at 0

    @classmethod
    def of(cls, layers: Sequence[Layer], known: Known, *, proof: bool) -> Packed:
        """Relax the neurons on what is known of them; with `proof`, so that the lines are sound in real arithmetic."""
        lower, upper, splits, points, _ = known
        runs = families(layers, Interval(lower, upper), proof=proof)
        sign = splits.sign().to(lower.dtype)
        if points is None:
            return cls(runs, sign, None)
        parts = [torch.full((layer.count,), layer.relaxation.kink is None) for layer in layers]
        free = torch.cat([torch.zeros(0, dtype=torch.bool), *parts]).to(lower.device)
        band = Band(torch.where(free, lower, points), torch.where(free, upper, points), free)
        return cls(runs, torch.where(free, sign.abs(), sign), band)

    def select(self, index: Tensor) -> Packed:
        """Return those of some sub-domains; what all share stays shared."""
        runs = tuple((packed, family.select(index)) for packed, family in self.runs)
        return Packed(runs, some(self.sign, index), None if self.band is None else self.band.select(index))

    def splits(self, index: Tensor) -> Packed:
        """Return how some sub-domains are split, without any lines."""
        return replace(self, runs=()).select(index)

    def at(self, t: Tensor) -> Lines:
        """Return the lines at parameters t (domain, U)."""
        return lines_at(self.runs, t)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        """Write what the bound gains by t, up to a positive factor for each neuron, to `out` (domain, U)."""
        for packed, family in self.runs:
            family.gradient(t[:, packed], coef[:, packed], h[:, packed], out[:, packed])

    def multiplier_gradient(self, multipliers: Tensor, h: Tensor, out: Tensor) -> None:
        """Write what the bound gains by the multipliers to `out` (domain, U)."""
        if self.band is not None:
            signed = self.sign * multipliers
            low, high, _ = self.band
            between = h.maximum(low).minimum(high)
            h = h - torch.where(signed > 0, low, torch.where(signed < 0, high, between))
        torch.mul(h, self.sign, out=out).neg_()

    def lagrangian(
        self, lines: Lines, multipliers: Tensor | None, region: BoxRegion | None, lift: Lift | None = None
    ) -> Lagrangian:
        """Return what bounds the sub-domains by lines, planes and multipliers (domain, U), over boxes of the input."""
        if multipliers is None:
            return Lagrangian(lines, None, None, region, lift)
        signed = self.sign * multipliers
        if self.band is None:
            return Lagrangian(lines, signed, None, region, lift)
        offset = signed.clamp(min=0) * self.band.low + signed.clamp(max=0) * self.band.high
        return Lagrangian(lines, signed, offset, region, lift)

    def project_(self, multipliers: Tensor) -> Tensor:
        """Make the multipliers (domain, U) sound, in place: not negative, but where they are free."""
        if self.band is None:
            return multipliers.clamp_(min=0)
        return multipliers.copy_(torch.where(self.band.free, multipliers, multipliers.clamp(min=0)))


class Band(NamedTuple):
    """Where splits keep h: (domain, U) or (1, U) each. At a kink both sides are its point.

    A neuron without a kink is split again and again, so that it is held from both sides; then its multiplier is free,
    and its sign says which side it is of: β < 0 is the multiplier of h <= u and β > 0 that of h >= l.
    """

    low: Tensor
    high: Tensor
    free: Tensor  # (U,) bool

    def select(self, index: Tensor) -> Band:
        """Return those of some sub-domains."""
        return Band(some(self.low, index), some(self.high, index), self.free)


def some(shared: Tensor, index: Tensor) -> Tensor:
    """Return the entries at `index` of the first axis; where all share one, that one."""
    return shared if shared.shape[0] == 1 else shared[index]


def families(layers: Sequence[Layer], h: Interval, *, proof: bool) -> tuple[tuple[slice, Family], ...]:
    """Return the families of lines on bounds (*lead, U) of the neurons, by runs of columns."""
    found = [
        (packed, relaxation.family(Interval(h.lower[..., packed], h.upper[..., packed]), proof=proof))
        for relaxation, packed in alike(layers)
    ]
    fans = [family for _, family in found if isinstance(family, Fan)]
    if len(fans) == len(found) != 1:  # as one: it is the number of operations that counts
        every = Fan(h.lower, h.lower, h.lower, h.lower, None) if not fans else Fan.joined(fans)
        found = [(slice(0, h.lower.shape[-1]), every)]
    return tuple(found)


def lines_at(runs: Sequence[tuple[slice, Family]], t: Tensor) -> Lines:
    """Return the lines at parameters t (*lead, U)."""
    if len(runs) == 1:
        return runs[0][1].at(t)
    found = [family.at(t[..., packed]) for packed, family in runs]
    full = [[torch.zeros_like(lines.lower_slope) if one is None else one for one in lines] for lines in found]
    lead = t.shape[:-1]
    return Lines(*(torch.cat([one.expand(*lead, -1) for one in part], -1) for part in zip(*full, strict=True)))
