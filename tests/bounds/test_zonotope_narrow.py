"""Generators kept in float32 where float64 does not fit: what that rounds is charged, and errors hardly grow."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.zonotope import forward, steps
from netproof.bounds.zonotope.forward import Forward
from netproof.bounds.zonotope.zonotope import Zonotope
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.affine import Linear, Sum
from netproof.model.conv import Conv, Kernel
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Input, Op
from netproof.problem.problem import InputSet
from support.image_graphs import image_graph

CPU = torch.device("cpu")


def box(graph: Graph, radius: float, seed: int) -> Region:
    made = torch.Generator().manual_seed(seed)
    centre = torch.rand(graph.input.shape, generator=made, dtype=torch.float64)
    return Region.of(InputSet(centre - radius, centre + radius), CPU, torch.float64)


def narrow_after(graph: Graph, region: Region, first: int) -> tuple[Forward, list[Interval]]:
    """Forms of all nodes, kept in float32 from node `first` on, and what they say of each."""
    forms = Forward(interval_bounds(graph, region))
    found = []
    for node in graph.nodes:
        if node.index == first:
            forms._narrow()
        found.append(forms.bounds(node.index, Deadline()))
        last = forms._forms[node.index]
        kinds = {some.values.dtype for some in last.generators.values()}
        assert kinds <= {torch.float32 if node.index >= first else torch.float64}
    assert all(one is not None for one in found)
    return forms, [one for one in found if one is not None]


@pytest.mark.parametrize("seed", range(40))
def test_every_value_lies_within(seed: int) -> None:
    graph = image_graph(seed).to(CPU, torch.float64)
    region = box(graph, 0.1, seed)
    _, found = narrow_after(graph, region, seed % len(graph.nodes))
    made = torch.Generator().manual_seed(seed)
    ends = torch.rand(400, *graph.input.shape, generator=made, dtype=torch.float64) < 0.5
    points = torch.where(ends, region.lower, region.upper)
    for node, value, bound in zip(graph.nodes, graph.values(points), found, strict=True):
        slack = 1e-12 * (1.0 + float(value.abs().max()))  # the points' own rounding
        assert bool((value >= bound.lower - slack).all()), node.name
        assert bool((value <= bound.upper + slack).all()), node.name


@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_those_of_float64_up_to_its_rounding(seed: int) -> None:
    graph = image_graph(seed).to(CPU, torch.float64)
    region = box(graph, 0.1, seed)
    _, wide = narrow_after(graph, region, len(graph.nodes))
    _, narrow = narrow_after(graph, region, 0)
    for ours, theirs in zip(narrow, wide, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_forms_are_off_by_no_more_than_their_error() -> None:
    """Generator by generator, beside those of float64; where all is linear, so that none begins on the way."""
    compared = 0
    for seed in range(80):
        graph = image_graph(seed).to(CPU, torch.float64)
        intervals = interval_bounds(graph, box(graph, 10.0 ** -(7 + 5 * (seed % 7)), seed))
        wide, narrow = Forward(intervals), Forward(intervals)
        narrow._narrow()
        for node in graph.nodes:
            for forms in (wide, narrow):
                forms.bounds(node.index, Deadline())
            ours, theirs = narrow._forms[node.index], wide._forms[node.index]
            if set(theirs.generators) != {0}:
                break
            pair = ours.generators[0].dense().double(), theirs.generators[0].dense()
            off = (pair[0] - pair[1]).abs().sum(0).view_as(ours.centre) + (ours.centre - theirs.centre).abs()
            assert bool((off <= ours.error + theirs.error).all()), (seed, node.name)
            assert float(torch.linalg.vector_norm(off)) <= float(ours.length + theirs.length)
            compared += 1
    assert compared > 100


# --- what rounding costs, in exact arithmetic ---

SLOPE = 0.1  # no float32


def row_of(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(seed: int) -> list[tuple[Op, tuple[int, ...], int]]:
    """Two linear layers."""
    return [(Linear(row_of(seed, 6, 5)), (0,), 6), (Linear(row_of(seed + 1, 4, 6)), (1,), 4)]


def added(seed: int) -> list[tuple[Op, tuple[int, ...], int]]:
    """Three branches of which two cancel but for rounding, in the order that they are added in."""
    branch = row_of(seed, 6, 5)
    nearly = branch * (1 + 1e-6 * row_of(seed + 1, 6, 5))
    rest = 1e-3 * row_of(seed + 2, 6, 5)
    return [*((Linear(one), (0,), 6) for one in (branch, nearly, rest)), (Sum((1, -1, 1)), (1, 2, 3), 6)]


def bent(seed: int) -> list[tuple[Op, tuple[int, ...], int]]:
    """A function that is linear on all of the box, with a slope that is no float32, and one layer more."""
    first = Linear(row_of(seed, 6, 5), torch.full((6,), -50.0, dtype=torch.float64))
    return [(first, (0,), 6), (LeakyRelu(SLOPE), (1,), 6), (Linear(torch.eye(6, dtype=torch.float64)), (2,), 6)]


def exact_rows(ops: list[tuple[Op, tuple[int, ...], int]]) -> list[list[list[Fraction]]]:
    """Each node's matrix over the input, exactly."""
    found = [[[Fraction(i == j) for j in range(5)] for i in range(5)]]
    for op, inputs, _ in ops:
        parts = [found[i] for i in inputs]
        if isinstance(op, Linear):
            weight = [[Fraction(w) for w in row] for row in op.weight.tolist()]
            columns = list(zip(*parts[0], strict=True))
            found.append([[sum(w * v for w, v in zip(r, c, strict=True)) for c in columns] for r in weight])
        elif isinstance(op, Sum):
            each = (zip(*rows, strict=True) for rows in zip(*parts, strict=True))
            found.append([[sum(s * v for s, v in zip(op.signs, one, strict=True)) for one in rows] for rows in each])
        else:
            found.append([[Fraction(SLOPE) * v for v in row] for row in parts[0]])
    return found


