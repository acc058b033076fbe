"""Below the root: what is bounded again, that every number holds on its sub-domain, and the gradient of it all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.condensed import condenser
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.layers import Layer
from netproof.bounds.lirpa import Lirpa, confirm_jointly
from netproof.bounds.net import Net
from netproof.bounds.neurons.affected import later_neurons, moved_neurons
from netproof.bounds.neurons.root import Root
from netproof.bounds.packed import Packed, families
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.graph import Graph
from netproof.model.nonlinear.smooth import Log, Power, Reciprocal, Sqrt
from netproof.model.ops import Op
from support.asking import bound_of, root_of
from support.awkward import GraphBuilder
from support.joint import NEVER, all_candidates, assert_holds, dense, rooted, some_children
from support.problems import (
    box_problem,
    random_points,
    targets_of,
)
from support.random_graphs import random_network, seeded


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


# --- what is chosen ---


def chosen_neurons(root: Root, again: dict[int, torch.Tensor], domain: int) -> set[int]:
    """Packed positions, fillers left out."""
    pairs = ((root.layers[k], chosen[domain].tolist()) for k, chosen in again.items())
    return {layer.start + i for layer, chosen in pairs for i in chosen if i < layer.count}


def test_only_what_the_split_reaches_is_chosen() -> None:
    root = rooted(two_columns())
    assert root.count == 8
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))  # the first column's first
    again = moved_neurons(root, children, 16)
    assert list(again) == [1, 2]
    assert chosen_neurons(root, again, 0) == {2, 3, 6}  # the first column alone
    assert chosen_neurons(root, again, 1) == {2, 3, 6}


def test_a_split_in_the_last_layer_reaches_nothing() -> None:
    root = rooted(two_columns())
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[7]]))
    assert moved_neurons(root, children, 16) == {}


def test_only_new_decisions_count() -> None:
    root = rooted(two_columns())
    once = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    settled = replace(once, settled=once.depth)  # bounded with the first split taken into account
    twice = split(settled, torch.tensor([[4], [4]]))  # second column, second layer
    assert chosen_neurons(root, moved_neurons(root, twice, 16), 0) == {7}
    unsettled = split(once, torch.tensor([[4], [4]]))
    assert chosen_neurons(root, moved_neurons(root, unsettled, 16), 0) == {2, 3, 6, 7}


def test_neurons_that_are_stable_or_no_candidates_are_left_alone() -> None:
    root = rooted(two_columns())
    whole = replace(root_domains(root), candidates=torch.tensor([[0, 2, 6, -1]]))
    children = split(whole, torch.tensor([[0]]))
    children = replace(children, upper=children.upper.index_fill(1, torch.tensor([6]), 0.0))
    assert chosen_neurons(root, moved_neurons(root, children, 16, ranked=True), 0) == {2}
    assert chosen_neurons(root, moved_neurons(root, children, None), 0) == {2, 3}


def test_the_widest_come_first_and_missing_ones_are_the_count() -> None:
    root = rooted(two_columns())
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    layer = root.graph32.layers[1]
    low, high = children.lower.clone(), children.upper.clone()
    low[0, 2:4], high[0, 2:4] = torch.tensor([-0.1, -5.0]), torch.tensor([0.1, 5.0])
    low[1, 2:4], high[1, 2:4] = torch.tensor([-5.0, 0.0]), torch.tensor([5.0, 1.0])  # one of them stable
    children = replace(children, lower=low, upper=high)
    assert moved_neurons(root, children, 16)[1].tolist() == [[1, 0], [0, layer.count]]
    assert moved_neurons(root, children, 1)[1].tolist() == [[1], [0]]
    assert moved_neurons(root, children, 0) == {}


# --- that it holds ---


@pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])
@pytest.mark.parametrize("bounder", [Lirpa(steps=4, rebound=16), Lirpa(steps=0, rebound=16), Lirpa(steps=4, rebound=0)])
@pytest.mark.parametrize(
    "graph",
    [dense(0), dense(1), *(random_network(seeded(seed), neurons=14).graph for seed in (34, 101, 151, 186))],
)
def test_bounds_hold_on_their_sub_domains(
    graph: Graph, bounder: Lirpa, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    root = rooted(graph)
    assert root.count >= 8
    points = random_points(root.problem, 400)
    for bounds in some_children(root, bounder, 4):
        assert_holds(root, bounds, points)


@pytest.mark.parametrize("more", [{"own_slopes": True}, {"own_slopes": True, "joint": False}, {"layer_slopes": True}])
def test_bounds_hold_where_few_fit_at_once(monkeypatch: pytest.MonkeyPatch, more: dict[str, bool]) -> None:
    """Parts whose sub-domains have fewer neurons to bound again take no slopes of others."""
    monkeypatch.setattr(Condensed, "climbs_that_fit", lambda net: 12)
    root = rooted(dense(0, (5, 8, 8)))
    points = random_points(root.problem, 300)
    for bounds in some_children(root, Lirpa(steps=3, **more), 5):  # type: ignore[arg-type]
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


def test_rebounding_pays() -> None:
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


@pytest.mark.parametrize("fresh", [False, True])
def test_a_nan_from_the_slopes_leaves_what_was_known(fresh: bool) -> None:
    root = rooted(dense(0))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    children = replace(children, bound=torch.full((2,), -123.0, dtype=torch.float64))
    again = moved_neurons(root, children, 16)
    own = {k: torch.full((2, 2, which.shape[1], root.layers[k].start), torch.nan) for k, which in again.items()}
    assert own
    poison = DualPoint(children.slopes.float() * torch.nan, None, children.weights, own)
    bounds = confirm_jointly(root, children, again, poison, Clock(), fresh=fresh)
    assert bounds.domains.bound.tolist() == [-123.0, -123.0]
    assert not bool(bounds.empty.any())
    assert bool((bounds.domains.lower >= children.lower).all())
    assert bool((bounds.domains.upper <= children.upper).all())


def test_fresh_bounds_rest_on_those_of_the_same_pass() -> None:
    """By poor slopes the second layer gets worse than what is known, and the third rests on that; nothing is lost."""
    root = rooted(dense(1, (4, 5, 5)))
    domains = root_domains(root)
    again = later_neurons(root, domains, 16)
    assert list(again) == [1, 2]
    poor = {k: torch.ones(1, 1, 1, root.layers[k].start) for k in again}
    theta = DualPoint(domains.slopes.float(), None, domains.weights, poor)

    def bounded(*, proof: bool, fresh: bool) -> torch.Tensor:
        return Joint.of(root, domains, again, proof=proof, fresh=fresh).neurons(theta)[0]

    second = root.layers[1].packed
    assert bool((bounded(proof=False, fresh=True)[:, second] < domains.lower[:, second] - 1e-3).any())
    alone, known = (
        Joint.of(root, replace(domains, lower=domains.lower - 100.0), {2: again[2]}, proof=True, fresh=fresh)
        for fresh in (True, False)
    )
    assert torch.equal(alone.neurons(theta)[0], known.neurons(theta)[0])  # of the first layer nothing is bounded again
    kept, best = bounded(proof=True, fresh=True), bounded(proof=True, fresh=False)
    assert bool((kept >= domains.lower).all())
    assert bool((kept <= best).all())


def test_what_is_known_stands_in_for_a_nan_among_fresh_bounds() -> None:
    root = rooted(dense(1, (4, 5, 5)))
    domains = root_domains(root)
    again = later_neurons(root, domains, 16)
    fine = torch.full((1, 1, 1, root.layers[2].start), 0.5)
    theta = DualPoint(
        domains.slopes, None, domains.weights, {1: fine[..., : root.layers[1].start] * torch.nan, 2: fine}
    )
    lower, upper = Joint.of(root, domains, again, proof=True, fresh=True).neurons(theta)
    without = Joint.of(root, domains, {2: again[2]}, proof=True, fresh=True).neurons(theta)
    assert torch.equal(lower, without[0])
    assert torch.equal(upper, without[1])


@pytest.mark.parametrize("seed", range(4))
def test_fresh_bounds_hold(seed: int) -> None:
    root = rooted(dense(seed, (4, 5, 5)))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    again = moved_neurons(root, children, 16)
    poor = {k: torch.rand(2, 1, 1, root.layers[k].start, generator=torch.Generator().manual_seed(seed)) for k in again}
    theta = DualPoint(children.slopes, None, children.weights, poor)
    bounds = confirm_jointly(root, children, again, theta, Clock(), fresh=True)
    assert_holds(root, bounds, random_points(root.problem, 400, seed))


def behind_a_pole(seed: int, op: Op) -> Graph:
    """h = Σ |w| relu + 0.2 is positive by intervals, and not by slopes: relu(x) >= s·x alone may be negative."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)
    first = build.relu(build.linear(0, rng.normal(size=(5, 3)), 0.3 * rng.normal(size=5)))
    h = build.linear(first, np.abs(rng.normal(size=(3, 5))), np.full(3, 0.2))
    last = build.relu(build.linear(build.add(op, h), rng.normal(size=(4, 3)), rng.normal(size=4)))
    build.linear(last, rng.normal(size=(1, 4)), np.zeros(1))
    return build.finish()


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("op", [Reciprocal(), Power(-2), Log(), Sqrt()], ids=["1/h", "h^-2", "log", "root"])
@pytest.mark.parametrize("seed", range(3))
def test_lines_of_a_function_rest_on_bounds_where_it_is_defined(seed: int, op: Op, joint: bool) -> None:
    """The chord of 1/h from below 0 to above it lies below 1/h."""
    bounder = Lirpa(root_steps=5, steps=3, fresh=True, layer_slopes=True, joint=joint)
    root, bounds = root_of(bounder, box_problem(behind_a_pole(seed, op), -1.0, 1.0))
    points = random_points(root.problem, 2000, seed)
    for _ in range(3):
        assert_holds(root, bounds, points)
        bounds = bound_of(bounder, root, split(bounds.domains, Babsr().choose(root, bounds, 1)))


