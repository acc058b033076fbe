"""The root's bounds hold at every point, are tight where they must be, and stop with the deadline."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.condensed import condenser
from netproof.bounds.domains import Domains, Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear import memory
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.neurons.each import Beside
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.packed import Packed
from netproof.bounds.record import Source
from netproof.bounds.scope import LayerScope
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.numerics import float32_down
from netproof.problem.problem import Problem
from support.awkward import GraphBuilder
from support.problems import box_problem, packed_values, random_points
from support.random_graphs import random_network, seeded

CPU = torch.device("cpu")
CLIMB = Schedule(10)
either_net = pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])


def built(problem: Problem, schedule: Schedule = CLIMB, known: Root | None = None) -> Root:
    root = build_root(problem, CPU, schedule, Deadline(), () if known is None else known.confirmed)
    assert root is not None
    return root


def assert_sound(root: Root, count: int = 300) -> None:
    points = random_points(root.problem, count)
    for interval, values in zip(root.intervals.of, root.problem.graph.values(points), strict=True):
        slack = 1e-12 * (1 + values.abs())
        assert bool((interval.lower <= values + slack).all())
        assert bool((values - slack <= interval.upper).all())
    h = packed_values(root, points)
    if root.count:
        assert bool((torch.cat(root.lower).double() <= h + 1e-12).all())
        assert bool((h - 1e-12 <= torch.cat(root.upper).double()).all())


def deep(seed: int, width: int = 6, layers: int = 3) -> Graph:
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)
    node = 0
    for _ in range(layers):
        fan = build.nodes[node].size
        node = build.relu(build.linear(node, rng.standard_normal((width, fan)) / fan**0.5, rng.normal(0, 0.1, width)))
    build.linear(node, rng.standard_normal((2, width)), rng.normal(0, 0.1, 2))
    return build.finish()


@either_net
@pytest.mark.parametrize("schedule", [Schedule(0), CLIMB])
@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_at_sampled_points(
    seed: int, schedule: Schedule, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    graph = random_network(seeded(seed), neurons=14).graph
    assert_sound(built(box_problem(graph, -1.0, 0.75), schedule))


def test_one_layer_from_the_input_nothing_is_left_to_refine() -> None:
    problem = box_problem(deep(0), -1.0, 1.0)
    root = built(problem)
    plain = interval_bounds(problem.graph, root.graph64.region).of[1]
    assert torch.equal(root.intervals.of[1].lower, plain.lower)
    assert torch.equal(root.intervals.of[1].upper, plain.upper)
    linear = problem.graph.nodes[1].op
    reach = linear.weight.abs().sum(1)  # on [−1, 1]^n the range is b ± Σ|w|
    assert torch.allclose(root.intervals.of[1].upper[0], linear.bias + reach, rtol=1e-5)


@either_net
def test_optimised_bounds_are_tighter_than_fixed_ones_and_those_than_intervals(
    fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    problem = box_problem(deep(1), -1.0, 1.0)
    plain = interval_bounds(problem.graph, built(problem, Schedule(0)).graph64.region)
    fixed, climbed = built(problem, Schedule(0)), built(problem, Schedule(20))
    (last,) = problem.graph.nodes[problem.graph.nonlinear[-1]].inputs
    widths = [float((i.of[last].upper - i.of[last].lower).sum()) for i in (plain, fixed.intervals, climbed.intervals)]
    assert widths[0] > widths[1] * 1.01
    assert widths[1] > widths[2] * 1.01
    assert_sound(climbed)


def test_known_bounds_are_never_lost() -> None:
    problem = box_problem(deep(2), -1.0, 1.0)
    good = built(problem, Schedule(30))
    again = built(problem, Schedule(0), known=good)
    for new, old in zip(again.intervals.of, good.intervals.of, strict=True):
        assert bool((new.lower >= old.lower - 1e-9 * old.magnitude).all())
        assert bool((new.upper <= old.upper + 1e-9 * old.magnitude).all())
    assert_sound(again)


def test_packed_bounds_are_float32_and_outward() -> None:
    root = built(box_problem(deep(3), -1.0, 1.0))
    for layer, low, high in zip(root.graph32.layers, root.lower, root.upper, strict=True):
        bounds = root.intervals.of[layer.pre]
        assert low.dtype == high.dtype == torch.float32
        assert bool((low.double() <= bounds.lower.flatten()[layer.index]).all())
        assert bool((high.double() >= bounds.upper.flatten()[layer.index]).all())
        assert bool(((low < 0) & (high > 0)).all())


def test_slopes_are_kept_for_every_unstable_neuron() -> None:
    root = built(box_problem(deep(4), -1.0, 1.0))
    assert len(root.slopes) == len(root.graph32.layers) == 3
    for layer, slopes in zip(root.graph32.layers, root.slopes, strict=True):
        assert slopes.dtype == torch.float16
        assert slopes.shape[0] == 2
        assert slopes.shape[1] in (1, layer.count)
        assert slopes.shape[2] == layer.start
        assert bool(((slopes >= 0) & (slopes <= 1)).all())


def test_in_small_chunks_the_bounds_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = box_problem(deep(5), -1.0, 1.0)
    whole = built(problem, Schedule(0))  # a climb may end sooner in other company
    monkeypatch.setattr(memory, "CPU_BUDGET", 1)
    parts = built(problem, Schedule(0))
    assert_sound(built(problem))
    for a, b in zip(whole.intervals.of, parts.intervals.of, strict=True):
        assert torch.allclose(a.lower, b.lower, rtol=1e-12)
        assert torch.allclose(a.upper, b.upper, rtol=1e-12)


@pytest.mark.parametrize("after", [0, 3, 8])
def test_a_deadline_leaves_no_half_a_root(after: int) -> None:
    """Counted in looks at the clock, so that it comes at a chosen place."""

    class Counted(Deadline):
        looks = 0

        @property
        def expired(self) -> bool:
            self.looks += 1
            return self.looks > after

    problem = box_problem(deep(6), -1.0, 1.0)
    deadline = Counted()
    assert build_root(problem, CPU, CLIMB, deadline) is None
    assert deadline.looks <= after + 6


# --- shapes of networks ---


def test_two_nonlinear_nodes_may_read_one() -> None:
    rng = np.random.default_rng(0)
    build = GraphBuilder(1, 3)
    h = build.relu(build.linear(0, rng.standard_normal((4, 3)), np.zeros(4)))
    shared = build.linear(h, rng.standard_normal((4, 4)), np.full(4, -0.1))
    left, right = build.relu(shared), build.relu(shared, 0.25)
    build.linear(build.concat(left, right), rng.standard_normal((2, 8)), np.zeros(2))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert [layer.pre for layer in root.graph32.layers][1:] == [shared, shared]
    assert torch.equal(root.lower[1], root.lower[2])
    first, second = root.slopes[1:]
    assert torch.equal(first, second[:, :, : first.shape[2]])  # found once,
    assert [first.shape[2], second.shape[2]] == [layer.start for layer in root.layers[1:]]  # of all that come before
    assert_sound(root)


def test_without_nonlinear_nodes_there_is_nothing_to_pack() -> None:
    build = GraphBuilder(1, 2)
    build.linear(build.linear(0, np.eye(2), np.ones(2)), np.array([[1.0, -1.0]]), np.zeros(1))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert root.count == 0
    assert root.bias.shape == (0,)
    assert root_domains(root).splits.shape == (1, 0)
    assert_sound(root)


def test_the_output_may_be_a_relu() -> None:
    build = GraphBuilder(1, 2)
    build.relu(build.linear(0, np.array([[1.0, 2.0], [1.0, -1.0]]), np.zeros(2)))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert root.count == 2
    assert_sound(root)


def test_stable_neurons_are_not_packed() -> None:
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array([[1.0], [1.0], [1.0]]), np.array([5.0, -5.0, 0.0])))
    build.linear(h, np.ones((1, 3)), np.zeros(1))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert root.graph32.layers[0].index.tolist() == [2]
    packed = Packed.of(root.layers, root_domains(root).known, proof=False).at(torch.zeros(1, 1))
    lines = root.graph32.spread(root.layers[0], packed)
    assert lines.lower_slope.flatten().tolist() == [1.0, 0.0, 0.0]
    assert lines.upper_slope.flatten().tolist()[:2] == [1.0, 0.0]
    assert lines.upper_intercept.flatten().tolist()[:2] == [0.0, 0.0]


def test_all_neurons_may_be_stable() -> None:
    build = GraphBuilder(1, 2)
    a = build.relu(build.linear(0, np.eye(2), np.full(2, 3.0)))
    build.linear(build.relu(build.linear(a, -np.eye(2), np.zeros(2)), 0.5), np.ones((1, 2)), np.zeros(1))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert root.count == 0
    assert not root.graph32.layers
    assert_sound(root)


def test_branches_of_different_depth_join_in_a_wide_output() -> None:
    rng = np.random.default_rng(1)
    build = GraphBuilder(1, 3)
    short = build.relu(build.linear(0, rng.standard_normal((3, 3)), np.zeros(3)))
    long = build.relu(build.linear(short, rng.standard_normal((4, 3)), np.zeros(4)), 0.125)
    aside = build.relu(build.linear(0, rng.standard_normal((2, 3)), np.zeros(2)))
    build.concat(build.linear(long, rng.standard_normal((2, 4)), np.zeros(2)), aside, short)
    graph = build.finish()
    root = built(box_problem(graph, -1.0, 1.0))
    assert graph.output.size == 7
    assert root.count == sum(layer.count for layer in root.graph32.layers)
    starts = [layer.start for layer in root.graph32.layers]
    assert starts == list(np.cumsum([0, *(layer.count for layer in root.graph32.layers)]))[:-1]
    assert_sound(root)


def test_the_bias_is_h_when_all_before_it_is_zero() -> None:
    build = GraphBuilder(1, 2)
    a = build.relu(build.linear(0, np.eye(2), np.array([0.25, -0.5])))
    build.linear(build.relu(build.linear(a, np.array([[1.0, -1.0]]), np.array([0.125]))), np.ones((1, 1)), np.ones(1))
    root = built(box_problem(build.finish(), -1.0, 1.0))
    assert root.bias.tolist() == [0.25, -0.5, 0.125]


# --- what gave each bound ---


def by_slopes(root: Root, depth: int) -> torch.Tensor:
    """(2, U_k): the bounds of h and −h that the slopes which a root keeps of a layer's neurons give."""
    layer, net = root.layers[depth], root.net64
    forms, error = net.neurons(depth, torch.arange(layer.count))
    lower, upper = (side[None, : layer.start] for side in root.packed_bounds)
    known, one = Known(lower, upper, torch.zeros_like(lower), None), torch.ones(layer.count, 1)
    slopes = root.slopes[depth].float().expand(2, layer.count, -1)
    part = net.upto(depth)
    sides = [
        Dual.of_forms(part, sign * forms, error, known).at(DualPoint(own, None, one)).value
        for sign, own in zip((1.0, -1.0), slopes, strict=True)
    ]
    return torch.stack(sides)


