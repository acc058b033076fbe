"""The account of what a search has spent, and of what is due beside its plain rounds.

Cost is counted in sub-domains, not in seconds, so that the same seed gives the same search. An easy problem never pays
for what only hard ones need, and a hard one pays for each technique about as much as for the search itself.

What a method asks for is its `Extras`. The other numbers that decide what is due are here. They say what they follow
from, or are prices of the machine, or sizes that shape work without adding to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.core.extras import CANDIDATES, Extras
from netproof.search.frontier import Frontier

# Prices of the machine, by device. On a GPU a small batch takes as long as thousands of sub-domains in large ones.
FIRST = {"cpu": 0, "cuda": 4_096}  # sub-domains that the first tighter root costs at least
OVERHEAD = {"cpu": 0, "cuda": 60_000}  # and each later one: branching on neurons comes in many small batches
LONG_SEARCH = {"cpu": 512, "cuda": 4_096}  # sub-domains that take as long as the second attack

# What an LP costs, measured: 0.2 ms per neuron, against 40 ms per round. So on a small network the LP may come every
# round and take many sub-domains, on a large one rarely and few.
NEURONS_A_ROUND = 150  # neurons of a network whose LP takes about as long as a round
NEURONS_A_TURN = 20 * NEURONS_A_ROUND  # of all LPs together that a worker solves in one turn
MOST_A_TURN = 8  # a size: sub-domains per worker and turn, however small the network is
WAIT = 4  # a better bound is waited for as long as so many LPs take
FEW_NEURONS = WAIT * NEURONS_A_ROUND  # up to so many, an LP takes no more than as many rounds, and needs no η
STILL = 1e-6  # a global bound that rises by a smaller share of itself has not risen but for rounding
CROWDED = 10  # a size: past so many η a round splits no more sub-domains than the LP takes, so that it can keep up

# Branching on neurons for a tighter root.
GAIN = 0.01  # a bound that rises by a smaller share of itself stands still
PATIENCE = 3  # rounds that a neuron's bound may stand still before the neuron is left as it is
WORTH = PATIENCE * GAIN  # of its bound that a root must gain for another to follow: what is asked of each neuron
GROWTH = 2  # a neuron lies behind half of the layers on average: two of its sub-domains cost as much as one of ours
EAGER = 4  # a size: where a root alone is ahead of the search, the next comes after a quarter of the search
ROUNDS = 16  # a size: more than fit into so many rounds make each round wider
EARLY = 16  # a size: times as many rounds for an early layer, whose bounds all later ones rest on
NEURON_PROBES = 2  # a size: candidates of a neuron's sub-domain, of which there are two for every neuron

ELSEWHERE = 0.5  # of what a root's bound loses that may be lost elsewhere than at hinges: these are the larger part

TRIALS = 4  # a size: sub-domains that a trial takes, with `rebound_after` 6 a sixteenth of what the search has cost


@dataclass
class Rebounding:
    """Neurons of a sub-domain bounded again, once many of its decisions are newer than their bounds."""

    levels: int  # decisions since they were last bounded, at least; 0: they are not bounded again
    worth: float  # share of the distance to a proof that the trial must gain
    pays: bool | None = None  # None: not tried yet
    done: int = 0  # sub-domains so far

    def due(self, domains: Domains, rows: int, bounded: int) -> Tensor:
        """Return the places of the sub-domains whose turn it is; rows: the bounds that one takes."""
        none = torch.zeros(0, dtype=torch.int64, device=domains.target.device)
        # A trial waits until the search has cost as much as this would on all 2^levels that the decisions make.
        if 0 in (rows, self.levels) or self.pays is False or bounded < rows << self.levels:
            return none
        # Past log2(rows) decisions one costs no more than its descendants, and all of them profit.
        old = domains.depth - domains.rebounded >= max(self.levels, rows.bit_length())
        affordable = bounded // rows - self.done  # all together cost no more than the search itself
        return old.nonzero()[:, 0][: TRIALS if self.pays is None else max(0, affordable)]

    def pay(self, domains: int) -> None:
        """Count sub-domains whose neurons are bounded again."""
        self.done += domains

    def judge(self, gain: float) -> None:
        """Take note of what the trial gained of the distance to a proof."""
        self.pays = gain > self.worth


@dataclass
class Tightening:
    """A tighter root: slopes of their own for the neurons, then branch and bound on them, with more each time."""

    first: int  # sub-domains that the first costs at least
    overhead: int  # sub-domains that each later one costs at least
    most: int | None = None  # how many there may be; None: as long as they pay
    rung: int = 0  # how many so far
    price: int = 0  # what the last one cost, in sub-domains
    ahead: bool = False  # whether the last one alone gained more than the search before it
    over: bool = False

    def is_due(self, cost: int, bounded: int) -> bool:
        """Say whether as many sub-domains were bounded under this root as the first costs, or as the last did.

        Where the last was ahead of the search, a fraction of them is enough.
        """
        return not self.over and self.rung != self.most and bounded * self._weight >= self._next(cost)

    def _next(self, cost: int) -> int:
        return max(cost, self.first) if self.rung == 0 else max(self.price, self.overhead)

    @property
    def _weight(self) -> int:
        """Return for how many each sub-domain of the search counts."""
        return EAGER if self.ahead else 1

    def pay(self, cost: int, bounded: int) -> None:
        """Count the next one as begun and set its price."""
        self.price = self._next(cost) if self.rung == 0 else GROWTH * self._weight * bounded
        self.rung += 1

    def branching(self, neurons: int) -> int | None:
        """Return for how many rounds of one sub-domain per neuron the price lasts.

        None for the first tighter root, which branches on no neuron.
        """
        if self.rung < 2:
            return None
        return max(1, self.price // max(1, 4 * neurons))  # two sides, two children

    def judge(self, before: float, after: float, searched: float) -> None:
        """Take note of the root's least bound before and after, and of what the search under it had got to.

        Branching on the neurons must go on paying.
        """
        self.ahead = after > searched
        if self.rung > 1 and after - before < WORTH * abs(before):
            self.over = True


@dataclass
class LpTurn:
    """The LP on the worst sub-domains, past η or when bounds are stuck."""

    threshold: int | None = None  # η: open sub-domains past which it is due; None: their number never makes it due
    allowed: bool = False  # whether it may be due because bounds are stuck
    pause: int = 0  # rounds between two turns
    patience: int = 0  # rounds without a better global bound before it is due
    many: int = 0  # sub-domains that a turn past η takes; 0: few
    best: float = float("-inf")
    stalled: int = 0
    since: int = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.pause

    def watch(self, frontier: Frontier[Domains]) -> None:
        """Take note of a round that begins, and of whether the global bound is better than before."""
        self.since += 1
        if self.allowed:  # else nothing asks for the bound, and reading it waits for the device
            bound = frontier.lower_bound
            better = self.best == float("-inf") or bound > self.best + STILL * abs(self.best)
            self.stalled = 0 if better else self.stalled + 1
            self.best = max(self.best, bound)

    def is_due(self, waiting: int) -> bool:
        """Say whether so many open sub-domains are more than η, or the global bound has stopped improving."""
        stuck = self.allowed and self.stalled >= self.patience
        return (stuck or self._is_passed(waiting)) and self.since > self.pause

    def pay(self) -> None:
        """Count a turn as begun: the pause and the wait for a better bound start again."""
        self.since = self.stalled = 0

    def takes(self, waiting: int) -> int:
        """Return how many of so many open sub-domains the next turn takes; 0: as many as are solved at once."""
        return self.many if self._is_passed(waiting) else 0

    def is_behind(self, waiting: int) -> bool:
        """Say whether so many open sub-domains are more than turns on few of them keep up with."""
        return self.many == 0 and self._is_passed(waiting, CROWDED)

    def _is_passed(self, waiting: int, times: int = 1) -> bool:
        return self.threshold is not None and waiting > times * self.threshold


def lps_a_turn(neurons: int) -> int:
    """Return how many sub-domains a worker takes in one turn of the LP, on a network of so many neurons."""
    return max(1, min(MOST_A_TURN, NEURONS_A_TURN // max(1, neurons)))


def rounds_for(worth: int, share: float) -> tuple[int, int]:
    """Return rounds on the neurons of one layer, and the sub-domains split per neuron and round.

    worth: rounds of one sub-domain per neuron, at the cost of the whole network. share: of that cost, what one of the
    layer's sub-domains takes. Every layer gets as much work, so early ones get more rounds, up to EARLY times as many.
    """
    rounds = max(1, int(worth * min(EARLY, 1.0 / max(share, 1e-9))))
    return min(rounds, ROUNDS), max(1, rounds // ROUNDS)


def neurons_at_once(fill: int, available: int) -> int:
    """Return how many neurons to split: several while sub-domains are few, to fill the device (section 3.3)."""
    return max(1, min(CANDIDATES, (fill // available).bit_length()))


@dataclass
class Effort:
    """What is spent under the present root, and what is due."""

    extras: Extras
    tightening: Tightening
    rebounding: Rebounding
    attack_after: int | None  # sub-domains in all before the second attack; None: none is to come
    lp: LpTurn = field(default_factory=LpTurn)  # never due until `with_lp`
    bounded: int = 0  # sub-domains bounded under this root
    total: int = 0  # sub-domains bounded under all roots

    @classmethod
    def on(cls, device: torch.device, extras: Extras) -> Effort:
        """Open an account for a search on a device."""
        kind = device.type
        tightening = Tightening(FIRST[kind], OVERHEAD[kind], extras.tighter_roots)
        after = LONG_SEARCH[kind] if extras.attack_after is None else extras.attack_after
        return cls(extras, tightening, _rebounding(extras), after or None)

    def pay(self, domains: int) -> None:
        """Count sub-domains that are bounded."""
        self.bounded += domains
        self.total += domains

    def under_new_root(self) -> None:
        """Start again what is counted per root."""
        self.bounded, self.rebounding = 0, _rebounding(self.extras)

    def with_lp(self, neurons: int, threshold: int | None, patience: int) -> None:
        """Let the LP have turns on a network of so many neurons; threshold: η. patience: in rounds, 0 by size."""
        allowed = self.extras.lp_turns and (threshold is not None or neurons <= FEW_NEURONS)
        given = self.extras.lp_batch
        many = (threshold or 0) if given is None else given
        a_few = neurons // NEURONS_A_ROUND
        self.lp = LpTurn(threshold, allowed, 0 if many else a_few, patience or max(1, WAIT * a_few), many)

    def tightening_is_due(self, cost: int) -> bool:
        """Say whether a tighter root is due that costs so many sub-domains."""
        return self.tightening.is_due(cost, self.bounded)

    def rebounds_due(self, domains: Domains, rows: int) -> Tensor:
        """Return the places of the sub-domains whose neurons are due to be bounded again."""
        return self.rebounding.due(domains, rows, self.bounded)

    def probes_due(self, *, of_neurons: bool = False) -> int:
        """Return how many neurons to try in every sub-domain about to be split, of the search or of neurons."""
        return min(self.extras.probes, NEURON_PROBES) if of_neurons else self.extras.probes

    def attack_is_due(self) -> bool:
        """Say whether the second look for a counterexample is due."""
        return self.attack_after is not None and self.total >= self.attack_after

    def pay_attack(self) -> None:
        """Count the second look as done: there is no third."""
        self.attack_after = None


def _rebounding(extras: Extras) -> Rebounding:
    return Rebounding(extras.rebound_after, extras.rebound_gain)
