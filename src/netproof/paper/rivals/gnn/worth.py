"""What a split is worth, from what the bounds of its two children gain.

Suppose every split of a sub-domain gained the same shares l and r of what is missing. The tree that closes it then has
about φ leaves, where φ^−l + φ^−r = 1 (Le Bodic and Nemhauser, 2017). Its height is log₂ φ, and the worth is 1 / log₂ φ:
a split that gains g on both sides is worth g, one that gains on one side only is worth nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

HALVINGS = 24
LEAST = 1e-3  # a gain below this is counted as this: what follows the split may still gain


def gains(value: Tensor, bound: Tensor) -> Tensor:
    """Return the share of what is missing to a proof that each child gains, (n, k, 2); 1 where it is proved.

    value: (n, k, 2), the children's bounds; bound: (n,), the parent's. A proof is a bound above 0.
    """
    missing = -bound.double().clamp(max=-1e-9)[:, None, None]
    after = value.double().nan_to_num(nan=-torch.inf).clamp(max=0)
    return (1 + after / missing).clamp(0, 1).float()


def worth(gain: Tensor) -> Tensor:
    """Return what splits are worth, (...) in (0, 1], from the gains of their children, (..., 2) in [0, 1]."""
    low, high = gain.amin(-1).clamp(min=LEAST), gain.amax(-1).clamp(min=LEAST)
    ratio = low / high
    least, most = torch.full_like(low, -40.0), torch.zeros_like(low)  # of ln t, where t^ratio + t = 1, t = φ^−high
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        above = middle.exp() + (ratio * middle).exp() > 1
        least, most = torch.where(above, least, middle), torch.where(above, middle, most)
    return high * math.log(2) / -(least + most).div(2)
