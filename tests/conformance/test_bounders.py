"""What every bounder owes the search: numbers that hold. A new one joins by a line in BOUNDERS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import condenser
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains, split
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.lirpa import TIGHT, Lirpa
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.gnn.trials import TryingLP
from netproof.problem.problem import Problem
from support.asking import (
    CPU,
    bound_of,
    first_problem,
    knotted,
    problem_of,
    root_of,
    sample,
    satisfy,
    sharpened,
    signs_of,
    worst_row,
)
from support.exact import milp_minimum, rows_of
from support.problems import unstable_of
from support.random_graphs import Question, random_question, rows_tensor, seeded
from support.single import float32_first


class OnTheGraph:
    """For networks that are too large to be condensed."""

    def root(self, *args: Any) -> tuple[Root, Bounds] | None:
        with mock.patch.object(condenser, "holds", return_value=False):
            found: tuple[Root, Bounds] | None = super().root(*args)  # type: ignore[misc]
        assert found is None or isinstance(found[0].net32, GraphNet)
        return found


class LirpaOnTheGraph(OnTheGraph, Lirpa): ...


class BetaOnTheGraph(OnTheGraph, Beta): ...


class BetaInFloat32(Beta):
    """Proves in float32 first, as on a GPU."""

    def root(self, *args: Any) -> tuple[Root, Bounds] | None:
        with float32_first():
            return super().root(*args)

    def bound(self, root: Root, *args: Any) -> Bounds:
        with float32_first():
            assert root.single is not None or not isinstance(root.net64, Condensed)
            return super().bound(root, *args)


BOUNDERS: dict[str, Bounder] = {
    "lirpa": Lirpa(),
    "lirpa, on the graph": LirpaOnTheGraph(root_steps=20, neuron_steps=5, steps=3),
    "lirpa-tight": TIGHT,
    "lirpa-tight, on the graph": LirpaOnTheGraph(root_steps=20, neuron_steps=5, steps=3, own_slopes=True, ranked=True),
    "lirpa, brief": Lirpa(root_steps=5, neuron_steps=3, steps=2),
    "lirpa, fixed slopes": Lirpa(root_steps=0, neuron_steps=0, steps=0),
    "lirpa, nothing rebounded": Lirpa(root_steps=20, neuron_steps=5, steps=3, rebound=0),
    "beta": Beta(),
    "beta, on the graph": BetaOnTheGraph(),
    "beta, brief, float32 first": BetaInFloat32(root_steps=5, neuron_steps=3, steps=2),
    "beta, fixed slopes": Beta(root_steps=0, neuron_steps=0, steps=0),
    "beta, wild steps": Beta(root_steps=20, neuron_steps=10, steps=10, rate=5.0, child_rate=5.0),
    "bdd": Bdd(root_steps=40, steps=20),
    "bdd, proximal, neurons bounded again": Bdd(root_steps=40, neuron_steps=5, steps=20, rebound=True, proximal=True),
    "bdd, as first published": Bdd(root_steps=20, steps=20, rebound=True, parallel=True),
    "bdd, nothing climbed": Bdd(root_steps=0, steps=0),
    "bdd, wild steps": Bdd(root_steps=20, steps=10, rate=50.0, child_rate=50.0),
    "lirpa, wild steps": Lirpa(root_steps=20, neuron_steps=10, steps=10, rate=5.0, child_rate=5.0),
    "babsr-lp": BabsrLP(),
    "babsr-lp, neurons kept": BabsrLP(rebound=False),
    "gnn": TryingLP(),
}

every_bounder = pytest.mark.parametrize("bounder", BOUNDERS.values(), ids=BOUNDERS)
NOISE = 1e-5  # what the oracles may be off by


def easy(seed: int) -> Question:
    return random_question(seeded(seed), neurons=8)


def hard(seed: int) -> Question:
    """A net with three layers every other time; one or two rows."""
    return knotted(seed, (3, 5, 4, 2) if seed % 2 else (2, 4, 3, 3, 2))


def split_at_random(root: Root, domains: Domains, most: int, seed: int) -> Domains:
    """Each domain split on up to `most` of its unstable neurons; where it has none it stays whole.

    Every neuron is named as a candidate, so that a bounder may bound again whatever it likes.
    """
    rng = torch.Generator().manual_seed(seed)
    score = torch.where(unstable_of(domains), torch.rand(unstable_of(domains).shape, generator=rng), -1.0)
    best, neurons = score.topk(min(most, root.count), dim=1)
    chosen = torch.where(best > 0, neurons, -1)
    every = torch.arange(root.count).repeat(len(domains), 1)
    return split(replace(domains, candidates=every), chosen)


def exact_minimum(question: Question, root: Root, splits: torch.Tensor) -> float:
    coef, offset = rows_of(question.property.disjuncts[0], question.graph.output.size)
    return milp_minimum(question.graph, *question.box, coef, offset, signs_of(root, splits)).value


def holds_at(problem: Problem, root: Root, bounds: Bounds, x: torch.Tensor) -> int:
    """Every number against points (n, *input), each in the domains whose signs it has; how many were inside."""
    inside = 0
    values = problem.graph.values(x)
    row = worst_row(problem, x)
    for i in range(len(bounds.domains)):
        here = satisfy(problem.graph, signs_of(root, bounds.domains.splits[i]), x)
        if not bool(here.any()):
            continue
        inside += int(here.sum())
        assert not bool(bounds.empty[i])
        assert float(bounds.domains.bound[i]) <= float(row[here].min()) + 1e-9
        for layer in root.graph32.layers:
            h = values[layer.pre].flatten(1)[here][:, layer.index]
            assert bool((bounds.domains.lower[i, layer.packed] <= h + 1e-9).all())
            assert bool((h <= bounds.domains.upper[i, layer.packed] + 1e-9).all())
    return inside


@every_bounder
@pytest.mark.parametrize("make", [easy, hard])
def test_the_root_is_below_the_exact_minimum_and_every_sample(
    bounder: Bounder, make: Callable[[int], Question]
) -> None:
    for seed in range(8):
        question = make(seed)
        problem = first_problem(question)
        root, bounds = root_of(bounder, problem)
        assert float(bounds.domains.bound) <= exact_minimum(question, root, bounds.domains.splits[0]) + NOISE
        assert holds_at(problem, root, bounds, sample(problem, 200, seed)) == 200
        for node, interval in enumerate(root.intervals.of):
            value = problem.graph.values(sample(problem, 50, seed))[node]
            assert bool((interval.lower <= value + 1e-9).all())
            assert bool((value <= interval.upper + 1e-9).all())


@every_bounder
def test_sub_domains_are_below_their_own_minimum_and_keep_what_was_known(bounder: Bounder) -> None:
    """Two generations, so that bounds rest on inherited ones; minima over the signs by MILP, points by sampling."""
    inside = tight = 0
    for seed in range(5):
        question = hard(seed)
        problem = first_problem(question)
        root, parents = root_of(bounder, problem)
        for generation, most in enumerate((2, 1)):
            children = bound_of(bounder, root, split_at_random(root, parents.domains, most, seed))
            least = float(parents.domains.bound.min())
            assert bool((children.domains.bound >= least).all())
            exact = [exact_minimum(question, root, splits) for splits in children.domains.splits]
            for bound, empty, value in zip(children.domains.bound, children.empty, exact, strict=True):
                assert float(bound) <= value + NOISE
                assert (float(bound) == np.inf) == bool(empty)
                tight += float(bound) > least + 1e-3
            inside += holds_at(problem, root, children, sample(problem, 300, 10 * seed + generation))
            parents = children
    assert inside >= 2000
    assert tight >= 10  # splits are of use


@every_bounder
def test_each_sub_domain_contains_the_inherited_bounds(bounder: Bounder) -> None:
    """A child's intermediate bounds are never wider than what it was given."""
    for seed in range(4):
        problem = first_problem(hard(seed))
        root, bounds = root_of(bounder, problem)
        given = split_at_random(root, bounds.domains, 3, seed)
        found = bound_of(bounder, root, given).domains
        assert bool((found.lower >= given.lower).all())
        assert bool((found.upper <= given.upper).all())
        assert torch.equal(found.splits, given.splits)
        assert torch.equal(found.target, given.target)


