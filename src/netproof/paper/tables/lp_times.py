"""Seconds per bound of optimised LiRPA and of the LP, on the same sub-domains of a search.

A search of Algorithm 1 is stopped after a few rounds, and the worst of what is open is split once more, as its next
round would do. These halves are bounded as the search does it, all in one batch and one at a time, by up to `steps`
steps each, confirmed in float64. Then HiGHS solves the triangle LP of every one of them (`lp_solves.py`) on the
intermediate bounds that LiRPA left, which costs LiRPA its time and the LP nothing. An LP's value is computed from its
duals.

What was timed before a time limit stays. No round of the search begins in the second half of it, and after the batch
each way of bounding has its share of what is left, so that none takes all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import median
from typing import TypeVar

import torch

from netproof.bounds.base import Clock
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import Options
from netproof.model.network import Network
from netproof.paper.tables.lp_solves import Pool, Progress, Timing, cold, warm
from netproof.problem.problem import Problem
from netproof.problem.property import Property
from netproof.run.gather import Replay
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Start, Work

REPEATS = 3  # batches timed, after one that is not; the middle one counts

T = TypeVar("T")


@dataclass(frozen=True)
class Times:
    """Seconds per bound on one property, and what both bounds are, sub-domain by sub-domain.

    None: the clock ended it before there was one.
    """

    domains: int
    rounds: int  # of the search before
    batch: float  # LiRPA, all in one batch
    single: float | None  # LiRPA, one at a time
    lp: float | None  # from nothing, one per thread at a time
    warm: float | None  # LP from the parent's basis
    lirpa_bounds: list[float]  # of the batch, the parent's where that is better; infinite where proved empty
    lp_bounds: list[float | None]  # the better of both; infinite where proved empty, −infinite where the solver failed
    short: dict[str, int] = field(
        default_factory=dict
    )  # by field above: on how many the clock let it be timed, if not all

    def timed(self, what: str) -> int:
        """Return on how many sub-domains a field was timed."""
        return self.short.get(what, self.domains)

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Return the LP's bound and LiRPA's of each sub-domain that has both."""
        both = zip(self.lp_bounds, self.lirpa_bounds, strict=True)
        return [(lp, lirpa) for lp, lirpa in both if lp is not None]


@dataclass(frozen=True)
class Asked:
    """How a property is asked."""

    method: str  # Algorithm 1 in one of its profiles
    options: Options  # of the method
    n: int  # sub-domains at most
    rounds: int  # at most
    device: torch.device
    threads: int


def times_of(
    network: Network, property: Property, problem: Problem, asked: Asked, deadline: Deadline, progress: Progress
) -> Times | None:
    """Time both on one property, or as much as the deadline lets; None where the search leaves nothing open.

    Raises DeadlineExpired where nothing was timed.
    """
    # One neuron at a time from the start: a first round that makes n sub-domains at once may prove them all.
    method = replace(build_method(asked.method, {**asked.options, "batch": asked.n}, asked.device), fill=1)
    goal = Decide(problem, Replay(network, property, problem.disjuncts))
    work = Work(asked.device, asked.threads, deadline, Stats())
    found = open_after(problem, method, goal, work, asked, progress)
    deadline.check()
    if found is None:
        return None
    start, rounds = found
    root, parents = start.root, worst_of(start, asked.n)
    if len(parents) == 0:
        return None
    halves = split_on(root, parents, parents.candidates[:, :1])
    lirpa = _Lirpa(method, root, halves, asked, deadline, progress)
    bounded, batch = lirpa.batch()
    single = lirpa.alone()
    with ThreadPoolExecutor(asked.threads) as executor:
        lp = cold(root, bounded, asked.threads, deadline, progress)
        second = warm(root, parents, bounded, Pool(executor, asked.threads), deadline, progress)
        through([single, lp, second], deadline)
    known = {"single": single, "lp": lp, "warm": second}
    short = {name: len(timing.bounds) for name, timing in known.items() if len(timing.bounds) < len(halves)}
    pairs = zip_longest(lp.bounds, second.bounds, [None] * len(halves))
    bounds = [max((bound for bound in pair if bound is not None), default=None) for pair in pairs]
    seconds = (single.seconds, lp.seconds, second.seconds)
    return Times(len(halves), rounds, batch, *seconds, bounded.bound.tolist(), bounds, short)


