"""Norms of convolutions by their symbols: never less than the true one, and hardly more."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from netproof.bounds.zonotope import norms, symbols
from netproof.bounds.zonotope.norms import kernel_norm, length_gain
from netproof.bounds.zonotope.symbols import dense_norm, symbol_norm
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.model.affine import Linear
from netproof.model.conv import Kernel
from netproof.model.ops import Affine
from support.image_graphs import image_graph

# channels of result and image, window, stride, padding, dilation, groups, sides
SHAPES = [
    (6, 5, (3, 3), (1, 1), (1, 1), (1, 1), 1, (16, 16)),
    (6, 4, (3, 3), (2, 2), (1, 1), (1, 1), 1, (17, 16)),
    (6, 6, (3, 3), (1, 1), (2, 2), (2, 2), 2, (16, 16)),
    (4, 4, (4, 4), (2, 2), (1, 1), (1, 1), 4, (16, 16)),
    (5, 3, (1, 1), (2, 2), (0, 0), (1, 1), 1, (16, 16)),
    (3, 2, (5, 2), (3, 1), (2, 0), (1, 1), 1, (18, 14)),
    (2, 7, (1, 6), (1, 4), (0, 3), (1, 1), 1, (1, 40)),
]
# A stride over taps that lie apart is counted as if it stepped over nothing, which may be much more.
APART = (4, 3, (3, 3), (2, 2), (0, 0), (2, 2), 1, (16, 16))

Shape = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int, tuple[int, ...]]


def kernel_of(shape: Shape, seed: int) -> Kernel:
    out, given, window, stride, padding, dilation, groups, sides = shape
    made = torch.Generator().manual_seed(seed)
    weight = torch.randn(out, given // groups, *window, generator=made, dtype=torch.float64) * 10.0 ** (3 * seed - 3)
    return Kernel(weight, stride, padding, dilation, groups, (given, *sides))


def true_norm(kernel: Kernel) -> float:
    """That of the matrix of the map."""
    every = torch.eye(math.prod(kernel.image), dtype=torch.float64).view(-1, *kernel.image)
    return float(torch.linalg.matrix_norm(kernel.correlate(every).flatten(1), ord=2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [*SHAPES, APART])
def test_a_kernel_lengthens_by_no_more_and_hardly_less(shape: Shape, seed: int) -> None:
    kernel = kernel_of(shape, seed)
    bound, truth = symbol_norm(kernel, Deadline()), true_norm(kernel)
    assert truth <= bound
    if shape is not APART:
        assert bound <= 1.25 * truth


def test_it_is_smaller_than_what_counts_patches() -> None:
    kernel = kernel_of((16, 16, (3, 3), (1, 1), (1, 1), (1, 1), 1, (8, 8)), 1)
    assert symbol_norm(kernel, Deadline()) < 0.65 * kernel_norm(kernel)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (30, 30)])
def test_a_matrix_lengthens_by_no_more_and_hardly_less(shape: tuple[int, int], seed: int) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    truth, bound = float(torch.linalg.matrix_norm(matrix, ord=2)), dense_norm(matrix, Deadline())
    assert truth <= bound <= 1.05 * truth


@pytest.mark.parametrize("seed", range(40))
def test_no_op_of_random_graphs_lengthens_a_vector_by_more(seed: int) -> None:
    graph = image_graph(seed, ops=6).to("cpu", torch.float64)
    for node in graph.nodes[1:]:
        if not isinstance(node.op, Affine) or len(node.inputs) > 1:
            continue
        gain, loose = length_gain(node.op, Deadline()), length_gain(node.op)
        assert gain is not None
        assert loose is not None
        assert float(gain) <= float(loose)
        shape = graph.nodes[node.inputs[0]].shape
        every = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
        norm = torch.linalg.matrix_norm(node.op.linear().forward(every).flatten(1), ord=2)
        assert float(norm) <= float(gain) * (1 + 1e-12), node.name


def test_what_lies_between_points_of_the_grid_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """|1 − exp(2iω)| is 2 at ω = π/2, and √3 at best of 0, 2π/3 and 4π/3."""
    monkeypatch.setattr(symbols, "POINTS", (3,))
    weight = torch.tensor([[[[1.0, 0.0, -1.0]]]], dtype=torch.float64)
    kernel = Kernel(weight, (1, 1), (0, 1), (1, 1), 1, (1, 1, 101))
    assert true_norm(kernel) > 1.99
    assert symbol_norm(kernel, Deadline()) >= 2.0


@pytest.mark.parametrize(("taps", "points", "truth"), [((1.0, -2.0, 1.0), 16, 4.0), ((1.0, -1.0), 3, 2.0)])
def test_all_frequencies_are_looked_at(
    taps: tuple[float, ...], points: int, truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are largest at ω = π: the last point of half a grid, and one between points."""
    monkeypatch.setattr(symbols, "POINTS", (points,))
    for window in ((1, len(taps)), (len(taps), 1)):
        weight = torch.tensor(taps, dtype=torch.float64).view(1, 1, *window)
        assert symbol_norm(Kernel(weight, (1, 1), (0, 0), (1, 1), 1, (1, 40, 40)), Deadline()) >= truth


