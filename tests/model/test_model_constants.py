"""Constants that were folded: the exact result lies within the radius, and exact results have none."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_models import Model
from op_cases import batch_norm

from netproof.errors import UnsupportedOp
from netproof.model.affine import Linear, Scale
from netproof.model.moves import Concat
from netproof.model.onnx.folding import reference
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32)

Binary = Callable[[Constant, Constant], Constant]
EXACT: dict[str, tuple[Binary, Callable[[Fraction, Fraction], Fraction]]] = {
    "add": (constant.add, lambda a, b: a + b),
    "subtract": (constant.subtract, lambda a, b: a - b),
    "multiply": (constant.multiply, lambda a, b: a * b),
    "divide": (constant.divide, lambda a, b: a / b),
}


def ends(k: Constant) -> tuple[Fraction, Fraction]:
    value = Fraction(float(k.value))
    radius = Fraction(float(k.radius)) if k.radius is not None else Fraction(0)
    return value - radius, value + radius


@pytest.mark.parametrize("name", EXACT)
@given(a=NUMBERS, b=NUMBERS)
def test_the_exact_result_is_within_the_radius(name: str, a: float, b: float) -> None:
    computed, exact = EXACT[name]
    if name == "divide" and b == 0.0:
        return
    result = computed(constant.constant(a), constant.constant(b))
    if not np.isfinite(result.value) or (result.radius is not None and not np.isfinite(result.radius)):
        return
    low, high = ends(result)
    assert low <= exact(Fraction(a), Fraction(b)) <= high


@pytest.mark.parametrize("name", EXACT)
@given(a=SINGLES, b=SINGLES, c=SINGLES)
def test_radii_are_carried_through_a_second_operation(name: str, a: float, b: float, c: float) -> None:
    computed, exact = EXACT[name]
    if b == 0.0 or c == 0.0:
        return
    inner = constant.divide(constant.constant(a), constant.constant(b))
    true = Fraction(a) / Fraction(b)
    for result, value in (
        (computed(inner, constant.constant(c)), exact(true, Fraction(c))),
        (computed(constant.constant(c), inner), exact(Fraction(c), true) if true else None),
    ):
        if value is None or not np.isfinite(result.value):
            continue
        if result.radius is not None and not np.isfinite(result.radius):
            continue
        low, high = ends(result)
        assert low <= value <= high


WIDE = [(1.0, 0.5), (-3.0, 1.0), (2.0, 0.25)]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("left", WIDE)
@pytest.mark.parametrize("right", WIDE)
def test_wide_radii_are_carried_to_the_ends(name: str, left: tuple[float, float], right: tuple[float, float]) -> None:
    """However far from rounding: every combination of both operands' ends."""
    computed, exact = EXACT[name]
    a, b = (Constant(np.array(value), np.array(radius)) for value, radius in (left, right))
    low, high = ends(computed(a, b))
    for x in ends(a):
        for y in ends(b):
            assert low <= exact(x, y) <= high


def test_the_root_of_a_wide_interval() -> None:
    a = Constant(np.array(4.0), np.array(1.0))
    low, high = ends(constant.square_root(a))
    assert low**2 <= 3
    assert high**2 >= 5


def test_a_divisor_that_may_be_zero_says_nothing() -> None:
    wide = Constant(np.array(1.0), np.array(2.0))
    assert np.isinf(constant.divide(constant.constant(1.0), wide).radius)


@given(a=st.floats(min_value=0.0, max_value=1e200))
def test_square_roots(a: float) -> None:
    low, high = ends(constant.square_root(constant.constant(a)))
    assert max(low, Fraction(0)) ** 2 <= Fraction(a) <= high**2


@given(a=SINGLES, power=st.integers(-20, 20))
def test_what_is_exact_has_no_radius(a: float, power: int) -> None:
    half = constant.constant(2.0**power)
    if a == 0.0 or abs(a) > 1e-30:
        assert constant.multiply(constant.constant(a), half).radius is None
        assert constant.divide(constant.constant(a), half).radius is None
        assert constant.multiply(constant.constant(a), constant.constant(a)).radius is None
    assert constant.add(constant.constant(a), constant.constant(0.0)).radius is None
    assert constant.square_root(constant.constant(4.0)).radius is None


def test_division_by_what_may_be_zero_has_no_finite_radius() -> None:
    third = constant.divide(constant.constant(1.0), constant.constant(3.0))
    almost = constant.subtract(third, constant.constant(float(third.value)))
    assert almost.value == 0.0
    assert np.isinf(constant.divide(constant.constant(1.0), almost).radius)


