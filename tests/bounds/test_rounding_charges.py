"""Parts of the graph's proofs that hide behind others on whole networks, each by itself, in rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.base import root_domains
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.graph.batch import Batch, bound_batch
from netproof.bounds.graph.confirm import confirm
from netproof.bounds.graph.slopes import Slopes
from netproof.bounds.linear.backward import Charge, backward
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.region import Region
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.core.forms import LinearForm
from netproof.model.graph import Graph
from netproof.numerics import float_up
from netproof.problem.problem import InputSet, Rows
from netproof.relax import Lines
from support.asking import CPU
from support.awkward import GraphBuilder
from support.problems import box_problem, targets_of
from support.rational import exact, exact_values


def around_zero(size: int, half: float = 1.0) -> Region:
    side = torch.full((1, size), half, dtype=torch.float64)
    return Region.of(InputSet(-side, side), CPU, torch.float64)


@pytest.mark.parametrize("seed", range(12))
def test_the_coefficients_of_an_affine_op_are_charged(seed: int) -> None:
    """null·(W x) is nothing but what the adjoint's sums lose; there is no constant that could pay for it."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(8, 3))
    build = GraphBuilder(1, 3)
    build.linear(build.linear(0, weight), np.linalg.svd(weight.T)[2][-1:])
    graph, region = build.finish(), around_zero(3)
    proof = LinedGraph(graph, region, interval_bounds(graph, region).charge)
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    bound = proof.bound(graph.output.index, one, [], [], torch.zeros(1, 1, 0, dtype=torch.float64))
    slope = [exact_values(graph, exact(unit))[-1][0] for unit in np.eye(3)]
    assert Fraction(float(bound)) <= -sum(map(abs, slope))


def test_coefficients_times_lines_are_charged() -> None:
    """c·α·x for a node that reads the input itself, with nothing charged elsewhere."""
    rng = np.random.default_rng(0)
    build = GraphBuilder(1, 20)
    build.relu(0)
    graph, region = build.finish(), around_zero(20)
    charge = interval_bounds(graph, region).charge
    alone = Charge([torch.zeros_like(charge.weight[0]), charge.weight[1]], charge.magnitude)
    slope = torch.from_numpy(rng.uniform(0, 1, (1, 20)))
    lines = {1: Lines(slope, torch.ones_like(slope), torch.zeros_like(slope))}
    for coef in torch.from_numpy(rng.uniform(0, 1, (20, 1, 1, 20))):
        form = backward(graph, 1, coef, lines, charge=alone)
        gap = abs(exact(form.coef) - exact(coef) * exact(slope))
        assert Fraction(float(form.const)) <= -gap.sum()


def test_a_hinge_of_negative_slope_is_least_at_0() -> None:
    build = GraphBuilder(1, 1)
    build.relu(0, -0.5)
    found = interval_bounds(build.finish(), around_zero(1)).of[-1]
    assert float(found.lower) <= 0.0


def test_the_lines_of_a_proof_lie_above_the_ends() -> None:
    rng = np.random.default_rng(0)
    build = GraphBuilder(1, 200)
    build.relu(0)
    low, high = -rng.uniform(0.1, 1, (1, 200)), rng.uniform(0.1, 1, (1, 200))
    region = Region.of(InputSet(torch.from_numpy(low), torch.from_numpy(high)), CPU, torch.float64)
    graph = build.finish()
    intervals = interval_bounds(graph, region)
    proof = LinedGraph(graph, region, intervals.charge)
    proof.add(1, 0, intervals.of[0])
    slopes = torch.ones(1, 1, 200, dtype=torch.float64)
    lines = proof.lines(1, [torch.from_numpy(low)], [torch.from_numpy(high)], slopes)[1]
    slope, lift = exact(lines.upper_slope), exact(lines.upper_intercept)
    assert all(slope * exact(low) + lift >= 0)
    assert all(slope * exact(high) + lift >= exact(high))


@pytest.mark.parametrize("p", [1, 2])
def test_the_dot_with_a_balls_centre_is_charged(p: int) -> None:
    """A small box at the rim of a ball that is far away and large: 0 lies in both."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        centre = rng.uniform(1, 2, 4) * 1e16
        if p == 2:
            centre[:] = centre[0]  # then ‖c‖·radius meets c·centre
        side = np.full((1, 4), 1e-3)
        reach = sum(map(Fraction, centre.tolist())) if p == 1 else 2 * Fraction(centre[0])
        sides = (torch.from_numpy(v) for v in (-side, side, centre[None]))
        region = Region.of(InputSet(*sides, float_up(reach), p), CPU, torch.float64)
        coef = torch.full((1, 1, 4), rng.uniform(0.1, 1), dtype=torch.float64)
        value = Fraction(float(region.least(LinearForm(coef, torch.zeros(1, dtype=torch.float64)))))
        assert value - abs(exact(coef)) @ exact(region.charge()) <= 0


# --- a batch of sub-domains ---


def rooted(graph: Graph, x: np.ndarray, rows: Rows) -> Root:
    root = build_root(box_problem(graph, x, x, rows), CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def batch_of(root: Root) -> Batch:
    domains = root_domains(root)
    sides = ([side[:, k.packed].double() for k in root.graph64.layers] for side in (domains.lower, domains.upper))
    return Batch(domains.target, *sides, [None] * len(root.graph64.layers))


def test_the_mix_of_the_rows_is_charged() -> None:
    """λ_1 d_1 + λ_2 d_2 cancels, and so do the coefficients; each by itself is of size 1."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.2, 0.8)
        coef, offset = rng.normal(size=3), rng.normal()
        build = GraphBuilder(1, 3)
        build.linear(0, np.eye(3))
        other = -share / (1 - share)
        rows = targets_of([[coef, coef * other]], [[offset, offset * other]])
        x = rng.uniform(0.5, 1, 3)
        weights = torch.tensor([[share, 1 - share]], dtype=torch.float64)
        for only_offsets in (False, True):
            here = replace(rows, coef=torch.zeros_like(rows.coef)) if only_offsets else rows
            root = rooted(build.finish(), x, here)
            empty = torch.zeros(1, 0, dtype=torch.float64)
            found = bound_batch(root.graph64, here, batch_of(root), empty, {}, weights).bound
            r = exact(here.coef[0]).reshape(2, 3) @ exact(x) - exact(here.offset[0])
            assert Fraction(float(found)) <= exact(weights) @ r


def small_root() -> Root:
    build = GraphBuilder(1, 2)
    build.linear(build.relu(build.linear(0, np.eye(2))), np.ones((1, 2)))
    root = build_root(box_problem(build.finish(), -1.0, 1.0), CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def test_what_is_not_a_number_decides_nothing() -> None:
    root = small_root()
    domains = replace(root_domains(root), bound=torch.full((1,), -3.0, dtype=torch.float64))
    slopes = Slopes(torch.full((1, 2), torch.nan), {})
    found = confirm(root, batch_of(root), domains, slopes, torch.ones(1, 1), Deadline(None))
    assert found.domains.bound.tolist() == [-3.0]
    assert not bool(found.empty.any())


def test_past_the_deadline_nothing_is_proved_and_nothing_empty() -> None:
    root = small_root()
    domains = replace(root_domains(root), bound=torch.full((1,), -3.0, dtype=torch.float64))
    expired = Deadline()
    expired.cancel()
    found = confirm(root, batch_of(root), domains, Slopes(torch.ones(1, 2), {}), torch.ones(1, 1), expired)
    assert found.domains.bound.tolist() == [-3.0]
    assert not bool(found.empty.any())
