"""Bounds of boxes hold in exact arithmetic, in both forms of the network."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes import blocks as blocks_module
from netproof.bounds.boxes.blocks import BlockNet
from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds
from netproof.bounds.boxes.net import WalkedNet
from netproof.bounds.linear.region import BoxRegion
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Rows
from support.awkward import GraphBuilder, awkward_graph
from support.exact import enumerate_minimum
from support.problems import targets_of
from support.random_graphs import random_network, seeded
from support.rational import Exact, exact, exact_values

CPU = torch.device("cpu")

Kind = Callable[[pytest.MonkeyPatch], type]


def blocks(monkeypatch: pytest.MonkeyPatch) -> type:
    return BlockNet


def graph_itself(monkeypatch: pytest.MonkeyPatch) -> type:
    monkeypatch.setattr(blocks_module, "COMPOSED", 0)
    return WalkedNet


both_kinds = pytest.mark.parametrize("kind", [blocks, graph_itself])


def hull_of(graph: Graph, seed: int, width: float = 1.0) -> InputSet:
    rng = np.random.default_rng(seed)
    middle, half = rng.uniform(-1, 1, graph.input.shape), rng.uniform(width / 4, width, graph.input.shape)
    return InputSet(torch.from_numpy(middle - half), torch.from_numpy(middle + half))


def boxes_in(hull: InputSet, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """(box, input): the hull itself, one without width, and others in between."""
    rng = np.random.default_rng(seed)
    low, high = hull.lower.flatten(), hull.upper.flatten()
    ends = torch.from_numpy(np.sort(rng.random((2, count, len(low))), axis=0))
    ends[0, 0], ends[1, 0] = 0.0, 1.0
    ends[0, 1] = ends[1, 1]
    lower, upper = ((low + share * (high - low)).maximum(low).minimum(high) for share in ends)
    return lower, upper


def random_rows(graph: Graph, seed: int, targets: int = 2) -> Rows:
    """Conjunctions of one to three rows: with padding."""
    rng = np.random.default_rng(seed)
    sizes = [1 + (seed + t) % 3 for t in range(targets)]
    coefs = [[rng.normal(size=graph.output.size) for _ in range(n)] for n in sizes]
    return targets_of(coefs, [list(rng.normal(size=n)) for n in sizes])


def points_of(lower: Tensor, upper: Tensor, seed: int) -> list[Exact]:
    rng = np.random.default_rng(seed)
    low, high = exact(lower), exact(upper)
    shares = [rng.integers(0, 2, len(low)), rng.random(len(low)), rng.integers(0, 2, len(low))]
    return [low + exact(share) * (high - low) for share in shares]


def bound(bounder: BoxBounder, lower: Tensor, upper: Tensor, target: Tensor, signs: Tensor | None = None) -> BoxBounds:
    signs = bounder.unknown(len(lower)) if signs is None else signs
    return bounder.bound(lower, upper, target, signs, Deadline(None))


def row_values(graph: Graph, rows: Rows, target: int, values: list[Exact]) -> list[Fraction]:
    coef, offset, valid = rows.coef[target], rows.offset[target], rows.valid[target]
    return [exact(coef[j]) @ values[-1] - Fraction(float(offset[j])) for j in range(len(valid)) if valid[j]]


def assert_holds(graph: Graph, rows: Rows, lower: Tensor, upper: Tensor, target: Tensor, found: BoxBounds) -> None:
    """Every number of every box, at points of it, without any rounding."""
    read = list(dict.fromkeys(graph.nodes[i].inputs[0] for i in graph.nonlinear))
    for b in range(len(lower)):
        for x in points_of(lower[b], upper[b], b):
            values = exact_values(graph, x)
            r = row_values(graph, rows, int(target[b]), values)
            for j, value in enumerate(r):
                form = exact(found.form.coef[b, j]) @ x + Fraction(float(found.form.const[b, j]))
                assert form <= value
                assert Fraction(float(found.least[b, j])) <= value
            if len(r) > 1:  # then a combination follows, which lies below the largest row
                assert Fraction(float(found.least[b, -1])) <= max(r)
                assert exact(found.form.coef[b, -1]) @ x + Fraction(float(found.form.const[b, -1])) <= max(r)
            h = np.concatenate([values[i] for i in read]) if read else np.zeros(0)
            assert all(s * v >= 0 for s, v in zip(found.signs[b].tolist(), h, strict=True))


@both_kinds
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [1e-13, 1.0])
def test_bounds_hold_in_rational_arithmetic(
    kind: Kind, seed: int, width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that cancel and thirds that floats do not hold; with hardly any width, rounding is all there is."""
    kind(monkeypatch)
    graph = awkward_graph(seed)
    rows, hull = random_rows(graph, seed), hull_of(graph, seed, width)
    lower, upper = boxes_in(hull, 4, seed)
    target = torch.tensor([0, 1, 0, 1])
    found = bound(BoxBounder(graph, rows, hull, CPU), lower, upper, target)
    assert_holds(graph, rows, lower, upper, target, found)


