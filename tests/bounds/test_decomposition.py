"""Lagrangian decomposition: below the network for any prices, rounding included, and as high as the LP for the best."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.net import Pulled
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.packed import Packed
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.decomposition import Hull, prove, solve
from netproof.paper.rivals.decomposition_ascent import Prices, Rule, climb_prices
from netproof.problem.problem import Problem
from netproof.search.leaf import LeafLP
from support.asking import CPU, bound_of, first_problem, knotted, problem_of, root_of
from support.awkward import awkward_graph
from support.exact import rows_of
from support.problems import box_problem, packed_values, random_points, unstable_of
from support.random_graphs import random_question, rows_tensor, seeded
from support.rational import exact, exact_values

RULES = pytest.mark.parametrize("proximal", [False, True], ids=["supergradient", "proximal"])
DEEP = (3, 6, 5, 4, 2)


def problems() -> list[Problem]:
    """Dense, branching, convolutional, with leaky ReLUs and with scales far apart."""
    dense = [first_problem(knotted(seed, DEEP)) for seed in range(4)]
    tangled = [first_problem(random_question(seeded(seed), neurons=12)) for seed in range(8)]
    awkward = [box_problem(awkward_graph(seed), -1.0, 1.0) for seed in range(8)]
    return [*dense, *tangled, *awkward]


def plain_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def children(root: Root, seed: int, most: int = 2) -> Domains:
    """Return sub-domains with some neurons decided, with slopes and multipliers at random."""
    rng = torch.Generator().manual_seed(seed)
    domains = root_domains(root).select(torch.zeros(3, dtype=torch.int64))
    if root.count:
        domains = split(domains, torch.stack([torch.randperm(root.count, generator=rng)[:most] for _ in range(3)]))
    shape = domains.slopes.shape
    beta = torch.rand(shape, generator=rng) * domains.splits.ne(0)
    return replace(domains, slopes=torch.rand(shape, generator=rng).half(), multipliers=beta.half())


def in_float64(root: Root) -> Condensed:
    """Return a search copy without the noise of float32."""
    return replace(root.condensed64, charges=None, region=root.condensed64.region.about_centre())


def dual_on(net: Condensed, root: Root, domains: Domains) -> Dual:
    """Return the dual function by lines, whose rows prices are found for."""
    packed = Packed.of(net.layers, domains.known.to(net.dtype), proof=net.proof)
    return Dual(net, net.rows[domains.target], net.error[domains.target], root.valid[domains.target], packed)


def by_lines(net: Condensed, domains: Domains, slopes: Tensor, beta: Tensor | None) -> Pulled:
    """Carry each target's first row back by lines."""
    forms, error = net.rows[domains.target][:, 0], net.error[domains.target][:, 0]
    theta = DualPoint(slopes, beta, torch.ones(len(forms), 1))
    return Dual.of_forms(net, forms, error, domains.known).at(theta).pulled


def wide_hull(net: Condensed, domains: Domains) -> Hull:
    return Hull.of(net, domains.lower.double(), domains.upper.double())


