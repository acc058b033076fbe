"""The condensed network: the same bounds as the graph it stands for, exact gradients, and rounding charged."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import root_domains
from netproof.bounds.condensed.condenser import trunk_node
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.net import Net
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.packed import Packed
from netproof.core.deadline import Deadline
from netproof.problem.problem import Problem
from support.asking import CPU, first_problem, knotted
from support.awkward import awkward_graph
from support.problems import box_problem, packed_values, random_points, unstable_of
from support.random_graphs import random_question, seeded


def problems() -> list[Problem]:
    """Dense, branching, convolutional, with leaky ReLUs and with scales far apart."""
    dense = [first_problem(knotted(seed, (3, 6, 5, 4, 2))) for seed in range(4)]
    tangled = [first_problem(random_question(seeded(seed), neurons=12)) for seed in range(10)]
    awkward = [box_problem(awkward_graph(seed), -1.0, 1.0) for seed in range(10)]
    return [*dense, *tangled, *awkward]


def plain_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def children(root: Root, seed: int) -> Domains:
    """Some sub-domains with up to three neurons decided, and slopes and multipliers at random."""
    rng = torch.Generator().manual_seed(seed)
    domains = root_domains(root).select(torch.zeros(4, dtype=torch.int64))
    if root.count:
        chosen = torch.stack([torch.randperm(root.count, generator=rng)[:3] for _ in range(4)])
        domains = split(domains, chosen)
    shape = domains.slopes.shape
    return replace(
        domains,
        slopes=torch.rand(shape, generator=rng).half(),
        multipliers=(torch.rand(shape, generator=rng) * domains.splits.ne(0)).half(),
    )


def dual_on(net: Net, root: Root, domains: Domains) -> Dual:
    """Return the dual function of the property's rows on a network of our choice."""
    packed = Packed.of(net.layers, domains.known.to(net.dtype), proof=net.proof)
    return Dual(net, net.rows[domains.target], net.error[domains.target], root.valid[domains.target], packed)


def of_first_rows(net: Net, domains: Domains) -> Dual:
    """Return that of each target's first row alone."""
    forms, error = net.rows[domains.target][:, 0], net.error[domains.target][:, 0]
    return Dual.of_forms(net, forms, error, domains.known)


def value_at(dual: Dual, slopes: Tensor, multipliers: Tensor | None = None) -> Tensor:
    """Return what the network itself says of the rows, all with the same weight."""
    return dual.at(DualPoint(slopes, multipliers, torch.ones_like(dual.error))).pulled.value


def test_the_bound_is_that_of_the_graph() -> None:
    """Compare the two with multipliers and without them."""
    compared = 0
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        domains = children(root, seed)
        graph, valid = GraphNet.whole(root.graph64, root.rows), root.valid[domains.target].double()
        mixed = torch.einsum("dr,drc->dc", valid / valid.sum(1, keepdim=True), graph.rows[domains.target])
        by_graph = Dual.of_forms(graph, mixed, torch.zeros(len(domains)), domains.known)
        for beta in (None, domains.multipliers):
            ours = value_at(dual_on(root.condensed64, root, domains), domains.slopes, beta)
            theirs = value_at(by_graph, domains.slopes, beta)
            assert bool(((ours - theirs).abs() <= 1e-9 * (1 + theirs.abs().max())).all())
        compared += root.count > 0
    assert compared >= 15


def test_the_forms_are_the_neurons() -> None:
    """h = M v at points: within the error that each form is charged with."""
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        net = root.condensed64
        points = random_points(problem, 30, seed)
        h = packed_values(root, points)
        values = problem.graph.values(points)
        y = values[net.trunk.node].flatten(1)[:, net.trunk.index]
        z = [values[layer.node].flatten(1)[:, layer.index] for layer in root.graph64.layers]
        v = torch.cat([torch.ones(30, 1, dtype=torch.float64), y, *z], 1)
        assert net.charges is not None
        slack = net.charges.forms + 1e-12 * (net.matrix.abs() @ v.abs().amax(0))
        assert bool(((v @ net.matrix.T - h).abs() <= slack).all())
        rows = torch.einsum("trc,nc->ntr", net.rows, v)
        exact = torch.einsum("tro,no->ntr", problem.rows.coef, values[-1].flatten(1)) - problem.rows.offset
        size = 1e-12 * (net.rows.abs() @ v.abs().amax(0)) + net.error
        assert bool(((rows - exact).abs() <= size).all())


