"""Values without axes, and values of integer types: read as they are, or refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import netproof
from model.onnx_models import Model, ints
from netproof.core.verdict import Status
from netproof.errors import UnsupportedOp
from netproof.model.load import load_network

SPEC = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)" + "".join(
    f"(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(2)
)


def number(kind: str) -> Model:
    """A network of two inputs whose inside, or answer, is one number without axes."""
    if kind == "sum":
        return Model((1, 2)).add("ReduceSum", "x", keepdims=0)
    model = Model((1, 2)).add("ReduceSum", "x", keepdims=0, out="h")
    if kind == "product":
        return model.add("ReduceMax", "x", keepdims=0, out="k").add("Mul", "h", "k")
    return model.add(kind, "h", out="z").add("Reshape", "z", ints(1, 1))


@pytest.mark.parametrize(("kind", "most"), [("sum", 2.0), ("Relu", 2.0), ("Sigmoid", 0.880797), ("product", 2.0)])
@pytest.mark.parametrize("attack", [True, False])
def test_a_number_without_axes_is_decided(kind: str, most: float, attack: bool, tmp_path: Path) -> None:
    path, spec = number(kind).save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    for value, status in ((most + 0.001, Status.UNSAT), (most - 0.001, Status.SAT)):
        spec.write_text(f"{SPEC}(assert (>= Y_0 {value}))")
        assert netproof.verify(path, spec, timeout=20, attack=attack).status == status
    assert float(netproof.bounds(path, spec).upper.max()) >= most - 1e-6


def test_an_input_without_axes_is_decided(tmp_path: Path) -> None:
    path, spec = Model(()).add("Relu", "x").save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    head = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 -1))(assert (<= X_0 0.5))"
    for value, status in (("0.51", Status.UNSAT), ("0.49", Status.SAT)):
        spec.write_text(f"{head}(assert (>= Y_0 {value}))")
        assert netproof.verify(path, spec, timeout=20).status == status


def integers(op: str, *more: object, to: int = onnx.TensorProto.INT64) -> Model:
    """A truth value that is 0 in a small window only, cast to an integer type, and one operator on it."""
    model = Model((1, 1)).add("Sub", "x", np.float32(0.3), out="d").add("Abs", "d", out="a")
    model = model.add("GreaterOrEqual", "a", np.float32(0.001), out="b").add("Cast", "b", to=to, out="i")
    return model.add(op, "i", *more, out="j").add("Cast", "j", to=1)


@pytest.mark.parametrize("op", ["Div", "Mod", "Pow"])
def test_integers_are_not_computed_with(op: str, tmp_path: Path) -> None:
    """1 / 2 is 0 among integers: only a few inputs would show it, so a comparison at random ones is not enough."""
    path = integers(op, np.array(2, np.int64)).save(tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOp, match="integers"):
        load_network(path)


def chosen(what: str) -> Model:
    """Integers chosen by a truth value, of which some are not seen to depend on the input."""
    model = Model((1, 1), opset=18).add("Sub", "x", np.float32(0.3), out="d").add("Abs", "d", out="a")
    model = model.add("GreaterOrEqual", "a", np.float32(0.001), out="b")
    model = model.add("Cast", "b", to=onnx.TensorProto.INT64, out="i")
    if what == "constants":
        model = model.add("Where", "b", np.array(4), np.array(3), out="j").add("Div", "j", np.array(2), out="k")
        return model.add("Cast", "k", to=1)
    if what == "truth or 2":
        return model.add("Where", "b", "i", np.array(2), out="j").add("Cast", "j", to=9, out="k").add("Cast", "k", to=1)
    if what == "largest":
        return model.add("Max", "i", np.array(2), out="j").add("Cast", "j", to=1)
    model = model.add("Where", "b", np.float32(1.0), np.float32(3.0), out="f").add("CastLike", "f", "i", out="j")
    return model.add("Cast", "j", to=1)


def is_everywhere(value: float, path: Path, low: float, high: float) -> bool:
    """Whether the output is proved to be one number on a box, and found to be so."""
    spec = path.with_suffix(".vnnlib")
    head = f"(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 {low}))(assert (<= X_0 {high}))"

    def status(violation: str) -> Status:
        spec.write_text(f"{head}(assert {violation})")
        return netproof.verify(path, spec, timeout=20).status

    apart = f"(or (>= Y_0 {value + 0.5}) (<= Y_0 {value - 0.5}))"
    near = f"(and (<= Y_0 {value + 0.25}) (>= Y_0 {value - 0.25}))"
    return (status(apart), status(near)) == (Status.UNSAT, Status.SAT)


@pytest.mark.parametrize(("op", "inside", "outside"), [("Add", 2, 3), ("Sub", -2, -1), ("Mul", 0, 2), ("Max", 2, 2)])
def test_integers_that_cannot_wrap_are_computed_with(op: str, inside: int, outside: int, tmp_path: Path) -> None:
    path = integers(op, np.array(2, np.int64)).save(tmp_path / "m.onnx")
    load_network(path)
    assert is_everywhere(inside, path, 0.2995, 0.3005)
    assert is_everywhere(outside, path, 0.4, 1.0)


@pytest.mark.parametrize(
    ("op", "by"),
    [("Add", np.int32(2**31 - 1)), ("Sub", np.int32(-(2**31))), ("Mul", np.int64(2**53 + 1)), ("Max", np.int64(2**60))],
)
def test_integers_that_may_wrap_or_be_rounded_are_refused(op: str, by: np.integer, tmp_path: Path) -> None:
    model = integers(op, np.asarray(by), to=onnx.helper.np_dtype_to_tensor_dtype(by.dtype))
    with pytest.raises(UnsupportedOp, match="its integers may wrap, or be larger than floats hold"):
        load_network(model.save(tmp_path / "m.onnx"))


def test_a_quotient_of_chosen_integers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="integers"):
        load_network(chosen("constants").save(tmp_path / "m.onnx"))


@pytest.mark.parametrize(("what", "inside", "outside"), [("truth or 2", 1, 1), ("largest", 2, 2), ("like", 3, 1)])
def test_integers_are_chosen(what: str, inside: int, outside: int, tmp_path: Path) -> None:
    path = chosen(what).save(tmp_path / "m.onnx")
    load_network(path)
    assert is_everywhere(inside, path, 0.2995, 0.3005)
    assert is_everywhere(outside, path, 0.4, 1.0)


def cut(kind: int, floor: bool = False) -> Model:
    """5x without what lies behind its point, by way of an integer type."""
    model = Model((1, 1)).add("Mul", "x", np.float32(5.0), out="m")
    model = model.add("Floor", "m", out="f") if floor else model.add("Identity", "m", out="f")
    return model.add("Cast", "f", to=kind, out="i").add("Cast", "i", to=1)


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.INT8])
def test_a_float_that_becomes_an_integer_is_cut_off_towards_0(kind: int, tmp_path: Path) -> None:
    path = cut(kind).save(tmp_path / "m.onnx")
    load_network(path)
    for low, high, value in ((-0.15, 0.15, 0), (0.45, 0.55, 2), (-0.55, -0.45, -2)):
        assert is_everywhere(value, path, low, high)


@pytest.mark.parametrize(
    ("kind", "low", "high", "value"),
    [
        (onnx.TensorProto.UINT8, -0.18, 0.18, 0),
        (onnx.TensorProto.UINT8, 51.02, 51.18, 255),
        (onnx.TensorProto.INT8, 25.42, 25.58, 127),
        (onnx.TensorProto.INT8, -25.78, -25.62, -128),
    ],
)
def test_the_last_integer_of_a_type_reaches_to_the_one_that_it_lacks(
    kind: int, low: float, high: float, value: int, tmp_path: Path
) -> None:
    path = cut(kind).save(tmp_path / "m.onnx")
    load_network(path)
    assert is_everywhere(value, path, low, high)


def test_a_floor_that_becomes_an_integer_stays_as_it_is(tmp_path: Path) -> None:
    path = cut(onnx.TensorProto.INT32, floor=True).save(tmp_path / "m.onnx")
    load_network(path)
    for low, high, value in ((0.05, 0.15, 0), (0.45, 0.55, 2), (-0.55, -0.45, -3)):
        assert is_everywhere(value, path, low, high)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (onnx.TensorProto.UINT8, -1.0, 0.5),
        (onnx.TensorProto.UINT8, -0.2, 0.5),
        (onnx.TensorProto.UINT8, 50.0, 51.2),
        (onnx.TensorProto.INT8, 20.0, 30.0),
        (onnx.TensorProto.INT64, 1e9, 2e9),
    ],
)
def test_nothing_is_proved_beyond_an_integer_type(kind: int, low: float, high: float, tmp_path: Path) -> None:
    path, spec = cut(kind).save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    spec.write_text(
        f"(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 {low}))(assert (<= X_0 {high}))"
        "(assert (>= Y_0 1e12))"
    )
    verdict = netproof.verify(path, spec, timeout=20)
    assert verdict.status == Status.UNKNOWN
    assert "beyond the integers of its type" in verdict.reason


def test_integers_are_moved_and_compared(tmp_path: Path) -> None:
    model = integers("Reshape", ints(1))
    path, spec = model.save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    head = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0.4))(assert (<= X_0 1))"
    spec.write_text(f"{head}(assert (<= Y_0 0.5))")
    assert netproof.verify(path, spec, timeout=20).status == Status.UNSAT


@pytest.mark.parametrize("hinged", [False, True])
def test_a_choice_has_the_type_of_what_is_chosen(hinged: bool, tmp_path: Path) -> None:
    """A cast that rounds what was chosen is refused, though the comparison was one of float16."""
    model = Model((1, 1), opset=18, kind=onnx.TensorProto.FLOAT16)
    model = model.add("GreaterOrEqual", "x", np.float16(0.25), out="b")
    if hinged:
        model = model.add("Cast", "x", to=1, out="s").add("Where", "b", "s", np.float32(60017), out="w")
    else:
        model = model.add("Where", "b", np.float32(3000), np.float32(2049), out="w")
    with pytest.raises(UnsupportedOp, match="rounds"):
        load_network(model.add("Cast", "w", to=10).save(tmp_path / "m.onnx"))


@pytest.mark.parametrize("target", [onnx.TensorProto.STRING, onnx.TensorProto.BFLOAT16])
def test_a_truth_is_cast_to_known_types_only(target: int, tmp_path: Path) -> None:
    model = Model((1, 1)).add("Greater", "x", np.float32(0), out="b").add("Cast", "b", to=target, out="s")
    with pytest.raises(UnsupportedOp, match=r"its result has type (STRING|BFLOAT16), which is not supported"):
        load_network(model.add("Cast", "s", to=1).save(tmp_path / "m.onnx"))
