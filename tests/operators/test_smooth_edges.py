"""Smooth operators where they are not defined, overflow, are linear, or cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import netproof
from model.onnx_models import Model
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval
from netproof.core.verdict import Status
from netproof.errors import Unbounded, UnsupportedOp
from netproof.model.nonlinear.smooth import Elu, Exp, HardSwish, Log, LogSigmoid, Sigmoid, Smooth, Softplus, Sqrt
from netproof.numerics import float32_down, float32_up
from netproof.problem.problem import InputSet
from netproof.relax import relaxation_of
from support.both_ways import box_spec


def of_sum(op: str, offset: float, *more: np.ndarray) -> Model:
    """op(x₀ + x₁ + offset)."""
    model = Model((1, 2))
    model.add("Gemm", "x", np.ones((1, 2), np.float32), np.full(1, offset, np.float32), out="h", transB=1)
    return model.add(op, "h", *more)


def asked(model: Model, width: float, violation: str, folder: Path, **how: object) -> netproof.Verdict:
    ones = torch.full((1, 2), width, dtype=torch.float64)
    spec = folder / "spec.vnnlib"
    spec.write_text(box_spec(-ones, ones, 1, violation))
    return netproof.verify(model.save(folder / "net.onnx"), spec, device="cpu", timeout=30, **how)  # type: ignore[arg-type]


UNDEFINED = {
    "Log": ((), "its argument may be 0 or less, which is bounded by -1 and 3"),
    "Sqrt": ((), "its argument may be negative, which is bounded by -1 and 3"),
    "Reciprocal": ((), "its argument may be 0, which is bounded by -1 and 3"),
    "Pow": ((np.float32(1.5),), "its argument may be negative, which is bounded by -1 and 3"),
}


@pytest.mark.parametrize("method", ["auto", "beta", "lirpa", "input-split"])
@pytest.mark.parametrize("op", UNDEFINED)
def test_where_a_function_may_not_be_defined_nothing_is_proved(op: str, method: str, tmp_path: Path) -> None:
    more, reason = UNDEFINED[op]
    verdict = asked(of_sum(op, 1.0, *more), 1.0, "(>= Y_0 1e6)", tmp_path, method=method, attack=False)
    assert verdict.status == Status.UNKNOWN
    assert reason in verdict.reason
    assert f"{op}_1" in verdict.reason


# Defined on all of the bounds, and yet too large or too steep for them.
TOO_LARGE = {
    "Log": (1e-38, 1.0, ()),
    "Reciprocal": (1e-38, 1.0, ()),
    "Pow": (1e-38, 1.0, (np.float32(-2.0),)),
    "Exp": (66.0, 66.6, ()),
    "Cosh": (66.0, 67.0, ()),
    "Softplus": (0.0, 1e30, ()),
}


@pytest.mark.parametrize("op", TOO_LARGE)
def test_what_is_too_large_is_not_said_to_be_undefined(op: str) -> None:
    low, high, more = TOO_LARGE[op]
    network = Model((1, 1)).add(op, "x", *more).network()
    inputs = InputSet(torch.tensor([[low]], dtype=torch.float64), torch.tensor([[high]], dtype=torch.float64))
    why = f"too large to compute with, on its argument, which is bounded by {low:.6g} and {high:.6g}"
    with pytest.raises(Unbounded, match=re.escape(why)):
        interval_bounds(network.graph, Region.of(inputs, torch.device("cpu"), torch.float64))


@pytest.mark.parametrize("width", [1.0, 8.0, 20.0, 100.0])
def test_the_logarithm_of_a_sigmoid_is_decided_where_the_sigmoid_rounds_to_its_limits(
    width: float, tmp_path: Path
) -> None:
    """Each node is compared with onnxruntime's from what that made of the node before, so its rounding is no matter."""
    model = Model((1, 2)).add("Gemm", "x", np.eye(2, dtype=np.float32), out="h")
    model.add("Sigmoid", "h", out="s").add("Log", "s", out="l")
    model.add("ReduceSum", "l", np.array([1], np.int64), out="y")  # at most log σ(x₀) + log σ(x₁)
    top = 2.0 * float(torch.nn.functional.logsigmoid(torch.tensor(width, dtype=torch.float64)))
    assert asked(model, width, f"(>= Y_0 {top + 1e-4:.9f})", tmp_path).status == Status.UNSAT
    assert asked(model, width, f"(>= Y_0 {top - 0.1:.9f})", tmp_path).status == Status.SAT
    network = netproof.load_network(tmp_path / "net.onnx")
    assert [type(node.op) for node in network.graph.nodes if isinstance(node.op, Smooth)] == [LogSigmoid]


