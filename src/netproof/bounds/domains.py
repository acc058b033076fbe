"""A batch of sub-domains as tensors: which neurons are split which way, and what is known there.

`U` counts the neurons that are unstable at the root, over all nonlinear nodes, packed in topological order. Nothing
is stored for the others: their lines are the same in every sub-domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.core.batch import Batch


class Known(NamedTuple):
    """What is known of the packed neurons on sub-domains: (domain, U) each, or (1, U) where all share it."""

    lower: Tensor  # bounds of h
    upper: Tensor
    splits: Tensor  # as in `Domains`
    points: Tensor | None  # where each was split last; None: at 0
    inside: Tensor | None = None  # (domain, 2, input) float64: the box of the input that each lies in; None: all of it

    def to(self, dtype: torch.dtype) -> Known:
        """Return the same in another precision; boxes of the input keep theirs."""
        points = None if self.points is None else self.points.to(dtype)
        return Known(self.lower.to(dtype), self.upper.to(dtype), self.splits, points, self.inside)

    def upto(self, count: int, index: Tensor | slice = slice(None)) -> Known:
        """Return what is known of the first `count` neurons on some of the sub-domains."""
        points = None if self.points is None else self.points[index, :count]
        inside = None if self.inside is None else self.inside[index]
        lower, upper, splits = (t[index, :count] for t in (self.lower, self.upper, self.splits))
        return Known(lower, upper, splits, points, inside)


@dataclass(frozen=True, eq=False)
class Domains(Batch):
    """`splits` holds +d where h >= q and −d where h <= q was decided at depth d, and 0 elsewhere; q is the point.

    The halves are closed, so a sub-domain is the set of the root's x that satisfy its decisions. Decisions on the input
    itself are kept as the box that they leave of it. Where each neuron is split once, at 0, one that has all the signs
    of another on the same box is contained in it.
    """

    target: Tensor  # (domain,) int64
    splits: Tensor  # (domain, U) int16
    lower: Tensor  # (domain, U) float32: confirmed bounds of h on this sub-domain
    upper: Tensor  # (domain, U) float32
    points: Tensor  # (domain, U) float32: where each neuron was split last; (domain, 0) where all are split at 0
    slopes: Tensor  # (domain, U) float32 in [0, 1]: the parameters of the neurons' lines
    multipliers: Tensor  # (domain, U) float32: β of each split, or ρ of each neuron
    weights: Tensor  # (domain, row) float32: λ
    bound: Tensor  # (domain,) float64: confirmed lower bound of Σ λ r, the parent's where that is better
    # (domain, 2) int64: how many were evaluated at once, counted below 0 in float32, and its place; 0, 0: it is the
    # parent's bound.
    evaluated: Tensor
    candidates: Tensor  # (domain, k) int64: neurons to split, best first, −1 where there is none
    settled: Tensor  # (domain,) int64: how many of the decisions the bounds above take into account
    rebounded: Tensor  # (domain,) int64: how many there were when the neurons were last bounded again
    level: Tensor  # (domain,) int64: halvings that led here, so that it is the share 2^-level of the target's set
    inside: Tensor  # (domain, 2, input) float64: lower and upper of the box of the input; (domain, 0, 0): all of it

    @classmethod
    def unsplit(
        cls, target: Tensor, lower: Tensor, upper: Tensor, points: Tensor, slopes: Tensor, rows: Tensor
    ) -> Domains:
        """Make one sub-domain of each target (n,) that is its whole set, of which no bound is known yet.

        lower, upper: (U,) or (n, U). points: (1, U) or (1, 0). slopes: (n or 1, U). rows: (n, row) bool, those that
        there are.
        """
        count, device, zero = len(target), target.device, torch.zeros_like(target)
        given = rows.float()
        return cls(
            target=target,
            splits=torch.zeros(count, lower.shape[-1], dtype=torch.int16, device=device),
            lower=lower.expand(count, -1).clone(),
            upper=upper.expand(count, -1).clone(),
            points=points.repeat(count, 1),
            slopes=slopes.float().expand(count, -1).clone(),
            multipliers=torch.zeros(count, lower.shape[-1], device=device),
            weights=given / given.sum(1, keepdim=True),
            bound=torch.full((count,), -torch.inf, dtype=torch.float64, device=device),
            evaluated=torch.zeros(count, 2, dtype=torch.int64, device=device),
            candidates=torch.full((count, 0), -1, dtype=torch.int64, device=device),
            settled=zero,
            rebounded=zero,
            level=zero,
            inside=torch.zeros(count, 0, 0, dtype=torch.float64, device=device),
        )

    @property
    def urgency(self) -> Tensor:
        """Return how deep the bounds are: where all tie the search goes depth first, and the frontier stays small."""
        return self.settled

    @property
    def depth(self) -> Tensor:
        """Return (domain,): the last decision's place in the order they were taken."""
        if self.splits.shape[1] == 0:
            return torch.zeros_like(self.target)
        return self.splits.abs().amax(1).long()

    @property
    def known(self) -> Known:
        """Return what a bound of these sub-domains may rest on."""
        points, inside = (t if t.shape[1] else None for t in (self.points, self.inside))
        return Known(self.lower, self.upper, self.splits, points, inside)

    def contained_in(self, splits: Tensor) -> Tensor:
        """Say which sub-domains (domain,) have all the signs of `splits` (U,); for neurons split once, at 0."""
        fixed = splits != 0
        return (self.splits.sign()[:, fixed] == splits.sign()[fixed]).all(1)


