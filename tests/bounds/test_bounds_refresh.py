"""Below the root: what is bounded again, and that every number still holds on its sub-domain."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.base import Bounds, Clock, root_domains
from netproof.bounds.domains import Domains, split
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.graph.batch import Batch, bound_batch
from netproof.bounds.graph.confirm import confirm
from netproof.bounds.graph.slopes import Slopes
from netproof.bounds.linear import memory
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.affected import refresh_rows
from netproof.bounds.neurons.root import Root, build_root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.problem.problem import Problem, Rows
from support.awkward import GraphBuilder
from support.problems import (
    box_problem,
    inside,
    packed_values,
    random_points,
    random_relus,
    same_domains,
    targets_of,
    unstable_of,
)
from support.random_graphs import random_network, seeded

CPU = torch.device("cpu")
NEVER = torch.inf


def two_columns() -> Graph:
    """Two columns that meet only in the output, so that a split in one reaches nothing in the other.

    Layers: 2 neurons (one a column), then 4 (two a column), then 2 (one a column).
    """
    build = GraphBuilder(1, 2)
    a = build.relu(build.linear(0, np.eye(2), np.zeros(2)))
    b = build.relu(build.linear(a, np.array([[1.0, 0], [-1, 0], [0, 1.0], [0, -1]]), np.array([-0.5, 0.5, -0.5, 0.5])))
    mixed = np.array([[1.0, -2.0, 0, 0], [0, 0, 1.0, -2.0]])
    c = build.relu(build.linear(b, mixed, np.full(2, 0.1)))
    build.linear(c, np.array([[1.0, 1.0]]), np.zeros(1))
    return build.finish()


def dense(seed: int, widths: tuple[int, ...] = (6, 6, 6)) -> Graph:
    return random_relus(seed, widths, outputs=2)


def rooted(graph: Graph, rows: Rows | None = None, steps: int = 5) -> Root:
    root = build_root(box_problem(graph, -1.0, 1.0, rows), CPU, Schedule(steps), Deadline())
    assert root is not None
    return root


def all_candidates(root: Root, domains: Domains) -> Domains:
    return replace(domains, candidates=torch.arange(root.count).repeat(len(domains), 1))


# --- what is chosen ---


def chosen_neurons(root: Root, rows: list[torch.Tensor | None], domain: int) -> set[int]:
    """Packed positions, fillers left out."""
    found = set()
    for layer, chosen in zip(root.graph32.layers, rows, strict=True):
        if chosen is not None:
            found |= {layer.start + int(i) for i in chosen[domain] if int(i) < layer.count}
    return found


def test_only_what_the_split_reaches_is_chosen() -> None:
    root = rooted(two_columns())
    assert root.count == 8
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))  # the first column's first
    rows = refresh_rows(root, children, 16)
    assert rows[0] is None
    assert chosen_neurons(root, rows, 0) == {2, 3, 6}  # the first column alone
    assert chosen_neurons(root, rows, 1) == {2, 3, 6}


def test_a_split_in_the_last_layer_reaches_nothing() -> None:
    root = rooted(two_columns())
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[7]]))
    assert refresh_rows(root, children, 16) == [None, None, None]


def test_only_new_decisions_count() -> None:
    root = rooted(two_columns())
    once = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    settled = replace(once, settled=once.depth)  # bounded with the first split taken into account
    twice = split(settled, torch.tensor([[4], [4]]))  # second column, second layer
    assert chosen_neurons(root, refresh_rows(root, twice, 16), 0) == {7}
    unsettled = split(once, torch.tensor([[4], [4]]))
    assert chosen_neurons(root, refresh_rows(root, unsettled, 16), 0) == {2, 3, 6, 7}


def test_neurons_that_are_stable_or_no_candidates_are_left_alone() -> None:
    root = rooted(two_columns())
    whole = replace(root_domains(root), candidates=torch.tensor([[0, 2, 6, -1]]))
    children = split(whole, torch.tensor([[0]]))
    children = replace(children, upper=children.upper.index_fill(1, torch.tensor([6]), 0.0))
    assert chosen_neurons(root, refresh_rows(root, children, 16), 0) == {2}


def test_the_widest_come_first_and_missing_ones_are_the_count() -> None:
    root = rooted(two_columns())
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    layer = root.graph32.layers[1]
    low, high = children.lower.clone(), children.upper.clone()
    low[0, 2:4], high[0, 2:4] = torch.tensor([-0.1, -5.0]), torch.tensor([0.1, 5.0])
    low[1, 2:4], high[1, 2:4] = torch.tensor([-5.0, 0.0]), torch.tensor([5.0, 1.0])  # one of them stable
    children = replace(children, lower=low, upper=high)
    both = refresh_rows(root, children, 16)[1]
    assert both is not None
    assert both.tolist() == [[1, 0], [0, layer.count]]
    one = refresh_rows(root, children, 1)[1]
    assert one is not None
    assert one.tolist() == [[1], [0]]
    assert refresh_rows(root, children, 0) == [None, None, None]


# --- that it holds ---


def some_children(root: Root, bounder: Lirpa, rounds: int) -> list[Bounds]:
    """Split what branching likes, a few rounds; every batch of bounds on the way."""
    threshold = torch.full((len(root.rows.valid),), NEVER, dtype=torch.float64)
    first = replace(bounder, root_steps=5).whole(root, threshold, Deadline(), Clock())
    found = [first]
    for _ in range(rounds):
        last = found[-1]
        ranked = replace(last.domains, candidates=Babsr().choose(root, last, 12))
        children = split(ranked, ranked.candidates[:, :1])
        never = torch.full((len(children),), NEVER, dtype=torch.float64)
        found.append(bounder.bound(root, children, never, Deadline(), Clock()))
    return found


def values_of(problem: Problem, points: torch.Tensor, domains: Domains) -> torch.Tensor:
    """(domain, point): Σ λ r with each domain's own target and weights."""
    y = problem.graph.forward(points).flatten(1)
    coef, offset = problem.rows.coef[domains.target], problem.rows.offset[domains.target]
    rows = torch.einsum("dro,po->dpr", coef, y) - offset[:, None]
    return (rows * domains.weights.double()[:, None]).sum(2)