def test_fresh_bounds_go_no_further_than_rounding_is_charged_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By poor slopes bounds get wider from layer to layer, beyond twice what is known."""
    root = rooted(dense(1, (4, 8, 8, 8, 8, 8, 8)))
    domains = root_domains(root)
    again = later_neurons(root, domains, 16)
    poor = {k: torch.ones(1, 1, 1, root.layers[k].start) for k in again}
    theta = DualPoint(domains.slopes, None, domains.weights, poor)
    largest = torch.maximum(domains.lower.abs(), domains.upper.abs())[0].double()
    shares: list[float] = []

    def noted(layers: Sequence[Layer], h: Interval, *, proof: bool) -> Any:
        wide = h.magnitude.flatten(0, -2).amax(0) if h.lower.shape[-1] else torch.zeros(1)
        shares.append(float((wide / largest[: len(wide)]).max()))
        return families(layers, h, proof=proof)

    monkeypatch.setitem(Joint._neurons.__globals__, "families", noted)
    for proof in (False, True):
        shares.clear()
        Joint.of(root, domains, again, proof=proof, fresh=True).neurons(theta)
        assert len(shares) == len(again)
        assert (max(shares) <= 2.0 + 1e-6) == proof


def test_search_and_proof_agree_up_to_float32() -> None:
    root = rooted(dense(2))
    domains = root_domains(root)
    theta = DualPoint(domains.slopes.float(), None, domains.weights)
    quick, sure = (Joint.of(root, domains, {}, proof=proof).at(theta).value for proof in (False, True))
    assert float(quick) == pytest.approx(float(sure), rel=1e-5)


# --- the gradient ---


class Cut(Joint):
    """Without the gradient through the intermediate bounds."""

    def _neurons(self, *args: Any) -> torch.Tensor:
        return super()._neurons(*args).detach()


def loose(root: Root, rounds: int = 2) -> Domains:
    """Sub-domains with bounds of the neurons that are easy to improve, so that it is the fresh ones that count."""
    domains = split(all_candidates(root, root_domains(root)), torch.arange(rounds)[None])
    return replace(domains, lower=domains.lower * 1.25, upper=domains.upper * 1.25)


def in_double(root: Root, domains: Domains, *, condensed: bool) -> Joint:
    """The joint function in float64, with no rounding charged: one that can be differentiated by differences."""
    net: Net = replace(root.condensed64, region=root.graph64.region.about_centre(), charges=None)
    if not condensed:
        net = GraphNet.whole(replace(root.graph64, charge=None), root.rows)
    known, target = domains.known.to(torch.float64), domains.target
    packed = Packed.of(net.layers, known, proof=False)
    dual = Dual(net, net.rows[target], net.error[target], root.valid[target], packed)
    return Joint(dual, known, moved_neurons(root, domains, 16))


def inner_point(joint: Joint, *, own: bool) -> DualPoint:
    """Slopes away from the ends of their range, those of the neurons their own or the output's."""
    net, random = joint.dual.net, torch.Generator().manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return 0.1 + 0.8 * torch.rand(len(joint.known.lower), *shape, generator=random, dtype=torch.float64)

    neurons = {k: some(2, which.shape[1], net.layers[k].start) for k, which in joint.rebound.items()} if own else {}
    return DualPoint(some(net.count), None, some(joint.dual.forms.shape[1]), neurons)


