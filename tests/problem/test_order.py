"""A last softmax, log softmax or sigmoid is no part of a problem whose rows only compare."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import MPContext
from torch import Tensor, nn

import netproof
from model.onnx_models import Model
from netproof.core.verdict import Status
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.model.ops import Nonlinear
from netproof.problem.last.order import _logit, before_last_map
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.reduce import reduce
from support.both_ways import box_spec

mp = MPContext()  # of its own: its precision is nobody else's
mp.dps = 100


def precise(x: Fraction) -> Any:
    """The number to a hundred digits."""
    return mp.mpf(x.numerator) / mp.mpf(x.denominator)


class Classifier(nn.Module):
    def __init__(self, last: nn.Module, shape: tuple[int, ...] = (1, 4)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 4))
        self.last, self.shape = last, shape

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x).view(self.shape)).reshape(1, 4)


def loaded(last: nn.Module, shape: tuple[int, ...] = (1, 4)) -> Network:
    return load_network(Classifier(last, shape).eval(), example_shape=(1, 2))


def asking(*disjuncts: tuple[Row, ...]) -> Property:
    box = Box((Fraction(-1),) * 2, (Fraction(1),) * 2)
    return Property(tuple(Disjunct(box, rows) for rows in disjuncts), 2, 4)


def row(rhs: Fraction | int = 0, **coefs: int) -> Row:
    """row(y0=1, y2=-1): y_0 − y_2 <= 0."""
    return Row({int(name[1:]): Fraction(c) for name, c in coefs.items()}, Fraction(rhs))


def smooth_ops(network: Network, property: Property) -> int:
    (problem,) = reduce(network, property)
    relu = 1
    return sum(isinstance(node.op, Nonlinear) for node in problem.graph.nodes) - relu


MAPS = [nn.Softmax(-1), nn.LogSoftmax(-1), nn.Sigmoid(), nn.Tanh(), nn.Softplus(), nn.LeakyReLU(0.5)]


@pytest.mark.parametrize("last", MAPS)
def test_rows_that_compare_are_asked_of_what_comes_before(last: nn.Module) -> None:
    network = loaded(last)
    property = asking((row(y0=1, y2=-1), row(y1=-3, y0=3)), (row(y3=1, y1=-1),))
    graph, asked = before_last_map(network, property)
    assert asked == property
    assert smooth_ops(network, property) == 0
    x = torch.randn(50, 1, 2, dtype=torch.float64)
    before, after = graph.forward(x).flatten(1), network.graph.forward(x).flatten(1)
    for i in range(4):
        for j in range(4):
            assert torch.equal(before[:, i] < before[:, j], after[:, i] < after[:, j])


# Increasing maps that are no number on a part of the box, with what is said then.
PARTIAL = {
    "Log": "its argument may be 0 or less",
    "Sqrt": "its argument may be negative",
    "Exp": "too large to compute with, on its argument",
}


def partial(op: str, offset: float, factor: float) -> Model:
    """op(factor·(x₀ + x₁ + offset)) and op(factor·(x₀ − x₁ + offset))."""
    model = Model((1, 2))
    weight, bias = np.array([[1, 1], [1, -1]], np.float32), np.full(2, offset, np.float32)
    model.add("Gemm", "x", weight, bias, out="a", transB=1)
    model.add("Mul", "a", np.float32(factor), out="b")
    return model.add(op, "b", out="y")


@pytest.mark.parametrize("attack", [False, True])
@pytest.mark.parametrize("op", PARTIAL)
def test_a_map_that_may_be_no_number_stays_where_it_is(op: str, attack: bool, tmp_path: Path) -> None:
    network = load_network(partial(op, 0.0, 500.0).save(tmp_path / "net.onnx"))
    property = Property((Disjunct(asking(()).disjuncts[0].box, (row(y0=1, y1=-1),)),), 2, 2)
    assert before_last_map(network, property) == (network.graph, property)
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(box_spec(-torch.ones(2), torch.ones(2), 2, "(<= Y_0 Y_1)"))
    verdict = netproof.verify(network, spec, timeout=20, device="cpu", attack=attack)
    if verdict.status == Status.UNKNOWN:
        assert PARTIAL[op] in verdict.reason
    else:  # the attack asks the whole network, and may find one where both are numbers
        assert attack
        assert verdict.status == Status.SAT


@pytest.mark.parametrize("op", PARTIAL)
def test_where_it_is_a_number_it_is_decided_behind_the_map(op: str, tmp_path: Path) -> None:
    network = load_network(partial(op, 3.0, 1.0).save(tmp_path / "net.onnx"))
    spec = tmp_path / "spec.vnnlib"
    for low, expected in ((0.5, Status.UNSAT), (-1.0, Status.SAT)):  # x₁ > 0 means y₀ > y₁
        spec.write_text(box_spec(torch.tensor([-1.0, low]), torch.ones(2), 2, "(<= Y_0 Y_1)"))
        assert netproof.verify(network, spec, timeout=30, device="cpu", attack=False).status == expected


@pytest.mark.parametrize("last", [nn.Softmax(-1), nn.Tanh()])
@pytest.mark.parametrize(
    "rows", [(row(Fraction(1, 3), y0=1),), (row(y0=1, y1=-2),), (row(Fraction(1, 9), y0=1, y1=-1),), (row(y0=1, y1=1),)]
)
def test_rows_that_ask_for_more_leave_the_map_where_it_is(last: nn.Module, rows: tuple[Row, ...]) -> None:
    network = loaded(last)
    for property in (asking(rows), asking((row(y0=1, y2=-1),), rows), asking((row(y0=1, y2=-1), *rows))):
        assert before_last_map(network, property) == (network.graph, property)


def test_no_rows_at_all_ask_for_the_outputs_themselves() -> None:
    network, property = loaded(nn.Softmax(-1)), asking((row(y0=1, y2=-1),))
    for nothing in (property.without_rows(), asking((row(y0=1, y2=-1),), ())):
        assert before_last_map(network, nothing)[0] is network.graph


def test_a_row_with_inputs_is_not_one_of_order() -> None:
    mixed = Row({0: Fraction(1), 1: Fraction(-1)}, Fraction(0), inputs={0: Fraction(1)})
    assert before_last_map(loaded(nn.Softmax(-1)), asking((mixed,)))[1].disjuncts[0].rows == (mixed,)
    assert smooth_ops(loaded(nn.Softmax(-1)), asking((mixed,))) > 0
    assert smooth_ops(loaded(nn.LogSoftmax(-1)), asking((mixed,))) == 0


def test_log_softmax_keeps_differences_of_any_size() -> None:
    network = loaded(nn.LogSoftmax(-1))
    assert smooth_ops(network, asking((row(Fraction(5, 7), y0=1, y1=1, y2=-2),))) == 0
    assert smooth_ops(network, asking((row(Fraction(5, 7), y0=1, y1=1, y2=-1),))) > 0


def test_groups_of_a_softmax_are_compared_within_themselves_only() -> None:
    network = loaded(nn.Softmax(-1), (1, 2, 2))
    assert smooth_ops(network, asking((row(y0=1, y1=-1), row(y3=1, y2=-1)))) == 0
    assert smooth_ops(network, asking((row(y0=1, y2=-1),))) > 0
    assert smooth_ops(loaded(nn.LogSoftmax(-1), (1, 2, 2)), asking((row(1, y0=1, y1=-1, y2=2, y3=-2),))) == 0


def test_another_axis_moves_the_rows_along() -> None:
    network = loaded(nn.Softmax(1), (1, 2, 2))  # groups are {0, 2} and {1, 3}
    assert smooth_ops(network, asking((row(y0=1, y1=-1),))) > 0
    property = asking((row(y0=1, y2=-1), row(y3=1, y1=-1)))
    graph, asked = before_last_map(network, property)
    x = torch.randn(50, 1, 2, dtype=torch.float64)
    before, after = graph.forward(x).flatten(1), network.graph.forward(x).flatten(1)
    for old, new in zip(property.disjuncts[0].rows, asked.disjuncts[0].rows, strict=True):
        signs = [sum(float(c) * y[:, i] for i, c in r.coefs.items()) <= 0 for r, y in ((old, after), (new, before))]
        assert torch.equal(*signs)


@pytest.mark.parametrize("value", [Fraction(1, 2), Fraction(1, 3), Fraction(999, 1000), Fraction(1, 10**9)])
@pytest.mark.parametrize("c", [3, -2])
def test_a_limit_of_a_sigmoid_becomes_its_logit_and_no_violation_is_lost(value: Fraction, c: int) -> None:
    network = loaded(nn.Sigmoid())
    property = asking((row(c * value, y1=c),))
    graph, asked = before_last_map(network, property)
    assert graph is not network.graph
    (found,) = asked.disjuncts[0].rows
    exact = mp.log(precise(value)) - mp.log(precise(1 - value))
    rhs = precise(found.rhs)
    assert found.coefs == {1: Fraction(c)}
    assert c * exact <= rhs <= c * exact + mp.mpf(10) ** -55


def test_a_logit_is_exact_to_sixty_digits() -> None:
    for value in (Fraction(1, 7), Fraction(10**40 - 1, 10**40), Fraction(1, 10**100)):
        found, off = _logit(value)
        exact = mp.log(precise(value)) - mp.log(precise(1 - value))
        assert abs(precise(found) - exact) <= precise(off)
        assert off < Fraction(1, 10**55)


@pytest.mark.parametrize("limit", [0, 1, 2, -1])
def test_a_limit_that_no_sigmoid_reaches_stays(limit: int) -> None:
    property = asking((row(limit, y1=1),))
    assert before_last_map(loaded(nn.Sigmoid()), property)[1] == property


@pytest.mark.parametrize("last", [nn.Softmax(-1), nn.LogSoftmax(-1), nn.Sigmoid()])
def test_verdicts_are_those_of_the_whole_network(last: nn.Module, tmp_path: Path) -> None:
    network = loaded(last)
    centre = torch.tensor([[0.2, -0.4]], dtype=torch.float64)
    best = int(network.graph.forward(centre[None])[0].argmax())
    worse = [f"(>= Y_{j} Y_{best})" for j in range(4) if j != best]
    for width, expected in ((0.02, Status.UNSAT), (8.0, Status.SAT)):
        spec = tmp_path / f"{width}.vnnlib"
        spec.write_text(box_spec(centre - width, centre + width, 4, f"(or {' '.join(worse)})"))
        verdict = netproof.verify(network, spec, timeout=60, device="cpu")
        assert verdict.status == expected
    assert verdict.witness is not None
