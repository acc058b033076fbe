"""The LP of the condensed network: the network's own values satisfy it, and it is worth what the plain one is."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.domains import Domains, split
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.paper.rivals.rebound import rebound_all
from netproof.problem.problem import InputSet, Problem
from netproof.programs import highs
from netproof.programs.check import lagrangian_bound
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import solve_from
from netproof.programs.model import Floats, LinearProgram
from netproof.programs.triangle import LPTask, TriangleLP
from netproof.search.leaf import LeafLP
from support.asking import CPU, first_problem, knotted, sample, satisfy, signs_of
from support.random_graphs import NetworkBuilder, random_question, seeded


def root_at(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline())
    assert root is not None
    return root


def problems() -> list[Problem]:
    deep = [first_problem(knotted(seed, (3, 5, 4, 2))) for seed in range(4)]
    return deep + [first_problem(random_question(seeded(seed), neurons=8)) for seed in range(40)]


def leaky() -> Problem:
    build, rng = NetworkBuilder(2), np.random.default_rng(5)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(np.float64)

    node = build.linear(0, weights(4, 2), weights(4))
    node = build.linear(build.leaky_relu(node, 0.125), weights(3, 4), np.zeros(3))
    build.linear(build.relu(node), weights(1, 3), np.zeros(1))
    return first_problem(replace(knotted(0, (2, 3, 1)), network=build.finish()))


def some_children(root: Root, seed: int) -> Domains:
    """The whole input set split on up to two neurons, the others bounded again."""
    whole = root_domains(root)
    score = torch.rand(1, root.count, generator=torch.Generator().manual_seed(seed))
    neurons = score.topk(min(2, root.count), dim=1).indices
    return rebound_all(root, split(whole, neurons), Deadline()) if root.count else whole


def point_of(lp: CondensedLP, root: Root, x: torch.Tensor, program: LinearProgram) -> Floats:
    """Values of all columns at the input x (*input), by evaluating the network in float64."""
    values = root.problem.graph.values(x[None].double())
    column = np.full(len(program.cost), np.nan)
    column[lp.places.x] = x.double().flatten().numpy()
    for layer in root.graph32.layers:
        h = values[layer.pre].flatten()[layer.index].numpy()
        column[lp.places.positive[layer.packed]] = h.clip(min=0)
        column[lp.places.negative[layer.packed]] = (-h).clip(min=0)
    y = values[-1].flatten().numpy()
    rows = root.problem.rows
    column[-1] = max(float(rows.coef[0, j].numpy() @ y - rows.offset[0, j]) for j in range(rows.valid.shape[1]))
    return column


def test_the_networks_own_values_satisfy_every_sub_domains_program() -> None:
    """Columns that no neuron names (y of stable neurons) are solved for: each has a row of its own."""
    checked = 0
    for seed, problem in enumerate([*problems(), leaky()]):
        root = root_at(problem)
        lp = CondensedLP(root, Deadline())
        x = sample(problem, 100, seed)
        for domain in (some_children(root, seed).select(slice(i, i + 1)) for i in range(2)):
            if len(domain) == 0 or bool((domain.lower > domain.upper).any()):
                continue
            program = lp.program(0, domain.lower[0], domain.upper[0])
            inside = satisfy(problem.graph, signs_of(root, domain.splits[0]), x).nonzero()[:3, 0].tolist()
            for i in inside:
                holds_at(point_of(lp, root, x[i], program), program)
                checked += 1
    assert checked >= 60


def holds_at(column: Floats, program: LinearProgram) -> None:
    row, col, value = program.entries
    for r in range(len(program.row_lower)):  # the trunk's rows and those of leaky outputs come before what reads them
        here = row == r
        unknown = np.unique(col[here][np.isnan(column[col[here]])])
        if len(unknown) == 1 and program.row_upper[r] - program.row_lower[r] < 1e-9:
            own = here & (col == unknown[0])
            rest = here & (col != unknown[0])
            column[unknown[0]] = (program.row_lower[r] - (value[rest] @ column[col[rest]])) / value[own].sum()
    assert not np.isnan(column).any()
    activity = np.bincount(row, value * column[col], len(program.row_lower))
    assert (activity >= program.row_lower - 1e-9).all()
    assert (activity <= program.row_upper + 1e-9).all()
    assert (column >= program.lower - 1e-9).all()
    assert (column <= program.upper + 1e-9).all()


def test_it_is_worth_what_the_plain_triangle_lp_is() -> None:
    """The same bounds of the neurons, two ways to write the relaxation down: one value, feasible or not.

    The plain one leaves out neurons that the output does not depend on, and with them their splits.
    """
    compared = larger = 0
    for seed, problem in enumerate([*problems(), leaky()]):
        root = root_at(problem)
        lp = CondensedLP(root, Deadline())
        domains = some_children(root, seed)
        plain = LeafLP(root, 1).decide(domains, Deadline()).bound.tolist()
        for i in range(len(domains)):
            if bool((domains.lower[i] > domains.upper[i]).any()):
                continue
            program = lp.program(0, domains.lower[i], domains.upper[i])
            answer, _ = solve_from(program, lp.layout(0), None, math.inf, Deadline())
            assert answer.duals is not None
            value = math.inf if answer.infeasible else lagrangian_bound(program, answer.duals)
            assert value >= plain[i] - 1e-5
            compared += 1
            larger += value > plain[i] + 1e-5
    assert compared >= 60
    assert larger <= 4


def test_a_parents_basis_changes_the_way_and_not_the_value() -> None:
    saved = 0
    for seed in range(6):
        root = root_at(first_problem(knotted(seed, (3, 6, 5, 2))))
        lp = CondensedLP(root, Deadline())
        whole = root_domains(root)
        program = lp.program(0, whole.lower[0], whole.upper[0])
        _, basis = solve_from(program, lp.layout(0), None, math.inf, Deadline())
        assert basis is not None
        children = rebound_all(root, split(whole, torch.tensor([[0]])), Deadline())
        for i in range(len(children)):
            child = lp.program(0, children.lower[i], children.upper[i])
            cold, warm = (solve_from(child, lp.layout(0), start, math.inf, Deadline())[0] for start in (None, basis))
            assert cold.infeasible == warm.infeasible
            if not cold.infeasible:
                assert cold.duals is not None
                assert warm.duals is not None
                assert lagrangian_bound(child, warm.duals) == pytest.approx(
                    lagrangian_bound(child, cold.duals), abs=1e-6
                )
                saved += 1
    assert saved >= 6


def test_it_stops_once_the_bound_is_decided() -> None:
    root = root_at(first_problem(knotted(3, (3, 6, 5, 2))))
    lp = CondensedLP(root, Deadline())
    whole = root_domains(root)
    program = lp.program(0, whole.lower[0], whole.upper[0])
    full, _ = solve_from(program, lp.layout(0), None, math.inf, Deadline())
    assert full.duals is not None
    value = lagrangian_bound(program, full.duals)
    for cutoff in (value - 1.0, value - 0.1):
        early, _ = solve_from(program, lp.layout(0), None, cutoff, Deadline())
        assert early.duals is not None
        assert cutoff - 1e-6 <= lagrangian_bound(program, early.duals) <= value + 1e-9


def test_out_of_time_or_cancelled_it_says_nothing() -> None:
    root = root_at(first_problem(knotted(3, (3, 6, 5, 2))))
    with pytest.raises(DeadlineExpired):
        CondensedLP(root, Deadline(0.0))
    lp = CondensedLP(root, Deadline())
    whole = root_domains(root)
    program = lp.program(0, whole.lower[0], whole.upper[0])
    gone = Deadline()
    gone.cancel()
    for deadline in (Deadline(0.0), gone):
        answer, basis = solve_from(program, lp.layout(0), None, math.inf, deadline)
        assert answer.duals is None
        assert basis is None


def test_an_l1_ball_is_part_of_it() -> None:
    problem = first_problem(knotted(1, (3, 5, 2)))
    centre = torch.zeros_like(problem.input_set.lower)
    ball = InputSet(problem.input_set.lower, problem.input_set.upper, centre, 0.5, 1)
    root = root_at(replace(problem, input_set=ball))
    lp = CondensedLP(root, Deadline())
    whole = root_domains(root)
    program = lp.program(0, whole.lower[0], whole.upper[0])
    answer, _ = solve_from(program, lp.layout(0), None, math.inf, Deadline())
    assert answer.duals is not None
    intervals = [(i.lower, i.upper) for i in root.intervals.of]
    plain = TriangleLP(problem.graph, ball, intervals).solve(LPTask(problem.rows, 0, {}))
    assert lagrangian_bound(program, answer.duals) == pytest.approx(plain.bound, abs=1e-6)


def test_neurons_after_a_split_are_bounded_again_and_no_others() -> None:
    moved = 0
    for seed in range(6):
        root = root_at(first_problem(knotted(seed, (3, 5, 4, 2))))
        given = split(root_domains(root), torch.tensor([[0]]))
        found = rebound_all(root, given, Deadline())
        first = root.graph32.layers[0].packed
        assert torch.equal(found.lower[:, first], given.lower[:, first])
        assert torch.equal(found.upper[:, first], given.upper[:, first])
        assert bool((found.lower >= given.lower).all())
        moved += int((found.lower > given.lower).sum() + (found.upper < given.upper).sum())
        late = rebound_all(root, given, Deadline(0.0))
        assert torch.equal(late.lower, given.lower)
    assert moved >= 12


def test_parents_bases_are_forgotten_and_roots_with_them() -> None:
    bounder = BabsrLP()
    never = torch.full((1,), math.inf, dtype=torch.float64)
    problem = first_problem(knotted(3, (3, 6, 5, 2)))
    found = bounder.root(problem, never, CPU, Deadline(), Clock())
    assert found is not None
    root, bounds = found
    assert len(bounder._open[root].bases) == 1
    children = split(bounds.domains, torch.tensor([[0]]))
    bounder.bound(root, children, never.expand(2), Deadline(), Clock())
    assert len(bounder._open[root].bases) == 2  # the children's; the root's is gone
    del found, root, bounds, children
    gc.collect()
    assert len(bounder._open) == 0


def test_interior_point_and_simplex_agree_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        root = root_at(first_problem(knotted(seed, (3, 6, 5, 2))))
        lp = CondensedLP(root, Deadline())
        children = rebound_all(root, split(root_domains(root), torch.tensor([[0, 1]])), Deadline())
        for i in range(len(children)):
            program = lp.program(0, children.lower[i], children.upper[i])
            found = []
            for size in (highs.CONDENSED_SIZE, 0):
                monkeypatch.setattr(highs, "CONDENSED_SIZE", size)
                answer, basis = solve_from(program, lp.layout(0), None, math.inf, Deadline())
                assert answer.duals is not None
                assert answer.infeasible or basis is not None
                cost = program.cost * (not answer.infeasible)
                found.append((answer.infeasible, lagrangian_bound(replace(program, cost=cost), answer.duals)))
            monkeypatch.undo()
            (empty, first), (empty_too, second) = found
            assert empty == empty_too
            assert (first > 0 and second > 0) if empty else first == pytest.approx(second, abs=1e-6)
