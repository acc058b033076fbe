"""Parts of the graph's proofs that hide behind others on whole networks, each by itself, in rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.domains import Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.region import Region
from netproof.bounds.lirpa import confirm_jointly
from netproof.bounds.net import Net
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.packed import Lagrangian, Packed
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval, LinearForm
from netproof.model.affine import Scale
from netproof.model.graph import Graph
from netproof.numerics import float_up
from netproof.problem.problem import InputSet, Rows
from netproof.relax import Fan, Lines
from netproof.relax.hinge import HingeRelaxation
from support.asking import CPU
from support.awkward import GraphBuilder
from support.problems import box_problem, folded_neurons, random_relus, targets_of
from support.rational import exact, exact_values

NOTHING = torch.zeros(1, 0, dtype=torch.float64)
NO_LINES = Lines(NOTHING, NOTHING, NOTHING)


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
    net = GraphNet.before(LinedGraph(graph, region, interval_bounds(graph, region).charge), graph.output.index)
    bound = net.backward(torch.tensor([[0.0, 1.0]], dtype=torch.float64), Lagrangian(NO_LINES)).value
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
        form = Backward(graph, alone).form(1, coef, lines)
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
    known = Known(torch.from_numpy(low), torch.from_numpy(high), torch.zeros(1, 200), None)
    net, one = GraphNet.before(proof, 1), torch.ones(1, 1)
    forms = torch.ones(1, 201, dtype=torch.float64)
    lines = Dual.of_forms(net, forms, torch.zeros(1), known).at(DualPoint(torch.ones(1, 200), None, one)).pulled.lines
    assert lines is not None
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


def mixed(net: Net, weights: torch.Tensor) -> tuple[Fraction, np.ndarray]:
    """The bound of a network without neurons for its only target, and the weights that it is of."""
    known = Known(NOTHING, NOTHING, NOTHING, None)
    valid, packed = torch.ones_like(weights, dtype=torch.bool), Packed.of(net.layers, known, proof=True)
    done = Dual(net, net.rows, net.error, valid, packed).at(DualPoint(NOTHING, None, weights))
    return Fraction(float(done.value)), exact(done.weights)


@pytest.mark.parametrize("condensed", [False, True])
@pytest.mark.parametrize("only_offsets", [False, True])
def test_the_mix_of_the_rows_is_charged(only_offsets: bool, condensed: bool) -> None:
    """λ_1 d_1 + λ_2 d_2 cancels, and so do the coefficients; each by itself is of size 1."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        share = rng.uniform(0.2, 0.8)
        coef, offset = rng.normal(size=3), rng.normal()
        build = GraphBuilder(1, 3)
        build.linear(0, np.eye(3))
        other = -share / (1 - share)
        rows = targets_of([[coef, coef * other]], [[offset, offset * other]])
        rows = replace(rows, coef=torch.zeros_like(rows.coef)) if only_offsets else rows
        x = rng.uniform(0.5, 1, 3)
        root = rooted(build.finish(), x, rows)
        net: Net = root.condensed64 if condensed else GraphNet.whole(root.graph64, rows)
        r = exact(rows.coef[0]).reshape(2, 3) @ exact(x) - exact(rows.offset[0])
        for error in (net.error, torch.zeros_like(net.error)):  # which would pay for the mix of two rows, too
            bound, weights = mixed(net.with_rows(net.rows, error), torch.tensor([[share, 1 - share]]).double())
            assert bound <= weights @ r


@pytest.mark.parametrize("condensed", [False, True])
@pytest.mark.parametrize("count", [496, 7997, 31985])
def test_a_mix_is_charged_by_the_number_of_its_rows(count: int, condensed: bool) -> None:
    """The same row again and again, with weights of 1 / count whose sum is rounded as often."""
    build = GraphBuilder(1, 1)
    build.linear(0, np.eye(1))
    one = torch.ones(1, count, dtype=torch.float64)
    rows = Rows(one[..., None], 0 * one, one < 0, one > 0)
    root = rooted(build.finish(), np.ones(1), rows)
    bound, weights = mixed(root.condensed64 if condensed else GraphNet.whole(root.graph64, rows), one)
    assert bound <= weights.sum()