def differences(joint: Joint, params: list[torch.Tensor], step: float = 1e-6) -> list[torch.Tensor]:
    """The gradient by central differences, in each sub-domain's own parameters."""
    found = [torch.zeros_like(t) for t in params]
    for t, slope in zip(params, found, strict=True):
        for j in range(t[0].numel()):
            ends = []
            for move in (step, -step):
                moved = t.flatten(1).clone()
                moved[:, j] += move
                here = [moved.view_as(t) if other is t else other for other in params]
                ends.append(joint.evaluate(here, last=True).value)
            slope.view(len(t), -1)[:, j] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("own", [True, False], ids=["own slopes", "shared slopes"])
@pytest.mark.parametrize("condensed", [True, False], ids=["condensed", "graph"])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_whole_function(seed: int, condensed: bool, own: bool) -> None:
    rows = targets_of([[[1.0, -0.5], [0.25, 1.0]]], [[0.5, -1.0]])
    root = rooted(dense(seed, (5, 4, 4)), rows)
    joint = in_double(root, loose(root), condensed=condensed)
    assert list(joint.rebound) == [1, 2]
    params = joint.start(inner_point(joint, own=own))
    found = joint.gradient(params, joint.evaluate(params, last=False))
    for mine, other in zip(found, differences(joint, params), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-7)
        assert bool(mine.any())
    cut = Cut(joint.dual, joint.known, joint.rebound)
    missing = cut.gradient(params, cut.evaluate(params, last=False))
    moved = missing[1:-1] if own else missing[:1]  # what the neurons' bounds are got with
    for mine, less in zip(found[1:-1] if own else found[:1], moved, strict=True):
        assert not torch.allclose(mine, less, rtol=1e-3, atol=1e-3)
    assert not own or not any(bool(less.any()) for less in moved)


