"""Affine forms carried forward hold every value of the network, rounding included; so do their windows."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.linear import memory
from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.linear.interval import Intervals, interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.windows.windowed import Windowed
from netproof.bounds.zonotope import forward, steps, zonotope
from netproof.bounds.zonotope.forward import Forward
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.affine import Linear, Sum
from netproof.model.conv import Conv, Kernel
from netproof.model.graph import Graph, Node
from netproof.model.moves import Expand, Reshape
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.nonlinear.smooth import Sigmoid
from netproof.model.ops import Input
from netproof.problem.problem import InputSet
from support.image_graphs import ImageGraph, image_graph
from support.rational import exact as exact_numbers
from support.rational import exact_values

CPU = torch.device("cpu")
SEEDS = range(40)


def box(graph: Graph, radius: float, seed: int) -> Region:
    """A box about a random point; some inputs do not vary."""
    made = torch.Generator().manual_seed(seed)
    centre = torch.rand(graph.input.shape, generator=made, dtype=torch.float64)
    reach = radius * (torch.rand(centre.shape, generator=made, dtype=torch.float64) < 0.7)
    return Region.of(InputSet(centre - reach, centre + reach), CPU, torch.float64)


def bounded(graph: Graph, region: Region) -> tuple[Intervals, list[Interval]]:
    """Intervals of all nodes, and what forms carried forward by these say of each."""
    intervals = interval_bounds(graph, region)
    forms = Forward(intervals)
    found = [forms.bounds(node.index, Deadline()) for node in graph.nodes]
    assert all(one is not None for one in found)
    return intervals, [one for one in found if one is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_value_lies_within(seed: int) -> None:
    graph = image_graph(seed).to(CPU, torch.float64)
    region = box(graph, 0.1, seed)
    _, found = bounded(graph, region)
    made = torch.Generator().manual_seed(seed)
    at = torch.rand(200, *graph.input.shape, generator=made, dtype=torch.float64)
    ends = torch.rand(200, *graph.input.shape, generator=made, dtype=torch.float64) < 0.5
    inner = region.lower + at * (region.upper - region.lower)
    points = torch.cat([inner, torch.where(ends, region.lower, region.upper)])
    for node, value, bound in zip(graph.nodes, graph.values(points), found, strict=True):
        slack = 1e-12 * (1.0 + float(value.abs().max()))  # the points' own rounding
        assert bool((value >= bound.lower - slack).all()), node.name
        assert bool((value <= bound.upper + slack).all()), node.name


@pytest.mark.parametrize("moved", [False, True])
def test_forms_that_others_read_are_not_overwritten(moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """relu(h) + h, where the ReLU may read the same numbers by another node: its generators are made in place."""
    kernel = Kernel(torch.ones(1, 1, 3, 3, dtype=torch.float64), (1, 1), (1, 1), (1, 1), 1, (1, 4, 4))
    shape = (1, 1, 4, 4)
    nodes = [Node(0, Input(), (), shape, "x"), Node(1, Conv(kernel, None, shape, shape), (0,), shape, "h")]
    if moved:
        nodes.append(Node(2, Reshape(shape, shape), (1,), shape, "same"))
    last = len(nodes)
    nodes += [
        Node(last, Relu(), (last - 1,), shape, "relu"),
        Node(last + 1, Sum((1, 1)), (last, 1), shape, "sum"),
        Node(last + 2, Relu(), (last + 1,), shape, "y"),
    ]
    graph = Graph(tuple(nodes))
    region = box(graph, 2.0, 0)
    _, found = bounded(graph, region)
    monkeypatch.setattr(Forward, "_is_spent", lambda *_: False)
    _, apart = bounded(graph, region)
    for one, other in zip(found, apart, strict=True):
        assert torch.equal(one.lower, other.lower)
        assert torch.equal(one.upper, other.upper)


def test_sums_written_into_spent_forms_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that nobody else reads takes up the sum; to the last bit it says what a new one would."""
    regions = [(graph := image_graph(seed).to(CPU, torch.float64), box(graph, 0.1, seed)) for seed in range(24)]
    written, into_spent = [], steps._into_spent

    def noted(*given: Any) -> Any:
        written.append(into_spent(*given))
        return written[-1]

    monkeypatch.setattr(steps, "_into_spent", noted)
    in_place = [bounded(*given)[1] for given in regions]
    assert sum(pair is not None for pair in written) >= 3
    monkeypatch.setattr(Forward, "_is_spent", lambda *_: False)
    for given, ours in zip(regions, in_place, strict=True):
        for one, other in zip(ours, bounded(*given)[1], strict=True):
            assert torch.equal(one.lower, other.lower)
            assert torch.equal(one.upper, other.upper)