def random_prices(domains: Domains, size: Tensor, seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(domains.slopes.shape, generator=rng, dtype=torch.float64) * size


def test_linear_bounds_are_among_the_prices() -> None:
    """Without multipliers the very same value; with them no lower, since the corners know the splits as well."""
    compared = 0
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        net, domains = root.condensed64, children(root, seed)
        form = net.rows[domains.target][:, 0]
        for beta in (None, domains.multipliers):
            linear = by_lines(net, domains, domains.slopes, beta)
            ours = prove(wide_hull(net, domains), form, linear.before).value
            slack = 1e-9 * (1 + linear.value.abs().max())
            assert bool((ours >= linear.value - slack).all())
            if beta is None:
                assert bool((ours <= linear.value + slack).all())
        compared += root.count > 0
    assert compared >= 12


def test_any_prices_stay_below_the_network() -> None:
    inside = 0
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        net, domains = root.condensed64, children(root, seed)
        form = net.rows[domains.target][:, 0]
        points = random_points(problem, 200, seed)
        h = packed_values(root, points)
        row = problem.graph.forward(points).flatten(1) @ problem.rows.coef[0, 0] - problem.rows.offset[0, 0]
        for size in (0.0, 0.1, 3.0):
            rho = random_prices(domains, form.abs().amax(1, keepdim=True) * size, seed)
            value = prove(wide_hull(net, domains), form, rho).value - net.error[0, 0]
            for bound, splits in zip(value, domains.splits, strict=True):
                here = (h * splits.sign() >= 0).all(1)
                assert bool((bound <= row[here] + 1e-12 * row.abs().max()).all())
                inside += int(here.sum())
    assert inside > 2000


def exact_dual(root: Root, form: Tensor, domains: Domains, rho: Tensor, at: int) -> Fraction:
    """The dual bound of one sub-domain in rational arithmetic, for a box."""
    net, graph = root.condensed64, root.graph64.graph
    matrix = exact(net.matrix).reshape(net.count, -1)
    carried = exact(form[at]) + exact(rho[at]) @ matrix
    total = carried[0]
    for a, price, low, high in zip(
        carried[net.base :], exact(rho[at]), exact(domains.lower[at]), exact(domains.upper[at]), strict=True
    ):
        ends = [a * max(h, Fraction(0)) - price * h for h in (low, high)]
        total += min([*ends, Fraction(0)] if low < 0 < high else ends)
    region = root.graph64.region
    least, most = exact(region.centre - region.radius), exact(region.centre + region.radius)
    y = [exact_values(graph, x)[net.trunk.node][net.trunk.index.numpy()] for x in _corner_and_units(len(least))]
    slope = [(carried[1 : net.base] * (unit - y[0])).sum() for unit in y[1:]]
    total += (carried[1 : net.base] * y[0]).sum()
    return total + sum(s * (lo if s > 0 else hi) for s, lo, hi in zip(slope, least, most, strict=True))


def _corner_and_units(size: int) -> list[object]:
    """0 and the unit vectors."""
    zero = torch.zeros(size, dtype=torch.float64)
    return [exact(zero), *(exact(unit) for unit in torch.eye(size, dtype=torch.float64))]


def test_rounding_is_charged() -> None:
    """Against rational arithmetic: never above, and hardly below."""
    for seed in range(6):
        root = plain_root(first_problem(knotted(seed, DEEP)))
        net, domains = root.condensed64, children(root, seed)
        form = net.rows[domains.target][:, 0]
        rho = random_prices(domains, torch.tensor(1.0), seed)
        value = prove(wide_hull(net, domains), form, rho).value
        for at in range(len(domains)):
            truth = exact_dual(root, form, domains, rho, at)
            assert Fraction(float(value[at])) <= truth
            assert float(truth - Fraction(float(value[at]))) < 1e-10


def test_the_residual_is_a_supergradient() -> None:
    """bound(σ) <= bound(ρ) + residual·(σ − ρ), and the bound is the Lagrangian at the minimisers."""
    for seed, problem in enumerate(problems()):
        root = plain_root(problem)
        net, domains = in_float64(root), children(root, seed)
        form, hull = net.rows[domains.target][:, 0], wide_hull(net, domains)
        size = form.abs().amax(1, keepdim=True)
        here, there = (random_prices(domains, size, k) for k in (2 * seed, 2 * seed + 1))
        at, other = solve(hull, form, here), solve(hull, form, there)
        slack = 1e-9 * (1 + at.value.abs() + other.value.abs())
        assert bool((other.value <= at.value + (at.residual * (there - here)).sum(1) + slack).all())
        lagrangian = (form * at.values).sum(1) + (here * at.residual).sum(1)
        assert bool(((lagrangian - at.value).abs() <= slack).all())


def one_row(seed: int) -> Problem:
    question = knotted(seed, (3, 6, 5, 2))
    coef, offset = rows_of(question.property.disjuncts[0], question.graph.output.size)
    return problem_of(question.graph, question.box, rows_tensor(coef[:1], offset[:1]))


@RULES
def test_the_best_prices_reach_the_lp(proximal: bool) -> None:
    """On equal bounds of the neurons, at the root and with splits; from nothing, by ever smaller steps."""
    compared = 0
    for seed in range(3):
        root = plain_root(one_row(seed))
        net, whole = in_float64(root), root_domains(root)
        domains = concatenate([whole, split(whole, unstable_of(whole).int().topk(2).indices)])
        lp = LeafLP(root, 1).decide(domains, Deadline(None)).bound
        domains, lp = domains.select(lp < torch.inf), lp[lp < torch.inf]
        dual, hull = dual_on(net, root, domains), wide_hull(net, domains)
        best = Prices(torch.zeros_like(hull.lower), torch.zeros(len(lp), 1, dtype=torch.float64))
        never = torch.full_like(lp, torch.inf)
        for rate in (0.3, 0.1, 0.03, 0.01):
            rule = Rule(800, rate, proximal)
            best = climb_prices(dual, hull, torch.ones_like(best.rho), best, rule, never, Deadline(None))
        form = net.rows[domains.target][:, 0]
        gap = lp - prove(wide_hull(root.condensed64, domains), form, best.rho).value
        assert bool((gap >= -1e-6).all())
        assert bool((gap <= 1e-3).all()), gap
        compared += len(lp)
    assert compared >= 12


@RULES
def test_the_weights_of_two_rows_are_climbed_with_the_prices(proximal: bool) -> None:
    """Neither row alone, nor both alike, comes near the LP, which has both."""
    question = knotted(0, DEEP)
    bounder = Bdd(root_steps=1600, proximal=proximal)
    root, bounds = root_of(bounder, first_problem(question))
    lp = float(LeafLP(root, 1).decide(bounds.domains, Deadline(None)).bound)
    weights = bounds.domains.weights[0]
    assert root.valid.shape[1] == 2
    assert lp - 0.05 <= float(bounds.domains.bound) <= lp + 1e-6
    coef, offset = rows_of(question.property.disjuncts[0], question.graph.output.size)
    for fixed in (torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5])):
        assert float((weights - fixed).abs().max()) > 0.05
        rows = rows_tensor(fixed.double().numpy()[None] @ coef, fixed.double().numpy() @ offset[:, None])
        _, other = root_of(bounder, problem_of(question.graph, question.box, rows))
        assert float(other.domains.bound) < lp - 0.05


