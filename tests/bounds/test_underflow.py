"""Products below 2^-1074 are lost whole, and may be multiplied by something large later: every path pays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.boxes import blocks
from netproof.bounds.boxes.blocks import compose
from netproof.bounds.boxes.bounder import BoxBounder
from netproof.bounds.boxes.clip import clip
from netproof.bounds.boxes.combine import combined
from netproof.bounds.linear.backward import Backward
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.neurons.root import build_root
from netproof.bounds.packed import Lagrangian, Packed
from netproof.core.deadline import Deadline
from netproof.core.forms import LinearForm
from netproof.model.affine import Scale
from netproof.model.evaluate import evaluate
from netproof.model.graph import Graph
from netproof.model.nonlinear import LeakyRelu
from netproof.problem.problem import InputSet
from netproof.programs.check import lagrangian_bound
from netproof.programs.model import Entries, LinearProgram
from netproof.programs.triangle import row_range
from support.asking import CPU
from support.awkward import GraphBuilder
from support.boxes import Run, deaf
from support.problems import box_problem, targets_of
from support.rational import exact, exact_values

SMALL = 2.0**-538  # whose square is 0 in float64
LARGE = 2.0**500  # and it times this is far from it


def chain(*factors: float, relu: bool = False) -> Graph:
    """x times each of the factors in turn."""
    build = GraphBuilder(1, 1)
    node = 0
    for factor in factors:
        node = build.add(Scale(torch.tensor([[factor]], dtype=torch.float64)), node)
        node = build.relu(node) if relu and factor > 0 else node
    return build.finish()


def between(lower: float, upper: float) -> InputSet:
    return InputSet(*(torch.full((1, 1), v, dtype=torch.float64) for v in (lower, upper)))


def test_an_interval_holds_the_product_of_a_leaky_relu_that_vanishes() -> None:
    build = GraphBuilder(1, 1)
    last = build.add(Scale(torch.full((1, 1), LARGE, dtype=torch.float64)), build.add(LeakyRelu(SMALL), 0))
    graph = build.finish()
    bounds = interval_bounds(graph, Region.of(between(-SMALL, -SMALL), CPU, torch.float64)).of[last]
    truth = -(Fraction(SMALL) ** 2) * Fraction(LARGE)
    assert Fraction(float(bounds.lower)) <= truth <= Fraction(float(bounds.upper))


def test_a_value_is_within_its_error() -> None:
    graph = chain(SMALL, SMALL, LARGE)
    value, error = evaluate(graph, torch.ones(1, 1, 1, dtype=torch.float64))
    (truth,) = exact_values(graph, exact([1.0]))[-1]
    assert float(value) == 0.0
    assert abs(Fraction(float(value)) - truth) <= Fraction(float(error))


def test_intervals_hold_what_was_lost() -> None:
    graph = chain(SMALL, SMALL, LARGE)
    found = interval_bounds(graph, Region.of(between(0.5, 1.0), CPU, torch.float64)).of
    for interval, value in zip(found, exact_values(graph, exact([1.0])), strict=True):
        assert exact(interval.lower)[0] <= value[0] <= exact(interval.upper)[0]


def test_a_backward_pass_pays_for_coefficients_that_vanish() -> None:
    graph = chain(LARGE, SMALL, -SMALL)
    charge = interval_bounds(graph, Region.of(between(0.5, 1.0), CPU, torch.float64)).charge
    form = Backward(graph, charge).form(graph.output.index, torch.ones(1, 1, 1, dtype=torch.float64), {})
    assert float(form.coef) == 0.0
    assert Fraction(float(form.const)) <= exact_values(graph, exact([1.0]))[-1][0]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("composed", [False, True])
def test_bounds_of_boxes_pay_for_coefficients_that_vanish(
    relu: bool, composed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else y = −2^-576 would be proved not to be below 0."""
    if not composed:
        monkeypatch.setattr(blocks, "COMPOSED", 0)
    graph, hull = chain(SMALL, -SMALL, relu=relu), between(LARGE / 2, LARGE)
    bounder = BoxBounder(graph, targets_of([[[1.0]]]), hull, CPU)
    target = torch.zeros(1, dtype=torch.int64)
    found = bounder.bound(hull.lower[0][None], hull.upper[0][None], target, bounder.unknown(1), Deadline(None))
    assert Fraction(float(found.least)) <= exact_values(graph, exact([LARGE]))[-1][0] < 0