def test_forms_that_were_only_expanded_are_left_alone() -> None:
    shape = (1, 3)
    nodes = [Node(0, Input(), (), (1, 1), "x"), Node(1, Expand((1, 1), shape), (0,), shape, "wide")]
    graph = Graph((*nodes, Node(2, Relu(), (1,), shape, "y")))
    region = Region.of(InputSet(*(torch.full((1, 1), v, dtype=torch.float64) for v in (-1.0, 2.0))), CPU, torch.float64)
    _, found = bounded(graph, region)
    assert float(found[-1].upper.max()) >= 2.0


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_say_what_dense_generators_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = image_graph(seed).to(CPU, torch.float64)
    region = box(graph, 0.1, seed)
    _, windows = bounded(graph, region)

    def dense(places: Tensor, sizes: Tensor, shape: tuple[int, ...]) -> Dense:
        return Dense(zonotope.one_hot(places, sizes, shape), len(shape))

    monkeypatch.setattr(steps, "generators_at", dense)
    monkeypatch.setattr(forward, "generators_at", dense)
    _, plain = bounded(graph, region)
    for ours, theirs in zip(windows, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_windows_are_kept_through_most_of_these_graphs() -> None:
    kinds = []
    for seed in SEEDS:
        graph = image_graph(seed).to(CPU, torch.float64)
        forms = Forward(interval_bounds(graph, box(graph, 0.1, seed)))
        forms.bounds(len(graph.nodes) - 1, Deadline())
        last = forms._forms[len(graph.nodes) - 1]
        kinds += [isinstance(some, Windowed) for some in last.generators.values()]
    assert sum(kinds) > len(kinds) // 2


def dense_graph(seed: int, *between: type[Relu]) -> Graph:
    """Linear layers of random weights, each but the last followed by a function."""
    made = torch.Generator().manual_seed(seed)
    nodes = [Node(0, Input(), (), (1, 12), "x")]
    for op in (*between, None):
        weight = torch.randn(12, 12, generator=made, dtype=torch.float64)
        bias = torch.randn(12, generator=made, dtype=torch.float64)
        nodes.append(Node(len(nodes), Linear(weight, bias), (len(nodes) - 1,), (1, 12), "linear"))
        if op is not None:
            nodes.append(Node(len(nodes), op(), (len(nodes) - 1,), (1, 12), "function"))
    return Graph(tuple(nodes))


def exact(graph: Graph, point: Tensor) -> list[list[Fraction]]:
    """What every node of a graph of linear layers and ReLUs is at a point, in exact arithmetic."""
    values = [[Fraction(v) for v in point.flatten().tolist()]]
    for node in graph.nodes[1:]:
        x = values[node.inputs[0]]
        if isinstance(node.op, Linear):
            assert node.op.bias is not None
            rows = zip(node.op.weight.tolist(), node.op.bias.tolist(), strict=True)
            values.append([sum(Fraction(w) * v for w, v in zip(row, x, strict=True)) + Fraction(b) for row, b in rows])
        else:
            values.append([max(v, Fraction(0)) for v in x])
    return values


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("radius", [0.0, 1e-13])
def test_rounding_is_charged(seed: int, radius: float) -> None:
    """At a point, and in a box hardly wider than rounding, what is exact lies within."""
    graph = dense_graph(seed, Relu, Relu)
    region = box(graph, radius, seed)
    _, found = bounded(graph, region)
    for point in (region.lower, region.upper, region.centre):
        for values, bound in zip(exact(graph, point), found, strict=True):
            sides = (side.flatten().tolist() for side in bound)
            assert all(Fraction(low) <= v <= Fraction(high) for v, low, high in zip(values, *sides, strict=True))


def within(truth: list[np.ndarray], found: list[Interval]) -> bool:
    """Whether exact values of all nodes lie within their bounds."""
    sides = ((values, *map(exact_numbers, bound)) for values, bound in zip(truth, found, strict=True))
    return all(bool(((low <= values) & (values <= high)).all()) for values, low, high in sides)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("radius", [0.0, 1e-13])
def test_rounding_of_convolutions_is_charged(seed: int, radius: float) -> None:
    """Through a chain of them, by windows: what is exact lies within, of every node."""
    graph = chain(seed, side=6, strides=(1, 2, 1))
    region = box(graph, radius, seed)
    _, found = bounded(graph, region)
    for point in (region.lower, region.upper):
        assert within(exact_values(graph, exact_numbers(point)), found)


@pytest.mark.parametrize("small", [(1e-200, 1e-200), (1e-37,) * 10])
def test_errors_never_vanish(small: tuple[float, ...]) -> None:
    """What is 0 by underflow, its error's square too, is 3 again behind what makes it large."""
    made = ImageGraph(0, side=3)
    last = 0
    for factor in (*small, *(1 / factor for factor in small)):
        shape = made.nodes[last].shape
        kernel = Kernel(
            torch.full((1, shape[1], 1, 1), factor, dtype=torch.float64), (1, 1), (0, 0), (1, 1), 1, shape[1:]
        )
        last = made.add(Conv(kernel, None, shape, (1, *kernel.result)), last)
    graph = Graph(tuple(made.nodes)).to(CPU, torch.float64)
    point = torch.full(graph.input.shape, 1.5, dtype=torch.float64)
    _, found = bounded(graph, Region.of(InputSet(point, point), CPU, torch.float64))
    truth = exact_values(graph, exact_numbers(point))
    assert float(truth[-1][0]) == pytest.approx(3.0)
    assert within(truth, found)


def test_what_a_layer_is_off_by_goes_through_the_next() -> None:
    """A layer that cancels to nothing but rounding, and one after it that rounds nothing."""
    made = torch.Generator().manual_seed(0)
    point = torch.rand(1, 12, generator=made, dtype=torch.float64)
    weight = torch.randn(12, 12, generator=made, dtype=torch.float64)
    first = Linear(weight, -(point @ weight.mT)[0])
    second = Linear(torch.eye(12, dtype=torch.float64), torch.zeros(12, dtype=torch.float64))
    ops = (Input(), first, second)
    graph = Graph(tuple(Node(i, op, (i - 1,) if i else (), (1, 12), "") for i, op in enumerate(ops)))
    _, found = bounded(graph, Region.of(InputSet(point, point), CPU, torch.float64))
    values = exact(graph, point)[-1]
    assert any(values)
    sides = (side.flatten().tolist() for side in found[-1])
    assert all(Fraction(low) <= v <= Fraction(high) for v, low, high in zip(values, *sides, strict=True))


@pytest.mark.parametrize("op", [Sigmoid(), Relu(), LeakyRelu(0.25)], ids=["sigmoid", "relu", "leaky"])
def test_a_function_lies_between_its_parallel_lines(op: Sigmoid | Relu | LeakyRelu) -> None:
    """Where forms put the function's value, at every place of its bounds, for what its own generator leaves open."""
    low = torch.linspace(-4.0, 3.0, 36, dtype=torch.float64)[None]
    high = low + torch.linspace(0.01, 5.0, 36, dtype=torch.float64)
    nodes = (Node(0, Input(), (), (1, 36), ""), Node(1, op, (0,), (1, 36), ""))
    region = Region.of(InputSet(low, high), CPU, torch.float64)
    intervals = interval_bounds(Graph(nodes), region)
    forms = Forward(intervals)
    forms.bounds(0, Deadline())
    made = steps.through_nonlinear(
        nodes[1], forms._forms[0], steps.lines_between(nodes[1], intervals.of[0]), Deadline()
    )
    along = made.generators[0].dense().sum(0)  # each input moves one entry
    open_ = made.generators[1].dense().sum(0) if 1 in made.generators else torch.zeros_like(along)
    for at in torch.linspace(-1.0, 1.0, 201, dtype=torch.float64):
        gap = op.forward(region.centre + at * region.radius) - (made.centre + at * along)
        assert bool((gap.abs() <= open_ + made.error + 1e-12).all())


def test_forms_are_tighter_than_intervals_where_layers_are_linear() -> None:
    """On a small box most neurons are linear, and forms lose nothing there."""
    graph = dense_graph(3, Relu, Relu)
    intervals, found = bounded(graph, box(graph, 1e-6, 3))
    ours, theirs = found[-1], intervals.of[-1]
    assert float((ours.upper - ours.lower).sum()) < 0.9 * float((theirs.upper - theirs.lower).sum())


def test_forms_are_given_up_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = image_graph(3).to(CPU, torch.float64)
    intervals = interval_bounds(graph, box(graph, 0.1, 3))
    monkeypatch.setattr(forward, "holds_for_a_while", lambda size, device, held: size < 20_000)
    forms = Forward(intervals)
    assert forms.bounds(len(graph.nodes) - 1, Deadline()) is None
    assert forms.given_up
    assert not forms._forms


def test_what_is_held_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generators that begin at a wide layer are many more than there were inputs."""
    made = torch.Generator().manual_seed(0)
    weight = torch.randn(200, 3, generator=made, dtype=torch.float64)
    given, wide = Node(0, Input(), (), (1, 3), "x"), Node(1, Linear(weight), (0,), (1, 200), "wide")
    asked = list[int]()

    def noted(size: int, device: torch.device, held: int = 0) -> bool:
        asked.append(size)
        return True

    monkeypatch.setattr(forward, "holds_for_a_while", noted)
    graph = Graph((given, wide, Node(2, Relu(), (1,), (1, 200), "function")))
    forms = Forward(interval_bounds(graph, box(graph, 0.5, 0)))
    assert forms.bounds(2, Deadline()) is not None
    held = sum(some.values.numel() * some.values.element_size() for some in forms._forms[2].generators.values())
    assert held > 3 * 200 * 8 * 10  # ten times the forms that went in
    assert max(asked) >= held


def test_a_deadline_ends_the_walk() -> None:
    graph = image_graph(3).to(CPU, torch.float64)
    forms = Forward(interval_bounds(graph, box(graph, 0.1, 3)))
    assert forms.bounds(len(graph.nodes) - 1, Deadline(0.0)) is None
    assert not forms.given_up


def chain(seed: int, side: int = 14, strides: tuple[int, ...] = (1, 2, 1, 1)) -> Graph:
    """Convolutions and ReLUs in turn, one of them with a stride."""
    made = ImageGraph(seed, side)
    last = 0
    for stride in strides:
        shape = made.nodes[last].shape
        weight = made.normal(3, shape[1], 3, 3) / (9 * shape[1]) ** 0.5
        kernel = Kernel(weight, (stride, stride), (1, 1), (1, 1), 1, shape[1:])
        last = made.add(Conv(kernel, made.normal(3) / 4, shape, (1, *kernel.result)), last)
        last = made.add(Relu(), last)
    return Graph(tuple(made.nodes)).to(CPU, torch.float64)


def chain_of_images() -> Graph:
    return chain(0, side=6, strides=(1, 2, 1))


def chain_of_vectors() -> Graph:
    return dense_graph(0, Relu, Relu)


class Looks(Deadline):
    """A deadline that comes at the n-th look."""

    def __init__(self, most: float = float("inf")) -> None:
        super().__init__()
        self.count, self._most = 0, most

    @property
    def expired(self) -> bool:
        self.count += 1
        return self.count > self._most


@pytest.mark.parametrize("make", [chain_of_images, chain_of_vectors])
def test_a_deadline_ends_a_step_in_the_middle_and_it_can_be_taken_again(
    make: Callable[[], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches are carried in slices, with a look at the clock before each; what they say is the same."""
    graph = make()
    intervals, last = interval_bounds(graph, box(graph, 0.3, 0)), len(graph.nodes) - 1
    whole = Forward(intervals).bounds(last, Deadline())
    monkeypatch.setitem(memory.A_SLICE, "cpu", 30)
    looks, forms = Looks(), Forward(intervals)
    sliced = forms.bounds(last, looks)
    assert looks.count > 4 * len(graph.nodes)
    late = Forward(intervals)
    for most in (2, 5, 9):
        assert late.bounds(last, Looks(most)) is None
        assert not late.given_up
    for found in (sliced, late.bounds(last, Deadline())):
        assert whole is not None
        assert found is not None
        torch.testing.assert_close(found.lower, whole.lower, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.upper, whole.upper, rtol=1e-9, atol=1e-9)


FULL = [torch.OutOfMemoryError("full"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]


@pytest.mark.parametrize("error", FULL)
def test_forms_are_given_up_where_memory_runs_out(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = image_graph(3).to(CPU, torch.float64)
    forms = Forward(interval_bounds(graph, box(graph, 0.1, 3)))

    def full(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(forward, "through_affine", full)
    assert forms.bounds(len(graph.nodes) - 1, Deadline()) is None
    assert forms.given_up


@pytest.mark.parametrize("seed", range(12))
def test_merged_generators_say_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a chain of convolutions, which nothing goes past, batches are put together; without that, bounds are equal."""
    graph = chain(seed)
    region = box(graph, 0.3, seed)
    _, ours = bounded(graph, region)
    batches: list[int] = []
    monkeypatch.setattr(forward, "merged", lambda forms: batches.append(len(forms.generators)) or forms)
    _, plain = bounded(graph, region)
    assert max(batches) > 2
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one.lower, other.lower, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(one.upper, other.upper, rtol=1e-9, atol=1e-9)


def test_batches_are_few_in_a_chain() -> None:
    graph = chain(0)
    forms = Forward(interval_bounds(graph, box(graph, 0.3, 0)))
    forms.bounds(len(graph.nodes) - 1, Deadline())
    assert len(forms._forms[len(graph.nodes) - 1].generators) <= 2
