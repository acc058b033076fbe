"""The account of what a search has spent, and of what is due beside its plain rounds.

Cost is counted in sub-domains, not in seconds, so that the same seed gives the same search. An easy problem never pays
for what only hard ones need, and a hard one pays for each technique about as much as for the search itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.search.frontier import Frontier


@dataclass
class Rebounding:
    """Neurons of a sub-domain bounded again, once many of its decisions are newer than their bounds."""

    levels: int = 6  # decisions since they were last bounded, at least
    after: int = 64  # the first is tried once the search has cost so many times as much as one
    trials: int = 4  # sub-domains that it is tried on
    worth: float = 0.2  # share of the distance to a proof that it must gain there for others to follow
    pays: bool | None = None  # None: not tried yet
    done: int = 0  # sub-domains so far

    def due(self, domains: Domains, rows: int, bounded: int) -> Tensor:
        """Return the places of the sub-domains whose turn it is; rows: the bounds that one takes."""
        none = torch.zeros(0, dtype=torch.int64, device=domains.target.device)
        if rows == 0 or self.pays is False or bounded < self.after * rows:
            return none
        old = domains.depth - domains.rebounded >= max(self.levels, rows.bit_length())
        affordable = bounded // rows - self.done  # all together cost no more than the search itself
        places = old.nonzero()[:, 0][: self.trials if self.pays is None else max(0, affordable)]
        self.done += len(places)
        return places

    def judge(self, gain: float) -> None:
        """Take note of what the trial gained of the distance to a proof."""
        self.pays = gain > self.worth


@dataclass
class Tightening:
    """A tighter root: slopes of their own for the neurons, then branch and bound on them, with more each time."""

    first: int  # sub-domains that the first costs at least
    overhead: int  # sub-domains that each later one costs at least: branching on neurons comes in many small batches
    growth: int = 2  # sub-domains of neurons that a later one may bound for each of the search's own
    worth: float = 0.03  # share of the root's bound that a later one must gain for another to follow
    rung: int = 0  # how many so far
    price: int = 0  # what the last one cost, in sub-domains
    over: bool = False

    def is_due(self, cost: int, bounded: int) -> bool:
        """Say whether as many sub-domains were bounded under this root as the first costs, or as the last did."""
        return not self.over and bounded >= self._next(cost)

    def _next(self, cost: int) -> int:
        return max(cost, self.first) if self.rung == 0 else max(self.price, self.overhead)

    def pay(self, cost: int, bounded: int) -> None:
        """Count the next one as begun and set its price."""
        self.price = self._next(cost) if self.rung == 0 else self.growth * bounded
        self.rung += 1

    def judge(self, before: float, after: float) -> None:
        """Take note of the root's least bound before and after: branching on the neurons must go on paying."""
        if self.rung > 1 and after - before < self.worth * abs(before):
            self.over = True


@dataclass
class LpTurn:
    """The LP on the worst sub-domains, when bounds are stuck."""

    threshold: int | None  # η: open sub-domains past which it is due; None: their number never makes it due
    allowed: bool  # whether it may be due without an η
    pause: int  # rounds between two turns
    patience: int  # rounds without a better global bound before it is due
    best: float = float("-inf")
    stalled: int = 0
    since: int = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.pause

    def is_due(self, frontier: Frontier[Domains]) -> bool:
        """Say whether the frontier has passed η, or the global bound has stopped improving; asked once per round."""
        if self.threshold is None and not self.allowed:
            return False
        bound = frontier.lower_bound
        better = self.best == float("-inf") or bound > self.best + 1e-6 * abs(self.best)
        self.stalled = 0 if better else self.stalled + 1
        self.best = max(self.best, bound)
        self.since += 1
        full = self.threshold is not None and len(frontier) > self.threshold
        if not (full or self.stalled >= self.patience) or self.since <= self.pause:
            return False
        self.since = self.stalled = 0
        return True


# On a GPU a small batch of neurons takes as long as many sub-domains in large batches: the least price of a tightening.
FIRST = {"cpu": 0, "cuda": 4_096}  # of the first one, in sub-domains
OVERHEAD = {"cpu": 0, "cuda": 60_000}  # of each later one, in sub-domains


@dataclass
class Effort:
    """What is spent under the present root, and what is due."""

    tightening: Tightening
    rebounding: Rebounding = field(default_factory=Rebounding)
    lp: LpTurn | None = None  # None: no LP has turns
    attack_after: int | None = None  # sub-domains in all before the second attack; None: there is none
    bounded: int = 0  # sub-domains bounded under this root
    total: int = 0  # sub-domains bounded under all roots
    off: bool = False  # whether nothing but plain rounds is due

    @classmethod
    def on(cls, device: torch.device, *, off: bool = False) -> Effort:
        """Open an account for a search on a device."""
        return cls(Tightening(FIRST.get(device.type, 0), OVERHEAD.get(device.type, 0)), off=off)

    def pay(self, domains: int) -> None:
        """Count sub-domains that are bounded."""
        self.bounded += domains
        self.total += domains

    def under_new_root(self) -> None:
        """Start again what is counted per root."""
        self.bounded, self.rebounding = 0, Rebounding()

    def tightening_is_due(self, cost: int) -> bool:
        """Say whether a tighter root is due that costs so many sub-domains."""
        return not self.off and self.tightening.is_due(cost, self.bounded)

    def rebounds_due(self, domains: Domains, rows: int) -> Tensor:
        """Return the places of the sub-domains whose neurons are due to be bounded again."""
        return self.rebounding.due(domains, 0 if self.off else rows, self.bounded)

    def lp_is_due(self, frontier: Frontier[Domains]) -> bool:
        """Say whether the LP has a turn."""
        return not self.off and self.lp is not None and self.lp.is_due(frontier)

    def attack_is_due(self) -> bool:
        """Say whether the second look for a counterexample is due; it comes once."""
        due = not self.off and self.attack_after is not None and self.total >= self.attack_after
        if due:
            self.attack_after = None
        return due