def test_a_batch_is_each_alone() -> None:
    """In float64 from prices at random: where corners tie, the last bit may choose, and then the ways part."""
    for seed in range(4):
        root = plain_root(first_problem(knotted(seed, DEEP)))
        net, domains = in_float64(root), children(root, seed)
        rho = random_prices(domains, torch.tensor(0.3), seed)
        logits = torch.zeros(domains.weights.shape, dtype=torch.float64)
        never = torch.full((len(domains),), torch.inf, dtype=torch.float64)
        scale = torch.ones_like(rho)
        for rule in (Rule(40, 0.2), Rule(40, 0.2, proximal=True)):
            found = []
            for some in (slice(None), *(slice(i, i + 1) for i in range(len(domains)))):
                part, start = domains.select(some), Prices(rho[some], logits[some])
                dual, hull = dual_on(net, root, part), wide_hull(net, part)
                found.append(climb_prices(dual, hull, scale[some], start, rule, never[some], Deadline(None)))
            together, *alone = found
            assert not torch.equal(together.rho, rho)
            for name in ("rho", "logits"):
                each = torch.cat([getattr(prices, name) for prices in alone])
                torch.testing.assert_close(getattr(together, name), each, rtol=1e-7, atol=1e-7)


def test_a_batch_is_bounded_as_each_alone() -> None:
    """The whole bounder, from the start to the proof, less the climb."""
    bounder = Bdd(root_steps=50, steps=0, rebound=True)
    for seed in range(3):
        root, bounds = root_of(bounder, first_problem(knotted(seed, DEEP)))
        domains = split(bounds.domains, unstable_of(bounds.domains).int().topk(3).indices)
        together = bound_of(bounder, root, domains)
        alone = [bound_of(bounder, root, domains.select(slice(i, i + 1))) for i in range(len(domains))]
        torch.testing.assert_close(
            together.domains.bound, torch.cat([b.domains.bound for b in alone]), atol=1e-5, rtol=0
        )
        torch.testing.assert_close(together.domains.lower, torch.cat([b.domains.lower for b in alone]))


@RULES
def test_what_is_settled_is_left_alone_and_the_others_go_on(proximal: bool) -> None:
    root = plain_root(first_problem(knotted(1, DEEP)))
    net, domains = root.condensed32, children(root, 1)
    dual, hull = dual_on(net, root, domains), Hull.of(net, domains.lower, domains.upper)
    start = Prices(torch.zeros(len(domains), root.count), torch.zeros(len(domains), dual.forms.shape[1]))
    rule, scale = Rule(50, 0.3, proximal), torch.ones_like(start.rho)

    def climbed(threshold: Tensor) -> Prices:
        return climb_prices(dual, hull, scale, start, rule, threshold, Deadline(None))

    never = torch.full((len(domains),), torch.inf)
    every_other = never.clone()
    every_other[::2] = -torch.inf
    full, part = climbed(never), climbed(every_other)
    torch.testing.assert_close(part.rho[1::2], full.rho[1::2])
    torch.testing.assert_close(part.logits[1::2], full.logits[1::2])
    assert not torch.allclose(part.rho[::2], full.rho[::2])


def test_a_child_starts_no_worse_than_its_parent_and_than_the_linear_bound() -> None:
    still, climbing = Bdd(root_steps=0, steps=0), Bdd(root_steps=100, steps=0)
    from_parent = from_lines = 0
    for seed in range(6):
        root, bounds = root_of(climbing, one_row(seed))
        domains = split(bounds.domains, unstable_of(bounds.domains).int().topk(2).indices)
        unknown = replace(domains, bound=torch.full_like(domains.bound, -torch.inf))
        found = still.bound(root, unknown, domains.bound, Deadline(None), Clock()).domains.bound
        # Prices are kept as float16, so the parent's own bound comes back up to their rounding.
        assert bool((found >= domains.bound - 1e-2).all())
        slopes = torch.where(domains.upper > -domains.lower, 1.0, 0.0)
        linear = by_lines(root.condensed32, domains, slopes, None).value
        assert bool((found >= linear - 1e-4).all())
        from_parent += int((found > linear + 1e-3).sum())
        from_lines += int((found > domains.bound + 1e-2).sum())
    assert from_parent > 0
    assert from_lines > 0
