"""The curve of Figure 3: what it must cross, what it must stay under, and that its lines are what they claim."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.methods.registry import method_info
from netproof.paper.figures.bounds import panels_of_many, panels_of_one, slopes_said
from netproof.paper.figures.curve import AS_PRINTED, Curve, Slopes, optimisation_curve
from netproof.paper.tables.drawing import figure_of
from netproof.problem.problem import Problem
from support.asking import CPU, gaussian, problem_of
from support.exact import milp_minimum
from support.random_graphs import rows_tensor

STEPS = 60
ONE = rows_tensor(np.ones((1, 1)), np.zeros(1))


def made(seed: int, widths: tuple[int, ...] = (5, 10, 10, 10, 1)) -> tuple[Problem, float]:
    """A problem of two hidden layers or more, and its exact minimum."""
    network = gaussian(seed, widths)
    centre = np.random.default_rng(seed).normal(size=widths[0])
    box = (centre - 0.4, centre + 0.4)
    exact = milp_minimum(network.graph, *box, np.ones((1, 1)), np.zeros(1)).value
    return problem_of(network.graph, box, ONE), exact


def curve_of(problem: Problem, steps: int = STEPS, slopes: Slopes = AS_PRINTED) -> Curve:
    curve = optimisation_curve("made", problem, CPU, steps, Deadline(), slopes=slopes)
    assert curve is not None
    return curve


AS_RELEASED = Slopes.of(method_info("lirpa").options({}))
KINDS = {"printed": AS_PRINTED, "released": AS_RELEASED, "own": Slopes(own=True, parallel=False)}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def curves(request: pytest.FixtureRequest) -> list[tuple[Curve, float]]:
    problems = (made(seed) for seed in range(8))
    return [(curve_of(problem, slopes=request.param), exact) for problem, exact in problems]


def test_the_curve_crosses_the_first_lp_and_stays_under_the_second(curves: list[tuple[Curve, float]]) -> None:
    for curve, exact in curves:
        assert len(curve.joint) == len(curve.fixed) == STEPS + 1
        assert max(curve.joint) <= curve.lp_best + 1e-5
        assert curve.stays_under
        assert curve.lp_first <= curve.lp_best + 1e-9
        assert curve.lp_best <= exact + 1e-6
    crossed = [curve.crossing for curve, _ in curves]
    assert sum(step is not None for step in crossed) >= 5
    assert sum(max(curve.joint) > curve.lp_first + 1e-3 for curve, _ in curves) >= 5  # by more than float32's noise
    assert all(curve.joint[0] <= curve.lp_first + 1e-6 for curve, _ in curves)


def test_with_equal_intermediate_bounds_the_slopes_meet_the_lp(curves: list[tuple[Curve, float]]) -> None:
    for curve, _ in curves:
        assert max(curve.fixed) <= curve.lp_first + 1e-5
        assert max(curve.fixed) >= curve.lp_first - 5e-3 * (1 + abs(curve.lp_first))


def test_the_best_step_is_confirmed(curves: list[tuple[Curve, float]]) -> None:
    for curve, exact in curves:
        assert curve.confirmed <= exact
        assert curve.confirmed == pytest.approx(max(curve.joint), abs=1e-4)
        assert curve.best_so_far[-1] == max(curve.joint)


def test_both_curves_start_from_the_same_bound(curves: list[tuple[Curve, float]]) -> None:
    """Step 0 has the first slopes everywhere, so optimising intermediate bounds makes no difference yet."""
    for curve, _ in curves:
        assert curve.joint[0] == pytest.approx(curve.fixed[0], rel=1e-4, abs=1e-4)


def test_properties_of_the_numbers() -> None:
    curve = Curve("c", [-3.0, -1.0, -2.0], [-3.0, -2.6, -2.5], -2.5, -0.5, -1.0, 4, 0.1)
    assert curve.crossing == 1
    assert curve.best_so_far == [-3.0, -1.0, -1.0]
    assert curve.stays_under
    assert not Curve("c", [-3.0, -0.4], [-3.0, -2.5], -2.5, -0.5, -0.4, 4, 0.1).stays_under
    assert Curve("c", [-3.0, -2.6], [-3.0, -2.5], -2.5, -0.5, -2.6, 4, 0.1).crossing is None


@pytest.mark.parametrize("log_steps", [False, True])
def test_steps_are_linear_unless_a_logarithm_is_asked_for(*, log_steps: bool) -> None:
    curve = Curve("c", [-3.0, -1.0, -2.0], [-3.0, -2.6, -2.5], -2.5, -0.5, -1.0, 4, 0.1)
    many = panels_of_many([curve, curve], log_steps=log_steps)[:1]  # the other counts instances
    for axes in figure_of([*panels_of_one(curve, log_steps=log_steps), *many]).axes:
        assert axes.get_xscale() == ("symlog" if log_steps else "linear")
        assert axes.get_xlabel() == "optimisation step" + " (log)" * log_steps
        assert axes.get_xlim()[0] <= 0 < axes.get_xlim()[1] == 2


def test_a_network_without_unstable_neurons_is_exact() -> None:
    network = gaussian(3, (2, 3, 1))
    box = (np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    curve = curve_of(problem_of(network.graph, box, ONE), steps=2)
    exact = float(network.graph.forward(torch.full((1, *network.graph.input.shape), 0.5, dtype=torch.float64)))
    assert curve.unstable == 0
    assert curve.joint[-1] == pytest.approx(exact, abs=1e-5)
    assert curve.lp_best == pytest.approx(exact, abs=1e-6)


def test_of_several_targets_the_hardest_is_drawn() -> None:
    network = gaussian(1, (3, 6, 5, 2))
    box = (np.full(3, -0.5), np.full(3, 0.5))
    alone = []
    for output in range(2):
        rows = rows_tensor(np.eye(2)[output : output + 1], np.zeros(1))
        alone.append(curve_of(problem_of(network.graph, box, rows), steps=3).joint)
    both = rows_tensor(np.eye(2), np.zeros(2))
    rows = type(both)(*(t.transpose(0, 1) for t in (both.coef, both.offset, both.strict, both.valid)))
    joint = curve_of(problem_of(network.graph, box, rows), steps=3).joint
    assert joint == pytest.approx(min(alone, key=lambda values: values[0]), abs=1e-5)


def test_a_conjunction_is_refused() -> None:
    network = gaussian(2, (2, 4, 2))
    problem = problem_of(network.graph, (np.zeros(2), np.ones(2)), rows_tensor(np.eye(2), np.zeros(2)))
    with pytest.raises(UsageError, match="one row per disjunct"):
        optimisation_curve("made", problem, CPU, 3, Deadline())


def test_out_of_time_there_is_no_curve() -> None:
    assert optimisation_curve("made", made(0)[0], CPU, 5, Deadline(0.0)) is None


def test_slopes_of_their_own_begin_where_shared_ones_do_and_go_elsewhere() -> None:
    for seed in (0, 2, 5):
        problem = made(seed)[0]
        shared, *others = (curve_of(problem, 20, kind) for kind in (Slopes(), Slopes(own=True), Slopes(layers=True)))
        for own in others:
            assert own.joint[0] == pytest.approx(shared.joint[0], abs=1e-4)
            assert own.lp_first == pytest.approx(shared.lp_first)
            assert abs(max(own.joint) - max(shared.joint)) > 1e-3


def test_each_profile_has_its_slopes() -> None:
    assert Slopes.of(method_info("lirpa-printed").options({})) == AS_PRINTED
    assert Slopes(layers=True, rate=0.5) == AS_RELEASED


def test_the_start_is_said_and_matters() -> None:
    problem = made(0)[0]
    parallel, crown = (curve_of(problem, steps=1, slopes=Slopes(parallel=p)) for p in (True, False))
    assert parallel.joint[0] != crown.joint[0]
    assert slopes_said(Slopes()) == "Each neuron has one slope, which starts parallel to the upper lines; rate 0.1."
