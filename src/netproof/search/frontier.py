"""The set of unverified sub-domains (𝒫 of the paper), as tensors on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.problem.domains import Domains, concatenate


class Frontier:
    """Worst bound first."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def __len__(self) -> int:
        return len(self._domains)

    @property
    def lower_bound(self) -> float:
        """The least bound of any sub-domain; +inf when there is none."""
        return float(self._domains.bound.min()) if len(self) else float("inf")

    def push(self, domains: Domains) -> None:
        if len(domains):
            self._domains = concatenate([self._domains, domains]) if len(self) else domains

    def pop(self, n: int) -> Domains:
        """The n sub-domains with the least bounds, removed."""
        if n >= len(self):
            taken = self._domains
            self._domains = taken.select(torch.zeros(0, dtype=torch.int64, device=taken.bound.device))
            return taken
        index = self._domains.bound.topk(n, largest=False).indices
        rest = torch.ones(len(self), dtype=torch.bool, device=index.device)
        rest[index] = False
        taken = self._domains.select(index)
        self._domains = self._domains.select(rest)
        return taken

    def prune(self, target: int, splits: Tensor) -> int:
        """Drop every sub-domain of `target` inside the one with these splits (U,); how many there were."""
        inside = (self._domains.target == target) & self._domains.contained_in(splits)
        dropped = int(inside.sum())
        if dropped:
            self._domains = self._domains.select(~inside)
        return dropped

    def keep(self, mask_of: Tensor) -> None:
        """Keep the sub-domains where the mask (domain,) holds."""
        if not bool(mask_of.all()):
            self._domains = self._domains.select(mask_of)

    @property
    def domains(self) -> Domains:
        return self._domains