def test_frequencies_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(SHAPES[0], 1)
    whole = symbol_norm(kernel, Deadline())
    monkeypatch.setattr(symbols, "entries_at_once", lambda device: 1)
    assert symbol_norm(kernel, Deadline()) == pytest.approx(whole, rel=0.05)  # each with a slack of its own
    assert symbol_norm(kernel, Deadline()) >= true_norm(kernel)


def test_all_matrices_of_a_batch_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "_power", lambda gram: 0.05)
    for order in ([0.5, 2.0], [2.0, 0.5]):
        assert symbols._norm(torch.tensor(order, dtype=torch.float64).view(2, 1, 1), Deadline()) >= 2.0


def test_a_number_that_is_not_proved_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the power method finds too little, for whatever it is raised by."""
    matrix = torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))
    monkeypatch.setattr(symbols, "_power", lambda gram: 0.01)
    assert dense_norm(matrix, Deadline()) == math.inf
    assert length_gain(Linear(matrix), Deadline()) == length_gain(Linear(matrix))


def test_it_is_left_out_where_it_is_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(SHAPES[0], 1)
    monkeypatch.setitem(symbols.AFFORDABLE, "cpu", 10_000)
    assert symbol_norm(kernel, Deadline()) == math.inf
    monkeypatch.setitem(symbols.AFFORDABLE, "cpu", 100_000)
    coarse = symbol_norm(kernel, Deadline())
    monkeypatch.setitem(symbols.AFFORDABLE, "cpu", 1 << 30)
    assert symbol_norm(kernel, Deadline()) < coarse < math.inf


def test_it_is_left_out_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(SHAPES[0], 1)
    monkeypatch.setattr(symbols, "holds_for_a_while", lambda size, device: False)
    assert symbol_norm(kernel, Deadline()) == math.inf

    def full(*_: object) -> float:
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(norms, "dense_norm", full)
    op = Linear(torch.ones(2, 2, dtype=torch.float64))
    assert length_gain(op, Deadline()) == length_gain(op)


@pytest.mark.parametrize("damage", [0.9, 1.1])
def test_what_a_factor_leaves_over_counts(damage: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library's word is taken for it."""
    real = torch.linalg.cholesky_ex

    def worse(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        factor, failed = real(matrix)
        return factor * damage, failed

    matrix = torch.diag(torch.tensor([1.0, 0.1], dtype=torch.float64))
    monkeypatch.setattr(torch.linalg, "cholesky_ex", worse)
    assert dense_norm(matrix, Deadline()) > 1.02


def test_a_deadline_ends_it() -> None:
    with pytest.raises(DeadlineExpired):
        symbol_norm(kernel_of(SHAPES[0], 1), Deadline(0.0))


@pytest.mark.parametrize("entry", [2.0**-1074, 2.0**-1030, 1e-200, 1e200, 2.0**1000, 2.0**1023])
def test_numbers_at_the_ends_of_float64(entry: float) -> None:
    bound = dense_norm(torch.full((1, 2), entry, dtype=torch.float64), Deadline())
    assert bound == math.inf or Fraction(bound) ** 2 >= 2 * Fraction(entry) ** 2


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_what_is_no_number_has_no_norm(bad: float) -> None:
    bound = dense_norm(torch.tensor([[1.0, bad]], dtype=torch.float64), Deadline())
    assert bound == math.inf


def test_the_norm_of_nothing_is_nothing() -> None:
    assert dense_norm(torch.zeros(3, 4, dtype=torch.float64), Deadline()) < 1e-200