@every_bounder
def test_several_targets_are_each_below_their_own_minimum(bounder: Bounder) -> None:
    for seed in range(2):
        question = hard(seed)
        eye = np.eye(question.graph.output.size)
        each = [rows_tensor(row[None], np.zeros(1)) for row in (*eye, *-eye)]
        rows = type(each[0])(*(torch.cat(parts) for parts in zip(*(vars(r).values() for r in each), strict=True)))
        problem = problem_of(question.graph, question.box, rows)
        root, bounds = root_of(bounder, problem)
        children = bound_of(bounder, root, split_at_random(root, bounds.domains, 2, seed)).domains
        for i, target in enumerate(children.target.tolist()):
            coef, offset = rows.coef[target].numpy(), rows.offset[target].numpy()
            signs = signs_of(root, children.splits[i])
            exact = milp_minimum(question.graph, *question.box, coef, offset, signs).value
            assert float(children.bound[i]) <= exact + NOISE


@every_bounder
def test_settled_early_or_out_of_time_it_still_holds(bounder: Bounder) -> None:
    for seed in range(4):
        question = sharpened(hard(seed), [1])
        problem = first_problem(question)
        root, bounds = root_of(bounder, problem)
        given = split_at_random(root, bounds.domains, 2, seed)
        exact = torch.tensor([exact_minimum(question, root, splits) for splits in given.splits])
        for threshold in (-torch.inf, 0.0, 0.9):
            limit = torch.full((len(given),), threshold, dtype=torch.float64)
            for deadline in (Deadline(None), Deadline(0.0)):
                found = bounder.bound(root, given, limit, deadline, Clock())
                assert bool((found.domains.bound <= exact + NOISE).all())


