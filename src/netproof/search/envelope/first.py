"""Algorithm 1 on networks with hinges and other nonlinearities: first with the others enclosed once and for all.

Where most of what a bound loses is lost at hinges, these are what is worth splitting. Then the enveloped network
(`bounds/neurons/envelope.py`) is searched first, for each target with the planes that its bound rests on: a sub-domain
of it costs as much as one of a network of these hinges alone, a thousandth where they lie between products of matrices.
That search ends by itself: in a proof, with leaves that stay open (it has no LP), or at a point where the enveloped
network breaks the property and the real one does not. What it did not prove is searched as always.
"""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import lost
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.envelope import Enveloped, can_be_enveloped, enveloped, share_of_others
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.forms import Interval
from netproof.core.machine.allowance import said_plainly
from netproof.core.verdict import Witness
from netproof.errors import OutOfMemory
from netproof.search.effort import ELSEWHERE
from netproof.search.goals import Goal, Judge
from netproof.search.loop import Search


class EnvelopeFirst(Search):
    """The search of the problem as it is, once the enveloped network has settled the targets that it can."""

    def _first_look(self, root: Root, bounds: Bounds) -> Bounds:
        """Return the bounds of the whole set (one for each target), those raised that an enveloped network proves."""
        proved = bounds.domains.bound
        try:
            due = with_less(lambda: self._due(root, bounds), self._device)
            proved = with_less(proved.clone, self._device)
            for place in due:
                if self._ledger.done or self._deadline.expired:
                    break
                proved[place] = max(float(proved[place]), self._by_envelope(root, bounds, place))
        except OutOfMemory:  # it has no room: the network itself may have
            pass
        return replace(bounds, domains=replace(bounds.domains, bound=proved))

    def _due(self, root: Root, bounds: Bounds) -> list[int]:
        """Return the places of the targets whose enveloped networks are searched, the nearest to a proof first."""
        still_open = self._ledger.is_open(bounds.domains).nonzero()[:, 0]
        if len(still_open) == 0 or not self._is_due(root, bounds.select(still_open)):
            return []
        nearest: list[int] = still_open[bounds.domains.bound[still_open].argsort(descending=True)].tolist()
        return nearest

    def _by_envelope(self, root: Root, bounds: Bounds, place: int) -> float:
        """Return what an enveloped network proves of a target, −inf for nothing; OutOfMemory where it has no room."""

        def made() -> tuple[Enveloped, _Beneath]:
            domain = bounds.domains.select(slice(place, place + 1))
            found = enveloped(root, domain.slopes[0], bounds.coef[place])
            return found, _Beneath(self._goal, root, found, domain.target)

        found, goal = with_less(made, self._device)
        target = bounds.domains.target[place : place + 1].cpu()
        search = _Enveloped(found.problem.select(target), self._method, goal, self._work)
        try:
            with said_plainly():
                outcome = search.run()
        finally:
            search.discard()
        # A bound counts only where all of the set is covered.
        return outcome.bounds[0] if outcome.proved[0] == 1 else -math.inf

    def _is_due(self, root: Root, bounds: Bounds) -> bool:
        """Say whether a sub-domain of the network costs much, and most of what is lost is lost at hinges."""
        problem = root.problem
        as_is = problem.own is None and problem.input_set.centre is None
        if not self._method.extras.envelope or not as_is or self._goal.moves or self._last is not None:
            return False
        if root.condenses or not can_be_enveloped(problem.graph):
            return False
        worst = bounds.select(bounds.domains.bound.argmin()[None])
        lines = Dual.of(root, worst.domains, proof=False).packed.at(DualPoint.of(worst.domains).slopes)
        taken = lost(root.layers, worst.coef, Interval(worst.domains.lower, worst.domains.upper), lines)
        return share_of_others(root, taken[0]) < ELSEWHERE


class _Enveloped(Search):
    """The search of an enveloped network, which is of no use once that is broken."""

    _goal: _Beneath

    def _first_root(self, threshold: Tensor) -> tuple[Root, Bounds] | None:
        """Return a root that has what is known of the hinges already."""
        root = build_root(self._problem, self._device, Schedule(0), self._deadline, [self._goal.found.known])
        if root is None:
            return None
        self._goal.hopeless = not root.condenses  # too many hinges to be condensed: it costs as much
        return root, self._method.bounder.whole(root, threshold, self._deadline, self._clock)

    def _may_go_on(self) -> bool:
        return super()._may_go_on() and not self._goal.hopeless


class _Beneath(Goal):
    """The goal of one target as its enveloped network has it: proofs are proofs, points are tried in the network."""

    def __init__(self, goal: Goal, root: Root, found: Enveloped, target: Tensor) -> None:
        self._goal, self.found, self._target = goal, found, target  # (1,), on the root's device
        self._judge = Judge(root.graph32.graph, root.rows)
        self.hopeless = False  # whether the enveloped network breaks the property, or is too large to be of use

    @property
    def witness(self) -> Witness | None:  # type: ignore[override]
        return self._goal.witness

    @property
    def upper(self) -> Tensor:  # type: ignore[override]
        return self._goal.upper[self._target.to(self._goal.upper.device)]

    def thresholds(self, target: Tensor) -> Tensor:
        return self._goal.thresholds(self._target[target])

    def proved(self, domains: Domains) -> Tensor:
        return self._goal.proved(replace(domains, target=self._target[domains.target]))

    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        """Try the network's own part of points; take note where the enveloped network is broken at one."""
        if len(points) == 0:
            return False
        value, noise = judge.judge(judge.outputs(points), target)
        self.hopeless = self.hopeless or bool((value < -noise).any())
        return self._goal.offer(self._judge, self.found.points(points), self._target[target])
