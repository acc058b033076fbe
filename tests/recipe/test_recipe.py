"""The documentation's recipe, followed: operators added from outside, one file and one registration each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import condenser
from netproof.bounds.confirm import confirm
from netproof.bounds.dual import DualPoint
from netproof.bounds.linear.layers import splittable
from netproof.bounds.lirpa import confirm_jointly
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.scope import split_on
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.core.verdict import Stats, Status
from netproof.errors import ModelError, UsageError
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.model.graph import Graph
from netproof.model.load import load_network
from netproof.model.moves import Reshape
from netproof.model.network import Network
from netproof.model.onnx.context import CONVERTERS, Builder, Ref
from netproof.model.ops import Nonlinear
from netproof.problem.property import Property
from netproof.problem.reduce import reduce
from netproof.relax import Line, Mix, register, relaxation_of
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Work
from recipe.constraint import LIMIT, with_sum_below
from recipe.cube import Cube, CubeRelaxation
from recipe.floor import Floor
from recipe.maximum import MaximumRelaxation
from recipe.operators import OPERATORS
from recipe.product import Product, ProductRelaxation
from support.api import below, constant_property
from support.asking import root_of
from support.awkward import GraphBuilder
from support.conformance import Conformance, usual_bounds, usual_boxes
from support.problems import box_problem, packed_values

METHODS = ("auto", "beta", "lirpa", "input-split")
KINDS = ("cube", "floor", "product", "maximum")
AT = 0.75  # of the floor
either_net = pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])


@pytest.fixture(autouse=True)
def operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, converter in OPERATORS.items():
        monkeypatch.setitem(CONVERTERS, name, converter)


@pytest.mark.parametrize("seed", range(4))
def test_the_cube_conforms(seed: int) -> None:
    Conformance(relaxation_of(Cube()), lambda x: x**3, usual_bounds(seed)).check()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at", [AT, -1.5])
def test_the_floor_conforms(seed: int, at: float) -> None:
    Conformance(relaxation_of(Floor(at)), lambda x: max(x, Fraction(at)), usual_bounds(seed, at)).check()


@pytest.mark.parametrize("seed", range(4))
def test_the_product_conforms(seed: int) -> None:
    Conformance(ProductRelaxation(), lambda x, y: x * y, usual_boxes(seed, 2)).check()


@pytest.mark.parametrize("seed", range(2))
def test_the_maximum_conforms(seed: int) -> None:
    Conformance(MaximumRelaxation(), lambda *x: max(x), usual_boxes(seed, 3)).check()


OPS = {
    "cube": lambda h: ("Pow", [h, "three"]),
    "floor": lambda h: ("Clip", [h, "at"]),
    "product": lambda h: ("Mul", [h, f"{h}a"]),
    "maximum": lambda h: ("Max", [h, f"{h}a", f"{h}b"]),
}


def _operands(kind: str, h: str) -> list[onnx.NodeProto]:
    """What is multiplied with h, or compared: h + 0.5 and −1.5·h."""
    more = [helper.make_node("Add", [h, "by0.5"], [f"{h}a"]), helper.make_node("Mul", [h, "by-1.5"], [f"{h}b"])]
    return more[: {"product": 1, "maximum": 2}.get(kind, 0)]


def saved(kind: str, seed: int, folder: Path, depth: int = 2) -> Path:
    """Two inputs, up to two layers of four and three neurons of that kind, and a linear output."""
    rng = np.random.default_rng(seed)
    nodes, constants, last = [], [], "x"
    for k, (fan, width) in enumerate(((2, 4), (4, 3), (3, 1)) if depth == 2 else ((2, 4), (4, 1))):
        weight = rng.normal(size=(fan, width)).astype(np.float32) * np.float32(0.7)
        bias = rng.normal(size=width).astype(np.float32) * np.float32(0.3)
        constants += [numpy_helper.from_array(weight, f"w{k}"), numpy_helper.from_array(bias, f"b{k}")]
        nodes.append(helper.make_node("Gemm", [last, f"w{k}", f"b{k}"], [f"h{k}"]))
        last = f"h{k}"
        if k < depth:
            nodes += [*_operands(kind, last), helper.make_node(*OPS[kind](last), [f"z{k}"])]
            last = f"z{k}"
    constants += [numpy_helper.from_array(np.float32(v), name) for name, v in (("three", 3.0), ("at", AT))]
    constants += [numpy_helper.from_array(np.float32(v), f"by{v}") for v in (-1.5, 0.5)]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, (1, 1))],
        constants,
    )
    path = folder / f"{kind}-{seed}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def least_of(network: Network, most: float = 2.0) -> float:
    """The least output on [−1, 1]², by dense sampling; what lies between the points is far less than the margins.

    most: the largest sum of both inputs that is looked at.
    """
    line = torch.linspace(-1, 1, 321, dtype=torch.float64)
    x = torch.cartesian_prod(line, line)
    x = x[x.sum(1) <= most].view(-1, 1, 2)
    return float(network.graph.forward(x).min())


def question(at: float) -> Property:
    return constant_property((below(0, at),), m=1)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_problems_with_a_margin_are_decided(method: str, kind: str, seed: int, tmp_path: Path) -> None:
    path = saved(kind, seed, tmp_path)
    lowest = least_of(load_network(path))
    margin = 0.05 * (1 + abs(lowest))
    for at, status in ((lowest - margin, Status.UNSAT), (lowest + margin, Status.SAT)):
        found = netproof.verify(path, question(at), method=method, device="cpu", threads=1, attack=False, timeout=120)
        assert found.status == status, found.reason
        if status == Status.UNSAT:
            assert found.lower_bound is not None
            assert found.lower_bound + at <= lowest + 1e-6


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("method", METHODS)
def test_a_constraint_among_inputs_is_part_of_the_set(method: str, seed: int, tmp_path: Path) -> None:
    """Half-way between what the box allows and what the constraint leaves, and below that; kinds take turns."""
    path = saved(KINDS[seed % len(KINDS)], seed, tmp_path)
    network = load_network(path)
    lowest, anywhere = least_of(network, float(LIMIT)), least_of(network)
    margin = max((lowest - anywhere) / 2, 0.05 * (1 + abs(lowest)))
    for at, status in ((lowest - margin, Status.UNSAT), (lowest + 0.05 * (1 + abs(lowest)), Status.SAT)):
        asked = with_sum_below(at)
        found = netproof.verify(path, asked, method=method, device="cpu", threads=1, attack=False, timeout=120)
        assert found.status == status, found.reason
        if found.witness is not None:
            x = [Fraction(float(v)) for v in found.witness.input.flatten()]
            assert sum(x) <= LIMIT


def test_some_constraints_make_the_difference(tmp_path: Path) -> None:
    """So that the test above asks what the box alone would deny."""
    networks = [load_network(saved(KINDS[seed % len(KINDS)], seed, tmp_path)) for seed in range(10)]
    apart = [least_of(n, float(LIMIT)) - least_of(n) for n in networks]
    assert sum(gap > 0.2 for gap in apart) >= 3


@pytest.mark.parametrize(("kind", "name"), [("cube", "Cube"), ("product", "Product"), ("maximum", "Maximum")])
@pytest.mark.parametrize("method", ["bdd", "babsr-lp", "mip"])
def test_methods_that_need_an_lp_say_so(method: str, kind: str, name: str, tmp_path: Path) -> None:
    path = saved(kind, 0, tmp_path)
    found = netproof.verify(path, question(-100.0), method=method, device="cpu", threads=1, attack=False)
    assert (found.status, found.reason) == (Status.UNKNOWN, f"no LP form for {name}")


def test_ranges_are_found_without_an_lp(tmp_path: Path) -> None:
    path = saved("floor", 1, tmp_path)
    lowest = least_of(load_network(path))
    for method in ("ibp", "crown", "alpha", "exact"):
        found = netproof.bounds(path, question(0.0), method=method, device="cpu", threads=1)
        assert float(found.lower.min()) <= lowest + 1e-6
    assert float(found.lower.min()) == pytest.approx(lowest, abs=1e-2)
    with pytest.raises(UsageError, match="no LP form for Floor"):
        netproof.bounds(path, question(0.0), method="lp", device="cpu", threads=1)


@either_net
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_sub_domains_are_bounded_soundly_whatever_the_multipliers(
    kind: str, seed: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Split three times at random, each neuron as often as it comes; bounds against samples inside the slabs."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    network = load_network(saved(kind, seed, tmp_path))
    problem = reduce(network, question(0.0))[0]
    root, _ = root_of(Beta(root_steps=5, neuron_steps=5), problem)
    random = torch.Generator().manual_seed(seed)
    domains = root_domains(root)
    for _ in range(3):
        neurons = torch.randint(root.count, (len(domains), 1), generator=random)
        able = splittable(root.layers, domains.lower, domains.upper).gather(1, neurons)
        domains = split_on(root, domains, torch.where(able, neurons, -1))
    x = 2 * torch.rand(20_000, 1, 2, generator=random, dtype=torch.float64) - 1
    h, y = packed_values(root, x), network.graph.forward(x).flatten()
    compared = 0
    for size in (0.0, 0.1, 2.0):
        beta = size * torch.randn(domains.multipliers.shape, generator=random)
        theta = DualPoint(torch.rand(beta.shape, generator=random), beta, torch.ones(len(domains), 1))
        found = confirm(root, domains, theta).domains
        assert bool(found.bound.isfinite().all())
        for i in range(len(domains)):
            here = ((h >= domains.lower[i]) & (h <= domains.upper[i])).all(1)
            if bool(here.any()):
                assert float(found.bound[i]) <= float(y[here].min()) + 1e-9
                compared += 1
    assert compared >= 6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["cube", "product"])
def test_splitting_neurons_alone_converges(kind: str, seed: int, tmp_path: Path) -> None:
    """One layer: slabs of h held from both sides, so that no LP is needed."""
    network = load_network(saved(kind, seed, tmp_path, depth=1))
    lowest = least_of(network)
    problem = reduce(network, question(lowest - 0.01))[0]
    method = build_method("beta", method_info("beta").options({"probes": "2"}), torch.device("cpu"))
    goal = Decide(problem, lambda point, target: None)
    outcome = Search(problem, method, goal, Work(torch.device("cpu"), 1, Deadline(60), Stats())).run()
    assert outcome.status == "proved", outcome.reason


def test_lines_that_cross_are_refused() -> None:
    class Crossed(CubeRelaxation):
        def family(self, h: Interval, *, proof: bool) -> Mix:
            found = super().family(h, proof=proof)
            return Mix(found.upper, found.lower, found.reach)

    build = GraphBuilder(1, 1)
    build.add(Cube(), 0)
    graph = build.finish()
    register(Cube, lambda op: Crossed())
    try:
        with pytest.raises(RuntimeError, match="the lower line of Cube is above its upper one"):
            root_of(Beta(root_steps=0, neuron_steps=0), box_problem(graph, -1.0, 1.0))
    finally:
        register(Cube, lambda op: CubeRelaxation())


def test_planes_that_cross_are_refused() -> None:
    """They cross by their slopes in the second operand."""

    class Crossed(ProductRelaxation):
        def family(self, h: Interval, *, proof: bool) -> Mix:
            found = super().family(h, proof=proof)
            first, second = (Line(line.slope + torch.tensor([[0.0], [10.0]]), line.intercept) for line in found.lower)
            return Mix((first, second), found.upper, found.reach)

    register(Product, lambda op: Crossed())
    try:
        with pytest.raises(RuntimeError, match="the lower line of Product is above its upper one"):
            root_of(Beta(root_steps=0, neuron_steps=0), box_problem(_of_two(Product()), -1.0, 1.0))
    finally:
        register(Product, lambda op: ProductRelaxation())


def _of_two(op: Nonlinear) -> Graph:
    """The function of two inputs, as the output."""
    build = GraphBuilder(2, 1)
    build.add(op, build.add(Reshape((2, 1), (2, 1)), 0), shape=(1,))
    return build.finish()


def test_an_operator_and_its_relaxation_have_the_same_operands() -> None:
    register(Product, lambda op: MaximumRelaxation())
    try:
        with pytest.raises(ModelError, match="Product has 2 operands and its relaxation 3"):
            relaxation_of(Product())
    finally:
        register(Product, lambda op: ProductRelaxation())


def test_operands_that_are_not_stacked_are_refused() -> None:
    builder = Builder((3, 4), "x")
    with pytest.raises(RuntimeError, match=r"2 operands of shape \(4,\) are not a value of shape \(3, 4\)"):
        builder.add(Product(), [Ref(0, (3, 4))], "p")


@either_net
@pytest.mark.parametrize(("t", "skip", "least"), [(-0.5, 0.5, AT + 0.25), (1.5, -1.5, -1.0)])
def test_parameters_out_of_their_range_prove_nothing_wrong(
    t: float, skip: float, least: float, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """max(x, c) + skip·x on [0.5, 2], as an output and as a neuron: there the lower line would cut the function."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    build = GraphBuilder(1, 1)
    made = build.sum(build.add(Floor(AT), 0), build.linear(0, np.full((1, 1), skip)))
    wrong, one = torch.full((1, 1), t), torch.ones(1, 1)
    root, _ = root_of(Beta(root_steps=0, neuron_steps=0), box_problem(build.finish(), 0.5, 2.0))
    fresh = root_domains(root)
    for beta in (None, torch.zeros(1, 1)):
        assert float(confirm(root, fresh, DualPoint(wrong, beta, one)).domains.bound) <= least + 1e-9
    found = confirm_jointly(root, fresh, {}, DualPoint(wrong, None, one), Clock()).domains
    assert float(found.bound) <= least + 1e-9

    build.relu(build.linear(made, np.ones((1, 1)), np.array([-least - 0.5])))
    root, _ = root_of(Beta(root_steps=0, neuron_steps=0), box_problem(build.finish(), 0.5, 2.0))
    fresh = replace(root_domains(root), lower=torch.tensor([[0.5, -9.0]]))
    for own in ({1: wrong.expand(1, 2, 1, 1)}, {}):
        theta = DualPoint(wrong.expand(1, 2), None, one, own)
        found = confirm_jointly(root, fresh, {1: torch.zeros(1, 1, dtype=torch.int64)}, theta, Clock()).domains
        assert -9.0 < float(found.lower[0, 1]) <= -0.5 + 1e-6


