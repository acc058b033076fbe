"""Seconds per bound of optimised LiRPA and of the LP, on the same sub-domains of a search.

A search of `lirpa` is stopped after a few rounds, and the worst of what is open is split once more, as its next round
would do. These halves are bounded as the search does it, all in one batch and one at a time, by up to `steps` steps
each, confirmed in float64. Then HiGHS solves the triangle LP of every one of them (`lp_solves.py`) on the intermediate
bounds that LiRPA left, which costs LiRPA its time and the LP nothing. An LP's value is computed from its duals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TypeVar

import torch

from netproof.bounds.base import Clock
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import Options
from netproof.model.network import Network
from netproof.paper.tables.lp_solves import Progress, cold, warm
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
    """Seconds per bound on one property, and what both bounds are, sub-domain by sub-domain."""

    domains: int
    rounds: int  # of the search before
    batch: float  # LiRPA, all in one batch
    single: float  # LiRPA, one at a time
    lp: float  # from nothing, one per thread at a time
    warm: float  # LP from the parent's basis
    lirpa_bounds: list[float]  # of the batch, the parent's where that is better; infinite where proved empty
    lp_bounds: list[float]  # the better of both; infinite where proved empty, −infinite where the solver failed


@dataclass(frozen=True)
class Asked:
    """How a property is asked."""

    options: Options  # of lirpa
    n: int  # sub-domains at most
    rounds: int  # at most
    device: torch.device
    threads: int


def times_of(
    network: Network, property: Property, problem: Problem, asked: Asked, deadline: Deadline, progress: Progress
) -> Times | None:
    """Time both on one property; None where the search leaves nothing open. Raises DeadlineExpired."""
    # One neuron at a time from the start: a first round that makes n sub-domains at once may prove them all.
    method = replace(build_method("lirpa", {**asked.options, "batch": asked.n}, asked.device), fill=1)
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
    bounded, batch, single = _lirpa(method, root, halves, asked, deadline, progress)
    first = cold(root, bounded, asked.threads, deadline, progress)
    second = warm(root, parents, bounded, asked.threads, deadline, progress)
    bounds = [max(pair) for pair in zip(first.bounds, second.bounds, strict=True)]
    return Times(len(halves), rounds, batch, single, first.seconds, second.seconds, bounded.bound.tolist(), bounds)


def open_after(
    problem: Problem, method: Method, goal: Decide, work: Work, asked: Asked, progress: Progress
) -> tuple[Start, int] | None:
    """Return what is open after the round that leaves the most, up to n, and its number; the later one of equals.

    One round at a time, each search going on with what the one before left; None where nothing is ever open.
    """
    best: tuple[Start, int] | None = None
    start: Start | None = None
    for number in range(1, asked.rounds + 1):
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


def _lirpa(
    method: Method, root: Root, halves: Domains, asked: Asked, deadline: Deadline, progress: Progress
) -> tuple[Domains, float, float]:
    """Bound all halves in a batch, and one at a time; return the batch's, and the seconds per bound of both.

    No threshold stops a climb, so that every sub-domain takes its steps; one that rises no more stops as in a search.
    """
    never = torch.full((len(halves),), torch.inf, dtype=torch.float64, device=root.device)
    most = method.bounder.domains_at_once(root)

    def bound(some: slice) -> Domains:
        deadline.check()
        found = method.bounder.bound(root, halves.select(some), never[some], deadline, Clock()).domains
        deadline.check()  # what the deadline cut short is no measurement
        return found

    def batch() -> Domains:
        return concatenate([bound(slice(at, at + most)) for at in range(0, len(halves), most)])

    seconds = []
    for repeat in range(REPEATS + 1):
        progress("batch", repeat, REPEATS + 1)
        took, bounded = timed(batch, asked.device)
        seconds.append(took)
    alone = []
    bound(slice(0, 1))  # once before the clock
    for at in range(len(halves)):
        progress("one at a time", at, len(halves))
        took, _ = timed(partial(bound, slice(at, at + 1)), asked.device)
        alone.append(took)
    return bounded, median(seconds[1:]) / len(halves), sum(alone) / len(halves)


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