@pytest.mark.parametrize(("kind", "seed"), list(itertools.product((linear, added, bent), range(0, 60, 3))))
def test_what_keeping_rounds_is_charged(kind: Any, seed: int) -> None:
    """All is linear, so that a node's exact bounds are a sum of sizes: no form may say that it is less."""
    ops = kind(seed)
    nodes = [Node(0, Input(), (), (1, 5), "x")]
    nodes += [Node(i, op, inputs, (1, size), str(i)) for i, (op, inputs, size) in enumerate(ops, start=1)]
    graph = Graph(tuple(nodes))
    radius = 2.0 ** -(seed % 7)
    zero = torch.zeros(1, 5, dtype=torch.float64)
    region = Region.of(InputSet(zero - radius, zero + radius), CPU, torch.float64)
    forms = Forward(interval_bounds(graph, region))
    forms._narrow()
    for node, rows in zip(nodes, exact_rows(ops), strict=True):
        found = forms.bounds(node.index, Deadline())
        assert found is not None
        for low, high, row in zip(*(side.flatten().tolist() for side in found), rows, strict=True):
            reach = 2 * Fraction(radius) * sum(map(abs, row))
            assert Fraction(high) - Fraction(low) >= reach


def test_generators_that_begin_are_rounded_up() -> None:
    """A ReLU reaches what its argument does."""
    weight = row_of(3, 40, 5)
    nodes = (
        Node(0, Input(), (), (1, 5), "x"),
        Node(1, Linear(weight), (0,), (1, 40), "h"),
        Node(2, Relu(), (1,), (1, 40), "y"),
    )
    graph = Graph(nodes)
    zero = torch.zeros(1, 5, dtype=torch.float64)
    intervals = interval_bounds(graph, Region.of(InputSet(zero - 1.0, zero + 1.0), CPU, torch.float64))
    forms = Forward(intervals)
    forms._narrow()
    forms.bounds(1, Deadline())
    _, bottom, top = lines = steps.lines_between(nodes[2], intervals.of[1])
    made = steps.through_nonlinear(nodes[2], forms._forms[1], lines, Deadline())
    begun = made.generators[2].dense()
    assert begun.dtype == torch.float32
    assert bool((begun.double().sum((0, 1)) >= top / 2 - bottom / 2).all())
    assert bool((made.bounds().upper.flatten() >= weight.abs().sum(1)).all())


# --- when forms are kept so ---


def deep(channels: int = 4, side: int = 10) -> Graph:
    """A chain of convolutions, each with a function behind it."""
    nodes, shape = [Node(0, Input(), (), (1, channels, side, side), "x")], (1, channels, side, side)
    for seed in range(4):
        weight = row_of(seed, channels, channels, 3, 3) / 3
        kernel = Kernel(weight, (1, 1), (1, 1), (1, 1), 1, shape[1:])
        nodes.append(Node(len(nodes), Conv(kernel, None, shape, shape), (len(nodes) - 1,), shape, "conv"))
        nodes.append(Node(len(nodes), Relu(), (len(nodes) - 1,), shape, "relu"))
    return Graph(tuple(nodes))