@either_net
def test_multipliers_below_zero_are_no_proof_at_a_kink(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """max(x, c) split at c: with a negative multiplier the split would count the other way round."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    build = GraphBuilder(1, 1)
    build.linear(build.add(Floor(AT), 0), -np.ones((1, 1)))
    root, _ = root_of(Beta(root_steps=0, neuron_steps=0), box_problem(build.finish(), -2.0, 2.0))
    children = split_on(root, root_domains(root), torch.zeros(1, 1, dtype=torch.int64))
    for beta in (-3.0, -0.5):
        theta = DualPoint(torch.zeros(2, 1), torch.full((2, 1), beta), torch.ones(2, 1))
        found = confirm(root, children, theta).domains
        assert (found.bound <= torch.tensor([-2.0, -AT], dtype=torch.float64) + 1e-9).all()


class TwoLines(CubeRelaxation):
    """Calls itself linear where it has but one point, though its upper line there is not g, only above it."""

    def linear_on(self, h: Interval) -> torch.Tensor:
        return h.lower >= h.upper

    def family(self, h: Interval, *, proof: bool) -> Mix:
        found = super().family(h, proof=proof)
        above = [Line(line.slope, line.intercept + 1.0) for line in found.upper]
        return Mix(found.lower, (above[0], above[1]), found.reach)


def test_what_is_called_linear_is_folded_only_if_its_lines_are_one() -> None:
    """A cube that reads a floor at its flat side: 0.75³ everywhere, and the upper line of a proof does not say that."""
    build = GraphBuilder(1, 2)
    flat = build.add(Floor(AT), build.linear(0, np.full((1, 2), 0.05)))
    bent = build.relu(build.linear(0, np.array([[1.0, -1.0]])))
    build.sum(build.add(Cube(), flat), bent)
    register(Cube, lambda op: TwoLines())
    try:
        _, bounds = root_of(Beta(root_steps=3, neuron_steps=3), box_problem(build.finish(), -1.0, 1.0))
    finally:
        register(Cube, lambda op: CubeRelaxation())
    assert float(bounds.domains.bound) == pytest.approx(AT**3, abs=1e-9)
    assert float(bounds.domains.bound) <= AT**3


@either_net
@pytest.mark.parametrize("kind", KINDS)
def test_two_nonlinear_nodes_may_read_one(kind: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second layer's neurons are bounded again below the root, with slopes for all that comes before them."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    rng = np.random.default_rng(3)
    build = GraphBuilder(1, 2)
    first = build.relu(build.linear(0, rng.normal(size=(4, 2))))
    read = build.linear(first, rng.normal(size=(3, 4)), rng.normal(size=3))
    other = build.add(Cube() if kind == "cube" else Floor(AT), read)
    build.linear(build.sum(build.relu(read), other), rng.normal(size=(1, 3)))
    bounder = Beta(root_steps=3, neuron_steps=3)
    root, _ = root_of(bounder, box_problem(build.finish(), -1.0, 1.0))
    children = split_on(root, root_domains(root), torch.tensor([[0, 1]]))
    fresh = rebound(root, children, 8, Schedule(2), Deadline(None))
    assert bool((fresh.lower >= children.lower).all())
    assert bool((fresh.upper <= children.upper).all())


@either_net
def test_a_split_that_a_neuron_does_not_depend_on_lifts_nothing(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """max(x, c) is split beside the way to a neuron: its sβq must not count where its −sβh is not carried."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    build = GraphBuilder(1, 1)
    beside = build.add(Floor(AT), build.linear(0, np.ones((1, 1))))
    first = build.relu(build.linear(0, np.array([[1.0], [-1.0]])))
    build.sum(beside, build.relu(build.linear(first, np.array([[1.0, -1.0]]), np.zeros(1))))
    root, _ = root_of(Beta(root_steps=0, neuron_steps=0), box_problem(build.finish(), -2.0, 2.0))
    right = split_on(root, root_domains(root), torch.zeros(1, 1, dtype=torch.int64)).select(slice(0, 1))
    fresh = rebound(root, right, 8, Schedule(20), Deadline(None))
    inside = packed_values(root, torch.tensor([[[AT]], [[2.0]]], dtype=torch.float64))
    assert bool((fresh.lower.double() <= inside + 1e-6).all())
    assert bool((inside <= fresh.upper.double() + 1e-6).all())
