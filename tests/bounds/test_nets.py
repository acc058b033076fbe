"""The graph and the condensed network as one `Net`: the same bounds and gradients, and proofs that are proofs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor

import recipe.operators  # noqa: F401  so that the converters are taken back
from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.condensed import condenser
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.dual import Dual, DualPoint, Evaluated
from netproof.bounds.linear.backward import Charge
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.layers import splittable
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.region import Region
from netproof.bounds.net import Net, Pulled
from netproof.bounds.neurons.root import build_root
from netproof.bounds.packed import Lagrangian, Packed
from netproof.bounds.scope import split_on
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.core.verdict import Status
from netproof.model.graph import Graph
from netproof.model.moves import Reshape
from netproof.problem.problem import InputSet
from netproof.relax import Lines
from recipe.cube import Cube
from recipe.floor import Floor
from recipe.maximum import Maximum
from recipe.product import Product
from support.asking import CPU, ask, knotted, sharpened
from support.awkward import GraphBuilder
from support.problems import box_problem, packed_values, random_points, random_relus, same_domains, targets_of
from support.random_graphs import NetworkBuilder, random_network, seeded
from support.rational import exact, exact_values

T = TypeVar("T")

# --- networks ---


def residual(seed: int) -> Graph:
    """Two convolutions of a small image with a sum over the second, and a layer that reads both."""
    rng = np.random.default_rng(seed)
    build = NetworkBuilder(9)
    first = build.relu(build.conv(0, rng.normal(size=(2, 1, 2, 2)) / 2, rng.normal(0, 0.2, 2), padding=0))
    second = build.relu(build.conv(first, rng.normal(size=(2, 2, 3, 3)) / 3, rng.normal(0, 0.2, 2), padding=1))
    joined = build.add(second, first, -1)
    third = build.leaky_relu(build.linear(joined, rng.normal(size=(4, 8)) / 2, rng.normal(0, 0.2, 4)), 0.25)
    build.linear(build.concat(third, second), rng.normal(size=(2, 12)), rng.normal(size=2))
    return build.finish().graph


def bent(seed: int) -> Graph:
    """A layer of cubes, one of floors and one of ReLUs: split anywhere, away from 0, and at 0."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)
    cubes = build.add(Cube(), build.linear(0, rng.normal(size=(3, 3)) / 2, rng.normal(0, 0.2, 3)))
    floors = build.add(Floor(0.375), build.linear(cubes, rng.normal(size=(4, 3)), rng.normal(0.3, 0.2, 4)))
    last = build.relu(build.linear(floors, rng.normal(size=(3, 4)), rng.normal(0, 0.2, 3)))
    build.linear(last, rng.normal(size=(2, 3)), rng.normal(size=2))
    return build.finish()