def held(forms: Forward) -> set[torch.dtype]:
    return {some.values.dtype for one in forms._forms.values() for some in one.generators.values()}


def test_forms_that_do_not_fit_in_float64_are_kept_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = deep()
    intervals = interval_bounds(graph, box(graph, 1e-3, 0))
    last = len(graph.nodes) - 1
    whole = Forward(intervals)
    truth = whole.bounds(last, Deadline())
    assert truth is not None
    assert held(whole) == {torch.float64}
    size = whole._forms[last].numbers * torch.float64.itemsize
    monkeypatch.setattr(forward, "holds_for_a_while", lambda asked, device, held: asked <= 1.6 * size)
    forms = Forward(intervals)
    found = forms.bounds(last, Deadline())
    assert held(forms) == {torch.float32}
    assert found is not None
    torch.testing.assert_close(found.lower, truth.lower, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("last", [2, 8])
def test_batches_that_there_is_no_memory_to_join_stay_apart(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the last node as well, behind which there is no other."""
    graph = deep()
    intervals = interval_bounds(graph, box(graph, 1e-1, 0))
    truth = Forward(intervals).bounds(last, Deadline())

    def full(forms: Any) -> None:
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(forward, "merged", full)
    forms = Forward(intervals)
    found = forms.bounds(last, Deadline())
    assert found is not None
    assert truth is not None
    torch.testing.assert_close(found.lower, truth.lower)
    assert held(forms) == {torch.float64}


def test_a_further_error_lengthens_what_there_is() -> None:
    one, zero = torch.ones(1, 100, dtype=torch.float64), torch.zeros(1, 100, dtype=torch.float64)
    forms = Zonotope.of(zero, one, None, {})
    more = forms.with_more(one)
    assert float(more.length) >= float(forms.length) + 10.0
    assert bool((more.error >= 2.0).all())


def test_a_step_that_memory_ran_out_for_is_taken_again_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = deep()
    real, failed = forward.through_affine, list[int]()

    def once(node: Node, *given: Any, **more: Any) -> Any:
        if node.index == 5 and not failed:
            failed.append(0)
            raise torch.OutOfMemoryError("a full device")
        return real(node, *given, **more)

    monkeypatch.setattr(forward, "through_affine", once)
    forms = Forward(interval_bounds(graph, box(graph, 1e-3, 0)))
    assert forms.bounds(len(graph.nodes) - 1, Deadline()) is not None
    assert failed
    assert held(forms) == {torch.float32}


@pytest.mark.parametrize("name", ["through_affine", "through_nonlinear"])
def test_a_step_that_may_be_half_made_in_place_is_not_taken_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (1, 5)
    nodes = (
        Node(0, Input(), (), shape, "x"),
        Node(1, Linear(row_of(0, 5, 5)), (0,), shape, "h"),
        Node(2, Relu(), (1,), shape, "y"),
        Node(3, Sum((1, 1)), (0, 2), shape, "sum"),
    )
    graph, index = Graph(nodes), 3 if name == "through_affine" else 2
    real = getattr(forward, name)

    def full(node: Node, *given: Any, **more: Any) -> Any:
        if node.index == index:
            raise torch.OutOfMemoryError("a full device")
        return real(node, *given, **more)

    monkeypatch.setattr(forward, name, full)
    forms = Forward(interval_bounds(graph, box(graph, 0.5, 0)))
    assert forms.bounds(3, Deadline()) is None
    assert forms.given_up


def test_what_a_step_will_hold_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the number, of every affine op of random graphs; of a sum that is written in place, nothing."""
    real, places = steps.through_affine, list[bool]()

    def compared(node: Node, inputs: Any, deadline: Deadline, *, spent: Any) -> Any:
        told = steps.carried_numbers(node, inputs, spent)
        before = {some.values.untyped_storage().data_ptr() for x in inputs for some in x.generators.values()}
        made = real(node, inputs, deadline, spent=spent)
        groups = made.generators.values()
        new = [some for some in groups if some.values.untyped_storage().data_ptr() not in before]
        assert told == sum(some.values.numel() for some in new)
        places.append(len(new) < len(made.generators))
        return made

    monkeypatch.setattr(forward, "through_affine", compared)
    for seed in range(40):
        graph = image_graph(seed).to(CPU, torch.float64)
        assert Forward(interval_bounds(graph, box(graph, 0.1, seed))).bounds(len(graph.nodes) - 1, Deadline())
    assert any(places)
    assert not all(places)


# --- charges that are needed: what is lost adds up, and all else cancels ---


def lossy(count: int, low: float, high: float) -> tuple[list[float], float]:
    """Factors by which float32 loses nearly half a unit of the last place each time, and what is left of 1 then."""
    made, value, found = torch.Generator().manual_seed(0), torch.ones((), dtype=torch.float32), list[float]()
    for _ in range(count):
        tried = low + (high - low) * torch.rand(20_000, generator=made, dtype=torch.float64)
        exact = tried * value.double()
        best = int((exact - exact.float().double()).argmax())
        found.append(float(tried[best]))
        value = exact[best].float()
    return found, float(value)


def width(graph: Graph, centre: float, first: int = 0) -> Fraction:
    """How wide the last node's bounds are on a box of radius 1, kept in float32 from node `first` on."""
    middle = torch.full(graph.input.shape, centre, dtype=torch.float64)
    region = Region.of(InputSet(middle - 1.0, middle + 1.0), CPU, torch.float64)
    forms = Forward(interval_bounds(graph, region))
    for node in graph.nodes:
        if node.index == first:
            forms._narrow()
        found = forms.bounds(node.index, Deadline())
    assert found is not None
    return Fraction(float(found.upper)) - Fraction(float(found.lower))


def matrix(*rows: list[float]) -> Linear:
    return Linear(torch.tensor(rows, dtype=torch.float64))


def line(ops: list[tuple[Op, int]]) -> Graph:
    """One input, and ops one after the other with results of these sizes."""
    nodes = [Node(0, Input(), (), (1, 1), "x")]
    nodes += [Node(i, op, (i - 1,), (1, size), str(i)) for i, (op, size) in enumerate(ops, start=1)]
    return Graph(tuple(nodes))


def test_every_result_of_an_affine_op_is_charged() -> None:
    """What float32 has made of 1, taken off what 1 has become."""
    factors, left = lossy(16, 1.0, 1.0002)
    layers = [(matrix([factor, 0.0], [0.0, 1.0]), 2) for factor in factors]
    graph = line([(matrix([1.0], [1.0]), 2), *layers, (matrix([1.0, -left]), 1)])
    lost = math.prod(map(Fraction, factors)) - Fraction(left)
    assert lost > 14 * Fraction(2) ** -24
    assert width(graph, 0.0) >= 2 * lost


def test_every_product_with_a_slope_is_charged() -> None:
    factors, left = lossy(48, 0.99, 1.0)
    nodes = [Node(0, Input(), (), (1, 1), "x")]
    nodes += [Node(i, LeakyRelu(factor), (i - 1,), (1, 1), str(i)) for i, factor in enumerate(factors, start=1)]
    last = len(nodes)
    nodes.append(Node(last, matrix([-left]), (0,), (1, 1), "left"))
    nodes.append(Node(last + 1, Sum((1, 1)), (last - 1, last), (1, 1), "sum"))
    lost = math.prod(map(Fraction, factors)) - Fraction(left)
    assert lost > 16 * Fraction(2) ** -24
    assert width(Graph(tuple(nodes)), -50.0) >= 2 * lost


def test_what_a_copy_in_float32_rounds_is_charged() -> None:
    lost = 0.49 * 2.0**-23
    graph = line([(matrix([1.0 + lost], [1.0]), 2), (matrix([1.0, -1.0]), 1)])
    assert width(graph, 0.0, first=2) >= 2 * Fraction(1.0 + lost) - 2


def test_what_sums_round_on_the_way_is_charged() -> None:
    """Windows of many branches: each is too small to be seen beside the first, which is taken off in the end."""
    shape, little = (1, 1, 3, 3), 0.49 * 2.0**-23
    nodes = [Node(0, Input(), (), shape, "x")]

    def scaled(factor: float) -> None:
        kernel = Kernel(torch.full((1, 1, 1, 1), factor, dtype=torch.float64), (1, 1), (0, 0), (1, 1), 1, shape[1:])
        nodes.append(Node(len(nodes), Conv(kernel, None, shape, shape), (0,), shape, "conv"))

    for factor in (1.0, *[little] * 24):
        scaled(factor)
    signs, branches = (1, *[1] * 24, -1), (*range(1, 26), 1)
    graph = Graph((*nodes, Node(26, Sum(signs), branches, shape, "sum")))
    middle = torch.zeros(shape, dtype=torch.float64)
    forms = Forward(interval_bounds(graph, Region.of(InputSet(middle - 1.0, middle + 1.0), CPU, torch.float64)))
    forms._narrow()
    found = forms.bounds(26, Deadline())
    assert found is not None
    assert float((found.upper - found.lower).min()) >= 2 * 24 * Fraction(little)
