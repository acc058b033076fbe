"""The LP of sub-domains by HiGHS, timed in the two ways that netproof has: from nothing, and from the parent's basis.

`cold` is the LP of a leaf (`search/leaf.py`): the whole network's sparse program. `warm` is that of `babsr-lp`: the
program of the condensed network, by dual simplex from the basis that solved the parent's, as branch and bound with LPs
does it. Both relaxations are the triangle's on the same intermediate bounds, so their values are the same up to what
each proves in floating point.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.programs.check import proved_by
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import Basis, solve_from
from netproof.search.leaf import LeafLP

Progress = Callable[[str, int, int], None]  # phase, done, in all


@dataclass
class Timing:
    """Goes through sub-domains, some at a time with the clock on, and keeps what it has when the time is over."""

    name: str
    count: int
    at_once: int
    deadline: Deadline
    progress: Progress
    solve: Callable[[slice], Sequence[float]]
    prepare: Callable[[slice], None] = lambda some: None  # what is not in the time; both may raise DeadlineExpired
    bounds: list[float] = field(default_factory=list)  # of the first sub-domains, as many as were timed
    spent: float = 0.0

    @property
    def seconds(self) -> float | None:
        """Return the seconds per sub-domain; None where none was timed."""
        return self.spent / len(self.bounds) if self.bounds else None

    def go_on(self, seconds: float = math.inf) -> None:
        """Go through what is left, for about so many seconds; at the deadline what was being solved does not count."""
        end = time.monotonic() + seconds
        try:
            while len(self.bounds) < self.count and time.monotonic() < end:
                at = len(self.bounds)
                some = slice(at, min(at + self.at_once, self.count))
                self.prepare(some)
                self.progress(self.name, at, self.count)
                self.deadline.check()
                began = time.monotonic()
                found = self.solve(some)
                took = time.monotonic() - began
                self.deadline.check()  # what the deadline cut short is no measurement
                self.bounds += found
                self.spent += took
        except DeadlineExpired:
            return


def cold(root: Root, domains: Domains, threads: int, deadline: Deadline, progress: Progress) -> Timing:
    """Return the timing of each LP from nothing, one per thread at a time."""
    leaf = LeafLP(root, threads)

    def prepare(some: slice) -> None:
        if some.start == 0:
            leaf.decide(domains.select(slice(0, 1)), deadline)  # builds what all LPs share

    def solve(some: slice) -> list[float]:
        return leaf.decide(domains.select(some), deadline).bound.tolist()

    return Timing("LP", len(domains), threads, deadline, progress, solve, prepare)


def warm(root: Root, parents: Domains, halves: Domains, pool: Pool, deadline: Deadline, progress: Progress) -> Timing:
    """Return the timing of each LP from its parent's basis, one per thread at a time; two halves per parent, in order.

    The parents' own LPs are solved before the clock.
    """
    lp: list[CondensedLP] = []  # made when it is needed, which takes seconds
    bases: list[Basis | None] = []

    def prepare(some: slice) -> None:
        lp.extend([CondensedLP(root, deadline)] * (not lp))
        one = _One(lp[0], deadline)
        while 2 * len(bases) < some.stop:
            progress("LP of parents", len(bases), len(parents))
            deadline.check()
            next_ones = range(len(bases), min(len(bases) + pool.threads, len(parents)))
            bases.extend([basis for _, basis in pool.executor.map(lambda i: one(parents, i, None), next_ones)])

    def solve(some: slice) -> list[float]:
        one, which = _One(lp[0], deadline), range(len(halves))[some]
        return [bound for bound, _ in pool.executor.map(lambda i: one(halves, i, bases[i // 2]), which)]

    return Timing("LP, from the parent's basis", len(halves), pool.threads, deadline, progress, solve, prepare)


@dataclass(frozen=True)
class Pool:
    """Threads to solve in."""

    executor: Executor
    threads: int


@dataclass(frozen=True)
class _One:
    lp: CondensedLP
    deadline: Deadline

    def __call__(self, domains: Domains, i: int, basis: Basis | None) -> tuple[float, Basis | None]:
        """Return what the LP of the i-th sub-domain proves, and the basis that it ended with."""
        if bool((domains.lower[i] > domains.upper[i]).any()):
            return math.inf, None
        target = int(domains.target[i])
        program, layout = self.lp.program(target, domains.lower[i], domains.upper[i]), self.lp.layout(target)
        answer, found = solve_from(program, layout, basis, math.inf, self.deadline)
        bound = -math.inf if answer.duals is None else proved_by(program, answer.duals, infeasible=answer.infeasible)
        return bound, found