def split(domains: Domains, neurons: Tensor, points: Tensor | None = None) -> Domains:
    """Split each sub-domain on all of its `neurons` (domain, k), at points (domain, k) or 0: up to 2^k children.

    A −1 splits nothing, so a sub-domain that runs out of neurons has fewer children. All children are made at once:
    on a device it is the number of operations that counts.
    """
    k, device = neurons.shape[1], neurons.device
    sides = torch.arange(2**k, device=device)[:, None] >> torch.arange(k, device=device) & 1  # (2^k, k), 1: h <= 0
    wanted = ~((neurons < 0)[:, None] & (sides > 0)).any(2)  # (domain, 2^k)
    origin, side = wanted.nonzero(as_tuple=True)
    children, negative = domains.select(origin), sides[side] > 0
    at = neurons[origin]
    real = at >= 0
    order = children.depth[:, None] + real.cumsum(1)
    mark = torch.where(negative, -order, order).to(domains.splits.dtype)
    spare = domains.splits.shape[1]  # a column past the last takes what splits nothing
    at = torch.where(real, at, spare)
    splits, lower, upper = (F.pad(t, (0, 1)) for t in (children.splits, children.lower, children.upper))
    low, high = lower.gather(1, at), upper.gather(1, at)
    point = torch.zeros_like(low) if points is None else points[origin]
    kept = children.points
    return replace(
        children,
        splits=splits.scatter_(1, at, mark)[:, :spare],
        lower=lower.scatter_(1, at, torch.where(negative, low, low.maximum(point)))[:, :spare],
        upper=upper.scatter_(1, at, torch.where(negative, high.minimum(point), high))[:, :spare],
        points=kept if points is None else F.pad(kept, (0, 1)).scatter_(1, at, point)[:, :spare],
        evaluated=torch.zeros_like(children.evaluated),
        level=children.level + real.sum(1),
    )


def parents(domains: Domains) -> Tensor:
    """Return (domain, U) splits of each one's parent: the same signs without the last decision.

    For neurons that are split once: only LPs ask for parents, and there are none for others.
    """
    depth = domains.depth.to(torch.int16)[:, None]
    return torch.where(domains.splits.abs() == depth, torch.zeros_like(domains.splits), domains.splits)


def names_of(domains: Domains) -> list[bytes]:
    """Name sub-domains by their targets and the signs of their splits, for neurons that are split once."""
    signs = domains.splits.sign().to(torch.int8).cpu().numpy()
    return [
        target.to_bytes(8, "little") + own.tobytes() for target, own in zip(domains.target.tolist(), signs, strict=True)
    ]