def many_operands(seed: int) -> Graph:
    """Products with ReLUs, one of them with a constant; the maximum of three layers; and ReLUs of both."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)

    def layer(before: int, width: int, to: int) -> int:
        return build.linear(before, rng.normal(size=(to, width)) / 2, rng.normal(0, 0.2, to))

    def stacked(*nodes: int) -> int:
        count, width = len(nodes), build.nodes[nodes[0]].size
        return build.add(Reshape((1, count * width), (count, 1, width)), build.concat(*nodes), shape=(count, 1, width))

    first = layer(0, 3, 4)
    some = build.linear(build.relu(first), np.diag([1.0, -0.5, 0.0, 2.0]), np.full(4, 0.25))
    products = build.add(Product(), stacked(layer(0, 3, 4), some), shape=(1, 4))
    largest = build.add(Maximum(), stacked(layer(products, 4, 3), layer(products, 4, 3), layer(0, 3, 3)), shape=(1, 3))
    last = build.relu(layer(build.concat(products, largest), 7, 3))
    layer(build.concat(last, products), 7, 2)
    return build.finish()


def tiny(seed: int) -> Graph:
    return random_network(seeded(seed), neurons=14).graph


MADE = {
    **{f"random {seed}": (tiny, seed) for seed in (34, 101, 151, 186)},
    **{f"dense {seed}": (lambda s: random_relus(s, (5, 4, 4), 2), seed) for seed in range(3)},
    **{f"residual {seed}": (residual, seed) for seed in range(3)},
    **{f"bent {seed}": (bent, seed) for seed in range(4)},
    **{f"operands {seed}": (many_operands, seed) for seed in range(4)},
}
every_network = pytest.mark.parametrize("made", MADE.values(), ids=MADE)
in_boxes = pytest.mark.parametrize("boxes", [False, True], ids=["whole set", "boxes"])
Made = tuple[Callable[[int], Graph], int]


class Case:
    """Sub-domains of a network, split at random, and a dual point of each: two targets, of two rows and of one."""

    def __init__(self, made: Made, *, boxes: bool = False) -> None:
        make, seed = made
        graph, rng = make(seed), np.random.default_rng(seed)
        coef, offset = rng.normal(size=(3, graph.output.size)), rng.normal(size=3)
        self.rows = targets_of([[coef[0], coef[1]], [coef[2]]], [offset[:2].tolist(), offset[2:].tolist()])
        root = build_root(box_problem(graph, -0.75, 1.0, self.rows), CPU, Schedule(0), Deadline())
        assert root is not None
        self.root, random = root, torch.Generator().manual_seed(seed)
        domains = root_domains(root)
        for _ in range(3):
            neurons = torch.randint(root.count, (len(domains), 1), generator=random)
            able = splittable(root.layers, domains.lower, domains.upper).gather(1, neurons)
            domains = split_on(root, domains, torch.where(able, neurons, -1))
        self.domains, shape = domains, domains.lower.shape
        beta = torch.rand(shape, generator=random) * torch.randint(0, 2, shape, generator=random)
        weights = root.valid[domains.target] * (0.2 + torch.rand(len(domains), 2, generator=random))
        self.theta = DualPoint(torch.rand(shape, generator=random), beta, weights / weights.sum(1, keepdim=True))
        if boxes:
            sides = torch.rand(len(domains), 2, graph.input.size, generator=random, dtype=torch.float64)
            self.domains = replace(domains, inside=1.75 * sides.sort(1).values - 0.75)

    def nets(self, kind: str) -> tuple[Net, Net]:
        """Condensed, and the graph: to search, to prove, or in float64 with nothing charged."""
        root = self.root
        if kind == "search":
            return root.condensed32, GraphNet.whole(root.graph32, self.rows)
        if kind == "proof":
            return root.condensed64, GraphNet.whole(root.graph64, self.rows)
        region = root.graph64.region
        plain = replace(root.condensed64, region=region.about_centre(), charges=None, origin=region.centre)
        return plain, GraphNet.whole(replace(root.graph64, charge=None), self.rows)

    def dual(self, net: Net) -> Dual:
        target, known = self.domains.target, self.domains.known.to(net.dtype)
        packed = Packed.of(net.layers, known, proof=net.proof)
        rows, error = net.rows[target], net.error[target]
        return Dual(net, rows, error, self.root.valid[target], packed, net.over(known.inside))

    def both(self, kind: str) -> tuple[Evaluated, Evaluated]:
        first, second = (self.dual(net).at(self.theta) for net in self.nets(kind))
        return first, second


def close(a: Tensor, b: Tensor, tolerance: float) -> bool:
    """Up to a share of the largest number of each sub-domain."""
    size = torch.maximum(a.abs(), b.abs()).flatten(1).amax(1) if a.dim() > 1 else 1 + b.abs()
    off = (a - b).abs().flatten(1).amax(1) if a.dim() > 1 else (a - b).abs()
    return bool((off <= tolerance * (1e-3 + size)).all())


# --- they agree ---


@every_network
@in_boxes
@pytest.mark.parametrize(("kind", "tolerance"), [("search", 2e-4), ("plain", 1e-10), ("proof", 1e-10)])
def test_both_give_the_same_bounds_and_coefficients(made: Made, kind: str, tolerance: float, boxes: bool) -> None:
    case = Case(made, boxes=boxes)
    one, other = case.both(kind)
    assert case.root.count >= 6
    assert close(one.value, other.value, tolerance)
    assert torch.equal(one.weights, other.weights)
    for mine, theirs in ((one.pulled.after, other.pulled.after), (one.pulled.before, other.pulled.before)):
        assert bool(mine.any())
        assert close(mine, theirs, tolerance)
    assert close(one.pulled.at_input, other.pulled.at_input, tolerance)


@every_network
@in_boxes
@pytest.mark.parametrize(("kind", "tolerance"), [("search", 1e-3), ("plain", 1e-9)])
def test_both_give_the_same_values_and_gradients(made: Made, kind: str, tolerance: float, boxes: bool) -> None:
    """Of the points of a search copy that come from the proof's, so that rounding takes no other side of a kink."""
    case = Case(made, boxes=boxes)
    moving, seen, h, slopes = [], [], [], []
    for net in case.nets(kind):
        dual = case.dual(net)
        theta = DualPoint(*(t.to(net.dtype) for t in (case.theta.slopes, case.theta.multipliers, case.theta.weights)))
        moving.append(dual.start(theta))
        dual.project_(moving[-1])
        seen.append(dual.evaluate(moving[-1], last=False))
        h.append(net.forward(seen[-1].pulled)[0])
        slopes.append(dual.gradient(moving[-1], seen[-1]))
    assert close(h[0], h[1], tolerance)
    assert [t.shape for t in slopes[0]] == [t.shape for t in slopes[1]]
    for mine, theirs in zip(*slopes, strict=True):
        assert bool(mine.any())
        assert close(mine, theirs, tolerance)


