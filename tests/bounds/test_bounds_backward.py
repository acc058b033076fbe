"""The backward pass with rounding charged, against the same linear bound in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.domains import Known
from netproof.bounds.dual import Dual, DualPoint, Evaluated
from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.interval import Intervals, interval_bounds
from netproof.bounds.linear.lined_graph import LinedGraph, one_hot
from netproof.bounds.linear.region import Region
from netproof.bounds.packed import Lagrangian, Packed
from netproof.core.forms import LinearForm
from netproof.model.affine import Linear, Scale
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet
from netproof.relax import Lines
from support.awkward import GraphBuilder, awkward_graph
from support.random_graphs import random_network, seeded
from support.rational import exact, exact_relaxed_bound, exact_values

CPU = torch.device("cpu")


class Setting:
    """A graph relaxed on a box by its interval bounds, as the root does it, with slopes of any size in [0, 1]."""

    def __init__(self, graph: Graph, seed: int, inputs: InputSet | None = None) -> None:
        rng = np.random.default_rng(seed)
        shape = graph.input.shape
        middle, width = rng.uniform(-1, 1, shape), rng.uniform(0, 1, shape)
        box = inputs or InputSet(torch.from_numpy(middle - width), torch.from_numpy(middle + width))
        self.graph = graph
        self.region = Region.of(box, CPU, torch.float64)
        self.intervals: Intervals = interval_bounds(graph, self.region)
        self.proof = LinedGraph(graph, self.region, self.intervals.charge)
        for node in graph.nonlinear:
            (pre,) = graph.nodes[node].inputs
            self.proof.add(node, pre, self.intervals.of[pre])
        nothing = torch.zeros(1, 0, dtype=torch.float64)
        bounds = [(self.intervals.of[k.pre], k.index) for k in self.proof.layers]
        lower = torch.cat([nothing, *(h.lower.reshape(1, -1)[:, index] for h, index in bounds)], 1)
        upper = torch.cat([nothing, *(h.upper.reshape(1, -1)[:, index] for h, index in bounds)], 1)
        self.known = Known(lower, upper, torch.zeros_like(lower), None)
        self.slopes = torch.from_numpy(rng.uniform(0, 1, (1, self.proof.count)))
        self.coef = torch.from_numpy(rng.integers(-5, 6, (1, *graph.output.shape)) / 3)

    @property
    def lines(self) -> dict[int, Lines]:
        return self.by_node(Packed.of(self.proof.layers, self.known, proof=True).at(self.slopes))

    def by_node(self, packed: Lines) -> dict[int, Lines]:
        """The lines of every nonlinear node, (n, *node) where some of its neurons are packed, (n, U)."""
        found = {node: self.proof.linear_part(node) for node in self.graph.nonlinear}
        for layer in self.proof.layers:
            mine = Lines(*(None if t is None else t[:, layer.packed] for t in packed))
            found[layer.node] = self.proof.spread(layer, mine)
        return found

    def evaluated(self, coef: torch.Tensor, known: Known, slopes: torch.Tensor, node: int | None = None) -> Evaluated:
        """The proof for forms coef (n, *node) of a node, by default the output."""
        net = GraphNet.before(self.proof, self.graph.output.index if node is None else node)
        forms, one = torch.nn.functional.pad(coef.flatten(1), (1, 0)), torch.ones(len(coef), 1)
        return Dual.of_forms(net, forms, torch.zeros(len(coef)), known).at(DualPoint(slopes, None, one))

    def charged(self) -> Fraction:
        return Fraction(float(self.evaluated(self.coef, self.known, self.slopes).value))

    def uncharged(self) -> Fraction:
        form = Backward(self.graph).form(self.graph.output.index, self.coef, self.lines)
        return Fraction(float(self.region.least(form)))

    def rational(self) -> Fraction:
        box = exact(self.region.lower), exact(self.region.upper)
        return exact_relaxed_bound(self.graph, self.graph.output.index, exact(self.coef), self.lines, *box)

    def points(self, count: int, seed: int) -> list[np.ndarray]:
        """Rational points of the box: its corners and others."""
        rng = np.random.default_rng(seed)
        low, high = exact(self.region.lower), exact(self.region.upper)
        shares = [exact(rng.random(len(low))) if i % 2 else exact(rng.integers(0, 2, len(low))) for i in range(count)]
        return [low + share * (high - low) for share in shares]


@pytest.mark.parametrize("seed", range(60))
def test_the_charged_bound_is_below_the_rational_one(seed: int) -> None:
    setting = Setting(awkward_graph(seed), seed)
    assert setting.charged() <= setting.rational()


@pytest.mark.parametrize("seed", range(30))
def test_the_charged_bound_is_below_rational_values(seed: int) -> None:
    setting = Setting(awkward_graph(seed), seed)
    bound, coef = setting.charged(), exact(setting.coef)
    for x in setting.points(20, seed):
        assert bound <= coef @ exact_values(setting.graph, x)[-1]


def test_without_the_charge_it_is_above_at_times() -> None:
    settings = [Setting(awkward_graph(seed), seed) for seed in range(40)]
    above = sum(setting.uncharged() > setting.rational() for setting in settings)
    assert 2 <= above <= 38  # how often exactly depends on the order in which the machine's library sums


@pytest.mark.parametrize("seed", range(10))
def test_the_charge_is_small(seed: int) -> None:
    """Of the order of rounding, relative to the sizes that met on the way."""
    setting = Setting(awkward_graph(seed), seed)
    size = sum(float(m.sum()) for m in setting.intervals.charge.magnitude)
    assert float(setting.rational() - setting.charged()) <= 1e-7 * size


def test_a_large_sum_that_cancels_is_charged() -> None:
    """(x + 1e16) − 1e16 loses x, which the adjoint does not see; only the offset's rounding tells."""
    build = GraphBuilder(1, 1)
    up = build.add(Scale(None, torch.tensor([[1e16]], dtype=torch.float64)), 0)
    build.add(Scale(None, torch.tensor([[-1e16]], dtype=torch.float64)), up)
    setting = Setting(build.finish(), 0, InputSet(*(torch.full((1, 1), v, dtype=torch.float64) for v in (0.3, 0.7))))
    setting.coef = torch.ones(1, 1, 1, dtype=torch.float64)
    assert setting.rational() == Fraction(0.3)
    assert setting.charged() <= Fraction(0.3)
    setting.coef = torch.full((1, 1, 1), 1 / 3, dtype=torch.float64)
    assert setting.charged() <= setting.rational() == Fraction(1 / 3) * Fraction(0.3)


