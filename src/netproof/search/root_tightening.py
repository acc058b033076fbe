"""Effort where it counts: a cheap root first, and a tighter one each time the search has cost as much as that would.

So an easy problem never pays for a tight root, and a hard one pays for it at most twice over. Cost is counted in
sub-domains, not in seconds, so that the same seed takes the same way.
"""

from __future__ import annotations

from netproof.bounds.base import Bounder, Clock
from netproof.bounds.neurons.root import Deepen, Root
from netproof.branching.brancher import Brancher
from netproof.core.deadline import Deadline
from netproof.search.neuron_search import NeuronSearch

GROWTH = 2  # sub-domains of neurons for each of the search's own
WORTH = 0.03  # of the root's bound that a rung must gain for another to follow
ROUNDS = 16  # of branching on a neuron
FIRST = {"cpu": 0, "cuda": 4_096}  # sub-domains that the first rung costs at least
# Branching on neurons comes in many small batches. On a GPU these take as long as so many sub-domains in large ones.
OVERHEAD = {"cpu": 0, "cuda": 60_000}


class RootTightening:
    """First slopes of their own for the neurons, then branch and bound on them, each time with more sub-domains."""

    def __init__(self, bounder: Bounder, brancher: Brancher) -> None:
        self._bounder, self._brancher = bounder, brancher
        self._rung = 0
        self._price = 0  # of the last rung, in sub-domains
        self._neurons = bounder.of_neurons()
        self._over = self._neurons is None

    def is_due(self, root: Root) -> bool:
        """Whether as many sub-domains were bounded under this root as the next one costs."""
        return not self._over and root.bounded >= self._next_price(root)

    def _next_price(self, root: Root) -> int:
        if self._rung == 0 and self._neurons is not None:
            return max(self._neurons.tightening_cost(root), FIRST[root.device.type])
        return max(self._price, OVERHEAD[root.device.type])

    def step(self, root: Root, deadline: Deadline, clock: Clock) -> Root | None:
        """The next root, None where there is none that is better."""
        self._price = self._next_price(root) if self._rung == 0 else GROWTH * root.bounded
        self._rung += 1
        new = self._bounder.tighter(root, self._deepen(root, deadline, clock), deadline)
        self._over = new is None
        return new

    def judge(self, before: float, after: float) -> None:
        """The root's least bound before and after a rung: branching on the neurons must go on paying."""
        if self._rung > 1 and after - before < WORTH * abs(before):
            self._over = True

    def _deepen(self, root: Root, deadline: Deadline, clock: Clock) -> Deepen | None:
        """From the second rung on."""
        if self._rung < 2 or self._neurons is None:
            return None
        a_round = 4 * sum(layer.count for layer in root.graph32.layers[1:])  # two sides, two children
        rounds = max(1, self._price // max(1, a_round))
        width = max(1, rounds // ROUNDS)
        return NeuronSearch(self._neurons, self._brancher, min(rounds, ROUNDS), width, deadline, clock)