def test_batch_normalisation_lies_within_its_radius() -> None:
    model = batch_norm(15)
    gamma, beta, mean, variance = (model.constants[f"c{i}"] for i in range(4))
    (op,) = [n.op for n in model.network().graph.nodes if isinstance(n.op, Scale)]
    radius = op.radius
    assert isinstance(radius, Scale)
    with localcontext() as context:
        context.prec = 60
        for i in range(3):
            spread = (Decimal(float(variance[i])) + Decimal(float(np.float32(0.001)))).sqrt()
            mult = Decimal(float(gamma[i])) / spread
            add = Decimal(float(beta[i])) - Decimal(float(mean[i])) * mult
            for exact, stored, slack in ((mult, op.mult, radius.mult), (add, op.add, radius.add)):
                gap = abs(exact - Decimal(float(stored[i])))
                assert gap <= Decimal(float(slack[i]))
                assert float(slack[i]) <= 1e-14 * (1.0 + abs(float(exact)))


def test_gemm_factors_are_exact_only_when_they_are_powers_of_two() -> None:
    for alpha, exact in ((0.5, True), (0.3, False)):
        model = Model((1, 4), kind=TensorProto.DOUBLE)
        weight = model.random.normal(size=(4, 3))
        network = model.add("Gemm", "x", weight, alpha=alpha).network()
        (op,) = [n.op for n in network.graph.nodes if isinstance(n.op, Linear)]
        assert (op.radius is None) == exact
        if op.radius is not None:
            assert isinstance(op.radius, Linear)
            factor = Fraction(float(np.float32(alpha)))
            for w, stored, slack in zip(weight.T.flat, op.weight.flatten(), op.radius.weight.flatten(), strict=True):
                assert abs(Fraction(float(w)) * factor - Fraction(float(stored))) <= Fraction(float(slack))


def test_dividing_by_three_has_a_radius_and_by_four_none() -> None:
    for divisor, exact in ((3.0, False), (4.0, True)):
        network = Model((1, 4)).add("Div", "x", np.float32(divisor)).network()
        (op,) = [n.op for n in network.graph.nodes if isinstance(n.op, Scale)]
        assert (op.radius is None) == exact


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_factor_of_one_rounds_nothing(a: float) -> None:
    one = constant.constant(1.0)
    assert constant.multiply(Constant(np.array([[a]])), one).value.tolist() == [[a]]
    assert constant.multiply(Constant(np.array([[a]])), one).radius is None
    inexact = constant.multiply(Constant(np.array([a]), np.array([0.5])), one)
    assert inexact.radius is not None
    assert inexact.radius >= 0.5


MOVED: dict[str, Callable[[Model], Model]] = {
    "gather-scalar": lambda m: m.add("Gather", m.weights(4), np.asarray(-1), out="k"),
    "gather-axis": lambda m: m.add("Gather", m.weights(2, 3), np.asarray([[2, 0]]), axis=-1, out="k"),
    "unsqueeze-attribute": lambda m: m.add("Unsqueeze", m.weights(3), axes=[0, -1], out="k"),
    "unsqueeze-input": lambda m: m.add("Unsqueeze", m.weights(3), np.asarray([1, 0]), out="k"),
    "concat": lambda m: m.add("Concat", m.weights(2, 1), m.weights(2, 3), axis=-1, out="k"),
}


@pytest.mark.parametrize("name", MOVED)
def test_numpy_moves_constants_as_the_reference_implementation_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def folded() -> list[list[float]]:
        """The entries of k, and its shape."""
        model = MOVED[name](Model((1, 3), 11 if name.endswith("attribute") else 13))
        model.add("Shape", "k", out="n").add("Cast", "n", to=TensorProto.FLOAT, out="s")
        model.add("Flatten", "k", axis=0, out="f").add("Flatten", "s", axis=0, out="g")
        op = model.add("Concat", "x", "f", "g", axis=1).network().graph.output.op
        assert isinstance(op, Concat)
        return [part.flatten().tolist() for part in op.parts if part is not None]

    mine = folded()
    monkeypatch.setattr(reference, "_moved", lambda c, arrays: None)
    assert mine == folded()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: m.add("Gather", m.weights(4), np.asarray(4), out="k"),
        lambda m: m.add("Unsqueeze", m.weights(3), np.asarray([7]), out="k"),
        lambda m: m.add("Concat", m.weights(2, 1), m.weights(3, 3), axis=1, out="k"),
    ],
)
def test_constants_that_do_not_fit_are_refused(wrong: Callable[[Model], Model]) -> None:
    with pytest.raises(UnsupportedOp, match="its constant inputs do not fit"):
        wrong(Model((1, 3))).add("Flatten", "k", axis=0, out="f").add("Concat", "x", "f", axis=1).network()