def cancelling(seed: int, *, sum_too: bool) -> tuple[Graph, InputSet]:
    """A network at a point where every h is 0 but for rounding, or where a sum of active neurons is.

    Terms of size 1 add up to nothing, so that no other slack can stand in for what their rounding is charged.
    """
    rng = np.random.default_rng(seed)
    x, weight = rng.uniform(0.5, 1.0, 3), rng.normal(size=(8, 3))
    build = GraphBuilder(1, 3)
    if sum_too:
        bias = 5 + rng.random(8)  # all active
        null = np.linalg.svd(np.hstack([weight, bias[:, None]]).T)[2][-1]  # Σ null_i (w_i·x + b_i) = 0 for any x
        h = build.linear(build.relu(build.linear(0, weight, bias)), np.stack([null, -null]), np.full(2, 1e-13))
        build.linear(build.relu(h), np.diag([1.0, -1.0]))  # 1e-13 is more than rounding costs: both are active
    else:
        build.linear(build.relu(build.linear(0, weight, -weight @ x)), rng.normal(size=(2, 8)))
    point = torch.from_numpy(x)[None]
    return build.finish(), InputSet(point, point)


@both_kinds
@pytest.mark.parametrize("sum_too", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_rounding_is_charged_where_terms_cancel(
    kind: Kind, seed: int, sum_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind(monkeypatch)
    graph, hull = cancelling(seed, sum_too=sum_too)
    rows = targets_of([[[1.0, 0.0]], [[0.0, 1.0]]])
    lower, upper, target = hull.lower.repeat(2, 1), hull.upper.repeat(2, 1), torch.tensor([0, 1])
    found = bound(BoxBounder(graph, rows, hull, CPU), lower, upper, target)
    assert_holds(graph, rows, lower, upper, target, found)


@both_kinds
@pytest.mark.parametrize("seed", range(25))
def test_bounds_hold_for_every_kind_of_op(kind: Kind, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kind(monkeypatch)
    graph = random_network(seeded(seed)).graph
    rows, hull = random_rows(graph, seed), hull_of(graph, seed)
    lower, upper = boxes_in(hull, 4, seed)
    target = torch.tensor([0, 1, 1, 0])
    bounder = BoxBounder(graph, rows, hull, CPU)
    assert isinstance(bounder._net, expected)
    assert_holds(graph, rows, lower, upper, target, bound(bounder, lower, upper, target))


@both_kinds
def test_bounds_hold_where_neurons_read_the_input_and_are_the_output(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nonlinear nodes read the input itself, and the output is one too."""
    kind(monkeypatch)
    build = GraphBuilder(1, 3)
    both = build.sum(build.relu(0), build.relu(0, 0.25), signs=(1, -1))
    build.relu(build.sum(build.linear(both, np.random.default_rng(0).normal(size=(3, 3))), 0), 0.1)
    graph = build.finish()
    rows, hull = random_rows(graph, 1), hull_of(graph, 1)
    lower, upper = boxes_in(hull, 6, 1)
    target = torch.tensor([0, 1, 0, 1, 0, 1])
    found = bound(BoxBounder(graph, rows, hull, CPU), lower, upper, target)
    assert bool((found.signs == 0).any())
    assert_holds(graph, rows, lower, upper, target, found)


@pytest.mark.parametrize("seed", range(15))
def test_bounds_lie_below_the_exact_minimum_and_meet_it_on_small_boxes(seed: int) -> None:
    graph = random_network(seeded(seed), neurons=8, inputs=3).graph
    rows, hull = random_rows(graph, seed, targets=1), hull_of(graph, seed)
    bounder = BoxBounder(graph, rows, hull, CPU)
    coef, offset = rows.coef[0].numpy(), rows.offset[0].numpy()
    lower, upper = boxes_in(hull, 3, seed)
    centre = lower[:1] / 2 + upper[:1] / 2
    lower, upper = torch.cat([lower, centre - 1e-7]), torch.cat([upper, centre + 1e-7])
    found = bound(bounder, lower, upper, torch.zeros(4, dtype=torch.int64)).bound
    for b in range(4):
        least = enumerate_minimum(graph, lower[b].numpy(), upper[b].numpy(), coef, offset).value
        assert float(found[b]) <= least + 1e-6
        if b in (1, 3):  # no width, or hardly any
            assert float(found[b]) >= least - 1e-4


@pytest.mark.parametrize("seed", range(12))
def test_both_forms_of_a_network_agree_on_a_pass(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same lines; their intervals may differ, since composing leaves fewer steps to lose at."""
    graph = random_network(seeded(100 + seed)).graph
    rows, hull = random_rows(graph, seed), hull_of(graph, seed)
    lower, upper = boxes_in(hull, 5, seed)
    target = torch.tensor([0, 1, 0, 1, 0])
    bounders = [BoxBounder(graph, rows, hull, CPU)]
    graph_itself(monkeypatch)
    bounders.append(BoxBounder(graph, rows, hull, CPU))
    region, signs = BoxRegion.of(lower, upper), bounders[0].unknown(5)
    lines = bounders[0]._layers(Interval(lower, upper), region, signs, Deadline(None)).lines
    kept: list[dict[int, Tensor]] = [{}, {}]
    forms = [b._net.of_rows(target, lines, keep) for b, keep in zip(bounders, kept, strict=True)]
    for a, b in [*zip(*forms, strict=True), *((kept[0][j], kept[1][j]) for j in kept[0])]:
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert kept[0].keys() == kept[1].keys()
    pre = graph.nodes[graph.nonlinear[-1]].inputs[0]
    neuron, box = (
        torch.arange(graph.nodes[pre].size).repeat(5),
        torch.arange(5).repeat_interleave(graph.nodes[pre].size),
    )
    for a, b in zip(*(bounder._net.neurons(pre, neuron, box, lines) for bounder in bounders), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_what_an_ancestor_knew_is_used_and_holds() -> None:
    graph = random_network(seeded(7), neurons=12).graph
    rows, hull = random_rows(graph, 1), hull_of(graph, 3, 0.3)
    bounder = BoxBounder(graph, rows, hull, CPU)
    lower, upper = boxes_in(hull, 6, 5)
    target = torch.zeros(6, dtype=torch.int64)
    whole = bound(bounder, lower[:1], upper[:1], target[:1])
    assert bool((whole.signs != 0).any())
    found = bound(bounder, lower, upper, target, whole.signs.expand(6, -1))
    assert bool((found.signs[:, whole.signs[0] != 0] == whole.signs[:, whole.signs[0] != 0]).all())
    assert_holds(graph, rows, lower, upper, target, found)


def test_targets_that_share_a_box_are_bounded_as_if_alone() -> None:
    graph = random_network(seeded(11)).graph
    rows, hull = random_rows(graph, 2, targets=4), hull_of(graph, 2)
    bounder = BoxBounder(graph, rows, hull, CPU)
    lower, upper = boxes_in(hull, 2, 1)
    target, box = torch.tensor([3, 0, 2, 1, 3]), torch.tensor([0, 0, 1, 1, 1])
    shared = bounder.bound(lower, upper, target, bounder.unknown(2), Deadline(None), box=box)
    alone = bound(bounder, lower[box], upper[box], target)
    for a, b in zip((*shared.form, shared.least, shared.blame), (*alone.form, alone.least, alone.blame), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert torch.equal(shared.signs, alone.signs)


def test_the_blame_is_on_the_coordinate_that_widens_the_neurons() -> None:
    """y = −relu(10 x_0 + 0.1 x_1): nearly all that the relaxation costs is due to x_0."""
    build = GraphBuilder(1, 2)
    build.linear(build.relu(build.linear(0, np.array([[10.0, 0.1]]))), np.array([[-1.0]]))
    graph = build.finish()
    hull = InputSet(-torch.ones(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))
    bounder = BoxBounder(graph, targets_of([[[1.0]]]), hull, CPU)
    found = bound(bounder, hull.lower, hull.upper, torch.zeros(1, dtype=torch.int64))
    # The upper line lies 10.1/2 above the kink; of the width 20.2, 20 are x_0's.
    torch.testing.assert_close(found.blame, torch.tensor([[5.05 * 10 / 10.1, 5.05 * 0.1 / 10.1]], dtype=torch.float64))


def test_an_expired_deadline_ends_a_pass() -> None:
    graph = random_network(seeded(3)).graph
    hull = hull_of(graph, 3)
    bounder = BoxBounder(graph, random_rows(graph, 3), hull, CPU)
    lower, upper = boxes_in(hull, 2, 3)
    with pytest.raises(DeadlineExpired):
        bounder.bound(lower, upper, torch.zeros(2, dtype=torch.int64), bounder.unknown(2), Deadline(0.0))


def test_a_region_contains_its_boxes_and_bounds_forms_on_them() -> None:
    rng = np.random.default_rng(0)
    lower = torch.from_numpy(rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-9, 9, (20, 3)))
    upper = lower + torch.from_numpy(rng.random((20, 3)) * 10.0 ** rng.integers(-12, 3, (20, 3)))
    region = BoxRegion.of(lower, upper)
    for b in range(20):
        centre, radius = exact(region.centre[b]), exact(region.radius[b])
        assert all(centre - radius <= exact(lower[b]))
        assert all(exact(upper[b]) <= centre + radius)
    coef = torch.from_numpy(rng.normal(size=(20, 2, 3)))
    least = region.least(LinearForm(coef, torch.ones(20, 2, dtype=torch.float64)))
    corner = torch.where(coef > 0, lower[:, None], upper[:, None])
    torch.testing.assert_close(least, (coef * corner).sum(2) + 1, rtol=1e-9, atol=1e-9)
