"""A batch of sub-domains as tensors: which neurons are split which way, and what is known there.

`U` counts the neurons that are unstable at the root, over all nonlinear nodes, packed in topological order. Nothing
is stored for the others: their lines are the same in every sub-domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Domains:
    """`splits` holds +d where h >= 0 and −d where h <= 0 was decided at depth d, and 0 elsewhere.

    The halves are closed, so a sub-domain is the set of the root's x that satisfy its signs, and one that has all
    the signs of another is contained in it.
    """

    target: Tensor  # (domain,) int64
    splits: Tensor  # (domain, U) int16
    lower: Tensor  # (domain, U) float32: confirmed bounds of h on this sub-domain
    upper: Tensor  # (domain, U) float32
    slopes: Tensor  # (domain, U) float16; any value in range is sound, so rounding them is harmless
    multipliers: Tensor  # (domain, U) float16: β of each split, likewise; (domain, 0) where a method has none
    weights: Tensor  # (domain, row) float32: λ
    bound: Tensor  # (domain,) float64: confirmed lower bound of Σ λ r
    candidates: Tensor  # (domain, k) int64: neurons to split, best first, −1 where there is none
    settled: Tensor  # (domain,) int64: how many of the decisions the bounds above take into account
    renewed: Tensor  # (domain,) int64: how many there were when the neurons were last bounded again

    def __len__(self) -> int:
        return self.target.shape[0]

    def map(self, fn: Callable[[Tensor], Tensor]) -> Domains:
        return Domains(**{f.name: fn(getattr(self, f.name)) for f in fields(self)})

    def put(self, index: Tensor, some: Domains) -> Domains:
        """The same with those at `index` (n,) replaced."""
        pairs = zip(self.tensors(), some.tensors(), strict=True)
        return Domains(*(old.index_copy(0, index, new) for old, new in pairs))

    def tensors(self) -> list[Tensor]:
        return [getattr(self, f.name) for f in fields(self)]

    @property
    def bytes_each(self) -> int:
        """What one sub-domain takes."""
        return sum(math.prod(t.shape[1:]) * t.element_size() for t in self.tensors())

    def select(self, index: Tensor | slice) -> Domains:
        """The sub-domains at `index` (positions, a mask or a range)."""
        return self.map(lambda t: t[index])

    @property
    def depth(self) -> Tensor:
        """(domain,): the last decision's place in the order they were taken."""
        if self.splits.shape[1] == 0:
            return torch.zeros_like(self.target)
        return self.splits.abs().amax(1).long()

    @property
    def unstable(self) -> Tensor:
        """(domain, U): neurons that a split would make linear."""
        return (self.lower < 0) & (self.upper > 0)

    def contained_in(self, splits: Tensor) -> Tensor:
        """(domain,): which sub-domains have all the signs of `splits` (U,)."""
        fixed = splits != 0
        return (self.splits.sign()[:, fixed] == splits.sign()[fixed]).all(1)


def concatenate(parts: Sequence[Domains]) -> Domains:
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(Domains)]
    return Domains(**{n: torch.cat([getattr(p, n) for p in parts]) for n in names})


def split(domains: Domains, neurons: Tensor) -> Domains:
    """Each sub-domain split on all of its `neurons` (domain, k), none of them split yet: up to 2^k children.

    A −1 splits nothing, so a sub-domain that runs out of neurons has fewer children.
    """
    origin = torch.arange(len(domains), device=neurons.device)
    for column in neurons.unbind(1):
        neuron = column[origin]
        real = neuron >= 0
        positive = _take_side(domains, neuron, +1)
        negative = _take_side(domains.select(real), neuron[real], -1)
        domains = concatenate([positive, negative])
        origin = torch.cat([origin, origin[real]])
    return domains


def _take_side(domains: Domains, neuron: Tensor, sign: int) -> Domains:
    """h >= 0 (sign +1) or h <= 0 (sign −1) at `neuron` (domain,); −1 changes nothing."""
    at = neuron.clamp(min=0)[:, None]
    real = (neuron >= 0)[:, None]
    mark = (sign * (domains.depth + 1)).to(torch.int16)[:, None]
    splits = domains.splits.scatter(1, at, torch.where(real, mark, domains.splits.gather(1, at)))
    known = (domains.lower if sign > 0 else domains.upper).gather(1, at)
    clamped = torch.where(real, known.clamp(min=0) if sign > 0 else known.clamp(max=0), known)
    if sign > 0:
        return replace(domains, splits=splits, lower=domains.lower.scatter(1, at, clamped))
    return replace(domains, splits=splits, upper=domains.upper.scatter(1, at, clamped))


def parents(domains: Domains) -> Tensor:
    """(domain, U) splits of each one's parent: the same signs without the last decision."""
    depth = domains.depth.to(torch.int16)[:, None]
    return torch.where(domains.splits.abs() == depth, torch.zeros_like(domains.splits), domains.splits)
