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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.programs.check import proved_by
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import Basis, solve_from
from netproof.search.leaf import LeafLP

Progress = Callable[[str, int, int], None]  # phase, done, in all


@dataclass(frozen=True)
class Solves:
    """What was found of every sub-domain, and the seconds per sub-domain."""

    bounds: list[float]  # infinite where it is proved empty, −infinite where the solver failed
    seconds: float


def cold(root: Root, domains: Domains, threads: int, deadline: Deadline, progress: Progress) -> Solves:
    """Solve each LP from nothing, one per thread at a time. Raises DeadlineExpired."""
    leaf = LeafLP(root, threads)
    leaf.decide(domains.select(slice(0, 1)), deadline)  # builds what all LPs share
    step = Step("LP", len(domains), threads, deadline, progress)
    return step.through(lambda some: leaf.decide(domains.select(some), deadline).bound.tolist())


def warm(root: Root, parents: Domains, halves: Domains, threads: int, deadline: Deadline, progress: Progress) -> Solves:
    """Solve each LP from its parent's basis, one per thread at a time; two halves per parent, in order.

    The parents' own LPs are solved before the clock. Raises DeadlineExpired.
    """
    lp = CondensedLP(root, deadline)
    with ThreadPoolExecutor(threads) as pool:
        one = _One(lp, deadline)
        bases: list[Basis | None] = []
        for at in range(0, len(parents), threads):
            progress("LP of parents", at, len(parents))
            deadline.check()
            some = range(at, min(at + threads, len(parents)))
            bases += [basis for _, basis in pool.map(lambda i: one(parents, i, None), some)]

        def solve(some: slice) -> list[float]:
            which = range(len(halves))[some]
            return [bound for bound, _ in pool.map(lambda i: one(halves, i, bases[i // 2]), which)]

        return Step("LP, from the parent's basis", len(halves), threads, deadline, progress).through(solve)


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


@dataclass(frozen=True)
class Step:
    """Goes through sub-domains, as many at a time as there are threads, so that it can be stopped in between."""

    name: str
    count: int
    threads: int
    deadline: Deadline
    progress: Progress

    def through(self, solve: Callable[[slice], Sequence[float]]) -> Solves:
        """Solve all of them, the clock on."""
        bounds: list[float] = []
        spent = 0.0
        for at in range(0, self.count, self.threads):
            self.progress(self.name, at, self.count)
            self.deadline.check()
            began = time.monotonic()
            bounds += solve(slice(at, at + self.threads))
            spent += time.monotonic() - began
        self.deadline.check()  # what the deadline cut short is no measurement
        return Solves(bounds, spent / self.count)
