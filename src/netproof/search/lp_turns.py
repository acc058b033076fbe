"""The LP as fall-back: turns on the worst sub-domains when bounds are stuck, with backtracking to their parents.

Lines 11 to 14 of Algorithm 1 and the text around them: where a sub-domain is proved or infeasible, its parent is tried
next, and where that is proved too, everything below it is pruned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Clock, root_domains
from netproof.bounds.domains import Domains, names_of, parents
from netproof.bounds.linear.memory import attempted, with_less
from netproof.bounds.neurons.root import Root
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.core.machine.allowance import allowance
from netproof.core.verdict import Stats
from netproof.errors import OutOfMemory
from netproof.search.effort import lps_a_turn
from netproof.search.frontier import Frontier
from netproof.search.leaf import LeafLP, with_bounds
from netproof.search.ledger import Ledger


def neurons_of(root: Root) -> int:
    """Return how many neurons the root's network has, by which an LP costs."""
    graph = root.graph32.graph
    return sum(graph.nodes[i].size for i in graph.nonlinear)


class LpTurns:
    """Takes the LP's turns under one root."""

    def __init__(
        self,
        root: Root,
        leaf: LeafLP,
        bounder: Bounder,
        ledger: Ledger,
        workers: int,
        tell: Callable[[Frontier[Domains]], None] = lambda waiting: None,
    ) -> None:
        """Prepare them; tell: called again and again during a large turn, with what waits for its LP."""
        self._root, self._leaf, self._bounder, self._ledger, self._tell = root, leaf, bounder, ledger, tell
        self.batch = workers * lps_a_turn(neurons_of(root))  # sub-domains solved at once
        # By a hash of its name, what large turns left open: an LP would say the same again. A clash leaves out an LP.
        self._left: set[int] = set()

    def turn(self, frontier: Frontier[Domains], takes: int, deadline: Deadline, stats: Stats, clock: Clock) -> None:
        """Decide the worst sub-domains by LP on their optimised intermediate bounds, then go upwards.

        takes: how many of them; 0: as many as are solved at once.
        """
        began = time.monotonic()
        if takes == 0:
            self._some(frontier.pop(self.batch), frontier, deadline, stats, clock)
        else:
            self._many(frontier, takes, deadline, stats, clock)
        stats.seconds["leaf"] += time.monotonic() - began

    def _many(self, frontier: Frontier[Domains], takes: int, deadline: Deadline, stats: Stats, clock: Clock) -> None:
        """Decide so many of the worst, but those that an LP left open before; some at a time, so that all can end."""
        waiting = self._untried(frontier, takes)
        while len(waiting) and not self._ledger.done and not deadline.expired:
            left = self._some(waiting.pop(self.batch), frontier, deadline, stats, clock, waiting)
            self._left.update(map(hash, names_of(left)))
            self._tell(waiting)
        frontier.push(waiting.domains)

    def _untried(self, frontier: Frontier[Domains], takes: int) -> Frontier[Domains]:
        """Take so many of the worst, and put back those that an LP left open; fewer, where memory does not do."""
        while True:
            worst = frontier.pop(takes)
            apart = attempted(partial(self._apart, worst), self._root.device)
            if apart is not None:
                break
            frontier.push(worst)
            if len(worst) <= 1 and not allowance().halve():
                raise OutOfMemory
            takes = max(1, len(worst) // 2)
        waiting, back = apart
        frontier.push(back)
        return waiting

    def _apart(self, worst: Domains) -> tuple[Frontier[Domains], Domains]:
        """Return those that no LP has left open, and the others."""
        tried = [hash(name) in self._left for name in names_of(worst)]
        known = torch.tensor(tried, dtype=torch.bool, device=worst.target.device)
        return Frontier(worst.select(~known)), worst.select(known)

    def _some(
        self,
        batch: Domains,
        frontier: Frontier[Domains],
        deadline: Deadline,
        stats: Stats,
        clock: Clock,
        *others: Frontier[Domains],
    ) -> Domains:
        """Decide sub-domains; what stays open goes to the frontier and is returned.

        What lies below a parent that is proved leaves the frontier, and the others.
        """
        batch = self._decide(batch, deadline, stats)
        device = self._root.device
        still_open = with_less(lambda: self._ledger.settle(batch, by="lp"), device)
        left, below = with_less(lambda: (batch.select(still_open), batch.select(~still_open)), device)
        frontier.push(left)
        while len(below) and not self._ledger.done and not deadline.expired:
            above = attempted(partial(self._proved_above, below, deadline, stats, clock), device)
            if above is None:  # no room for parents, which it can do without
                break
            stats.lp_parents_proved += len(above)
            for target, splits in zip(above.target.tolist(), above.splits, strict=True):
                inside = [part for f in (frontier, *others) for part in f.take_out(partial(is_below, target, splits))]
                for part in inside:
                    with_less(partial(self._ledger.drop, part), device)
                    stats.lp_pruned += len(part)
            below = above
        return left

    def _proved_above(self, below: Domains, deadline: Deadline, stats: Stats, clock: Clock) -> Domains | None:
        """Return the parents of sub-domains that are proved; None where their LPs have no room."""
        try:
            return self._ledger.settle_above(self._decide_parents(below, deadline, stats, clock))
        except OutOfMemory:
            return None

    def _decide(self, domains: Domains, deadline: Deadline, stats: Stats) -> Domains:
        outcomes = self._leaf.decide(domains, deadline)
        stats.lps += len(domains)
        device = self._root.device
        with_less(lambda: self._ledger.try_points(outcomes.point, domains.target), device)  # not again for bounds
        return with_less(lambda: with_bounds(domains, outcomes.bound), device)

    def _decide_parents(self, domains: Domains, deadline: Deadline, stats: Stats, clock: Clock) -> Domains:
        """Bounded first, for their intermediate bounds; by LP where that is not enough."""
        above = self._parents(domains)
        if len(above) == 0:
            return above
        above = self._bounded(above, deadline, clock)
        still_open = ~self._ledger.goal.proved(above)
        if not bool(still_open.any()):
            return above
        bound = above.bound.clone()
        bound[still_open] = self._decide(above.select(still_open), deadline, stats).bound
        return with_bounds(above, bound)

    def _bounded(self, above: Domains, deadline: Deadline, clock: Clock) -> Domains:
        """Bound parents, fewer at a time where the device's memory is full; without one that alone is too much."""

        def bounded() -> Domains:
            threshold = self._ledger.goal.thresholds(above.target)
            return self._bounder.bound(self._root, above, threshold, deadline, clock).domains

        found = attempted(bounded, self._root.device)
        if found is not None:
            return found
        if len(above) == 1:
            return above.select(slice(0, 0))  # not tried: it stays as open as it was
        half = len(above) // 2
        parts = above.select(slice(0, half)), above.select(slice(half, None))
        return concatenate([self._bounded(part, deadline, clock) for part in parts])

    def _parents(self, domains: Domains) -> Domains:
        """Return the distinct parents in their targets' boxes, with the root's bounds: a child's do not hold there."""
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
    """Return the first place of each distinct row, in order."""
    rows, inverse = keys.unique(dim=0, return_inverse=True)
    places = torch.arange(len(keys), device=keys.device)
    first = torch.full((len(rows),), len(keys), dtype=torch.int64, device=keys.device)
    return first.scatter_reduce(0, inverse, places, "amin").sort().values


def is_below(target: int, splits: Tensor, domains: Domains) -> Tensor:
    """Say which sub-domains lie inside the one of `target` with these splits (U,)."""
    return (domains.target == target) & domains.contained_in(splits.to(domains.splits.device))