@every_network
@pytest.mark.parametrize(("kind", "tolerance"), [("search", 2e-4), ("plain", 1e-10), ("proof", 1e-10)])
def test_neurons_are_the_same_before_each_layer(made: Made, kind: str, tolerance: float) -> None:
    case = Case(made)
    for depth, layer in enumerate(case.root.layers):
        every, found = torch.arange(layer.count), []
        first = torch.zeros_like(every)  # sub-domain
        known = case.domains.known.upto(layer.start, first)._replace(points=None)
        theta = DualPoint(case.theta.slopes[first, : layer.start], None, torch.ones(layer.count, 1))
        for net in case.nets(kind):
            part = net.upto(depth)
            assert part.count == layer.start
            found.append(Dual.of_forms(part, *net.neurons(depth, every), known).at(theta).value)
        assert close(found[0][None], found[1][None], tolerance)


# --- proofs ---


@every_network
@in_boxes
def test_proofs_are_below_what_is_computed_and_below_samples(made: Made, boxes: bool) -> None:
    case = Case(made, boxes=boxes)
    points = random_points(case.root.problem, 4000)
    domains, compared = case.domains, 0
    for proof, plain in zip(case.both("proof"), case.both("plain"), strict=True):
        assert bool((proof.value < plain.value).all())
        coef, offset = case.rows.coef[domains.target], case.rows.offset[domains.target]
        for i in range(len(domains)):
            mine = into_box(points, domains.inside[i]) if boxes else points
            h, y = packed_values(case.root, mine), case.root.problem.graph.forward(mine).flatten(1)
            here = ((h >= domains.lower[i]) & (h <= domains.upper[i])).all(1)
            if bool(here.any()):
                total = (y[here] @ coef[i].T - offset[i]) @ proof.weights[i]
                assert float(proof.value[i]) <= float(total.min()) + 1e-12
                compared += 1
    assert compared >= 4