@pytest.mark.parametrize("composed", [False, True])
def test_what_vanishes_on_the_way_is_not_proved_away(composed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """y = −1e-100 relu(x) reaches −1e-100, so it is not above −1e-105, though no coefficient of x is left."""
    if not composed:
        monkeypatch.setattr(blocks, "COMPOSED", 0)
    problem = box_problem(chain(1e300, 1e-200, -1e-200, relu=True), -1.0, 1.0, targets_of([[[1.0]]], [[-1e-105]]))
    assert Run([problem], replay=deaf, limit=64).status == "undecided"


def test_composing_pays_for_coefficients_that_vanish() -> None:
    graph, hull = chain(SMALL, -SMALL), between(LARGE / 2, LARGE)
    intervals = interval_bounds(graph, Region.of(hull, CPU, torch.float64))
    block = compose(graph, intervals, graph.output.index, torch.ones(1, 1, 1, dtype=torch.float64))
    value = exact(block.coef[0])[0] * Fraction(LARGE) + Fraction(float(block.const))
    assert abs(value - exact_values(graph, exact([LARGE]))[-1][0]) <= Fraction(float(block.error))


def test_the_condensed_network_pays_for_coefficients_that_vanish() -> None:
    """With all charges gone but the one of underflow."""
    build = GraphBuilder(1, 1)
    first = build.relu(build.linear(0, np.array([[2.0**126]])))
    build.linear(build.relu(build.linear(first, np.array([[SMALL]]))), np.ones((1, 1)))
    root = build_root(box_problem(build.finish(), -0.5, 1.0), CPU, Schedule(0), Deadline(None))
    assert root is not None
    net, domains = root.condensed64, root_domains(root)
    charges = net.charges
    assert charges is not None
    for name in ("before", "after", "seed"):
        getattr(charges, name).zero_()
    lines = Packed.of(net.layers, domains.known.to(net.dtype), proof=True)
    form = torch.tensor([[0.0, 0.0, 0.0, SMALL]], dtype=torch.float64)
    value = net.backward(form, Lagrangian(lines.at(torch.ones(1, 2, dtype=torch.float64)))).value
    assert Fraction(float(value)) <= Fraction(SMALL) ** 2 * Fraction(-(2.0**125))


def columns(cost: float, lower: float, upper: float, count: int, entries: Entries, rows: int = 0) -> LinearProgram:
    sides = (np.full(count, v) for v in (cost, lower, upper))
    return LinearProgram(*sides, np.zeros(rows), np.zeros(rows), entries)


NO_ENTRIES = Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def test_duals_pay_for_terms_that_vanish() -> None:
    bound = lagrangian_bound(columns(SMALL, -SMALL, SMALL, 400, NO_ENTRIES), np.zeros(0))
    assert Fraction(bound) <= -400 * Fraction(SMALL) ** 2


def test_duals_pay_for_reduced_costs_that_vanish() -> None:
    zero = np.zeros(1, np.int64)
    program = columns(0.0, -LARGE, LARGE, 1, Entries(zero, zero, np.array([SMALL])), rows=1)
    assert Fraction(lagrangian_bound(program, np.array([SMALL]))) <= -(Fraction(SMALL) ** 2) * Fraction(LARGE)


def test_the_range_of_a_row_pays_for_terms_that_vanish() -> None:
    small = np.full((1, 4), SMALL)
    least, most = row_range(small, np.zeros(1), -small[0], small[0])
    assert Fraction(float(least[0])) <= -4 * Fraction(SMALL) ** 2
    assert Fraction(float(most[0])) >= 4 * Fraction(SMALL) ** 2


def test_clipping_pays_for_terms_that_vanish() -> None:
    """SMALL·x_0 + 2^-1000 x_1 <= 0 on [−SMALL, 0] × [0, 1] holds up to x_1 = 2^-76."""
    coef = torch.tensor([[[SMALL, 2.0**-1000]]], dtype=torch.float64)
    lower, upper = torch.tensor([[[-SMALL, 0.0]], [[0.0, 1.0]]], dtype=torch.float64)
    form = LinearForm(coef, torch.zeros(1, 1, dtype=torch.float64))
    _, high = clip(lower, upper, form, torch.zeros(1, dtype=torch.float64), 1)
    assert Fraction(float(high[0, 1])) >= Fraction(2.0**-76)


def test_a_combination_pays_for_coefficients_that_vanish() -> None:
    coef = torch.tensor([[[SMALL], [0.0]]], dtype=torch.float64)
    weights = torch.tensor([[SMALL, 1.0]], dtype=torch.float64)
    side = torch.full((1, 1), LARGE, dtype=torch.float64)
    mixed, least = combined(LinearForm(coef, torch.zeros(1, 2, dtype=torch.float64)), weights, -side, side)
    truth = -(Fraction(SMALL) ** 2) * Fraction(LARGE)
    assert Fraction(float(least)) <= truth
    assert exact(mixed.coef)[0] * -Fraction(LARGE) + Fraction(float(mixed.const)) <= truth
