"""BaBSR (Bunel et al. 2020): by how much the bound would move if a neuron's relaxation became exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import alike, initial_slopes
from netproof.bounds.scope import Scope
from netproof.branching.brancher import Brancher
from netproof.core.forms import Interval

WEAK = 1e-4  # a best score below this says nothing, as in the original


@dataclass(frozen=True)
class Babsr(Brancher):
    """With coefficient A at the neuron's output, upper line s·h + t and bias b of h.

    The relaxed neuron gives A·s·b + min(A, 0)·t to the bound's constant; to the right of its split it gives A·b times
    the slope of g there (1 for a ReLU), to the left likewise (0).
    The score is the lesser of the two gains, and a loss counts as no gain. Where all scores are weak, what the
    intercept loses decides.
    """

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        chord = _chords(scope, bounds.domains, bounds.coef)
        lost = chord.lost  # of a ReLU |min(A, 0)|·t
        through = bounds.coef * scope.bias
        gain = lost - torch.maximum(through * (chord.slope - chord.right), through * (chord.slope - chord.left))
        gain = torch.where(chord.unstable, gain.clamp(min=0), -torch.inf)
        weak = gain.amax(1, keepdim=True) < WEAK
        # A neuron with no influence seen may still be the only one left.
        return torch.where(weak, lost, gain) + 1e-6 * lost + 1e-12 * chord.width


class _Chords(NamedTuple):
    """What the score knows of each neuron's upper line and of g on either side of its split: (domain, U) each."""

    unstable: Tensor
    width: Tensor
    slope: Tensor
    lost: Tensor
    left: Tensor
    right: Tensor


def _chords(scope: Scope, domains: Domains, coef: Tensor) -> _Chords:
    parts = []
    for relaxation, packed in alike(scope.layers):
        h = Interval(domains.lower[:, packed], domains.upper[:, packed])
        unstable = relaxation.splittable(h)
        lines = relaxation.family(h, proof=False).at(relaxation.initial(h))
        width = (h.upper - h.lower).masked_fill(~unstable, 1.0)
        lost = relaxation.lost(coef[:, packed], h, lines, free=True)
        parts.append((unstable, width, lines.upper_slope, lost, *relaxation.sides(h)))
    if len(parts) == 1:
        return _Chords(*parts[0])
    return _Chords(*(torch.cat(columns, 1) for columns in zip(*parts, strict=True)))


@torch.no_grad()
def _coefficients_of_parallel_lines(scope: Scope, domains: Domains) -> Tensor:
    """Return the coefficient of each neuron's output (domain, U) where all lower lines are parallel to upper ones."""
    slopes = initial_slopes(scope.layers, domains.lower, domains.upper, parallel=True)
    if len(domains) == 0:  # all that was bounded is proved
        return slopes
    return Dual.of(scope, domains, proof=False).at(DualPoint(slopes, None, domains.weights)).pulled.after


STRONG = 1e-3  # a best score up to this is weak, so that the intercepts decide, as in the original
LOSES = 1e-4  # an intercept that loses no more than this does not count, as in the original


@dataclass(frozen=True)
class BabsrOriginal(Brancher):
    """The rule as first published, for LPs: the score's absolute value, and seldom the first layer.

    A loss counts as much as a gain. Where the best neuron is of the first layer, or weak, the one whose intercept loses
    most is taken instead, in the last layer that has one; where there is none, the widest of the last layer.

    The coefficients are those of parallel lines on the sub-domain's own bounds, whatever slopes the bound has, which
    takes one pass. A bound that rests on parallel lines has them already (`parallel`). With `babsr-lp` on boxes x ± ε
    the rule makes the published branches: see "BaBSR's published counts" in docs/paper.md.
    """

    parallel: bool = False  # whether the bounds' own coefficients are those of parallel lines

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        coef = bounds.coef if self.parallel else _coefficients_of_parallel_lines(scope, bounds.domains)
        chord = _chords(scope, bounds.domains, coef)
        lost = torch.where(chord.unstable, chord.lost, -torch.inf)  # of a ReLU |min(A, 0)|·t
        through = coef * scope.bias
        change = torch.maximum(through * (chord.slope - chord.right), through * (chord.slope - chord.left)) - lost
        change = torch.where(chord.unstable, change.abs(), -torch.inf)
        layer = torch.zeros(scope.count, dtype=torch.int64, device=scope.device)
        for k, one in enumerate(scope.layers):
            layer[one.packed] = k
        best, at = change.max(1)
        last = torch.where(lost > LOSES, layer, -1).amax(1, keepdim=True)
        instead = torch.where(layer == last, lost, -1.0)
        instead = torch.where(last >= 0, instead, layer + 0.5 * chord.width / (1.0 + chord.width))
        return torch.where(((best > STRONG) & (layer[at] > 0))[:, None], change, instead)
