"""The search around the bounds: what it counts, what it never loses, and how it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.domains import Domains
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline, Pace
from netproof.core.extras import Extras
from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.core.verdict import Stats, Witness
from netproof.model.graph import Graph
from netproof.problem.problem import Problem
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.exact import milp_minimum
from support.problems import box_problem, inside, packed_values, random_points, random_relus, targets_of

CPU = torch.device("cpu")


def dense(seed: int, *widths: int) -> Graph:
    return random_relus(seed, widths, outputs=1)


@dataclass(frozen=True)
class Watched(Bounder):
    """Lirpa that remembers the sub-domains it bounded, and may refuse large batches for want of memory."""

    inner: Lirpa = field(default_factory=lambda: Lirpa(root_steps=5, neuron_steps=0, steps=2, own_slopes=True))
    most: int = 10**9
    sizes: list[int] = field(default_factory=list)
    seen: list[Bounds] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)

    def root(self, problem: Problem, *rest: Any) -> tuple[Root, Bounds] | None:
        first = self.inner.root(problem, *rest)
        if first is not None:
            self.roots.append(first[0])
        return first

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        self.sizes.append(len(domains))
        if len(domains) > self.most:
            raise torch.OutOfMemoryError("a full device")
        found = self.inner.bound(root, domains, threshold, deadline, clock)
        self.seen.append(found)
        return found

    def whole(self, root: Root, *rest: Any) -> Bounds:
        return self.inner.whole(root, *rest)

    def domains_at_once(self, root: Root) -> int:
        return self.inner.domains_at_once(root)


@dataclass
class Run:
    outcome: Outcome
    stats: Stats
    bounder: Watched
    search: Search
    reports: list[tuple[str, float, int]]


def run(
    problem: Problem,
    bounder: Watched | None = None,
    deadline: Deadline | None = None,
    replay: Any = lambda point, target: None,
    **fields: Any,
) -> Run:
    bounder = bounder or Watched()
    method = replace(Method(bounder, Babsr(), batch=8, lp_threshold=10**6, patience=10**6), **fields)
    stats, reports = Stats(), []
    goal = Decide(problem, replay)
    search = Search(
        problem, method, goal, Work(CPU, 1, deadline or Deadline(), stats, lambda *step: reports.append(step))
    )
    return Run(search.run(), stats, bounder, search, reports)


def asked(graph: Graph, gap: float) -> tuple[Problem, float]:
    """Is y <= minimum − gap possible? It is not, for a gap above 0."""
    low = np.full(graph.input.size, -1.0)
    least = milp_minimum(graph, low, -low, np.ones((1, 1)), np.zeros(1)).value
    return box_problem(graph, -1.0, 1.0, targets_of([[[1.0]]], [[least - gap]])), least


@pytest.mark.parametrize("seed", [1, 3, 4])
@pytest.mark.parametrize("batch", [1, 8])
def test_what_holds_is_proved_whatever_the_batch(seed: int, batch: int) -> None:
    problem, _ = asked(dense(seed, 5, 4), 0.05)
    done = run(problem, batch=batch)
    assert done.outcome.status == "proved"
    assert 0 < done.outcome.lower_bound <= 0.05 + 1e-6
    assert done.stats.domains == sum(done.bounder.sizes)
    assert done.outcome.decided_by in ("root", "search", "leaf")


def test_the_sub_domains_proved_cover_the_input_set() -> None:
    problem, _ = asked(dense(2, 5, 4), 0.05)
    done = run(problem, batch=1)
    assert done.outcome.status == "proved"
    assert done.stats.leaf_lps == 0  # so every proof is among those seen
    (root,) = done.bounder.roots
    h = packed_values(root, random_points(problem, 500))
    found = [bounds.domains for bounds in done.bounder.seen]
    assert len(found) >= 4
    assert all(len(pair) == 2 and pair.depth.unique().numel() == 1 for pair in found)  # one parent's children
    assert bool(torch.stack([(inside(pair, h) & (pair.bound > 0)[:, None]).any(0) for pair in found]).any(0).all())


def test_without_the_leaf_lp_what_is_left_degrades_the_verdict() -> None:
    problem, _ = asked(dense(4, 5, 4), 1e-7)
    done = run(problem, leaf_lp=False, batch=64)
    assert done.outcome.status == "undecided"
    assert "leaf_lp is off" in done.outcome.reason
    assert done.stats.leaf_lps == done.stats.lps == 0
    assert done.outcome.lower_bound <= 0
    assert run(problem, batch=64).outcome.status == "proved"


def test_a_witness_ends_the_search() -> None:
    problem, least = asked(dense(2, 5, 4), -0.05)  # y <= minimum + 0.05 is possible
    graph = problem.graph

    def replay(point: Tensor, target: int) -> Witness | None:
        y = graph.forward(point.double()[None])
        return Witness(point.numpy(), y.numpy()) if float(y) <= least + 0.05 else None

    done = run(problem, replay=replay)
    assert done.outcome.status == "found"
    assert done.outcome.lower_bound <= 0


def test_a_witness_from_a_leaf_leaves_open_what_was_picked_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved and what is open are the whole set, as long as nothing is lost."""
    problem, _ = asked(random_relus(3, (8, 6), 1), 0.01)
    goal, calls = Decide(problem, lambda point, target: None), []

    def decide(self: Search, leaves: Domains) -> None:
        calls.append(leaves)
        if len(calls) == 3:
            goal.witness = Witness(np.zeros(2), np.zeros(1))

    monkeypatch.setattr(Search, "_decide_leaves", decide)
    method = Method(Watched(), Babsr(), batch=2, lp_threshold=10**6, patience=10**6)
    search = Search(problem, method, goal, Work(CPU, 1, Deadline(), Stats()))
    outcome, left = search.run(), search.still_open()
    assert left is not None
    assert len(calls) == 3
    still = sum(Fraction(1, 2**level) for level in left.domains.level.tolist())
    assert outcome.proved[0] + still == 1