def assert_holds(root: Root, bounds: Bounds, points: torch.Tensor) -> None:
    domains = bounds.domains
    h = packed_values(root, points)
    here = inside(domains, h)
    assert not bool((here & bounds.empty[:, None]).any())
    low, high = domains.lower.double()[:, None], domains.upper.double()[:, None]
    fits = (low <= h + 1e-9).all(2) & (h - 1e-9 <= high).all(2)
    assert bool((fits | ~here).all())
    value = values_of(root.problem, points, domains)
    assert bool(((domains.bound[:, None] <= value + 1e-6 * (1 + value.abs())) | ~here).all())


@pytest.mark.parametrize("bounder", [Lirpa(steps=4, rebound=16), Lirpa(steps=0, rebound=16), Lirpa(steps=4, rebound=0)])
@pytest.mark.parametrize(
    "graph",
    [dense(0), dense(1), *(random_network(seeded(seed), neurons=14).graph for seed in (34, 101, 151, 186))],
)
def test_bounds_hold_on_their_sub_domains(graph: Graph, bounder: Lirpa) -> None:
    root = rooted(graph)
    assert root.count >= 8
    points = random_points(root.problem, 400)
    for bounds in some_children(root, bounder, 4):
        assert_holds(root, bounds, points)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_never_get_looser_below(seed: int) -> None:
    root = rooted(dense(seed))
    for parent, child in itertools.pairwise(some_children(root, Lirpa(steps=4), 4)):
        origin = [
            next(i for i in range(len(parent.domains)) if bool(child.domains.contained_in(parent.domains.splits[i])[c]))
            for c in range(len(child.domains))
        ]
        before = parent.domains.select(torch.tensor(origin))
        assert bool((child.domains.lower >= before.lower).all())
        assert bool((child.domains.upper <= before.upper).all())
        assert bool((child.domains.bound >= before.bound).all())
        assert torch.equal(child.domains.settled, child.domains.depth)


def test_refreshing_pays() -> None:
    gains = 0.0
    for seed in range(4):
        root = rooted(dense(seed))
        plain = some_children(root, Lirpa(steps=4, rebound=0), 1)[-1].domains
        fresh = some_children(root, Lirpa(steps=4, rebound=16), 1)[-1].domains
        gains += float(((plain.upper - plain.lower) - (fresh.upper - fresh.lower)).sum())
    assert gains > 0.1


def test_conjunctions_weigh_their_rows() -> None:
    """y0 = x and y1 = −x are never both <= −0.5; each row alone reaches −1, half of each is 0."""
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array([[1.0], [-1.0]]), np.zeros(2)))
    build.linear(h, np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2))
    rows = targets_of([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]], [[-0.5, -0.5], [-0.5]])
    root = rooted(build.finish(), rows)
    never = torch.full((2,), NEVER, dtype=torch.float64)
    bounds = Lirpa(root_steps=30).whole(root, never, Deadline(), Clock())
    assert float(bounds.domains.bound[0]) == pytest.approx(0.5, abs=1e-3)
    assert bounds.domains.weights[0].tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    assert bounds.domains.weights[1].tolist() == [1.0, 0.0]  # padding has no weight
    assert float(bounds.domains.bound[1]) == pytest.approx(-0.5, abs=1e-3)


def test_a_contradiction_is_found_empty() -> None:
    """h2 = relu(x) − 0.5 cannot be positive where x <= 0."""
    build = GraphBuilder(1, 1)
    a = build.relu(build.linear(0, np.array([[1.0]]), np.zeros(1)))
    b = build.relu(build.linear(a, np.array([[1.0]]), np.array([-0.5])))
    build.linear(b, np.array([[1.0]]), np.array([-2.0]))
    root = rooted(build.finish())
    whole = all_candidates(root, root_domains(root))
    negative = split(whole, torch.tensor([[0]])).select(torch.tensor([1]))
    bounder = Lirpa(steps=2)
    never = torch.full((1,), NEVER, dtype=torch.float64)
    bounds = bounder.bound(root, negative, never, Deadline(), Clock())
    assert not bool(bounds.empty[0])
    assert float(bounds.domains.upper[0, 1]) <= 0.0
    both = bounder.bound(root, split(bounds.domains, torch.tensor([[1]])), never.repeat(2), Deadline(), Clock())
    assert both.empty.tolist() == [True, False]
    assert both.domains.bound.isposinf().tolist() == [True, False]


