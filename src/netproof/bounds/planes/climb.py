"""Planes chosen by ascent: their slopes are parameters of a bound like those of lines.

With one factor φ for each input of a neuron, G = φ·w with φ between the slopes of g, and D is concave in φ. It begins
with the chord, the same φ for all inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, ascend
from netproof.bounds.dual import Dual, DualPoint, Evaluated
from netproof.bounds.linear.memory import budget
from netproof.bounds.planes.planes import Planes
from netproof.bounds.planes.reads import Reads

BOTH = 0.02  # of how far h goes from its middle, within which a plane counts as touching both lines of g


class Raised(NamedTuple):
    """A dual point, and planes of its own for each sub-domain."""

    theta: DualPoint
    factors: Tensor  # (domain, J, K): φ, as a share of the way from the leak to 1


@dataclass(frozen=True, eq=False)
class PlaneAscent:
    """D of a batch as a function of θ and of the slopes of planes, each sub-domain with its own."""

    dual: Dual  # of sub-domains that are split nowhere in the first layer
    reads: Reads

    def start(self, point: Raised) -> list[Tensor]:
        """Return what moves at a point: what a dual function has, and the factors."""
        return [*self.dual.start(point.theta), point.factors]

    def point(self, moving: Sequence[Tensor]) -> Raised:
        """Return the point that these parameters are."""
        return Raised(self.dual.point(moving[:-1]), moving[-1])

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Evaluated:
        """Evaluate D, with all that falls in the first layer on planes."""
        return self.lifted(moving[-1]).evaluate(moving[:-1], last=last)

    def gradient(self, moving: Sequence[Tensor], seen: Evaluated) -> list[Tensor]:
        """Return the gradient, of the factors up to |w|·radius of each: the ascent scales its steps by itself."""
        reads, pulled, lift = self.reads, seen.pulled, seen.pulled.lift
        assert lift is not None
        slopes = replace(self.dual, above=lift.above).gradient(moving[:-1], seen)
        point = pulled.region.minimiser(pulled.at_input).flatten(1)
        there = (reads.taken(point) / reads.radius.clamp(min=torch.finfo(point.dtype).tiny)).clamp(-1.0, 1.0)
        # Which line of g the plane touches says how its height moves. It begins where it touches both.
        steep, flat = _heights(reads, moving[-1])
        side = ((flat - steep) / (BOTH * reads.reach).clamp(min=torch.finfo(flat.dtype).tiny)).clamp(-1.0, 1.0)
        gain = torch.addcmul(side[:, :, None], reads.weight.sign(), there)
        return [*slopes, gain.mul_(lift.carried(pulled.after)[:, :, None])]

    def project_(self, moving: Sequence[Tensor]) -> None:
        """Take parameters into their range, in place."""
        self.dual.project_(moving[:-1])
        moving[-1].clamp_(0.0, 1.0)

    def select(self, index: Tensor) -> PlaneAscent:
        """Return the function of some sub-domains."""
        return PlaneAscent(self.dual.select(index), self.reads)

    def lifted(self, factors: Tensor) -> Dual:
        """Return the dual function with these planes."""
        each, height = torch.arange(len(factors), device=factors.device), torch.maximum(*_heights(self.reads, factors))
        planes = Planes(self.reads, slopes_of(self.reads, factors), height)
        return replace(self.dual, above=planes.of(each, whole=True))


def _heights(reads: Reads, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return at which heights (n, J) planes touch the steep and the flat line of g: `Reads.height`, in fewer steps."""
    part = (factors * reads.swing).sum(2) * (1 - reads.leak)
    return reads.bias + (1 - reads.leak) * reads.reach - part, reads.leak * reads.bias + part


def slopes_of(reads: Reads, factors: Tensor) -> Tensor:
    """Return G (n, J, K) of factors in [0, 1]."""
    return (factors if reads.leak == 0 else reads.leak + (1 - reads.leak) * factors) * reads.weight


def chords_of(reads: Reads) -> Tensor:
    """Return the factors (J,) whose planes are the chords on the whole box."""
    low, high = (reads.bias - reads.reach).clamp(max=0), (reads.bias + reads.reach).clamp(min=0)
    return (high / (high - low).clamp(min=torch.finfo(high.dtype).tiny)).clamp(0.0, 1.0)


def chord_slopes(reads: Reads) -> Tensor:
    """Return the slopes (1, J, K), float32, of planes that are the chords on the whole box."""
    search = reads.to_search
    return slopes_of(search, chords_of(search)[None, :, None])


@torch.no_grad()
def raise_planes(dual: Dual, reads: Reads, theta: DualPoint, climb: Climb) -> tuple[DualPoint, Tensor]:
    """Climb θ together with planes; return θ with all that falls on planes, and their slopes (domain, J, K).

    dual: to search with, without planes. reads: counted as that does.
    """
    factors = chords_of(reads)[None, :, None].expand(len(theta.slopes), -1, reads.width).contiguous()
    ascent = PlaneAscent(dual, reads)
    _, found = ascend(ascent, Raised(theta, factors), climb)
    after = ascent.lifted(found.factors).at(found.theta).pulled.after
    slopes = found.theta.slopes.clone()
    now = reads.of(slopes)
    reads.add_(slopes, torch.where(reads.of(after) < 0, 1.0 - now, 0.0))
    return replace(found.theta, slopes=slopes), slopes_of(reads, found.factors)


def raises_that_fit(reads: Reads) -> int:
    """Return how many bounds may be climbed at once with planes of their own: factors, moments, slopes of each."""
    entries = 12 * reads.count * reads.width
    return max(1, budget(reads.weight.device) // (entries * torch.float32.itemsize))
