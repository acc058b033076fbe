"""BaBSR (Bunel et al. 2020): how much the bound would move if a neuron's relaxation became exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounds
from netproof.bounds.scope import Scope
from netproof.branching.brancher import Brancher

WEAK = 1e-4  # a best score below this says nothing, as in the original


@dataclass(frozen=True)
class Babsr(Brancher):
    """With coefficient A at the neuron's output, upper line s·h + t and bias b of h.

    The relaxed neuron gives A·s·b + min(A, 0)·t to the bound's constant; fixed active it gives A·b, fixed inactive 0.
    The score is the lesser of the two gains, and a loss counts as no gain: without multipliers for the splits a
    linear bound cannot profit from fixing a neuron with A > 0. Where all scores are weak, what the intercept
    loses decides.
    """

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        low, high = bounds.domains.lower, bounds.domains.upper
        width = torch.where(bounds.domains.unstable, high - low, torch.ones_like(low))
        slope = high / width
        lost = -bounds.coef.clamp(max=0) * (-low * slope)  # |min(A, 0)|·t
        through = bounds.coef * scope.bias
        gain = (lost - torch.maximum(through * (slope - 1), through * slope)).clamp(min=0)
        gain = torch.where(bounds.domains.unstable, gain, -torch.inf)
        weak = gain.amax(1, keepdim=True) < WEAK
        # A neuron with no influence seen may still be the only one left.
        return torch.where(weak, lost, gain) + 1e-6 * lost + 1e-12 * width
