"""What every branching rule offers the search."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import splittable
from netproof.bounds.scope import Scope


class Brancher(ABC):
    """Ranks the unstable neurons of each sub-domain."""

    @abstractmethod
    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        """Score every neuron, (domain, U), larger is better; the scores of stable neurons are ignored."""

    def choose(self, scope: Scope, bounds: Bounds, k: int) -> Tensor:
        """Return (domain, k) unstable neurons, best first, −1 past the last."""
        k = min(k, scope.count)
        if k == 0:
            return bounds.domains.candidates.new_full((len(bounds.domains), 1), -1)
        able = splittable(scope.layers, bounds.domains.lower, bounds.domains.upper)
        scores = torch.where(able, self.scores(scope, bounds).nan_to_num(nan=0.0), -torch.inf)
        best, neurons = scores.topk(k, dim=1)
        return torch.where(best > -torch.inf, neurons, -1)

    def reorder(self, scope: Scope, domains: Domains, probes: int) -> Tensor:
        """Return the candidates (domain, k) of sub-domains about to be split, best first; here as they were ranked.

        probes: how many of each a rule may try first that tries any.
        """
        return domains.candidates
