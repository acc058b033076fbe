"""The condensed network: the same bounds as the graph it stands for, exact gradients, and rounding charged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.base import root_domains
from netproof.bounds.condensed.ascent import Seeds, Start, climb
from netproof.bounds.condensed.network import trunk_node
from netproof.bounds.condensed.passes import Packed, packed_lines, pull, push, within
from netproof.bounds.domains import Domains, split
from netproof.bounds.graph.ascent import Schedule
from netproof.bounds.neurons.root import Root, build_root
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


def slopes_and_lines(root: Root, domains: Domains) -> tuple[torch.Tensor, Packed]:
    net = root.net64
    lines = packed_lines(net, domains.known, proof=True)
    return within(domains.slopes.double()), lines


def test_without_multipliers_the_bound_is_that_of_the_graph() -> None:
    compared = 0
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        domains = children(root, seed)
        slopes, lines = slopes_and_lines(root, domains)
        seeds = Seeds.of(root.net64, domains.target, root.valid)
        weights = seeds.weights(torch.zeros_like(domains.weights).double())
        ours = pull(root.net64, seeds.mix(weights), lines, slopes, None).value
        layers = root.graph64.layers
        lower = [domains.lower[:, layer.packed].double() for layer in layers]
        upper = [domains.upper[:, layer.packed].double() for layer in layers]
        coef = torch.einsum("dr,dro->do", weights, root.rows.coef[domains.target])
        const = (weights * root.rows.offset[domains.target]).sum(1)
        form = root.graph64.output(
            coef.view(len(domains), 1, *problem.graph.output.shape), lower, upper, slopes[:, None]
        )
        theirs = root.graph64.least(form)[:, 0] - const
        scale = 1 + theirs.abs().max()
        assert bool(((ours - theirs).abs() <= 1e-9 * scale).all())
        compared += root.count > 0
    assert compared >= 15


def test_the_forms_are_the_neurons() -> None:
    """h = M v at points: within the error that each form is charged with."""
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        net = root.net64
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
        net = root.net64
        domains = children(root, seed)
        slopes, lines = slopes_and_lines(root, domains)
        beta = domains.multipliers.double() + 0.1 * domains.splits.ne(0)
        search = replace(net, charges=None, region=net.region.about_centre())
        seed_form = Seeds.of(search, domains.target, root.valid).forms[:, 0]
        at = pull(search, seed_form, lines, slopes, beta)
        h, _ = push(search, at)
        free = unstable_of(domains)  # elsewhere the parameter moves nothing
        for by_slope in (True, False):
            grad = torch.empty_like(h)
            if by_slope:
                lines.gradient(slopes, at.after, h, grad)
                grad *= free
            else:
                lines.multiplier_gradient(beta, h, grad)
            for u in range(root.count):
                step = torch.zeros_like(slopes)
                step[:, u] = 1e-7
                args = [(slopes + s * step, beta) if by_slope else (slopes, beta + s * step) for s in (1, -1)]
                up, down = (pull(search, seed_form, lines, *a).value for a in args)
                right, left = (up - at.value) / 1e-7, (at.value - down) / 1e-7
                smooth = (right - left).abs() < 1e-5
                assert bool(((right - grad[:, u]).abs() < 1e-4)[smooth].all())
                checked += int(smooth.sum())
    assert checked > 200


def test_the_search_copy_agrees_with_the_proof_and_never_decides() -> None:
    for seed, problem in enumerate(problems()[:14]):
        root = plain_root(problem)
        domains = children(root, seed)
        slopes, lines = slopes_and_lines(root, domains)
        proved = pull(root.net64, root.net64.rows[domains.target][:, 0], lines, slopes, None)
        narrow = packed_lines(root.net32, domains.known, proof=False)
        found = pull(root.net32, root.net32.rows[domains.target][:, 0], narrow, slopes.float(), None)
        torch.testing.assert_close(found.value.double(), proved.value, rtol=1e-3, atol=1e-3)


def test_a_climb_never_ends_below_its_start_and_leaves_alone_what_is_settled() -> None:
    root = plain_root(first_problem(knotted(3, (3, 7, 6, 2))))
    net, domains = root.net32, root_domains(root)
    lines = packed_lines(net, domains.known, proof=False)
    seeds = Seeds.of(net, domains.target, root.valid)
    start = Start(domains.slopes.float(), domains.multipliers.float(), torch.zeros_like(domains.weights))
    first, _ = climb(net, seeds, lines, start, Schedule(0), torch.full((1,), torch.inf), Deadline(None))
    best, found = climb(net, seeds, lines, start, Schedule(40), torch.full((1,), torch.inf), Deadline(None))
    assert float(best) > float(first)
    mixed = seeds.mix(seeds.weights(found.logits))
    again = pull(net, mixed, lines, found.slopes, found.multipliers).value
    torch.testing.assert_close(again, best)
    settled, _ = climb(net, seeds, lines, start, Schedule(40), torch.full((1,), -1e9), Deadline(None))
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
        slopes, lines = slopes_and_lines(root, domains)
        value = pull(root.net64, root.net64.rows[domains.target][:, 0], lines, slopes, None).value
        value = value - root.net64.error[domains.target][:, 0]
        points = random_points(problem, 200, seed)
        h = packed_values(root, points)
        inside = ((domains.splits.sign().double()[:, None] * h) >= 0).all(2)
        rows = problem.graph.forward(points).flatten(1) @ problem.rows.coef[0, 0] - problem.rows.offset[0, 0]
        for i in range(len(domains)):
            if bool(inside[i].any()):
                assert float(value[i]) <= float(rows[inside[i]].min()) + 1e-12 * np.abs(float(rows.abs().max()))