def test_a_sigmoid_that_something_else_reads_stays_beside_its_logarithm(tmp_path: Path) -> None:
    model = Model((1, 2)).add("Sigmoid", "x", out="s").add("Log", "s", out="l").add("Add", "s", "l", out="y")
    network = netproof.load_network(model.save(tmp_path / "net.onnx"))
    assert {type(node.op) for node in network.graph.nodes if isinstance(node.op, Smooth)} == {Sigmoid, LogSigmoid}


ROOTS = {"Sqrt": ((), 0.5), "Pow": ((np.float32(0.3),), 0.3)}


@pytest.mark.parametrize("op", ROOTS)
def test_a_root_is_decided_where_its_argument_reaches_0(op: str, tmp_path: Path) -> None:
    """Of relu(x₀ + x₁), which is 0 on half of the box: bounds rounded to float32 do not pass 0 either."""
    more, p = ROOTS[op]
    model = Model((1, 2)).add("Gemm", "x", np.ones((1, 2), np.float32), out="h", transB=1).add("Relu", "h", out="r")
    model.add(op, "r", *more)
    assert asked(model, 1.0, f"(>= Y_0 {2.0**p + 0.01})", tmp_path, attack=False).status == Status.UNSAT
    assert asked(model, 1.0, f"(>= Y_0 {2.0**p - 0.01})", tmp_path).status == Status.SAT


def test_bounds_rounded_to_float32_do_not_pass_0() -> None:
    """What the charge of a root at 0 rests on."""
    x = torch.tensor([0.0, 5e-324, 1e-300, 1e-45, 1e-40, 1e-38, 0.1, 1.0 + 1e-9], dtype=torch.float64)
    assert bool((float32_down(x) >= 0).all())
    assert bool((float32_up(-x) <= 0).all())


@pytest.mark.parametrize("gate", ["Sigmoid", "Erf"])
@pytest.mark.parametrize("factors", [(1.0, 0.0), (0.0, 0.0)])
def test_a_gate_with_a_factor_of_0_is_a_product(gate: str, factors: tuple[float, float], tmp_path: Path) -> None:
    """x·sigmoid(βx) = silu(βx)/β, or x·(1 + erf(βx)), has no such form where β is 0: there it is x/2, or x."""
    model = Model((1, 2)).add("Mul", "x", np.array([factors], np.float32), out="m").add(gate, "m", out="g")
    if gate == "Erf":
        model.add("Add", "g", np.float32(1.0), out="h")
    model.add("Mul", "x", "g" if gate == "Sigmoid" else "h", out="p")
    model.add("Gemm", "p", np.array([[0, 1]], np.float32), transB=1, out="y")
    most = 0.5 if gate == "Sigmoid" else 1.0
    assert asked(model, 1.0, f"(>= Y_0 {most + 1e-3})", tmp_path).status == Status.UNSAT
    assert asked(model, 1.0, f"(>= Y_0 {most - 1e-3})", tmp_path).status == Status.SAT


@pytest.mark.parametrize("op", UNDEFINED)
def test_where_it_is_defined_it_is_proved(op: str, tmp_path: Path) -> None:
    more, _ = UNDEFINED[op]
    assert asked(of_sum(op, 2.5, *more), 1.0, "(>= Y_0 20)", tmp_path).status == Status.UNSAT


def test_intervals_too_wide_are_not_the_last_word(tmp_path: Path) -> None:
    """The argument x − x + 1 is 1: intervals let it be negative, bounds that see both x do not."""
    model = Model((1, 2))
    model.add("Gemm", "x", np.array([[1, 0], [0, 1]], np.float32), np.zeros(2, np.float32), out="a", transB=1)
    model.add("Sigmoid", "a", out="b")
    model.add("Gemm", "b", np.array([[1, 0], [-1, 0]], np.float32), np.full(2, 2, np.float32), out="c", transB=1)
    model.add("Gemm", "c", np.ones((1, 2), np.float32), np.full(1, -3.5, np.float32), out="h", transB=1)
    model.add("Log", "h")
    assert asked(model, 3.0, "(>= Y_0 0)", tmp_path).status == Status.UNSAT
    assert asked(model, 3.0, "(<= Y_0 -0.7)", tmp_path).status == Status.UNSAT


def test_an_exponential_that_overflows_is_unknown(tmp_path: Path) -> None:
    verdict = asked(of_sum("Exp", 0.0), 1e30, "(<= Y_0 -1)", tmp_path, attack=False)
    assert verdict.status == Status.UNKNOWN
    assert "too large to compute with, on its argument" in verdict.reason