def through(timings: list[Timing], deadline: Deadline) -> None:
    """Let each have an equal share of the time that is left, and then what the others leave."""
    for place, timing in enumerate(timings):
        timing.go_on(deadline.remaining() / (len(timings) - place))
    for timing in timings:
        timing.go_on()


def open_after(
    problem: Problem, method: Method, goal: Decide, work: Work, asked: Asked, progress: Progress
) -> tuple[Start, int] | None:
    """Return what is open after the round that leaves the most, up to n, and its number; the later one of equals.

    One round at a time, each search going on with what the one before left; None where nothing is ever open. No round
    begins in the second half of the time where something is open, as the rest is for measuring.
    """
    best: tuple[Start, int] | None = None
    start: Start | None = None
    for number in range(1, asked.rounds + 1):
        if best is not None and work.deadline.elapsed() >= work.deadline.remaining():
            break
        progress("round", number, asked.rounds)
        search = Search(problem, method, goal, work, start=start)
        search.run(rounds=1)
        start = search.still_open()
        if start is None or len(start.domains) == 0 or goal.witness is not None:
            break
        if best is None or len(start.domains) >= min(len(best[0].domains), asked.n):
            best = Start(start.root, start.domains.map(torch.clone), start.bounded), number
        search.discard()
    return best


def worst_of(start: Start, n: int) -> Domains:
    """Return the worst sub-domains that can be split, so many that there are at most n halves."""
    able = start.domains.select((start.domains.candidates >= 0).any(1))
    return able.select(able.bound.argsort(stable=True)[: max(1, n // 2)])


@dataclass(frozen=True)
class _Lirpa:
    """Bounds halves as the search does.

    No threshold stops a climb, so that every sub-domain takes its steps; one that rises no more stops as in a search.
    """

    method: Method
    root: Root
    halves: Domains
    asked: Asked
    deadline: Deadline
    progress: Progress

    def bound(self, some: slice) -> Domains:
        self.deadline.check()
        halves, device = self.halves.select(some), self.root.device
        never = torch.full((len(halves),), torch.inf, dtype=torch.float64, device=device)
        found = self.method.bounder.bound(self.root, halves, never, self.deadline, Clock()).domains
        self.deadline.check()  # what the deadline cut short is no measurement
        return found

    def batch(self) -> tuple[Domains, float]:
        """Bound all halves, the clock on, several times but for the deadline; return them, and the seconds per bound.

        Raises DeadlineExpired where not even one was timed.
        """
        count, most = len(self.halves), self.method.bounder.domains_at_once(self.root)
        seconds: list[float] = []
        try:
            for repeat in range(REPEATS + 1):
                self.progress("batch", repeat, REPEATS + 1)
                took, bounded = timed(
                    lambda: concatenate([self.bound(slice(at, at + most)) for at in range(0, count, most)]),
                    self.asked.device,
                )
                seconds.append(took)
        except DeadlineExpired:
            if len(seconds) < 2:
                raise
        return bounded, median(seconds[1:]) / count

    def alone(self) -> Timing:
        """Return the timing of the halves one at a time."""

        def prepare(some: slice) -> None:
            if some.start == 0:
                self.bound(some)  # once before the clock

        def solve(some: slice) -> list[float]:
            return timed(lambda: self.bound(some), self.asked.device)[1].bound.tolist()

        return Timing("one at a time", len(self.halves), 1, self.deadline, self.progress, solve, prepare)


def timed(work: Callable[[], T], device: torch.device) -> tuple[float, T]:
    """Return the seconds of some work and what it gave, the device waited for."""
    _wait(device)
    began = time.monotonic()
    found = work()
    _wait(device)
    return time.monotonic() - began, found


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
