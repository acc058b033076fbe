"""Every part of a bound on boxes, against rational arithmetic, where no other part can stand in for it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes import blocks
from netproof.bounds.boxes.blocks import BlockNet, compose
from netproof.bounds.boxes.bounder import BoxBounder, BoxBounds, _lines
from netproof.bounds.boxes.clip import clip
from netproof.bounds.boxes.combine import combined
from netproof.bounds.linear.backward import Charge
from netproof.bounds.linear.interval import Intervals, interval_bounds
from netproof.bounds.linear.region import BoxRegion, Region
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval, LinearForm
from netproof.model.affine import Scale
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Rows
from netproof.relax import relaxation_of
from support.asking import CPU
from support.awkward import GraphBuilder
from support.problems import targets_of
from support.rational import exact, exact_values

Kind = Callable[[pytest.MonkeyPatch], None]


def composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form of small networks."""


def walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "COMPOSED", 0)


both_kinds = pytest.mark.parametrize("kind", [composed, walked])


def point_set(x: np.ndarray) -> InputSet:
    point = torch.from_numpy(x)[None]
    return InputSet(point, point)


def at_a_point(graph: Graph, rows: Rows, x: np.ndarray) -> BoxBounds:
    """Every target on the box without width."""
    inputs, targets = point_set(x), len(rows.valid)
    bounder = BoxBounder(graph, rows, inputs, CPU)
    sides = inputs.lower.expand(targets, -1)
    return bounder.bound(sides, sides, torch.arange(targets), bounder.unknown(targets), Deadline(None))


def assert_holds(graph: Graph, rows: Rows, x: np.ndarray, found: BoxBounds) -> None:
    """Forms, least values and signs, at the point."""
    point = exact(x)
    values = exact_values(graph, point)
    for t in range(len(rows.valid)):
        r = exact(rows.coef[t, 0]) @ values[-1] - Fraction(float(rows.offset[t, 0]))
        assert exact(found.form.coef[t, 0]) @ point + Fraction(float(found.form.const[t, 0])) <= r
        assert Fraction(float(found.least[t, 0])) <= r
        read = list(dict.fromkeys(graph.nodes[i].inputs[0] for i in graph.nonlinear))
        h = np.concatenate([values[i] for i in read]) if read else []
        assert all(s * v >= 0 for s, v in zip(found.signs[t].tolist(), h, strict=True))


