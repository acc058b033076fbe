"""The LP as fall-back: turns on the worst sub-domains when bounds are stuck, with backtracking to their parents.

Lines 11 to 14 of Algorithm 1 and the text around them: where a sub-domain is proved or infeasible, its parent is tried
next, and where that is proved too, everything below it is pruned.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Clock, root_domains
from netproof.bounds.domains import Domains, parents
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.search.frontier import Frontier
from netproof.search.leaf import LeafLP, with_bounds
from netproof.search.ledger import Ledger

# An LP costs about as much as so many neurons' worth of rounds (measured: 0.2 ms a neuron against 40 ms a round), so on
# a small network the LP may come every round and take many sub-domains, on a large one rarely and few.
NEURONS_A_ROUND = 150
NEURONS_A_TURN = 3000
FEW_NEURONS = 600  # up to which the LP has turns without an η too: it costs no more than a round
MOST_A_TURN = 8  # sub-domains a worker


class LpTurns:
    """Decides when the LP has a turn, and takes it."""

    def __init__(
        self,
        root: Root,
        leaf: LeafLP,
        bounder: Bounder,
        ledger: Ledger,
        workers: int,
        threshold: int | None,
        patience: int,
    ) -> None:
        self._root, self._leaf, self._bounder, self._ledger = root, leaf, bounder, ledger
        self._threshold = threshold
        neurons = sum(root.graph32.graph.nodes[i].size for i in root.graph32.graph.nonlinear)
        self._small = neurons <= FEW_NEURONS
        self._pause = neurons // NEURONS_A_ROUND  # rounds between two turns
        self._patience = patience or max(1, 4 * self._pause)
        self.batch = workers * max(1, min(MOST_A_TURN, NEURONS_A_TURN // max(1, neurons)))
        self._best = float("-inf")
        self._stalled, self._since = 0, self._pause

    def is_due(self, frontier: Frontier) -> bool:
        """When the frontier has passed η, or the global bound has stopped improving."""
        if self._threshold is None and not self._small:
            return False
        bound = frontier.lower_bound
        first = self._best == float("-inf")
        better = first or bound > self._best + 1e-6 * abs(self._best)
        self._stalled = 0 if better else self._stalled + 1
        self._best = max(self._best, bound)
        self._since += 1
        full = self._threshold is not None and len(frontier) > self._threshold
        stuck = full or self._stalled >= self._patience
        if not stuck or self._since <= self._pause:
            return False
        self._since = self._stalled = 0
        return True

    def turn(self, frontier: Frontier, deadline: Deadline, stats: Stats, clock: Clock) -> None:
        """The worst sub-domains by LP on their optimised intermediate bounds, then upwards."""
        began = time.monotonic()
        batch = self._decide(frontier.pop(self.batch), deadline, stats)
        still_open = self._ledger.settle(batch)
        frontier.push(batch.select(still_open))
        below = batch.select(~still_open)
        while len(below) and not self._ledger.done and not deadline.expired:
            below = self._ledger.settle_above(self._decide_parents(below, deadline, stats, clock))
            stats.lp_parents_proved += len(below)
            for target, splits in zip(below.target.tolist(), below.splits, strict=True):
                for inside in frontier.prune(target, splits):
                    self._ledger.drop(inside)
                    stats.lp_pruned += len(inside)
        stats.seconds["leaf"] += time.monotonic() - began

    def _decide(self, domains: Domains, deadline: Deadline, stats: Stats) -> Domains:
        outcomes = self._leaf.decide(domains, deadline)
        stats.lps += len(domains)
        self._ledger.try_points(outcomes.point, domains.target)
        return with_bounds(domains, outcomes)

    def _decide_parents(self, domains: Domains, deadline: Deadline, stats: Stats, clock: Clock) -> Domains:
        """Bounded first, for their intermediate bounds; by LP where that is not enough."""
        above = self._parents(domains)
        if len(above) == 0:
            return above
        threshold = self._ledger.goal.thresholds(above.target)
        above = self._bounder.bound(self._root, above, threshold, deadline, clock).domains
        still_open = ~self._ledger.goal.proved(above)
        if not bool(still_open.any()):
            return above
        bound = above.bound.clone()
        bound[still_open] = self._decide(above.select(still_open), deadline, stats).bound
        return replace(above, bound=bound)

    def _parents(self, domains: Domains) -> Domains:
        """The distinct parents, with the root's bounds: a child's do not hold there."""
        inner = domains.select(domains.depth > 0)
        if len(inner) == 0:
            return inner
        splits = parents(inner)
        first = _first_of_each(torch.cat([inner.target[:, None], splits.sign()], 1))
        inner, splits = inner.select(first), splits[first]
        whole = root_domains(self._root).select(inner.target)
        return replace(
            whole,
            splits=splits,
            lower=torch.where(splits > 0, whole.lower.clamp(min=0), whole.lower),
            upper=torch.where(splits < 0, whole.upper.clamp(max=0), whole.upper),
            slopes=inner.slopes,
            weights=inner.weights,
            candidates=inner.candidates,
            level=inner.level - 1,
        )


def _first_of_each(keys: Tensor) -> Tensor:
    """The first place of each distinct row, in order."""
    rows, inverse = keys.unique(dim=0, return_inverse=True)
    places = torch.arange(len(keys), device=keys.device)
    first = torch.full((len(rows),), len(keys), dtype=torch.int64, device=keys.device)
    return first.scatter_reduce(0, inverse, places, "amin").sort().values
