"""Neurons bounded again below the root: in their own sub-domain, errors taken off, rounded outward. In rationals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains, split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.forms import bound_forms
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.neurons.root import Root, build_root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.paper.rivals.rebound import rebound_all
from netproof.problem.problem import Problem
from netproof.search.effort import Rebounding
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.asking import CPU
from support.awkward import GraphBuilder
from support.problems import box_problem, folded_neurons
from support.rational import Exact, exact, exact_values

Way = Callable[[Root, Domains], tuple[Tensor, Tensor]]


def plain_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def switched(seed: int, count: int = 12) -> Problem:
    """h_j = w_j relu(x) − c_j on x in [−1, 1]: exactly −c_j where the switch is off, up to w_j − c_j where it is on."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.1, 0.9, count)
    build = GraphBuilder(1, 1)
    first = build.relu(build.linear(0, np.ones((1, 1))))
    build.linear(build.relu(build.linear(first, (c + rng.uniform(0.1, 0.9, count))[:, None], -c)), np.ones((1, count)))
    return box_problem(build.finish(), -1.0, 1.0)


def halves(root: Root) -> Domains:
    """On, off, on, off; each decided long ago."""
    both = split(root_domains(root), torch.tensor([[0]])).select(torch.tensor([0, 1, 0, 1]))
    return replace(both, splits=both.splits * 20)


def assert_holds(root: Root, domains: Domains, points: tuple[float, ...] = (-1.0, 0.0, 1.0)) -> None:
    """At points, in the sub-domains that they belong to."""
    for layer in root.graph64.layers[1:]:
        for point in points:
            x = exact(np.full(root.problem.graph.input.size, point))
            h = exact_values(root.problem.graph, x)[layer.pre][layer.index.numpy()]
            for b in range(len(domains)):
                if float(domains.splits[b, 0].sign()) * point >= 0:
                    assert all(exact(domains.lower[b, layer.packed]) <= h)
                    assert all(h <= exact(domains.upper[b, layer.packed]))


@pytest.mark.parametrize("seed", range(3))
def test_rebounded_bounds_are_outward_and_of_their_own_sub_domain(seed: int) -> None:
    root = plain_root(switched(seed))
    before = halves(root)
    found = rebound(root, before, 32, Schedule(2), Deadline(None))
    assert bool((found.upper[1] < before.upper[1])[1:].all())  # off: they have moved
    assert_holds(root, found)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_by_one_pass_are_outward_and_of_their_own_sub_domain(seed: int) -> None:
    root = plain_root(switched(seed))
    before = halves(root)
    found = rebound_all(root, before, Deadline(None))
    assert bool((found.upper[1] < before.upper[1])[1:].all())
    assert_holds(root, found)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_rebounded_on_the_graph_are_outward_and_of_their_own_sub_domain(seed: int) -> None:
    root = plain_root(switched(seed))
    before = halves(root)
    before = replace(before, splits=before.splits.sign(), candidates=torch.arange(root.count).repeat(4, 1))
    never = torch.full((4,), torch.inf, dtype=torch.float64)
    found = Lirpa(rebound=32).bound(root, before, never, Deadline(None), Clock()).domains
    assert bool((found.upper[1] < before.upper[1])[1:].all())
    assert_holds(root, found)


def test_the_search_puts_rebounded_bounds_where_they_belong() -> None:
    root = plain_root(switched(0, 40))
    problem, bounder, domains = root.problem, Beta(rebound=40), halves(root)
    goal = Decide(problem, lambda point, target: None)
    search = Search(problem, Method(bounder, Babsr(), 4, None), goal, Work(CPU, 1, Deadline(None), Stats()))
    search._effort.rebounding = Rebounding(levels=6, worth=0.2, pays=True)
    search._effort.bounded = 10**6
    never = torch.full((4,), torch.inf, dtype=torch.float64)
    search._root = root
    found = search._rebounded(domains, never)
    assert torch.equal(found.splits, domains.splits)
    assert bool((found.upper[1] < domains.upper[1])[1:].all())
    assert_holds(root, found)


# --- folded neurons: their forms are off ---


def at_the_corner(root: Root) -> Exact:
    """h of the second layer where x is largest."""
    layer = root.graph64.layers[1]
    return exact_values(root.problem.graph, exact(root.problem.input_set.upper))[layer.pre][layer.index.numpy()]


def by_slopes(root: Root, domains: Domains) -> tuple[Tensor, Tensor]:
    layer = root.graph64.layers[1]
    forms, error = root.condenser.neurons(layer.pre, layer.index)
    nets, both = (root.condensed32, root.condensed64), (torch.cat([forms, -forms]), error.repeat(2))
    known = replace(domains, splits=torch.zeros_like(domains.splits)).known
    count = len(forms)
    start, settled = (torch.ones(2 * count, root.count), None), torch.zeros(2 * count)
    value, _ = bound_forms(nets, both, known, start, Climb(Schedule(2), settled, Deadline(None)))
    return value[:count], -value[count:]


def by_rebound(root: Root, domains: Domains) -> tuple[Tensor, Tensor]:
    found = rebound(root, domains, 32, Schedule(2), Deadline(None))
    return found.lower[0, 1:], found.upper[0, 1:]


def by_one_pass(root: Root, domains: Domains) -> tuple[Tensor, Tensor]:
    on = split(domains, torch.tensor([[0]])).select(torch.tensor([0]))
    found = rebound_all(root, on, Deadline(None))
    return found.lower[0, 1:], found.upper[0, 1:]


@pytest.mark.parametrize("way", [by_slopes, by_rebound, by_one_pass])
@pytest.mark.parametrize("seed", range(5))
def test_a_neurons_own_error_is_taken_off(way: Way, seed: int) -> None:
    root = plain_root(folded_neurons(seed))
    assert [layer.count for layer in root.graph64.layers] == [1, 6]
    lower, upper = way(root, root_domains(root))
    h = at_the_corner(root)
    assert all(exact(lower) <= h)
    assert all(h <= exact(upper))