def test_a_row_may_have_been_rounded_as_it_was_read() -> None:
    """c·x is 0 to within rounding; with every coefficient a rounding off, it may be −u|c|·|x|."""
    build = GraphBuilder(1, 2)
    build.add(Scale(None), 0)
    graph, x = build.finish(), np.array([1.0, 1.0])
    region = Region.of(InputSet(*(torch.from_numpy(x)[None],) * 2), CPU, torch.float64)
    sizes = interval_bounds(graph, region).charge.magnitude
    lined = LinedGraph(graph, region, Charge([torch.zeros_like(t) for t in sizes], sizes))
    unit = Fraction(1, 2**53)
    for coef, offset, off in (([0.7, -0.7], 0.0, Fraction(1.4)), ([0.7, 0.0], 0.7, Fraction(1.4))):
        net = GraphNet.whole(lined, targets_of([[coef]], [[offset]]))
        bound, _ = mixed(net, torch.ones(1, 1, dtype=torch.float64))
        assert bound <= -unit * off * Fraction(999, 1000)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_what_rows_may_be_off_by_is_taken_off_and_the_subtraction_charged(value: float) -> None:
    root = rooted(*point_network())
    dual = Dual.of(root, root_domains(root), proof=True)
    one, found = torch.ones(1, 1, dtype=torch.float64), torch.tensor([value], dtype=torch.float64)
    for error in (1e-3, 2.0**-56):  # the second is lost in the subtraction
        less = replace(dual, error=torch.full_like(one, error)).less(found, one)
        assert Fraction(float(less)) <= Fraction(value) - Fraction(error)


def point_network() -> tuple[Graph, np.ndarray, Rows]:
    build = GraphBuilder(1, 1)
    build.linear(0, np.ones((1, 1)))
    return build.finish(), np.ones(1), targets_of([[[1.0]]])


@pytest.mark.parametrize("proof", [False, True])
def test_lines_are_those_of_a_proof_in_a_proof_alone(proof: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build_root(box_problem(random_relus(0, (4, 4, 4), 1), -1.0, 1.0), CPU, Schedule(0), Deadline(None))
    assert root is not None
    domains, asked, plain = root_domains(root), [], HingeRelaxation.family

    def family(self: HingeRelaxation, h: Interval, *, proof: bool) -> Fan:
        asked.append(proof)
        return plain(self, h, proof=proof)

    monkeypatch.setattr(HingeRelaxation, "family", family)
    theta, again = DualPoint.of(domains), {k: torch.arange(2)[None] for k in (1, 2)}
    Joint.of(root, domains, again, proof=proof).at(replace(theta, multipliers=None))
    Dual.of(root, domains, proof=proof).at(theta)
    net = root.net64 if proof else root.net32
    Dual.of_forms(net, net.rows[:, 0], net.error[:, 0], domains.known).at(theta)
    assert asked == [proof] * 6  # of the joint bound's own, of two layers and of the output; then one each


@pytest.mark.parametrize("seed", range(5))
def test_a_neurons_own_error_is_taken_off_its_joint_bound(seed: int) -> None:
    """Neurons that are nothing but the rounding of what is folded into them, where x is largest."""
    problem = folded_neurons(seed)
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    domains, layer = root_domains(root), root.layers[1]
    theta, every = replace(DualPoint.of(domains), multipliers=None), torch.arange(layer.count)[None]
    found = Joint.of(root, domains, {1: every}, proof=True).at(theta)
    h = exact_values(problem.graph, exact(problem.input_set.upper))[layer.pre][layer.index.numpy()]
    assert all(exact(found.lower[:, layer.packed]) <= h)
    assert all(h <= exact(found.upper[:, layer.packed]))


def small_root() -> Root:
    build = GraphBuilder(1, 2)
    build.linear(build.relu(build.linear(0, np.eye(2))), np.ones((1, 2)))
    root = build_root(box_problem(build.finish(), -1.0, 1.0), CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def test_what_is_not_a_number_decides_nothing() -> None:
    root = small_root()
    domains = replace(root_domains(root), bound=torch.full((1,), -3.0, dtype=torch.float64))
    theta = DualPoint(torch.full((1, 2), torch.nan), None, torch.ones(1, 1))
    found = confirm_jointly(root, domains, {}, theta, Clock())
    assert found.domains.bound.tolist() == [-3.0]
    assert not bool(found.empty.any())