@every_bounder
def test_no_half_root_is_handed_out(bounder: Bounder) -> None:
    problem = first_problem(hard(1))
    threshold = torch.zeros(1, dtype=torch.float64)
    assert bounder.root(problem, threshold, CPU, Deadline(0.0), Clock()) is None


@every_bounder
def test_a_bound_is_the_same_every_time(bounder: Bounder) -> None:
    problem = first_problem(hard(3))
    runs = []
    for _ in range(2):
        root, bounds = root_of(bounder, problem)
        children = bound_of(bounder, root, split_at_random(root, bounds.domains, 2, 0))
        runs.append((bounds, children))
    for first, again in zip(*runs, strict=True):
        assert torch.equal(first.domains.bound, again.domains.bound)
        assert torch.equal(first.point, again.point)
        assert torch.equal(first.coef, again.coef)


@every_bounder
def test_its_point_lies_in_the_input_set(bounder: Bounder) -> None:
    for seed in range(4):
        problem = first_problem(hard(seed))
        root, bounds = root_of(bounder, problem)
        children = bound_of(bounder, root, split_at_random(root, bounds.domains, 2, seed))
        lower, upper = problem.input_set.lower.float(), problem.input_set.upper.float()
        assert bool(((lower <= children.point) & (children.point <= upper)).all())


@every_bounder
def test_a_network_without_unstable_neurons_has_a_root_and_nothing_to_split(bounder: Bounder) -> None:
    question = hard(5)
    centre = (question.box[0] + question.box[1]) / 2 + 0.01
    rows = rows_tensor(*rows_of(question.property.disjuncts[0], question.graph.output.size))
    problem = problem_of(question.graph, (centre, centre), rows)
    root, bounds = root_of(bounder, problem)
    assert root.count == 0
    expected = float(worst_row(problem, problem.input_set.lower[None]))
    # With several rows Σ λ r need not reach the largest.
    assert float(bounds.domains.bound) <= expected
    single = rows_tensor(rows.coef[0, :1].numpy(), rows.offset[0, :1].numpy())
    root, bounds = root_of(bounder, problem_of(question.graph, (centre, centre), single))
    expected = float(worst_row(problem_of(question.graph, (centre, centre), single), problem.input_set.lower[None]))
    assert float(bounds.domains.bound) == pytest.approx(expected, abs=1e-9)