def into_box(points: Tensor, box: Tensor) -> Tensor:
    """Points of the whole set, moved into a box (2, input) of it."""
    low, high = (side.view(points.shape[1:]) for side in box)
    return low + (points + 0.75) / 1.75 * (high - low)


@pytest.mark.parametrize("name", [name for name in MADE if not name.startswith(("bent", "operands"))])
def test_proofs_are_below_rational_values(name: str) -> None:
    """At the box's corners and other points, with every h of a split neuron on its side."""
    case = Case(MADE[name])
    graph, domains = case.root.problem.graph, case.domains
    found, signs, compared = case.both("proof"), case.domains.splits.sign(), 0
    for x in random_points(case.root.problem, 12).flatten(1):
        values = exact_values(graph, exact(x))
        h = np.concatenate([values[layer.pre][layer.index.numpy()] for layer in case.root.layers])
        for i in range(len(domains)):
            if not all(h * exact(signs[i]) >= 0):
                continue
            compared += 1
            target = domains.target[i]
            rows = exact(case.rows.coef[target]).reshape(2, -1) @ values[-1] - exact(case.rows.offset[target])
            for proof in found:
                assert Fraction(float(proof.value[i])) <= exact(proof.weights[i]) @ rows
    assert compared >= 12


# Each part of the graph's charge by itself; its passes are in test_bounds_backward.py.


def bare(region: Region, size: int, magnitude: float) -> GraphNet:
    """ReLUs that read the input itself, with nothing charged but by their magnitude."""
    build = GraphBuilder(1, size)
    node = build.relu(0)
    graph = build.finish()
    weight, sizes = ([torch.full(n.shape, v, dtype=torch.float64) for n in graph.nodes] for v in (0.0, magnitude))
    lined = LinedGraph(graph, region, Charge(weight, sizes))
    one = torch.ones(1, size, dtype=torch.float64)
    lined.add(node, 0, Interval(-one, one))
    return GraphNet.before(lined, node)


def at_point(*x: float) -> Region:
    point = torch.tensor([x], dtype=torch.float64)
    return Region.of(InputSet(point, point), CPU, torch.float64)


def plain_lines(size: int) -> Lines:
    one = torch.ones(1, size, dtype=torch.float64)
    return Lines(one, one, 0 * one)


def test_the_last_sum_is_charged() -> None:
    """1 − 2^-55 is 1 in floats."""
    net, seed = bare(at_point(1.0), 1, 0.0), torch.tensor([[1.0, -(2.0**-55)]], dtype=torch.float64)
    found = net.backward(seed, Lagrangian(plain_lines(1))).value
    assert Fraction(float(found)) <= 1 - Fraction(1, 2**55)


def test_what_splits_give_besides_is_charged() -> None:
    """Two products that cancel, at x = 0, where nothing else is left."""
    net, nothing = bare(at_point(0.0, 0.0), 2, 0.0), torch.zeros(1, 3, dtype=torch.float64)
    for seed in range(40):
        f, q, g = np.random.default_rng(seed).uniform(0.5, 1.0, 3)
        signed = torch.tensor([[f, -g]], dtype=torch.float64)
        at = torch.tensor([[q, f * q / g]], dtype=torch.float64)
        found = net.backward(nothing, Lagrangian(plain_lines(2), signed, signed * at)).value
        assert Fraction(float(found)) <= exact(signed) @ exact(at)


def test_coefficients_less_multipliers_are_charged() -> None:
    """(1 − t)·1 + (1 − s)·(−1), for t and s that are next to nothing beside 1."""
    net, lines = bare(at_point(1.0, -1.0), 2, 1.0), plain_lines(2)
    for seed in range(40):
        signed = torch.from_numpy(np.random.default_rng(seed).uniform(0, 2.0**-52, (1, 2)))
        found = net.backward(torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64), Lagrangian(lines, signed)).value
        assert Fraction(float(found)) <= exact(signed) @ exact([-1.0, 1.0])


