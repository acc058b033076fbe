"""A random unstable neuron: the baseline that a branching rule must beat."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.scope import Scope
from netproof.branching.brancher import Brancher


@dataclass(frozen=True)
class Random(Brancher):
    """By a hash of the sub-domain's splits and the seed, so that the batch around a sub-domain changes nothing."""

    seed: int = 0

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        """Score every neuron at random, (domain, U) in [0, 1)."""
        splits = bounds.domains.splits.long()
        place = torch.arange(1, splits.shape[1] + 1, device=splits.device)
        own = mixed((splits * mixed(place + self.seed)).sum(1) + bounds.domains.target)
        return (mixed(own[:, None] + mixed(place)) & 0xFFFFFF).float() / (1 << 24)


def mixed(x: Tensor) -> Tensor:
    """Return integers that look unrelated to x (xorshift and multiply; products wrap alike on every device)."""
    for shift, factor in ((33, 0x7F51AFD7ED558CCD), (29, 0x44CEB9FE1A85EC53)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> 32)