def test_a_search_without_memory_for_more_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no timeout, and what is proved so far counts; while there is memory, the nearest to a proof go first."""
    problem, _ = asked(random_relus(3, (8, 6), 1), 0.01)
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 2)
    monkeypatch.setattr("netproof.search.rounds.may_wait", lambda held: False)
    method = Method(Watched(), Babsr(), batch=2, lp_threshold=None, fill=1)
    goal = Decide(problem, lambda point, target: None)
    assert Search(problem, method, goal, Work(CPU, 1, Deadline(), Stats())).run().status == "proved"
    monkeypatch.setattr("netproof.search.rounds.is_short", lambda: True)
    outcome = Search(problem, method, goal, Work(CPU, 1, Deadline(), Stats())).run()
    assert outcome.status == "undecided"
    assert "still open, and no memory for more" in outcome.reason
    assert not outcome.covers


def test_rounds_get_smaller_as_the_deadline_comes_near() -> None:
    deadline = Deadline(100.0)
    pace = Pace(deadline)
    assert pace.fit(64) == 64
    pace.took(10, 100.0)  # ten seconds each
    assert 4 <= pace.fit(64) <= 5
    pace.took(0, 1.0)  # says nothing
    assert 4 <= pace.fit(64) <= 5
    pace.took(10, 10.0)  # faster
    assert 49 <= pace.fit(64) <= 50
    pace.took(1, 1000.0)  # one alone always takes longer
    assert 39 <= pace.fit(64) <= 40
    for _ in range(40):
        pace.took(1, 1000.0)
    assert pace.fit(64) == 1
    pace.took(64, 0.01)
    assert pace.fit(64) == 64
    assert Pace(Deadline()).fit(7) == 7


def test_a_full_device_halves_the_chunks_and_loses_nothing() -> None:
    problem, _ = asked(dense(3, 5, 4), 0.05)
    calm, full = run(problem, batch=16), run(problem, Watched(most=3), batch=16)
    assert max(calm.bounder.sizes) > 3
    refused = [size for size in full.bounder.sizes if size > 3]
    assert refused
    assert full.outcome.status == calm.outcome.status == "proved"
    assert full.stats.domains == sum(full.bounder.sizes) - sum(refused)
    assert full.stats.domains == calm.stats.domains


def test_a_device_too_small_for_one_sub_domain_leaves_all_of_them_open() -> None:
    problem, _ = asked(dense(3, 5, 4), 0.05)
    with allowing(NO_CAPS):
        outcome = run(problem, Watched(most=0)).outcome
    assert outcome.status == "undecided"
    assert outcome.reason.endswith("sub-domains still open, and no memory for more")
    assert outcome.proved == (0,)
    assert outcome.lower_bound > -math.inf  # the root's


class Switch(Deadline):
    """Runs out when told to."""

    stop = False

    @property
    def expired(self) -> bool:
        return self.stop


@dataclass(frozen=True)
class Stops(Watched):
    """Has a deadline run out once so many batches were bounded."""

    deadline: Switch = field(default_factory=Switch, kw_only=True)
    after: int = field(default=1, kw_only=True)

    def bound(self, *given: Any) -> Bounds:
        found = super().bound(*given)
        self.deadline.stop = len(self.seen) >= self.after
        return found


@pytest.mark.parametrize("most", [10**9, 2])
@pytest.mark.parametrize("after", [1, 2, 5])
def test_at_the_deadline_what_is_open_stays_open(after: int, most: int) -> None:
    """Stopped after some batches, or within a round, every point is in a sub-domain that is open or proved."""
    deadline = Switch()

    problem, _ = asked(dense(3, 5, 4), 0.001)
    done = run(problem, Stops(deadline=deadline, after=after, most=most), deadline=deadline, batch=4)
    assert done.outcome.status == "timeout"
    assert "still open" in done.outcome.reason
    assert float("-inf") < done.outcome.lower_bound <= 0.001
    assert len(done.bounder.seen) == after
    assert done.search._frontier is not None
    assert done.stats.leaf_lps == 0
    h = packed_values(done.bounder.roots[0], random_points(problem, 500))
    parts = [bounds.domains.select(bounds.domains.bound > 0) for bounds in done.bounder.seen]
    parts.append(done.search._frontier.domains)
    assert bool(torch.cat([inside(part, h) for part in parts]).any(0).all())


def test_a_root_without_time_knows_nothing() -> None:
    problem, _ = asked(dense(0, 4), 0.1)
    done = run(problem, deadline=Deadline(0.0))
    assert (done.outcome.status, done.outcome.lower_bound) == ("timeout", float("-inf"))
    assert done.search.target_bounds().tolist() == [float("-inf")]


def test_small_frontiers_are_split_on_several_neurons_at_once() -> None:
    problem, _ = asked(dense(3, 5, 4), 0.02)
    wide, narrow = run(problem, batch=16), run(problem, batch=1)
    assert wide.bounder.sizes[0] > 2
    assert set(narrow.bounder.sizes) == {2}
    assert wide.stats.rounds < narrow.stats.rounds


def tree_nodes(seen: list[Bounds]) -> set[tuple[tuple[int, int], ...]]:
    """The nodes below the root of the tree that splits one neuron at a time: what leads to each sub-domain bounded."""
    found = set()
    for splits in (row for bounds in seen for row in bounds.domains.splits.tolist()):
        decided = sorted((abs(mark), neuron, mark > 0) for neuron, mark in enumerate(splits) if mark)
        path = tuple((neuron, side) for _, neuron, side in decided)
        found |= {path[:length] for length in range(1, len(path) + 1)}
    return found


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("most", [10**9, 3])
def test_what_was_split_gives_the_tree_with_two_for_every_split(batch: int, most: int) -> None:
    """Also where sub-domains run out of neurons, and where the device takes a few at a time."""
    problem, _ = asked(dense(3, 5, 4), 0.02)
    done = run(problem, Watched(most=most), batch=batch)
    assert done.outcome.status == "proved"
    assert done.stats.split > 0
    assert 2 * (done.stats.domains - done.stats.split) == len(tree_nodes(done.bounder.seen))
    assert (done.stats.domains == 2 * done.stats.split) == (batch == 1)
    assert not done.stats.cut_in_lp


@pytest.mark.parametrize("after", [1, 2, 3])
def test_of_a_round_cut_short_only_what_was_bounded_counts_as_split(after: int) -> None:
    """Two children of one parent at a time, and three rounds of one parent, two and four."""
    deadline = Switch()

    problem, _ = asked(dense(3, 5, 4), 0.001)
    done = run(problem, Stops(deadline=deadline, after=after, most=2), deadline=deadline, batch=4, fill=1)
    assert done.outcome.status == "timeout"
    assert (done.stats.domains, done.stats.split) == (2 * after, after)


@pytest.mark.parametrize("late", [False, True])
def test_a_deadline_inside_a_turn_of_the_lp_is_told(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from netproof.search.lp_turns import LpTurns

    deadline, turn = Switch(), LpTurns.turn

    def with_it(self: LpTurns, *given: Any) -> None:
        turn(self, *given)
        deadline.stop = late

    monkeypatch.setattr(LpTurns, "turn", with_it)
    problem, _ = asked(dense(4, 5, 4), 1e-4)
    done = run(problem, deadline=deadline, batch=2, lp_threshold=1)
    assert done.stats.lps > 0
    assert (done.outcome.status, done.stats.cut_in_lp) == (("timeout", True) if late else ("proved", False))


def test_the_lp_has_its_turn_when_the_bound_is_stuck() -> None:
    problem, _ = asked(dense(4, 5, 4), 1e-4)
    patient, eager = (run(problem, batch=2, patience=rounds, extras=Extras(lp_turns=True)) for rounds in (10**6, 1))
    assert patient.stats.lps == 0
    assert eager.stats.lps > 0
    assert eager.outcome.status == patient.outcome.status == "proved"
    assert eager.stats.domains <= patient.stats.domains


def test_the_lp_has_its_turn_when_the_frontier_passes_its_threshold() -> None:
    problem, _ = asked(dense(4, 5, 4), 1e-4)
    crowded = run(problem, batch=2, lp_threshold=1)
    assert crowded.stats.lps > 0
    assert crowded.outcome.status == "proved"


def test_every_targets_bound_is_known() -> None:
    graph = dense(3, 5, 4)
    _, least = asked(graph, 0.0)
    rows = targets_of([[[1.0]], [[1.0]]], [[least - 0.5], [least - 0.05]])
    done = run(box_problem(graph, -1.0, 1.0, rows))
    assert done.outcome.status == "proved"
    bounds = done.search.target_bounds().tolist()
    assert 0 < bounds[0] <= 0.5 + 1e-6
    assert 0 < bounds[1] <= 0.05 + 1e-6
    assert done.outcome.lower_bound == min(bounds)


def test_reports_begin_with_the_root_and_never_pass_the_truth() -> None:
    problem, _ = asked(dense(3, 5, 4), 0.02)
    done = run(problem, batch=2)
    assert done.reports[0][0] == "root"
    later = [step for step in done.reports if step[0] == "search"]
    assert later
    assert all(bound <= 0.02 + 1e-6 for _, bound, _ in later)
    assert [b for _, b, _ in later] == sorted(b for _, b, _ in later)
    assert later[-1][2] == 0
