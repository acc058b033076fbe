"""Lines 4 to 10 of Algorithm 1, the same for sub-domains of any kind: pick, split, bound, filter, until all is settled.

What a sub-domain is, how it is split and bounded and what is due besides is said by a search that derives from this.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic

from torch import Tensor

from netproof.bounds.linear.memory import attempted, domains_that_fit, is_short, may_wait, with_less
from netproof.core.batch import P
from netproof.core.deadline import DeadlineExpired, Pace
from netproof.core.machine.allowance import allowance
from netproof.search.frontier import Frontier
from netproof.search.ledger import Tally
from netproof.search.method import Work
from netproof.search.waiting.host import Storage

REPORT_EVERY = 0.05  # seconds between two reports of the search


class Rounds(ABC, Generic[P]):
    """The plain loop, with as many sub-domains at a time as fit; its frontier never loses what is not settled."""

    grain: float | None = None  # of the frontier: bounds that differ by less count as equal

    def __init__(self, work: Work, ledger: Tally[P]) -> None:
        self._device, self._deadline, self._stats, self._report = work.device, work.deadline, work.stats, work.report
        self._ledger = ledger
        self._last: int | None = None  # the round after which to stop; None: there is no such
        self._frontier: Frontier[P] | None = None
        self._chunk = 1  # sub-domains bounded at once
        self._room: int | None = None  # sub-domains that the device may hold; None: as many as there are
        self._pace = Pace(work.deadline)  # of rounds, by what they pick
        self._most: int | None = None  # sub-domains picked per round, where memory is too small for more
        self._no_room = False  # for one of them alone

    # --- what a search says of itself ---

    @abstractmethod
    def _pick(self, frontier: Frontier[P]) -> P:
        """Pop what this round splits."""

    @abstractmethod
    def _split(self, picked: P, others: int) -> P:
        """Return the children of what was picked; so many other sub-domains are open."""

    @abstractmethod
    def _bound(self, parts: P) -> P:
        """Bound sub-domains and settle what is proved; return those that stay open."""

    def _leaves_apart(self, picked: P) -> tuple[P, P]:
        """Return what cannot be split, and the rest."""
        return picked.select(slice(0, 0)), picked

    def _decide_leaves(self, leaves: P) -> None:
        """Settle what cannot be split, or give it up."""
        self._ledger.leave_undecided(leaves)

    def _do_what_is_due(self, frontier: Frontier[P]) -> bool:
        """Do what has its turn before the round; False where no round is to follow at once."""
        return True

    def _after_round(self, frontier: Frontier[P]) -> None:
        """Settle what the round's points prove."""

    def _other_seconds(self) -> float:
        """Return the seconds that count elsewhere than as those of the search."""
        return 0.0

    # --- the loop ---

    def _run_rounds(self) -> None:
        """Go on until nothing is open, the goal is reached, time is up or the last round is done."""
        reported, began, other = float("-inf"), time.monotonic(), self._other_seconds()
        while self._open_count and self._may_go_on():
            if self._do_what_is_due(self._opened):
                self._round(self._opened)
            if time.monotonic() - reported > REPORT_EVERY:  # telling the bound waits for the device
                reported = time.monotonic()
                self._tell("search")
        if self._stats.rounds:
            self._tell("search")
        spent = time.monotonic() - began - (self._other_seconds() - other)
        self._stats.seconds["search"] += max(0.0, spent)

    def _may_go_on(self) -> bool:
        time_left = not self._deadline.expired and self._stats.rounds != self._last
        return not self._ledger.done and time_left and not self._is_short

    def _round(self, frontier: Frontier[P]) -> None:
        began = time.monotonic()
        leaves, picked = self._leaves_apart(self._pick(frontier))
        self._decide_leaves(leaves)
        if self._ledger.done:
            frontier.push(picked)  # still open, as it was
            return
        children = self._children(picked, frontier) if len(picked) else None
        if children is not None:
            self._stats.rounds += 1
            done = self._bound_all(children, self._bound)
            # Of a round that was cut short, the share whose children were bounded.
            self._stats.split += math.ceil(len(picked) * done / max(1, len(children)))
            if done == len(children):
                self._pace.took(len(picked), time.monotonic() - began)
        self._after_round(frontier)

    def _children(self, picked: P, frontier: Frontier[P]) -> P | None:
        """Split what was picked; where memory is too small for that, it is open again, and half as many are picked."""
        children = attempted(lambda: self._split(picked, len(frontier)), self._device)
        if children is not None:
            return children
        frontier.push(picked)
        self._no_room |= len(picked) == 1 and not allowance().halve()
        self._most = max(1, len(picked) // 2)
        return None

    def _at_most(self, wanted: int) -> int:
        """Return how many of so many sub-domains a round may pick, for memory and time."""
        return self._pace.fit(wanted if self._most is None else min(wanted, self._most))

    def _bound_all(self, parts: P, bound: Callable[[P], P]) -> int:
        """Bound sub-domains, as many at a time as fit, and push what is not proved; return how many were bounded."""
        frontier, done = self._opened, 0
        while done < len(parts) and not self._ledger.done and not self._deadline.expired:
            some = parts.select(slice(done, done + self._chunk))
            try:
                still_open = attempted(partial(bound, some), self._device)
            except DeadlineExpired:
                break
            if still_open is None:
                self._halve()
                if self._no_room:
                    break
                continue
            frontier.push(still_open)
            done += len(some)
        frontier.push(parts.select(slice(done, None)))  # what was not bounded is still open
        return done

    # --- what is open ---

    def _open(self, parts: P) -> None:
        """Open a frontier of sub-domains, for the memory that there is."""
        self._room = domains_that_fit(self._packed(parts).bytes_each, self._device)
        self._begin_with(parts)

    def _begin_with(self, parts: P) -> None:
        """Open a frontier as large as the one before."""
        given = parts, self._room, self.grain, self._packed, self._unpacked
        self._frontier = with_less(lambda: Frontier(*given, self._storage(), may_wait), self._device)

    def _storage(self) -> Storage[P] | None:
        """Return what puts sub-domains away to wait; None: they wait as they are."""
        return None

    def _packed(self, parts: P) -> P:
        """Return what is held of open sub-domains."""
        return parts

    def _unpacked(self, parts: P) -> P:
        """Return open sub-domains with all that is known of them."""
        return parts

    @property
    def _opened(self) -> Frontier[P]:
        assert self._frontier is not None
        return self._frontier

    @property
    def _open_count(self) -> int:
        return 0 if self._frontier is None else len(self._frontier)

    @property
    def _full(self) -> bool:
        """Say whether the device and the host together hold more sub-domains than they may."""
        return self._frontier is not None and self._frontier.crowded

    @property
    def _is_short(self) -> bool:
        """Say whether no memory is left for more, with all there is already as small as it gets."""
        return self._no_room or (self._full and is_short())

    def _halve(self) -> None:
        """Bound half as many sub-domains at a time once the device's memory is full; one alone may have no room."""
        self._no_room |= self._chunk == 1 and not allowance().halve()
        self._chunk = max(1, self._chunk // 2)

    def target_bounds(self) -> Tensor:
        """Return what is proved of each target on the whole input set, (target,)."""
        still_open = [] if self._frontier is None else self._frontier.summaries()
        return with_less(lambda: self._ledger.target_bounds(still_open), self._device)

    def _tell(self, phase: str) -> None:
        self._report(phase, min(self.target_bounds().tolist(), default=math.inf), self._open_count)

    def discard(self) -> None:
        """Let go of what is open, once nothing more is asked."""
        if self._frontier is not None:
            self._frontier.discard()