@pytest.mark.parametrize("branches", [2, 5])
def test_coefficients_that_meet_at_a_shared_node_are_charged(branches: int) -> None:
    """Thirds add up at a node that several branches read."""
    above = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        build = GraphBuilder(1, 2)
        shared = build.linear(0, rng.uniform(-1, 1, (2, 2)) / 3, rng.uniform(-1, 1, 2))
        scales = [rng.uniform(-1, 1, (1, 2)) * 10.0 ** rng.integers(-6, 6) for _ in range(branches)]
        build.sum(*(build.add(Scale(torch.from_numpy(s)), shared) for s in scales))
        setting = Setting(build.finish(), seed)
        assert setting.charged() <= setting.rational()
        above += setting.uncharged() > setting.rational()
    assert above > 0


@pytest.mark.parametrize("seed", range(20))
def test_folded_constants_are_charged_by_their_radius(seed: int) -> None:
    """Any network within the radius of the stored one is covered, however far from rounding the radius is."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)
    a = build.linear(0, rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, 4))
    mult, add = rng.uniform(-1, 1, (2, 1, 4))
    radius = [np.full((1, 4), r) for r in (0.01, 0.02)]
    normed = build.add(Scale(*map(torch.from_numpy, (mult, add)), Scale(*map(torch.from_numpy, radius))), a)
    h = build.relu(normed)
    weight, bias = rng.uniform(-1, 1, (2, 4)), rng.uniform(-1, 1, 2)
    error = Linear(torch.full((2, 4), 0.03, dtype=torch.float64), torch.full((2,), 0.05, dtype=torch.float64))
    last = build.add(Linear(torch.from_numpy(weight), torch.from_numpy(bias), error), h, shape=(1, 2))
    setting = Setting(build.finish(), seed)
    bound, coef = setting.charged(), exact(setting.coef)
    uncharged = Setting(setting.graph, seed).uncharged()
    worst = None
    for x in setting.points(40, seed):
        shift = {
            normed: (np.diag(exact(_signs(rng, 4) * 0.01)), exact(_signs(rng, 4) * 0.02)),
            last: (exact(_signs(rng, 2, 4) * 0.03).reshape(2, 4), exact(-np.sign(setting.coef.numpy()) * 0.05)),
        }
        values = exact_values(setting.graph, x, shift)
        for node, interval in enumerate(setting.intervals.of):
            assert all(exact(interval.lower) <= values[node])
            assert all(values[node] <= exact(interval.upper))
        value = coef @ values[-1]
        assert bound <= value
        worst = value if worst is None else min(worst, value)
    assert bound < uncharged - Fraction(1, 20) * abs(coef).sum() * Fraction(99, 100)  # the last radius alone


def _signs(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


@pytest.mark.parametrize("seed", range(40))
def test_on_random_graphs_both_agree_with_the_rational_bound(seed: int) -> None:
    """Dyadic weights: the plain pass is nearly exact, the charged one just below, on every kind of op."""
    setting = Setting(random_network(seeded(seed)).graph, seed)
    rational = float(setting.rational())
    assert float(setting.uncharged()) == pytest.approx(rational, rel=1e-9, abs=1e-9)
    assert setting.charged() <= setting.rational()
    assert float(setting.charged()) == pytest.approx(rational, rel=1e-9, abs=1e-9)


def test_leading_axes_are_independent() -> None:
    """A batch of coefficients, domains and slopes gives what each gives alone."""
    setting = Setting(awkward_graph(3), 3)
    rng = np.random.default_rng(0)
    coef = torch.from_numpy(rng.uniform(-1, 1, (3, 2, *setting.graph.output.shape)))
    form = setting.proof.back.form(setting.graph.output.index, coef, setting.lines)
    least = setting.region.least(form)
    assert least.shape == (3, 2)
    flat = coef.flatten(0, 1)
    slopes = torch.from_numpy(rng.uniform(0, 1, (6, setting.proof.count)))
    shrink = torch.tensor([[1.0], [1.0], [0.5], [0.5], [0.0], [0.0]], dtype=torch.float64)
    lower, upper = setting.known.lower * shrink, setting.known.upper.repeat(6, 1)
    known = Known(lower, upper, torch.zeros_like(lower), None)
    together = setting.evaluated(flat, known, slopes).value
    for i in range(6):
        some = slice(i, i + 1)
        alone = setting.evaluated(flat[some], known.upto(setting.proof.count, some), slopes[some]).value
        assert float(alone) == pytest.approx(float(together[i]), rel=1e-12)
        own = setting.evaluated(flat[some], setting.known, setting.slopes).value
        assert float(own) == pytest.approx(float(least.flatten()[i]), rel=1e-12)


def test_slopes_outside_the_sound_range_are_projected_in_proofs() -> None:
    setting = Setting(random_network(seeded(34), neurons=14).graph, 34)
    assert setting.proof.count >= 3
    wild = torch.where(torch.arange(setting.proof.count) % 2 == 0, 1.5, -0.5).double().view_as(setting.slopes)
    done = setting.evaluated(setting.coef, setting.known, wild)
    assert done.pulled.lines is not None
    lower_slope = done.pulled.lines.lower_slope
    assert bool(((lower_slope >= 0) & (lower_slope <= 1)).all())
    bound, coef = Fraction(float(done.value)), exact(setting.coef)
    assert all(bound <= coef @ exact_values(setting.graph, x)[-1] for x in setting.points(40, 0))


# Each part of the charge by itself: on whole networks one hides behind the slack of another.


def only(graph: Graph, weight: float = 0.0, magnitude: float = 0.0) -> Charge:
    full = [[torch.full(n.shape, v, dtype=torch.float64) for n in graph.nodes] for v in (weight, magnitude)]
    return Charge(*full)


def test_the_sum_of_the_constants_is_charged() -> None:
    """−1e16 − 1/3 + 1e16 is 0 in floats."""
    build = GraphBuilder(1, 1)
    node = 0
    for add in (1e16, -1 / 3, -1e16):
        node = build.add(Scale(None, torch.tensor([[add]], dtype=torch.float64)), node)
    graph = build.finish()
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    assert float(Backward(graph).form(node, one, {}).const) > -1 / 3
    charged = float(Backward(graph, only(graph)).form(node, one, {}).const)
    assert -100 < charged <= -1 / 3


def test_the_sum_of_coefficients_at_a_shared_node_is_charged() -> None:
    build = GraphBuilder(1, 1)
    branches = [build.add(Scale(torch.tensor([[v]], dtype=torch.float64)), 0) for v in (1.0, 1 / 3)]
    build.sum(*branches)
    graph = build.finish()
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    form = Backward(graph, only(graph, magnitude=1e6)).form(graph.output.index, one, {})
    missed = abs(Fraction(float(form.coef)) - (Fraction(1) + Fraction(1 / 3))) * 10**6
    assert missed > 0
    assert Fraction(float(form.const)) <= -missed


def test_the_last_addition_is_charged() -> None:
    """1 − 2^-55 is 1 in floats."""
    setting = Setting(awkward_graph(0), 0)
    tiny = 2.0**-55 / float(setting.region.centre.flatten()[0])
    coef = torch.zeros(1, *setting.graph.input.shape, dtype=torch.float64)
    coef[..., 0] = -abs(tiny)
    assert float(setting.region.least(LinearForm(coef, torch.ones(1, dtype=torch.float64)))) == 1.0
    seed = torch.nn.functional.pad(coef.flatten(1), (1, 0), value=1.0)
    lines = Packed.of(setting.proof.layers, setting.known, proof=True).at(setting.slopes)
    assert float(GraphNet.before(setting.proof, 0).backward(seed, Lagrangian(lines)).value) < 1.0


def test_neurons_are_bounded_both_ways_from_one_pass() -> None:
    setting = Setting(random_network(seeded(11)).graph, 11)
    layer = setting.proof.layers[-1]
    shape = setting.graph.nodes[layer.pre].shape
    coef = torch.cat([one_hot(layer.index, torch.full((1,), sign).double(), shape) for sign in (1.0, -1.0)])
    below, above = setting.evaluated(coef, setting.known, setting.slopes, layer.pre).value.chunk(2)
    assert below.shape == layer.index.shape
    for x in setting.points(50, 1):
        h = exact_values(setting.graph, x)[layer.pre][layer.index.numpy()]
        assert all(exact(below) <= h)
        assert all(h <= exact(-above))


def test_one_hot_places_values_in_the_node_shape() -> None:
    coef = one_hot(torch.tensor([[0, 5]]), torch.tensor([[2.0, -3.0]]), (2, 3))
    assert coef.shape == (1, 2, 2, 3)
    assert coef[0, 0, 0, 0] == 2.0
    assert coef[0, 1, 1, 2] == -3.0
    assert int(coef.count_nonzero()) == 2


def test_branching_gets_the_coefficient_at_every_nonlinear_output() -> None:
    build = GraphBuilder(1, 1)
    a = build.relu(build.linear(0, np.array([[1.0]]), np.array([0.0])))
    b = build.relu(build.linear(a, np.array([[2.0]]), np.array([-1.0])))
    build.linear(b, np.array([[-3.0]]), np.array([0.0]))
    box = InputSet(torch.tensor([[-1.0]], dtype=torch.float64), torch.tensor([[1.0]], dtype=torch.float64))
    setting = Setting(build.finish(), 0, box)
    coef, last = torch.ones(1, 1, 1, dtype=torch.float64), setting.graph.output.index
    kept = Backward(setting.graph).walk(last, setting.proof.begin(last, coef), setting.lines, 0, keep=True).kept
    assert kept[b].dense().item() == -3.0
    assert kept[a].dense().item() == pytest.approx(-3.0 * 0.5 * 2.0)  # b's h in [−1, 1]: its upper line's slope is 1/2
    after = setting.evaluated(coef, setting.known, setting.slopes).pulled.after
    assert after[0].tolist() == [kept[a].dense().item(), kept[b].dense().item()]