def test_climbing_by_the_whole_gradient_gets_further() -> None:
    gains = []
    for seed in range(6):
        root = rooted(dense(seed), steps=0)
        domains = loose(root)
        joint = Joint.of(root, domains, moved_neurons(root, domains, 16), proof=False)
        slopes, never = domains.slopes.float(), torch.full((len(domains),), NEVER)
        starts = {k: slopes[:, None, None, : root.layers[k].start] for k in joint.rebound}
        own = {k: t.expand(-1, 2, joint.rebound[k].shape[1], -1) for k, t in starts.items()}
        theta = DualPoint(slopes, None, domains.weights, own)
        climbs = (joint, Cut(joint.dual, joint.known, joint.rebound))
        full, cut = (ascend(one, theta, Climb(Schedule(20, gain=None), never, Deadline()))[0] for one in climbs)
        gains.append(float((full - cut).mean()))
    assert sum(gain > 0.1 for gain in gains) >= 5
    assert min(gains) > -0.01


@pytest.mark.parametrize("seed", range(6))
def test_new_bounds_are_kept_in_float32_and_rounded_outward(seed: int) -> None:
    root = rooted(dense(seed))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    rebound = moved_neurons(root, children, 16)
    theta = DualPoint(children.slopes, None, children.weights)
    joint = Joint.of(root, children, rebound, proof=True)
    kept = confirm_jointly(root, children, rebound, theta, Clock()).domains
    (depth, which), *_ = rebound.items()
    known = joint.known
    sides = joint._neurons(depth, known.lower, known.upper, theta)  # in float64, before they are kept
    column = root.layers[depth].start + which
    for stored, exact, before, side in (
        (kept.lower, sides[:, 0], children.lower, -1.0),
        (kept.upper, -sides[:, 1], children.upper, 1.0),
    ):
        mine, old = stored.gather(1, column).double(), before.gather(1, column).double()
        gained = side * (old - exact) > 0
        assert stored.dtype == torch.float32
        assert bool((side * (mine - exact) > 0)[gained].all())  # none of these is a float32