def kept(root: Root, depth: int) -> torch.Tensor:
    """(2, U_k): the bounds of h and −h that a root has."""
    return torch.stack([root.lower[depth], -root.upper[depth]]).double()


@either_net
@pytest.mark.parametrize("schedule", [Schedule(0), CLIMB])
@pytest.mark.parametrize("seed", range(4))
def test_a_bound_that_slopes_gave_is_had_again_from_them(
    seed: int, schedule: Schedule, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    root = built(box_problem(deep(seed), -1.0, 1.0), schedule)
    assert len(root.sources) == len(root.layers) >= 3
    assert not bool(root.sources[0].any())  # a box's first neurons lose nothing by intervals
    for depth in range(1, len(root.layers)):
        sources, bounds, again = root.sources[depth], kept(root, depth), by_slopes(root, depth)
        given = sources == Source.SLOPES
        assert bool(given.any())
        assert bool((sources[~given] == Source.INTERVALS).all())
        assert torch.allclose(float32_down(again)[given].double(), bounds[given], rtol=1e-6, atol=1e-7)
        assert bool((again <= bounds + 1e-6)[~given].all())


def test_a_tighter_root_names_the_root_before_it() -> None:
    problem = box_problem(deep(1), -1.0, 1.0)
    first = built(problem)
    second = built(problem, Schedule(0), known=first)
    named = 0
    for depth, layer in enumerate(second.layers):
        earlier = second.sources[depth] == Source.EARLIER
        was = first.layers[depth]
        places = torch.searchsorted(was.index, layer.index)
        assert torch.equal(kept(second, depth)[earlier], kept(first, depth)[:, places][earlier])
        named += int(earlier.sum())
    assert named > 0


def test_bounds_by_branching_are_named() -> None:
    """Where they are better than the slopes', and only there."""
    problem, deeper = box_problem(deep(2), -1.0, 1.0), []

    def deepen(scope: LayerScope, domains: Domains) -> torch.Tensor:
        better = domains.bound + torch.arange(len(domains)) % 2 * 1e-4
        deeper.append(len(domains) // 2)
        return better

    root = build_root(problem, CPU, CLIMB, Deadline(), beside=Beside(deepen))
    assert root is not None
    found = sum(int((sources == Source.BRANCHES).sum()) for sources in root.sources)
    assert 0 < found <= sum(deeper)
    for depth, sources in enumerate(root.sources):
        branched = sources == Source.BRANCHES
        if bool(branched.any()):
            assert bool((kept(root, depth) > by_slopes(root, depth))[branched].all())
