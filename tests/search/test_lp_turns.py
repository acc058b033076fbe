"""Turns of the LP lose nothing: what just fails to hold is never proved, however often the LP has its say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.extras import Extras
from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.core.verdict import Stats
from netproof.search.frontier import Frontier
from netproof.search.goals import Decide, Judge
from netproof.search.leaf import LeafLP, Outcomes
from netproof.search.ledger import Ledger
from netproof.search.loop import Search
from netproof.search.lp_turns import LpTurns
from netproof.search.method import Method, Work
from support.asking import CPU, first_problem, knotted, root_of, sharpened
from support.full_device import Device

LIRPA = Lirpa(root_steps=3, neuron_steps=0, steps=1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [1, 4])
def test_what_does_not_hold_is_not_proved(seed: int, batch: int) -> None:
    """The replay finds nothing, so that the search goes on to the end."""
    problem = first_problem(sharpened(knotted(seed, (3, 6, 5, 2)), (Fraction(-1, 100),)))
    method = Method(LIRPA, Babsr(), batch=batch, lp_threshold=1, patience=1)
    stats = Stats()
    goal, work = Decide(problem, lambda point, target: None), Work(CPU, 1, Deadline(60.0), stats)
    outcome = Search(problem, method, goal, work).run()
    assert stats.lps > 0
    assert outcome.status == "undecided"
    assert outcome.lower_bound <= -0.01 + 1e-6


@pytest.mark.parametrize("takes", [0, 1, 8, 16])
def test_what_is_pruned_below_a_proved_parent_counts_once(takes: int) -> None:
    """Sixteen parts of a set on which the property holds with ease, and the LP looks at one of them."""
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(20),)))
    root, bounds = root_of(LIRPA, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.arange(4)[None])
    parts = replace(parts, bound=torch.full_like(parts.bound, -1.0))
    stats, goal = Stats(), Decide(problem, lambda point, target: None)
    ledger, frontier = Ledger(goal, 1, CPU), Frontier(parts)
    fallback = LpTurns(root, LeafLP(root, 1), LIRPA, ledger, 1)
    fallback.batch = 1
    fallback.turn(frontier, takes, Deadline(60.0), stats, Clock())
    assert (len(frontier), stats.lp_pruned) == (0, 15)
    assert ledger.proved() == (1,)
    assert 0 < float(ledger.target_bounds(frontier.summaries())) <= 20 + 1e-6


class Offered(Decide):
    """Counts how often points were offered to the end."""

    count = 0

    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        found = super().offer(judge, points, target)
        self.count += 1
        return found


class Solved(LeafLP):
    """Has solved its LPs: all that is left is to make use of what they say."""

    def __init__(self, root: Root, outcomes: Outcomes) -> None:
        super().__init__(root, 1)
        self._outcomes = outcomes

    def decide(self, domains: Domains, deadline: Deadline) -> Outcomes:
        return self._outcomes


def test_where_memory_runs_out_points_are_offered_once() -> None:
    """At each operation in turn: what is done again is what failed, and no more."""
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(20),)))
    root, bounds = root_of(LIRPA, problem)
    domains, at, count = bounds.domains, 0, 1
    outcomes = Outcomes(domains.bound + 1.0, torch.zeros(len(domains), *problem.graph.input.shape))
    while at < count:
        at += 1
        goal = Offered(problem, lambda point, target: None)
        ledger = Ledger(goal, 1, CPU)
        ledger.under(root)
        turns = LpTurns(root, Solved(root, outcomes), LIRPA, ledger, 1)
        with allowing(NO_CAPS), Device(at) as device:
            found = turns._decide(domains, Deadline(60.0), Stats())
        count = device.count
        assert goal.count == 1, at
        assert torch.equal(found.bound, domains.bound + 1.0)
    assert at > 8


@dataclass(frozen=True)
class Small(Lirpa):
    """A device with room for a single sub-domain."""

    def bound(self, root: Root, domains: Domains, *rest: Any) -> Bounds:
        if len(domains) > 1:
            raise torch.OutOfMemoryError("a full device")
        return super().bound(root, domains, *rest)


@dataclass(frozen=True)
class Full(Lirpa):
    """A device with room for nothing, once the search is under way."""

    def bound(self, root: Root, domains: Domains, *rest: Any) -> Bounds:
        raise torch.OutOfMemoryError("a full device")


@pytest.mark.parametrize("seed", range(3))
def test_a_full_device_stops_no_turn(seed: int) -> None:
    problem = first_problem(sharpened(knotted(seed, (3, 8, 6, 2)), (Fraction(1, 20),)))
    method = Method(Small(root_steps=3, steps=1), Babsr(), batch=8, lp_threshold=4, extras=Extras(lp_batch=None))
    stats, goal = Stats(), Decide(problem, lambda point, target: None)
    outcome = Search(problem, method, goal, Work(CPU, 1, Deadline(60.0), stats)).run()
    assert outcome.status == "proved"
    assert stats.lps > 0


def test_without_room_for_a_parent_it_is_not_tried() -> None:
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(20),)))
    root, bounds = root_of(LIRPA, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.arange(4)[None])
    parts = replace(parts, bound=torch.full_like(parts.bound, -1.0))
    stats, ledger = Stats(), Ledger(Decide(problem, lambda point, target: None), 1, CPU)
    turns, frontier = LpTurns(root, LeafLP(root, 1), Full(), ledger, 1), Frontier(parts)
    turns.turn(frontier, 16, Deadline(60.0), stats, Clock())
    assert (len(frontier), stats.lps, stats.lp_pruned) == (0, 16, 0)
    assert ledger.proved() == (1,)


def test_what_an_lp_left_open_is_not_solved_again() -> None:
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(-1, 100),)))
    root, bounds = root_of(LIRPA, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.arange(3)[None])
    stats, ledger = Stats(), Ledger(Decide(problem, lambda point, target: None), 1, CPU)
    turns, frontier = LpTurns(root, LeafLP(root, 1), LIRPA, ledger, 1), Frontier(parts)
    turns.turn(frontier, 8, Deadline(60.0), stats, Clock())
    left, solved = len(frontier), stats.lps
    assert left > 0
    turns.turn(frontier, 8, Deadline(60.0), stats, Clock())
    assert (len(frontier), stats.lps) == (left, solved)
    closed = sum(ledger.proved())
    still = sum(Fraction(1, 2**level) for part in frontier.everything() for level in part.level.tolist())
    assert closed + still == 1


def test_a_turn_past_the_deadline_loses_nothing() -> None:
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(-1, 100),)))
    root, bounds = root_of(LIRPA, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.arange(3)[None])
    over = Deadline()
    over.cancel()
    stats, ledger = Stats(), Ledger(Decide(problem, lambda point, target: None), 1, CPU)
    turns, frontier = LpTurns(root, LeafLP(root, 1), LIRPA, ledger, 1), Frontier(parts)
    turns.turn(frontier, 8, over, stats, Clock())
    assert (len(frontier), stats.lps) == (8, 0)


def test_a_large_turn_says_how_far_it_is() -> None:
    """What waits for its LP is told of after every few of them, and gets less."""
    problem = first_problem(sharpened(knotted(0, (3, 6, 5, 2)), (Fraction(-1, 100),)))
    root, bounds = root_of(LIRPA, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.arange(3)[None])
    parts = replace(parts, bound=torch.arange(-8.0, 0.0, dtype=parts.bound.dtype))
    stats, ledger = Stats(), Ledger(Decide(problem, lambda point, target: None), 1, CPU)
    told: list[tuple[int, float]] = []
    turns = LpTurns(root, LeafLP(root, 1), Full(), ledger, 1, lambda rest: told.append((len(rest), rest.lower_bound)))
    turns.batch = 2
    turns.turn(Frontier(parts), 8, Deadline(60.0), stats, Clock())
    assert told == [(6, -6.0), (4, -4.0), (2, -2.0), (0, float("inf"))]
