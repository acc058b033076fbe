"""What forms are off by: the norms that errors grow by, and the centre computed with hardly any rounding."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from netproof.bounds.zonotope import norms
from netproof.bounds.zonotope.accurate import at_point
from netproof.bounds.zonotope.norms import length_gain, matrix_norm
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.model.affine import Linear
from netproof.model.ops import Affine
from support.image_graphs import image_graph


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (40, 40), (64, 9), (2, 5, 6)])
def test_a_matrix_is_no_longer_than_its_bound(seed: int, shape: tuple[int, ...]) -> None:
    made = torch.Generator().manual_seed(seed)
    matrix = torch.randn(shape, generator=made, dtype=torch.float64) * 10.0 ** (seed - 5)
    norm, bound = float(torch.linalg.matrix_norm(matrix, ord=2).max()), matrix_norm(matrix)
    assert norm <= bound <= 1.6 * norm


def test_the_norm_of_a_large_matrix_is_had_without_its_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norms, "MANY", 30)
    matrix = torch.randn(40, 31, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm, length = float(torch.linalg.matrix_norm(matrix, ord=2)), float(torch.linalg.vector_norm(matrix))
    assert norm < length <= matrix_norm(matrix) <= length * (1 + 1e-5)


def test_the_norm_of_nothing_is_nothing() -> None:
    assert matrix_norm(torch.zeros(3, 4, dtype=torch.float64)) == 0.0


@pytest.mark.parametrize("entry", [2.0**-1074, 2.0**-1070, 2.0**-1030])
def test_a_norm_below_the_normal_numbers_is_not_rounded_down(entry: float) -> None:
    """√2·2^-1074 is no float64, and what it lengthens may be large."""
    bound = Fraction(matrix_norm(torch.full((1, 2), entry, dtype=torch.float64)))
    assert bound**2 >= 2 * Fraction(entry) ** 2


@pytest.mark.parametrize("seed", range(60))
def test_no_op_lengthens_a_vector_by_more(seed: int) -> None:
    """By its own matrix: the singular values of every affine op of random graphs, from each of its inputs."""
    graph = image_graph(seed, ops=6).to("cpu", torch.float64)
    for node in graph.nodes[1:]:
        if not isinstance(node.op, Affine):
            continue
        gain = length_gain(node.op)
        assert gain is not None
        sizes = [graph.nodes[i].shape for i in node.inputs]
        for place, shape in enumerate(sizes):
            count = torch.Size(shape).numel()
            xs = [torch.zeros(count, *other, dtype=torch.float64) for other in sizes]
            xs[place] = torch.eye(count, dtype=torch.float64).view(count, *shape)
            norm = torch.linalg.matrix_norm(node.op.linear().forward(*xs).flatten(1), ord=2)
            assert float(norm) <= float(gain) * (1 + 1e-12), node.name


@pytest.mark.parametrize("seed", range(10))
def test_a_point_is_computed_within_what_is_charged_and_that_is_little(seed: int) -> None:
    made = torch.Generator().manual_seed(seed)
    weight = torch.randn(6, 200, generator=made, dtype=torch.float64) * 2.0 ** torch.randint(
        -9, 9, (6, 200), generator=made
    )
    bias, x = (torch.randn(n, generator=made, dtype=torch.float64) for n in (6, 200))
    value, charged = at_point(Linear(weight, bias), [x[None]], Deadline())
    for row, b, found, error in zip(
        weight.tolist(), bias.tolist(), value[0].tolist(), charged[0].tolist(), strict=True
    ):
        exact = sum((Fraction(w) * Fraction(v) for w, v in zip(row, x.tolist(), strict=True)), Fraction(b))
        assert abs(exact - Fraction(found)) <= Fraction(error)
        assert error < 2e-14 * (1 + abs(found))  # a plain sum of 200 such products is charged a hundred times that


def test_what_leads_below_the_normal_numbers_is_nothing() -> None:
    """No unit of it is a number any more; all that there is, is the rest."""
    op = Linear(torch.ones(3, 8, dtype=torch.float64))
    value, charged = at_point(op, [torch.full((1, 8), 5e-324, dtype=torch.float64)], Deadline())
    assert bool(value.isfinite().all())
    assert bool(charged.isfinite().all())


def test_a_deadline_ends_a_point() -> None:
    with pytest.raises(DeadlineExpired):
        at_point(Linear(torch.ones(3, 8, dtype=torch.float64)), [torch.ones(1, 8, dtype=torch.float64)], Deadline(0.0))