def test_a_saturated_sigmoid_is_bounded_on_huge_bounds(tmp_path: Path) -> None:
    assert asked(of_sum("Sigmoid", 0.0), 1e6, "(>= Y_0 1.001)", tmp_path).status == Status.UNSAT


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (of_sum("Pow", 1.0, np.array([1.0, 2.0], np.float32)), "exponent is not one exact number"),
        (of_sum("Pow", 1.0, np.float32(100.0)), "beyond 64"),
        (of_sum("Tan", 1.0), "no bounds for it"),
    ],
    ids=["several exponents", "large exponent", "tan"],
)
def test_refusals_name_the_node(model: Model, why: str) -> None:
    with pytest.raises(UnsupportedOp, match=why):
        model.network()


def interval(low: float, high: float, dtype: torch.dtype = torch.float64) -> Interval:
    return Interval(torch.tensor([low], dtype=dtype), torch.tensor([high], dtype=dtype))


LINEAR: list[tuple[Smooth, float, float, bool]] = [
    (Elu(1.5), 0.0, 3.0, True),
    (Elu(1.5), -1e-9, 3.0, False),
    (HardSwish(), 3.0, 9.0, True),
    (HardSwish(), -7.0, -3.0, True),
    (HardSwish(), -3.1, -2.9, False),
    (Softplus(), 50.0, 60.0, False),
]


@pytest.mark.parametrize(("op", "low", "high", "linear"), LINEAR)
def test_linear_only_where_exactly_so(op: Smooth, low: float, high: float, linear: bool) -> None:
    assert bool(relaxation_of(op).linear_on(interval(low, high))) == linear


AWKWARD = [(2.0, 1.0), (1.0, 1.0), (0.0, 0.0), (-0.0, 0.0), (1e-38, 3e38), (-3e38, 3e38), (1e30, 1e30), (-1e-40, 1e-40)]


@pytest.mark.parametrize("op", [Sigmoid(), Softplus(), HardSwish(), Elu(0.5)], ids=lambda op: type(op).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_bounds_give_nan(op: Smooth, dtype: torch.dtype) -> None:
    """Empty bounds, points, tiny and huge ones: of 3e38 the width overflows float32, as the engine never asks."""
    relaxation = relaxation_of(op)
    for low, high in AWKWARD:
        if dtype == torch.float32 and high - low > 3.4e38:
            continue
        h = interval(low, high, dtype)
        for proof in (False, True):
            lines = relaxation.family(h, proof=proof).at(relaxation.initial(h))
            assert not any(bool(t.isnan().any()) for t in lines if t is not None), (low, high, proof)
        assert not bool(relaxation.split_point(h).isnan().any())


@pytest.mark.parametrize("op", [Log(), Sqrt(), Exp()], ids=lambda op: type(op).__name__)
def test_the_range_says_where_nothing_is_known(op: Smooth) -> None:
    found = relaxation_of(op).range(interval(-1.0, 1e3))
    assert found.lower.isinf()
    assert found.upper.isinf()


def test_a_square_root_is_bounded_down_to_zero() -> None:
    """Its slope is not, so the lines are only so steep; they enclose it all the same."""
    relaxation = relaxation_of(Sqrt())
    for high in (0.0, 1e-300, 1e-20, 1e-9, 1.0):
        h = interval(0.0, high)
        lines = relaxation.family(h, proof=True).at(torch.tensor([0.0], dtype=torch.float64))
        for x in np.linspace(0.0, high, 50):
            root = np.sqrt(x)
            assert float(lines.lower_slope) * x + float(lines.lower_intercept) <= root * (1 + 1e-15)  # type: ignore[arg-type]
            assert float(lines.upper_slope) * x + float(lines.upper_intercept) >= root * (1 - 1e-15)
        assert float(lines.upper_intercept) <= np.sqrt(high) + 1e-5


def applied(function: Callable[[Tensor], Tensor]) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    return Module()


def test_what_only_looks_like_a_pattern_is_not_fused() -> None:
    """x·sigmoid(y), x·(2 + erf(x)) and x/(2 + |x|) are products and quotients of two values."""
    for function in (
        lambda x: x[:, :1] * torch.sigmoid(x[:, 1:]),
        lambda x: x * (2.0 + torch.erf(x)),
        lambda x: x / (2.0 + x.abs()),
    ):
        network = netproof.load_network(applied(function), example_shape=(1, 2))
        kinds = {type(node.op).__name__ for node in network.graph.nodes}
        assert not kinds & {"Silu", "ErfGate", "Softsign"}
        assert "Product" in kinds
