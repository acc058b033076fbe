"""The graph network's choice under LPs, with the fail-safe and the online learning of Lu and Kumar (ICLR 2020).

A sub-domain is split on the network's choice and both children are bounded. Where they gain less than `weak` of what is
missing, on average, BaBSR's choice is tried as well, and the better of the two is taken. The children that are rejected
count as time and not as branches, as in the original.

Without `online`, BaBSR's choice of a neuron is tried no more once it has been of no use there `USELESS` times. With it,
once the network's choice of a neuron has failed `FAILURES` times, every further failure of that neuron is a lesson:
one step towards BaBSR's choice outranking it. Both as in the original, which has the one rule or the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import splittable
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import Scope
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.branching.minimiser import at_minimiser
from netproof.paper.rivals.gnn.features import features
from netproof.paper.rivals.gnn.rule import BIG, Gnn
from netproof.paper.rivals.gnn.trials import Trial, TryingLP

USELESS = 10  # times that BaBSR's choice of a neuron may be of no use, without `online`
LITTLE = 0.05  # a gain below this, and below the network's, is of no use
FAILURES = 2  # of the network's choice of a neuron, from which on it learns
DECAY = 1e-4  # of weights, in a lesson


@dataclass(frozen=True, eq=False)
class GnnFailSafe(Gnn):
    """Sub-domains are ranked by BaBSR as first published; where one is split, the network's choice comes first.

    So the network is asked when a sub-domain is split, with what it has learnt by then.
    """

    bounder: TryingLP = field(default_factory=TryingLP)
    useless: Counter[int] = field(default_factory=Counter, init=False, repr=False)  # by BaBSR's choice
    wrong: Counter[int] = field(default_factory=Counter, init=False, repr=False)  # by the network's

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        return BabsrOriginal(parallel=True).scores(scope, bounds)

    def reorder(self, scope: Scope, domains: Domains, probes: int) -> Tensor:
        """Return the candidates (domain, k), what to split first in front."""
        assert isinstance(scope, Root), "the graph's scale is that of the whole input set"
        if self.memory.root is not scope:  # neurons are numbered anew
            self.useless.clear()
            self.wrong.clear()
        self.bounder.forget_taken(scope)
        rows = [self._ranked(scope, domains.select(slice(i, i + 1))) for i in range(len(domains))]
        return torch.cat(rows) if rows else domains.candidates

    def _ranked(self, root: Root, domain: Domains) -> Tensor:
        """Return the candidates (1, k) of one sub-domain with the neuron in front that it is to be split on."""
        told = self._told(root, domain)
        chosen, other = self._choice(root, domain, told), int(domain.candidates[0, 0])
        self.memory.asked += 1
        if chosen < 0:
            return domain.candidates
        taken = self._better(root, domain, chosen, other) if self.weak > 0 else chosen
        if taken != chosen:
            self.memory.failed += 1
            self.wrong[chosen] += 1
            if self.online and self.wrong[chosen] >= FAILURES:
                self._take_lesson(root, told, chosen, other)
        behind = domain.candidates[domain.candidates != taken][None]
        first = domain.candidates.new_tensor([[taken]])
        return torch.cat([first, behind], 1)[:, : domain.candidates.shape[1]]

    def _told(self, root: Root, domain: Domains) -> Any:
        """Return what the network is told of a sub-domain, for `_scored`."""
        return told_of(root, domain)

    def _scored(self, root: Root, told: Any) -> Tensor:
        """Return the network's scores (U,)."""
        scores: Tensor = self._net(root.device)(self._links(root), told)[0]
        return scores

    def _learner(self, root: Root) -> nn.Module:
        """Return the network that lessons are for."""
        return self._net(root.device)

    @torch.no_grad()
    def _choice(self, root: Root, domain: Domains, told: Any) -> int:
        """Return the neuron that the network would split; −1 where none can be."""
        unstable = splittable(root.layers, domain.lower, domain.upper)[0]
        if told is None or not bool(unstable.any()):
            return -1
        scores = self._scored(root, told).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return int(torch.where(unstable, scores, -torch.inf).argmax())

    def _better(self, root: Root, domain: Domains, chosen: int, other: int) -> int:
        """Try the network's choice and, where that gains little, BaBSR's; return which is to be taken."""
        own = self.bounder.attempt(root, domain, chosen)
        if own is None:
            return chosen
        idle = not self.online and self.useless[other] >= USELESS
        if own.gain >= self.weak or other in (-1, chosen) or idle:
            return self._take(root, own, None)
        babsrs = self.bounder.attempt(root, domain, other)
        assert babsrs is not None
        if babsrs.gain > own.gain:
            return self._take(root, babsrs, own)
        if babsrs.gain < min(own.gain, LITTLE):
            self.useless[other] += 1
        return self._take(root, own, babsrs)

    def _take(self, root: Root, trial: Trial, rejected: Trial | None) -> int:
        self.bounder.take(root, trial)
        if rejected is not None:
            self.bounder.reject(root, rejected)
        return trial.neuron

    @torch.enable_grad()  # type: ignore[no-untyped-call,unused-ignore]
    def _take_lesson(self, root: Root, told: Any, chosen: int, better: int) -> None:
        """Take one step that lets BaBSR's choice gain on the network's, for this sub-domain alone."""
        memory = self.memory
        if memory.optimiser is None:
            parameters = self._learner(root).parameters()
            memory.optimiser = torch.optim.Adam(parameters, lr=self.rate, weight_decay=DECAY)
        scores = self._scored(root, told)
        memory.optimiser.zero_grad()
        (scores[chosen] - scores[better]).backward()
        memory.optimiser.step()
        memory.lessons += 1


@torch.no_grad()
def told_of(root: Root, domain: Domains) -> Tensor:
    """Return what the network is told (1, U, COUNT) of a sub-domain whose slopes and multipliers are its LP's duals."""
    nothing = torch.zeros(1, dtype=torch.bool, device=root.device)
    bounds = Bounds(domain, nothing, domain.slopes, domain.slopes[:, :0])  # the point is not asked for
    bounds = replace(bounds, coef=at_minimiser(root, bounds.domains).coef)
    babsr = Babsr().scores(root, bounds).nan_to_num(nan=0.0, posinf=BIG, neginf=0.0)
    return features(root, bounds, babsr)
