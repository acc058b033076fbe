"""Windows of coefficients say what dense ones say, up to rounding, and their errors are charged alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from netproof.bounds.linear.backward import Backward, Walk
from netproof.bounds.linear.coefficients import Coefficients, Dense
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.lined_graph import one_hot
from netproof.bounds.linear.region import Region
from netproof.bounds.windows.kernels import correlate, transposed
from netproof.bounds.windows.plan import _kept, windows_pay
from netproof.bounds.windows.windowed import Windowed
from netproof.model.conv import Conv, ConvTranspose, Kernel
from netproof.model.graph import Graph, Node
from netproof.model.load import load_network
from netproof.model.moves import Concat
from netproof.model.ops import Affine
from netproof.problem.problem import InputSet
from netproof.relax import Lines
from support.image_graphs import image_graph

SEEDS = range(60)
CPU = torch.device("cpu")


def lines_of(graph: Graph, dtype: torch.dtype, each: int | None = None) -> dict[int, Lines]:
    """Some lines of every neuron, or of every neuron for each of so many forms."""
    lead = () if each is None else (each,)
    made = torch.Generator().manual_seed(0)

    def some(node: Node) -> Tensor:
        return torch.rand(*lead, *node.shape, generator=made, dtype=torch.float64).to(dtype)

    nodes = [graph.nodes[i] for i in graph.nonlinear]
    return {n.index: Lines(some(n), some(n), some(n), some(n) - 1.0) for n in nodes}


def starts(graph: Graph) -> list[int]:
    """The nodes to begin at: those that something is read from, and the last."""
    return [n.index for n in graph.nodes if n.index > 0][-4:]


def begun(node: Node, dtype: torch.dtype) -> tuple[Windowed, Dense]:
    """Forms of some entries of a node, in both kinds: corners, edges and others."""
    generator = torch.Generator().manual_seed(node.index)
    places = torch.cat([torch.tensor([0, node.size - 1]), torch.randint(node.size, (9,), generator=generator)])
    signs = torch.where(torch.arange(len(places)) % 2 == 0, 1.0, -1.0).to(dtype)
    dense = Dense(one_hot(places, signs, node.shape), len(node.shape))
    return Windowed.at(places, signs, node.shape), dense


def arrived(back: Backward, start: int, coef: Coefficients, lines: dict[int, Lines]) -> Walk:
    return back.walk(start, coef, lines, 0, keep=True)


def same(ours: Walk, plain: Walk, tolerance: float) -> None:
    """Compare all that a walk returns, relative to the largest coefficient."""
    assert (ours.at is None) == (plain.at is None)
    pairs = [(ours.const, plain.const)]
    if ours.at is not None and plain.at is not None:
        pairs.append((ours.at.dense(), plain.at.dense()))
    assert ours.kept.keys() == plain.kept.keys()
    for index, here in ours.kept.items():
        size = plain.kept[index].dense()[0].numel()
        some = torch.arange(0, size, max(1, size // 50))
        pairs.append((here.take(some), plain.kept[index].take(some)))
    for one, other in pairs:
        scale = float(other.abs().max()) + 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)], ids=["f32", "f64"])
def test_a_walk_arrives_at_the_same_form(seed: int, dtype: torch.dtype, tolerance: float) -> None:
    graph = image_graph(seed).to(CPU, dtype)
    lines = lines_of(graph, dtype)
    for start in starts(graph):
        windows, dense = begun(graph.nodes[start], dtype)
        same(*(arrived(Backward(graph), start, coef, lines) for coef in (windows, dense)), tolerance)


@pytest.mark.parametrize("seed", range(12))
def test_lines_of_each_forms_own_are_found(seed: int) -> None:
    graph = image_graph(seed).to(CPU, torch.float64)
    for start in starts(graph):
        windows, dense = begun(graph.nodes[start], torch.float64)
        lines = lines_of(graph, torch.float64, each=len(windows.values))
        same(*(arrived(Backward(graph), start, coef, lines) for coef in (windows, dense)), 1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_proof_is_charged_what_a_dense_one_is(seed: int) -> None:
    """Every rounding is paid for: the error is that of dense coefficients, up to its own rounding."""
    graph, region = unit_box(seed)
    intervals = interval_bounds(graph, region)
    back, lines = Backward(graph, intervals.charge), lines_of(graph, torch.float64)
    for start in starts(graph):
        windows, dense = begun(graph.nodes[start], torch.float64)
        ours, plain = (arrived(back, start, coef, lines) for coef in (windows, dense))
        assert ours.error is not None
        assert plain.error is not None
        assert bool((plain.error > 0).all())
        torch.testing.assert_close(ours.error, plain.error, rtol=1e-6, atol=0)
        torch.testing.assert_close(back.least(region, ours), back.least(region, plain), rtol=1e-10, atol=1e-10)


def unit_box(seed: int) -> tuple[Graph, Region]:
    graph = image_graph(seed).to(CPU, torch.float64)
    shape = graph.input.shape
    box = InputSet(-torch.ones(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64), None, None)
    return graph, Region.of(box, CPU, torch.float64)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_plan_counts_what_is_kept(seed: int) -> None:
    """Frames told without numbers are those of the walk."""
    graph = image_graph(seed).to(CPU, torch.float64)
    for start in starts(graph):
        planned = _kept(graph, start)
        windows, _ = begun(graph.nodes[start], torch.float64)
        done = arrived(Backward(graph), start, windows, lines_of(graph, torch.float64))
        for index, here in done.kept.items():
            assert isinstance(here, Windowed | Dense)
            assert here.values[0].numel() == planned[index]


@pytest.mark.parametrize("groups", [1, 2])
def test_kernels_of_proofs_in_float32_are_sums(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """γ_n holds for sums of products; a library's convolution may be another."""
    weight = torch.rand(4, 2 // groups, 3, 2, generator=torch.Generator().manual_seed(0))
    kernel = Kernel(weight, (1, 2), (1, 1), (1, 1), groups, (2, 6, 6))
    image, result = (torch.rand(5, 6, 6, c, generator=torch.Generator().manual_seed(c)) for c in (2, 4))
    plain = correlate(kernel, image), transposed(kernel, result)

    def refused(*given: object) -> Tensor:
        raise AssertionError("a convolution by the library")

    for name in ("conv2d", "conv_transpose2d"):
        monkeypatch.setattr(torch.nn.functional, name, refused)
    summed = replace(kernel, direct=True)
    for one, other in zip((correlate(summed, image), transposed(summed, result)), plain, strict=True):
        torch.testing.assert_close(one, other)


def kinds(op: Affine) -> Iterator[str]:
    """What issue and docs name an op by; of kernels, all that they have."""
    yield type(op).__name__
    if isinstance(op, Conv | ConvTranspose):
        kernel = op.kernel
        for name in ("stride", "padding", "dilation"):
            if max(getattr(kernel, name)) > (0 if name == "padding" else 1):
                yield f"{type(op).__name__} {name}"
        if kernel.groups > 1:
            yield f"{type(op).__name__} groups"
            if bool((kernel.weight == 1).all()):
                yield "pool"
    if isinstance(op, Concat):
        yield f"Concat {op.axis}"


def test_windows_stay_windows_through_ops_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared above is not dense against dense: windows pass what is named here, in several graphs."""
    passed: Counter[str] = Counter()
    adjoint, arrivals, here = Windowed.adjoint, [], set[str]()

    def noted(self: Windowed, op: Affine) -> list[Coefficients]:
        found = adjoint(self, op)
        here.update(kinds(op) if all(isinstance(one, Windowed) for one in found) else ())
        return found

    monkeypatch.setattr(Windowed, "adjoint", noted)
    for seed in SEEDS:
        graph = image_graph(seed).to(CPU, torch.float64)
        here.clear()
        for start in starts(graph):
            windows, _ = begun(graph.nodes[start], torch.float64)
            at = arrived(Backward(graph), start, windows, lines_of(graph, torch.float64)).at
            arrivals.append(isinstance(at, Windowed))
        passed.update(here)
    assert sum(arrivals) > len(arrivals) // 2
    kernels = product(("Conv", "ConvTranspose"), ("stride", "padding", "dilation", "groups"))
    named = [
        *map(" ".join, kernels),
        "pool",
        "Sum",
        "Concat 1",
        "Concat 2",
        "Concat 3",
        "Scale",
        "Pad",
        "Index",
        "Reshape",
    ]
    assert {name: passed[name] for name in named if passed[name] < 3} == {}


def test_neurons_behind_max_pools_keep_windows() -> None:
    """A maximum over windows is one of images, however the windows overlap."""
    torch.manual_seed(0)
    pools = [torch.nn.MaxPool2d(2), torch.nn.MaxPool2d(3, 2), torch.nn.MaxPool2d((2, 3), 1)]
    layers = [layer for pool in pools for layer in (torch.nn.Conv2d(2, 2, 3, 1, 1), torch.nn.ReLU(), pool)]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(2 * 5 * 4, 2))
    graph = load_network(net, example_shape=(1, 2, 28, 28)).graph
    assert all(windows_pay(graph, graph.nodes[i].inputs[0]) for i in graph.nonlinear[:-2])