def test_the_gradient_is_exact() -> None:
    """Against differences: the bound is piecewise linear in each parameter, so a small step either way agrees."""
    checked = 0
    for seed in range(6):
        root = plain_root(first_problem(knotted(seed, (3, 6, 5, 2))))
        domains = children(root, seed)
        search = replace(root.condensed64, charges=None, region=root.condensed64.region.about_centre())
        dual = of_first_rows(search, domains)
        beta = domains.multipliers.double() + 0.1 * domains.splits.ne(0)
        moving = torch.stack([domains.slopes.double(), beta], 1)
        at = dual.evaluate([moving], last=False)
        (grad,) = dual.gradient([moving], at)
        grad[:, 0] *= unstable_of(domains)  # elsewhere the parameter moves nothing
        for kind, u in product(range(2), range(root.count)):
            step = torch.zeros_like(moving)
            step[:, kind, u] = 1e-7
            up, down = (dual.evaluate([moving + s * step], last=True).value for s in (1, -1))
            right, left = (up - at.value) / 1e-7, (at.value - down) / 1e-7
            smooth = (right - left).abs() < 1e-5
            assert bool(((right - grad[:, kind, u]).abs() < 1e-4)[smooth].all())
            checked += int(smooth.sum())
    assert checked > 200


def test_the_search_copy_agrees_with_the_proof_and_never_decides() -> None:
    for seed, problem in enumerate(problems()[:14]):
        root = plain_root(problem)
        domains = children(root, seed)
        nets = root.condensed32, root.condensed64
        found, proved = (value_at(of_first_rows(net, domains), domains.slopes) for net in nets)
        torch.testing.assert_close(found.double(), proved, rtol=1e-3, atol=1e-3)


def test_a_climb_never_ends_below_its_start_and_leaves_alone_what_is_settled() -> None:
    root = plain_root(first_problem(knotted(3, (3, 7, 6, 2))))
    domains = root_domains(root)
    dual, start = dual_on(root.condensed32, root, domains), DualPoint.of(domains)
    first, _ = ascend(dual, start, Climb(Schedule(0), torch.full((1,), torch.inf), Deadline(None)))
    best, found = ascend(dual, start, Climb(Schedule(40), torch.full((1,), torch.inf), Deadline(None)))
    assert float(best) > float(first)
    torch.testing.assert_close(dual.at(found).value, best)
    settled, _ = ascend(dual, start, Climb(Schedule(40), torch.full((1,), -1e9), Deadline(None)))
    assert float(first) <= float(settled) <= float(best)


@pytest.mark.parametrize("seed", range(8))
def test_the_trunk_is_the_input_where_some_way_passes_the_first_neurons_by(seed: int) -> None:
    graph = random_question(seeded(seed), neurons=12).graph
    node = trunk_node(graph)
    if node == 0:
        return
    assert graph.nodes[graph.nonlinear[0]].inputs == (node,)
    before = graph.ancestors[node]
    others = [n for n in graph.nodes if n.index not in before]
    assert all(i == node or i not in before for n in others for i in n.inputs)


def test_rounding_is_charged_where_cancellation_is_bad() -> None:
    """Large opposite weights: the proof's value stays below the exact bound in higher precision."""
    for seed in range(10):
        problem = box_problem(awkward_graph(seed), -1.0, 1.0)
        root = plain_root(problem)
        domains = children(root, seed)
        value = value_at(of_first_rows(root.condensed64, domains), domains.slopes)
        value = value - root.condensed64.error[domains.target][:, 0]
        points = random_points(problem, 200, seed)
        h = packed_values(root, points)
        inside = ((domains.splits.sign().double()[:, None] * h) >= 0).all(2)
        rows = problem.graph.forward(points).flatten(1) @ problem.rows.coef[0, 0] - problem.rows.offset[0, 0]
        for i in range(len(domains)):
            if bool(inside[i].any()):
                assert float(value[i]) <= float(rows[inside[i]].min()) + 1e-12 * np.abs(float(rows.abs().max()))


def test_condensing_ends_with_the_deadline_and_can_go_on_later() -> None:
    problem = first_problem(knotted(0, (3, 6, 5, 4, 2)))
    at_once, later = plain_root(problem), plain_root(problem)
    over = Deadline()
    over.cancel()
    assert at_once.condenses
    assert not later.is_ready(over)
    assert later.is_ready(Deadline())
    assert torch.equal(later.condensed64.matrix, at_once.condensed64.matrix)