def test_a_single_point_is_not_empty() -> None:
    """The halves are closed: h >= 0 and h <= 0 leave h = 0."""
    root = rooted(two_columns())
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    zero = torch.tensor([1])
    children = replace(children, lower=children.lower.index_fill(1, zero, 0.0))
    children = replace(children, upper=children.upper.index_fill(1, zero, 0.0))
    bounds = Lirpa(steps=2).bound(root, children, torch.full((2,), NEVER, dtype=torch.float64), Deadline(), Clock())
    assert not bool(bounds.empty.any())
    assert bool(bounds.domains.bound.isfinite().all())


def test_a_nan_from_the_slopes_leaves_what_was_known() -> None:
    root = rooted(dense(0))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    children = replace(children, bound=torch.full((2,), -123.0, dtype=torch.float64))
    batch = Batch(
        children.target,
        [children.lower[:, k.packed] for k in root.graph32.layers],
        [children.upper[:, k.packed] for k in root.graph32.layers],
        refresh_rows(root, children, 16),
    )
    clean = Slopes.of_children(root, children, batch)
    poison = Slopes(clean.output * torch.nan, {k: v * torch.nan for k, v in clean.neurons.items()})
    bounds = confirm(root, batch, children, poison, children.weights, Deadline())
    assert bounds.domains.bound.tolist() == [-123.0, -123.0]
    assert not bool(bounds.empty.any())
    assert bool((bounds.domains.lower >= children.lower).all())
    assert bool((bounds.domains.upper <= children.upper).all())


def test_past_the_deadline_nothing_new_is_claimed() -> None:
    root = rooted(dense(0))
    threshold = torch.zeros(2, dtype=torch.float64)
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    children = replace(children, bound=torch.full((2,), -123.0, dtype=torch.float64))
    bounds = Lirpa().bound(root, children, threshold, Deadline(0.0), Clock())
    assert same_domains(bounds.domains, children)
    assert not bool(bounds.empty.any())
    assert bool(unstable_of(bounds.domains).any(1).all())  # open, and there is something to split


def test_confirming_in_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    root = rooted(dense(1))
    whole = some_children(root, Lirpa(steps=0), 3)
    monkeypatch.setattr(memory, "CPU_BUDGET", 1)
    parts = some_children(root, Lirpa(steps=0), 3)
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a.domains.bound, b.domains.bound, rtol=1e-9)
        assert torch.allclose(a.domains.lower, b.domains.lower)
        assert torch.equal(a.empty, b.empty)


def test_search_and_proof_agree_up_to_float32() -> None:
    root = rooted(dense(2))
    domains = root_domains(root)
    batch = Batch(domains.target, [t[None] for t in root.lower], [t[None] for t in root.upper], [None] * 3)
    slopes = domains.slopes.float()
    quick = bound_batch(root.graph32, root.rows, batch, slopes, {}, domains.weights)
    sure = bound_batch(root.graph64, root.rows, batch.to(torch.float64), slopes.double(), {}, domains.weights.double())
    assert float(quick.bound) == pytest.approx(float(sure.bound), rel=1e-5)


# --- branching ---


@pytest.mark.parametrize("seed", range(5))
def test_branching_names_unstable_neurons_once_each(seed: int) -> None:
    root = rooted(dense(seed))
    bounds = some_children(root, Lirpa(steps=2), 3)[-1]
    chosen = Babsr().choose(root, bounds, 8)
    for row, unstable in zip(chosen.tolist(), unstable_of(bounds.domains), strict=True):
        real = [i for i in row if i >= 0]
        assert len(set(real)) == len(real) == min(8, int(unstable.sum()))
        assert all(bool(unstable[i]) for i in real)
        assert row[len(real) :] == [-1] * (len(row) - len(real))


def test_branching_prefers_what_the_bound_hangs_on() -> None:
    """Two neurons alike but for their weight in the output, which is −10 against −0.1."""
    build = GraphBuilder(1, 2)
    h = build.relu(build.linear(0, np.eye(2), np.zeros(2)))
    build.linear(h, np.array([[-0.1, -10.0]]), np.zeros(1))
    root = rooted(build.finish())
    bounds = some_children(root, Lirpa(), 0)[0]
    assert Babsr().choose(root, bounds, 2).tolist() == [[1, 0]]


def test_branching_where_nothing_can_be_split() -> None:
    build = GraphBuilder(1, 1)
    build.linear(0, np.array([[1.0]]), np.zeros(1))
    root = rooted(build.finish())
    bounds = some_children(root, Lirpa(), 0)[0]
    assert Babsr().choose(root, bounds, 4).tolist() == [[-1]]
