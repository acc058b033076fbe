"""Lookahead: propagate both sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.bounder import Bounds
from netproof.bounds.contract import contractor_of
from netproof.bounds.root import Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.problem.domains import Domains


@dataclass(frozen=True)
class Lookahead(Brancher):
    probes: int = 4
    sweeps: int = 50

    def scores(self, root: Root, bounds: Bounds) -> Tensor:
        return contractor_of(root).pressure(bounds.domains, torch.zeros(len(bounds.domains), dtype=torch.float64))

    @torch.no_grad()
    def reorder(self, root: Root, domains: Domains) -> Tensor:
        count, k = len(domains), min(self.probes, domains.candidates.shape[1])
        if count == 0 or k < 2:
            return domains.candidates
        tried = domains.candidates[:, :k]
        real = tried >= 0
        worth = self._worth(root, domains, tried.clamp(min=0))
        order = torch.where(real, worth, -torch.inf).sort(dim=1, descending=True, stable=True).indices
        return torch.cat([tried.gather(1, order), domains.candidates[:, k:]], 1)

    def _worth(self, root, domains, neurons):
        count, k = neurons.shape
        origin = torch.arange(count).repeat_interleave(2 * k)
        at = neurons.repeat_interleave(2, dim=1).reshape(-1, 1)
        active = torch.tensor([True, False]).repeat(count * k)[:, None]
        some = domains.select(origin)
        lower = some.lower.scatter(1, at, torch.where(active, 0.0, some.lower.gather(1, at)))
        upper = some.upper.scatter(1, at, torch.where(active, some.upper.gather(1, at), 0.0))
        found = contractor_of(root).contract(replace(some, lower=lower, upper=upper), torch.zeros(len(some), dtype=torch.float64), Deadline(None), self.sweeps)
        import os
        mode = os.environ.get("LMODE", "fail")
        empty = found.empty.view(count, k, 2)
        worth = empty.sum(2).double()
        if mode == "press":
            c = contractor_of(root)
            total = c.pressure(replace(some, lower=found.lower, upper=found.upper), torch.zeros(len(some), dtype=torch.float64)).sum(1)
            total = total.view(count, k, 2)
            big = total.amax() + 1
            total = torch.where(empty, big * 10, total)
            worth = total.prod(2)
        return worth


def _area(low, high):
    return torch.where((low < 0) & (high > 0), torch.minimum(-low , high) , 0.0)
