"""Algorithm 1's LP phase as the authors' released code has it: a second search from the root, with LPs.

Past η open sub-domains, or when the bound is the same at two checks, all that is open is given up. The search starts
again from the whole input set, one sub-domain at a time. Its children are bounded as before; where one of them gains
too little on their parent, both are decided by LP on these bounds.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.problem.problem import Problem
from netproof.search.frontier import Frontier
from netproof.search.goals import Goal
from netproof.search.leaf import with_bounds
from netproof.search.loop import Search
from netproof.search.method import Method, SecondLook, Start, Work

CHECK = 20  # rounds between two looks at the bound
GAIN = 0.2  # of the parent's bound that both children must gain to do without an LP


class RestartWithLP(Search):
    """Plain rounds up to η, then rounds of one sub-domain with LPs where bounds gain little."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        goal: Goal,
        work: Work,
        second_look: SecondLook | None = None,
        start: Start | None = None,
    ) -> None:
        super().__init__(problem, replace(method, lp_threshold=None), goal, work, second_look, start)
        self._threshold = method.lp_threshold  # η: of a restart, not of turns of the LP
        self._parent_bound = torch.zeros(0, dtype=torch.float64)  # (domain,): of the children that are bounded now
        self._begun: Bounds | None = None  # what the root proves of the whole set
        self._with_lp = False
        self._checked = float("nan"), 0  # the bound when last looked at, and the round

    def _first_look(self, root: Root, bounds: Bounds) -> Bounds:
        self._begun = bounds
        return bounds

    def _do_what_is_due(self, frontier: Frontier[Domains]) -> bool:
        if not self._with_lp and self._begun is not None and self._restart_is_due(frontier):
            self._restart(frontier, self._begun)
            return False
        return super()._do_what_is_due(frontier)

    def _restart_is_due(self, frontier: Frontier[Domains]) -> bool:
        if not self._method.leaf_lp:  # then there are no LPs to start again with
            return False
        if self._threshold is not None and len(frontier) > self._threshold:
            return True
        before, at = self._checked
        if self._stats.rounds < at + CHECK:
            return False
        self._checked = frontier.lower_bound, self._stats.rounds
        return before == frontier.lower_bound

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

    def _split(self, picked: Domains, others: int) -> Domains:
        """Split into two, so that the children are those of one parent."""
        if not self._with_lp:
            return super()._split(picked, others)
        candidates = self._method.brancher.reorder(self._under, picked, self._effort.probes_due())
        return split_on(self._under, picked, candidates[:, :1])

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
        self._stats.cut_in_lp |= self._deadline.expired
        decided = with_bounds(domains.select(places), outcomes.bound)
        self._stats.seconds["leaf"] += time.monotonic() - began
        empty = children.empty.index_copy(0, places, children.empty[places] | torch.isposinf(decided.bound))
        return replace(children, domains=domains.put(places, decided), empty=empty)