def test_splits_that_nothing_depends_on_give_nothing() -> None:
    """Two branches of floors, and ReLUs that read the first alone: the second's splits may not count by halves."""
    build = GraphBuilder(1, 2)
    weight = np.array([[1.0, 1.0], [1.0, -1.0], [-0.5, 1.0]])
    left, right = (build.add(Floor(0.375), build.linear(0, sign * weight)) for sign in (1.0, -1.0))
    last = build.relu(build.linear(left, np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.5]]), np.full(2, -0.25)))
    build.linear(build.concat(last, right), np.ones((1, 5)))
    root = build_root(box_problem(build.finish(), -1.0, 1.0), CPU, Schedule(0), Deadline())
    assert root is not None
    assert [layer.count for layer in root.layers] == [3, 3, 2]
    children = split_on(root, root_domains(root), torch.tensor([[3, 4, 5]]))
    first, which = children.known.upto(6, torch.zeros(2, dtype=torch.int64)), torch.arange(2)
    theta = [DualPoint(torch.ones(2, 6), torch.full((2, 6), beta), torch.ones(2, 1)) for beta in (0.0, 5.0)]
    for net in (GraphNet.whole(root.graph64, root.rows), root.condensed64):
        part, neurons = net.upto(2), net.neurons(2, which)
        without, found = (Dual.of_forms(part, *neurons, first).at(t).value for t in theta)
        assert bool((found <= without).all())
        assert isinstance(net, Condensed) or torch.equal(found, without)


# --- a search on the graph alone ---


WIDTHS = {1: (12, 6, 5, 2), 2: (14, 8, 6, 2), 3: (16, 6, 6, 6, 2)}  # by seed; so many inputs are not split


@pytest.mark.parametrize("method", ["auto", "beta", "lirpa"])
@pytest.mark.parametrize("seed", WIDTHS)
@pytest.mark.parametrize("margin", [Fraction(1, 50), Fraction(-1, 50)], ids=["holds", "breaks"])
def test_verdicts_are_the_same_where_the_network_is_not_condensed(
    margin: Fraction, seed: int, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = sharpened(knotted(seed, WIDTHS[seed]), [margin])
    how = {"method": method, "attack": False, "timeout": 60}
    first = ask(question.network, question.property, tmp_path, **how)
    passes, plain = [0], GraphNet.backward

    def counted(self: GraphNet, *args: Any) -> Pulled:
        passes[0] += self.start == self.graph.output.index
        return plain(self, *args)

    monkeypatch.setattr(condenser, "holds", lambda size, device: False)
    monkeypatch.setattr(Condensed, "backward", None)
    monkeypatch.setattr(GraphNet, "backward", counted)
    second = ask(question.network, question.property, tmp_path, **how)
    assert first.status == second.status == (Status.UNSAT if margin > 0 else Status.SAT)
    assert min(first.stats.domains, second.stats.domains) > 8
    assert passes[0] > 0


# --- pickles ---


def again(value: T) -> T:
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


def test_points_and_sub_domains_pickle() -> None:
    case = Case(MADE["dense 0"])
    assert same_domains(again(case.domains), case.domains)
    theta = replace(case.theta, neurons={1: torch.rand(len(case.domains), 2, 3, 5)})
    copy = again(theta)
    for name in ("slopes", "multipliers", "weights"):
        assert torch.equal(getattr(copy, name), getattr(theta, name))
    assert copy.neurons.keys() == theta.neurons.keys()
    assert torch.equal(copy.neurons[1], theta.neurons[1])


@pytest.mark.parametrize("name", ["dense 0", "residual 0", "bent 0", "operands 0"])
def test_a_root_pickles_and_proves_the_same(name: str) -> None:
    case = Case(MADE[name])
    for root in (again(case.root), case.root):  # before its networks are made, and after
        mine, theirs = (Dual.of(one, case.domains, proof=True).at(case.theta).value for one in (root, again(root)))
        assert torch.equal(mine, theirs)
