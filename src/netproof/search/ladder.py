"""Effort where it counts: a cheap root first, and a tighter one each time the search has cost as much as that would.

So an easy problem never pays for a tight root, and a hard one pays for it at most twice over.
"""

from __future__ import annotations

import time

from netproof.bounds.beta import Beta
from netproof.bounds.bounder import Bounder, Clock
from netproof.bounds.root import Deepen, Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.search.refine import NeuronSearch

OPTIMISED = 3.0  # roots with optimised slopes for the neurons cost about so many without
GROWTH = 2.0  # how much more each rung may cost than the search since the one before
WORTH = 0.03  # of the root's bound that a rung must gain for another to follow
ROUNDS = 16  # of branching on a neuron


class Ladder:
    """First slopes of their own for the neurons, then branch and bound on them, each time with more sub-domains."""

    def __init__(self, bounder: Bounder, brancher: Brancher, root_seconds: float) -> None:
        self._bounder, self._brancher = bounder, brancher
        self._price = OPTIMISED * root_seconds
        self._rung = 0
        self._since = 0.0  # of the search's own seconds
        self._over = False

    def is_due(self, searched: float) -> bool:
        """searched: how long the search has run, the time spent here not counted."""
        return not self._over and searched - self._since >= self._price

    def step(self, root: Root, searched: float, deadline: Deadline, clock: Clock) -> Root | None:
        """The next root, None where there is none that is better."""
        began = time.monotonic()
        self._rung += 1
        new = self._bounder.tighter(root, self._deepen(root, deadline, clock), deadline)
        self._price = max(self._price, GROWTH * (time.monotonic() - began))
        self._since = searched
        self._over = new is None
        return new

    def judge(self, before: float, after: float) -> None:
        """The root's least bound before and after a rung: branching on the neurons must go on paying."""
        if self._rung > 1 and after - before < WORTH * abs(before):
            self._over = True

    def _deepen(self, root: Root, deadline: Deadline, clock: Clock) -> Deepen | None:
        """From the second rung on: as many sub-domains of neurons as the search has bounded of its own, times GROWTH."""
        if self._rung < 2 or not isinstance(self._bounder, Beta):
            return None
        a_round = 4 * sum(layer.count for layer in root.search.layers[1:])  # two sides, two children
        rounds = max(1, int(GROWTH * root.bounded) // max(1, a_round))
        width = max(1, rounds // ROUNDS)
        return NeuronSearch(self._bounder, self._brancher, min(rounds, ROUNDS), width, deadline, clock)
