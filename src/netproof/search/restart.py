"""Algorithm 1's LP phase as the authors' released code has it: a second search from the root, with LPs.

Past η open sub-domains, or when the bound is the same at two checks, all that is open is given up. The search starts
again from the whole input set, one sub-domain at a time. Its children are bounded as before; where one of them gains
too little on their parent, both are decided by LP on these bounds.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.root import Root
from netproof.search.frontier import Frontier
from netproof.search.leaf import with_bounds
from netproof.search.loop import Search

CHECK = 20  # rounds between two looks at the bound
GAIN = 0.2  # of the parent's bound that both children must gain to do without an LP


class RestartWithLP(Search):
    """Plain rounds up to η, then rounds of one sub-domain with LPs where bounds gain little."""

    def __init__(self, *given: Any, threshold: int, **more: Any) -> None:
        super().__init__(*given, **more)
        self._threshold = threshold
        self._parent_bound = torch.zeros(0, dtype=torch.float64)  # (domain,): of the children that are bounded now
        self._begun: Bounds | None = None  # what the root proves of the whole set
        self._with_lp = False
        self._checked = float("nan")  # the bound when last looked at

    def _first_look(self, root: Root, bounds: Bounds) -> Bounds:
        self._begun = bounds
        return bounds

    def _do_what_is_due(self, frontier: Frontier[Domains]) -> bool:
        if not self._with_lp and self._begun is not None and self._restart_is_due(frontier):
            self._restart(frontier, self._begun)
            return False
        return super()._do_what_is_due(frontier)

    def _restart_is_due(self, frontier: Frontier[Domains]) -> bool:
        if len(frontier) > self._threshold:
            return True
        if self._stats.rounds == 0 or self._stats.rounds % CHECK:
            return False
        before, self._checked = self._checked, frontier.lower_bound
        return before == self._checked

    def _restart(self, frontier: Frontier[Domains], begun: Bounds) -> None:
        """Give up what is open, and open the whole set of each target that is not settled."""
        self._tell("leaf")
        targets = self._open_targets(frontier)
        with_less(lambda: self._ledger.restart(targets), self._device)
        self._begin_with(with_less(lambda: self._filter(begun.select(targets)), self._device))
        frontier.discard()
        self._with_lp = True

    def _pick(self, frontier: Frontier[Domains]) -> Domains:
        return frontier.pop(1) if self._with_lp else super()._pick(frontier)

    def _filter(self, bounds: Bounds) -> Domains:
        if self._with_lp and bool((bounds.domains.depth > 0).all()):
            bounds = self._by_lp(bounds)
        return super()._filter(bounds)

    def _bound(self, parts: Domains) -> Domains:
        self._parent_bound = parts.bound  # which children inherit until they are bounded
        return super()._bound(parts)

    def _by_lp(self, children: Bounds) -> Bounds:
        """Decide a parent's children by LP where one of them gains too little on it."""
        domains, parent = children.domains, self._parent_bound
        little = domains.bound - parent < GAIN * parent.abs()
        still_open = self._ledger.is_open(domains)
        if not self._method.leaf_lp or not bool((little & still_open).any()):
            return children
        began, places = time.monotonic(), still_open.nonzero()[:, 0]
        outcomes = self._leaf.decide(domains.select(places), self._deadline)
        self._stats.lps += len(places)
        with_less(lambda: self._ledger.try_points(outcomes.point, domains.target[places]), self._device)
        decided = with_bounds(domains.select(places), outcomes.bound)
        self._stats.seconds["leaf"] += time.monotonic() - began
        empty = children.empty.index_copy(0, places, children.empty[places] | torch.isposinf(decided.bound))
        return replace(children, domains=domains.put(places, decided), empty=empty)
