"""Branching by a graph network trained to imitate strong branching, with BaBSR where its choice is weak.

After Lu and Kumar (ICLR 2020). The network scores the unstable neurons of each sub-domain. It is trained to name the
best, so that is what it is asked for; behind its choice neurons keep BaBSR's order, which says well where a bound is
loose (`lirpa-tight` bounds those again) and which neurons to split together. On nine OVAL properties the network's own
order behind its choice took more than twice the branches.

Its choice, and that of BaBSR where it is another, are tried by one backward pass for each child, with slopes as they
are; where the network's is worth less than `weak` (see worth.py) and BaBSR's is worth more, BaBSR's is taken. With
`online` these failures are what the network goes on learning from during the run: BaBSR's choice is to outrank its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import splittable
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import Scope
from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher
from netproof.branching.filtered import children
from netproof.paper.rivals.gnn.features import features
from netproof.paper.rivals.gnn.net import WEIGHTS, BranchingNet, Links, load_weights
from netproof.paper.rivals.gnn.worth import gains, worth

MARGIN = 1.0  # by which BaBSR's choice is to outrank the network's where that failed
BIG = 1e30
FEWEST, MOST = 8, 64  # failures that a lesson takes: it waits for so many, and recalls no more


@dataclass(frozen=True)
class Failure:
    """A sub-domain where BaBSR knew better."""

    features: Tensor  # (U, COUNT)
    chosen: int
    better: int


@dataclass(eq=False)
class Memory:
    """What one run knows: its own copy of the network, the graph of its root, and what to learn from."""

    net: BranchingNet | None = None
    optimiser: torch.optim.Optimizer | None = None
    root: Root | None = None
    links: Links | None = None
    failures: list[Failure] = field(default_factory=list)
    fresh: int = 0  # failures since the last lesson
    lessons: int = 0
    asked: int = 0  # sub-domains ranked,
    failed: int = 0  # and those of them where BaBSR was followed


@dataclass(frozen=True, eq=False)
class Gnn(Brancher):
    """A brancher serves one run: what `online` learns is its own, and is forgotten with it."""

    weights: Path = WEIGHTS
    weak: float = 0.2  # 0: the network's choice always stands
    online: bool = False
    rate: float = 1e-4  # step size of a lesson
    memory: Memory = field(default_factory=Memory, init=False, repr=False)

    def scores(self, scope: Scope, bounds: Bounds) -> Tensor:
        assert isinstance(scope, Root), "the graph's scale is that of the whole input set"
        if scope.count == 0 or len(bounds.domains) == 0:
            return Babsr().scores(scope, bounds) if scope.count else bounds.domains.lower
        parts = torch.arange(len(bounds.domains), device=scope.device).split(
            self._net(scope.device).domains_at_once(scope.count, scope.device)
        )
        return torch.cat([self._scores(scope, bounds.select(index)) for index in parts])

    @torch.no_grad()
    def _scores(self, root: Root, bounds: Bounds) -> Tensor:
        unstable = splittable(root.layers, bounds.domains.lower, bounds.domains.upper)
        babsr = Babsr().scores(root, bounds).nan_to_num(nan=0.0, posinf=BIG, neginf=0.0)
        told = features(root, bounds, babsr)
        own = self._net(root.device)(self._links(root), told).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        own, babsr = (torch.where(unstable, score, -torch.inf) for score in (own, babsr))
        chosen, other = own.argmax(1), babsr.argmax(1)
        self.memory.asked += len(own)
        failed = self._failed(root, bounds.domains, chosen, other)
        if self.online and len(failed):
            self._remember(told[failed], chosen[failed], other[failed])
        self.memory.failed += len(failed)
        first = chosen.index_copy(0, failed, other[failed])[:, None]
        top = 2 * babsr.amax(1, keepdim=True).clamp(0, BIG) + 1
        return babsr.scatter(1, first, torch.where(unstable.gather(1, first), top, -torch.inf))

    def _failed(self, root: Root, domains: Domains, chosen: Tensor, other: Tensor) -> Tensor:
        """Return the sub-domains (n,) where the network's choice is weak and BaBSR's is better."""
        real = splittable(root.layers, domains.lower, domains.upper).any(1)
        differ = (real & (chosen != other)).nonzero()[:, 0] if self.weak > 0 else chosen[:0]
        if len(differ) == 0:
            return differ
        some = domains.select(differ)
        value = children(root, some, torch.stack([chosen[differ], other[differ]], 1))  # (n, 2, 2)
        found = worth(gains(value, some.bound))  # (n, 2)
        return differ[(found[:, 0] < self.weak) & (found[:, 1] > found[:, 0])]

    def _net(self, device: torch.device) -> BranchingNet:
        if self.memory.net is None:
            self.memory.net = load_weights(self.weights).to(device)
        return self.memory.net

    def _links(self, root: Root) -> Links:
        if self.memory.root is not root or self.memory.links is None:
            self.memory.root, self.memory.links = root, Links.of(root)
            self.memory.failures.clear()  # they are about another graph
        return self.memory.links

    def _remember(self, told: Tensor, chosen: Tensor, better: Tensor) -> None:
        memory = self.memory
        every = zip(told[-MOST:].clone(), chosen[-MOST:].tolist(), better[-MOST:].tolist(), strict=True)
        memory.failures = [*memory.failures, *(Failure(*one) for one in every)][-MOST:]
        memory.fresh += len(told)

    def reorder(self, scope: Scope, domains: Domains, probes: int) -> Tensor:
        """Return the candidates as they were ranked; a round is also when there is time for a lesson."""
        if self.online and self.memory.fresh >= FEWEST and self.memory.failures:
            self._learn(self.memory.failures)
        return domains.candidates

    @torch.enable_grad()  # type: ignore[no-untyped-call,unused-ignore]
    def _learn(self, failures: Sequence[Failure]) -> None:
        """Take one step on the hinge loss of the ranking, over the latest failures. Nothing here is left to chance."""
        memory = self.memory
        assert memory.net is not None
        assert memory.links is not None
        if memory.optimiser is None:
            memory.optimiser = torch.optim.Adam(memory.net.parameters(), lr=self.rate)
        told = torch.stack([one.features for one in failures])
        # A dense mask and not a gather, whose gradient would be summed in any order on a GPU.
        wanted = torch.zeros(told.shape[:2], device=told.device)
        rows = torch.arange(len(failures), device=told.device)
        wanted[rows, torch.tensor([one.better for one in failures], device=told.device)] = 1.0
        wanted[rows, torch.tensor([one.chosen for one in failures], device=told.device)] = -1.0
        lead = (memory.net(memory.links, told) * wanted).sum(1)
        loss = (MARGIN - lead).clamp(min=0).mean()
        memory.optimiser.zero_grad()
        loss.backward()
        memory.optimiser.step()
        memory.fresh, memory.lessons = 0, memory.lessons + 1