def null_of(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A combination of the rows weight·x + bias that is 0 for every x."""
    return np.linalg.svd(np.hstack([weight, bias[:, None]]).T)[2][-1]


@both_kinds
@pytest.mark.parametrize("neuron", [False, True])
@pytest.mark.parametrize("seed", range(24))  # which of them round the wrong way depends on the machine's products
def test_what_composing_loses_is_charged(kind: Kind, neuron: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two affine ops in a row whose product is nothing, as a row and as what a neuron reads."""
    kind(monkeypatch)
    rng = np.random.default_rng(seed)
    x, weight, bias = rng.uniform(0.5, 1, 3), rng.normal(size=(8, 3)), 5 + rng.random(8)
    null = null_of(weight, bias)
    build = GraphBuilder(1, 3)
    node = build.linear(build.linear(0, weight, bias), np.stack([null, -null]))
    if neuron:
        build.linear(build.relu(node), np.eye(2))
    graph, rows = build.finish(), targets_of([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert_holds(graph, rows, x, at_a_point(graph, rows, x))


@both_kinds
@pytest.mark.parametrize("seed", range(6))
def test_taking_the_offset_off_is_charged(kind: Kind, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.5 and a bit more or less 1e16 is rounded up."""
    kind(monkeypatch)
    x = np.random.default_rng(seed).uniform(0.5, 1.0, 2)
    build = GraphBuilder(1, 2)
    build.linear(0, np.eye(2), 1 + x)
    graph, rows = build.finish(), targets_of([[[1.0, 0.0]], [[0.0, 1.0]]], [[1e16], [-1e16]])
    assert_holds(graph, rows, x, at_a_point(graph, rows, x))


@both_kinds
def test_a_constant_that_many_layers_add_to_is_charged(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """1e16 + 1.01 is 1e16 + 2 in floats, sixty times over."""
    kind(monkeypatch)
    build = GraphBuilder(1, 1)
    node = 0
    for _ in range(60):
        node = build.relu(build.linear(node, np.ones((1, 1)), np.full(1, 1.01)))
    build.linear(node, np.ones((1, 1)), np.full(1, 1e16))
    graph, rows, x = build.finish(), targets_of([[[1.0]]]), np.ones(1)
    assert_holds(graph, rows, x, at_a_point(graph, rows, x))


@pytest.mark.parametrize("seed", range(10))
def test_products_with_a_composed_layer_are_charged(seed: int) -> None:
    """Layers of one op are composed exactly, so with no other charge the products' own must do."""
    rng = np.random.default_rng(seed)
    x, weight = rng.uniform(0.5, 1, 3), rng.normal(size=(8, 3))
    build = GraphBuilder(1, 3)
    build.linear(build.relu(build.linear(0, weight, -weight @ x)), np.ones((1, 8)))
    graph, inputs = build.finish(), point_set(x)
    hull = interval_bounds(graph, Region.of(inputs, CPU, torch.float64))
    for weights in hull.charge.weight[1:]:
        weights.zero_()
    net = BlockNet(graph, targets_of([[[1.0]]]), hull, CPU)
    h = exact_values(graph, exact(x))[1]
    found = net.interval(1, {0: Interval(inputs.lower, inputs.upper)})
    assert all(exact(found.lower) <= h)
    assert all(h <= exact(found.upper))


@pytest.mark.parametrize("leak", [0.1, 1 / 3])
@both_kinds
def test_a_leaky_slope_is_rounded(kind: Kind, leak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At points there is no width to hide behind; a hinge of negative slope has its least value at 0."""
    kind(monkeypatch)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 40)
    build = GraphBuilder(1, 40)
    node = build.relu(0, leak)
    build.relu(build.linear(node, np.eye(40), -exact_values(build.finish(), exact(x))[-1].astype(float)))
    graph, rows = build.finish(), targets_of([[row] for row in np.eye(40)])
    assert_holds(graph, rows, x, at_a_point(graph, rows, x))


@both_kinds
@pytest.mark.parametrize("leak", [-0.5, 0.25])
def test_a_hinge_is_enclosed_on_either_side_of_0(kind: Kind, leak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """relu(hinge(x)) with x in [−1, 1]: a negative leak makes the hinge least at 0."""
    kind(monkeypatch)
    build = GraphBuilder(1, 1)
    build.relu(build.linear(build.relu(0, leak), np.ones((1, 1)), np.full(1, -0.1)))
    graph, rows = build.finish(), targets_of([[[1.0]]])
    side = torch.ones(1, 1, dtype=torch.float64)
    bounder = BoxBounder(graph, rows, InputSet(-side, side), CPU)
    found = bounder.bound(-side, side, torch.zeros(1, dtype=torch.int64), bounder.unknown(1), Deadline(None))
    for x in (-1.0, -0.1, 0.0, 0.1, 1.0):
        assert_holds(graph, rows, np.array([x]), found)


def test_the_lines_of_a_box_lie_above_the_ends() -> None:
    rng = np.random.default_rng(0)
    build = GraphBuilder(1, 200)
    build.relu(0)
    low, high = torch.from_numpy(rng.uniform(0.1, 1, (2, 1, 200)))
    _, slope, lift = (exact(t) for t in _lines(relaxation_of(build.finish().nodes[1].op), Interval(-low, high))[0])
    assert all(lift - slope * exact(low) >= 0)
    assert all(slope * exact(high) + lift >= exact(high))


@both_kinds
def test_what_is_not_a_number_decides_nothing(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of 1e150 over values of 1e170 overflows."""
    kind(monkeypatch)
    build = GraphBuilder(1, 1)
    build.linear(build.relu(build.linear(0, np.array([[1e160], [-1e160]]))), np.array([[1.0, -1.0]]))
    graph, rows = build.finish(), targets_of([[[1e150]]])
    side = torch.ones(1, 1, dtype=torch.float64)
    bounder = BoxBounder(graph, rows, InputSet(-side, side), CPU)
    found = bounder.bound(-side, side, torch.zeros(1, dtype=torch.int64), bounder.unknown(1), Deadline(None))
    assert float(found.bound) <= 0.0


# --- each part of composing by itself ---


def only(graph: Graph, magnitude: float = 0.0) -> Intervals:
    """Intervals that charge nothing but what coefficients that meet lose."""
    found = Intervals(graph, Region.of(point_set(np.zeros(graph.input.size)), CPU, torch.float64))
    parts = [[torch.full(n.shape, v, dtype=torch.float64) for n in graph.nodes] for v in (0.0, magnitude)]
    found.charge = Charge(*parts)
    return found


def test_the_sum_of_composed_constants_is_charged() -> None:
    """1e16 − 1/3 − 1e16 is 0 in floats."""
    build = GraphBuilder(1, 1)
    node = 0
    for add in (1e16, -1 / 3, -1e16):
        node = build.add(Scale(None, torch.tensor([[add]], dtype=torch.float64)), node)
    graph = build.finish()
    block = compose(graph, only(graph), node, torch.ones(1, 1, 1, dtype=torch.float64))
    assert abs(Fraction(float(block.const)) + Fraction(1 / 3)) <= Fraction(float(block.error))


def test_composed_coefficients_that_meet_are_charged() -> None:
    build = GraphBuilder(1, 1)
    build.sum(*(build.add(Scale(torch.tensor([[v]], dtype=torch.float64)), 0) for v in (1.0, 1 / 3)))
    graph = build.finish()
    block = compose(graph, only(graph, 1e6), graph.output.index, torch.ones(1, 1, 1, dtype=torch.float64))
    missed = abs(exact(block.coef[0])[0] - 1 - Fraction(1 / 3)) * 10**6
    assert 0 < missed <= Fraction(float(block.error))


# --- least values, clipping, combinations ---


def test_the_last_addition_is_charged() -> None:
    """1 − 2^-55 is 1 in floats."""
    one = torch.ones(1, 1, dtype=torch.float64)
    least = BoxRegion.of(one, one).least(LinearForm(torch.full((1, 1, 1), -(2.0**-55), dtype=torch.float64), one))
    assert Fraction(float(least)) <= 1 - Fraction(2.0**-55)


def test_the_other_coordinates_terms_are_charged() -> None:
    """Large terms that cancel leave nothing but rounding for the last coordinate."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        pinned = rng.uniform(0.5, 1, 8)
        coef = rng.normal(size=8)
        coef[-1] = -(coef[:-1] @ pinned[:-1]) / pinned[-1]
        low, high = (torch.from_numpy(np.append(pinned, v))[None] for v in (-1.0, 1.0))
        form = LinearForm(torch.from_numpy(np.append(coef, 1.0))[None, None], torch.zeros(1, 1, dtype=torch.float64))
        _, found = clip(low, high, form, torch.zeros(1, dtype=torch.float64), 1)
        assert Fraction(float(found[0, -1])) >= -(exact(coef) @ exact(pinned))


def combinations(seed: int) -> tuple[LinearForm, Tensor, Tensor]:
    """λ f_1 + (1 − λ) f_2 that is nothing at a point, with f of size 1; and the point."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.2, 0.8)
    coef = rng.normal(size=(2, 5))
    coef[1] = -coef[0] * share / (1 - share)
    const = rng.normal(size=2)
    const[1] = -const[0] * share / (1 - share)
    form = LinearForm(torch.from_numpy(coef)[None], torch.from_numpy(const)[None])
    return form, torch.tensor([[share, 1 - share]], dtype=torch.float64), torch.from_numpy(rng.uniform(0.5, 1, (1, 5)))


def test_a_combination_that_cancels_is_charged() -> None:
    for seed in range(40):
        form, weights, x = combinations(seed)
        mixed, least = combined(form, weights, x, x)
        share, point = exact(weights), exact(x)
        true = sum(s * (exact(form.coef[0, j]) @ point + exact(form.const[0])[j]) for j, s in enumerate(share))
        below = exact(mixed.coef[0, 0]) @ point + Fraction(float(mixed.const[0, 0]))
        assert Fraction(float(least)) <= below <= true


def test_the_least_value_of_a_combination_is_charged() -> None:
    """A form whose terms cancel at the point, taken alone."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, coef = rng.uniform(0.5, 1, 6), rng.normal(size=6)
        const = -(coef @ x)
        form = LinearForm(
            torch.from_numpy(np.stack([coef, 0 * coef]))[None], torch.tensor([[const, 0.0]], dtype=torch.float64)
        )
        side = torch.from_numpy(x)[None]
        mixed, least = combined(form, torch.tensor([[1.0, 0.0]], dtype=torch.float64), side, side)
        below = exact(mixed.coef[0, 0]) @ exact(x) + Fraction(float(mixed.const[0, 0]))
        assert Fraction(float(least)) <= below
