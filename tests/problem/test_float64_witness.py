"""Witnesses of networks that take float64: points of that type, pinned to its numbers, which read back."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.problem.property import Box, Disjunct
from netproof.problem.witness import format_witness, in_set, project

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def shifted(path: Path, weight: list[float], dtype: str = "float64") -> Path:
    """Write y = relu((x + [-0.3, 0, ...])·w)."""
    offset = np.zeros((1, len(weight)), dtype=dtype)
    offset[0, 0] = -0.3
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "b"], ["h"]),
            helper.make_node("MatMul", ["h", "w"], ["m"]),
            helper.make_node("Relu", ["m"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TYPES[dtype], [1, len(weight)])],
        [helper.make_tensor_value_info("y", TYPES[dtype], [1, 1])],
        [
            numpy_helper.from_array(offset, "b"),
            numpy_helper.from_array(np.array(weight, dtype=dtype).reshape(-1, 1), "w"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def query(path: Path, assertions: str, inputs: int, name: str = "f") -> Path:
    path.write_text(
        f"(vnnlib-version <2.0>)\n(declare-network {name} (declare-input X float64 [1,{inputs}]) "
        f"(declare-output Y float64 [1,1]))\n{assertions}\n"
    )
    return path


PIN = "(assert (== X[0,0] 0.3))(assert (and (>= X[0,1] 0.0) (<= X[0,1] 1.0)))"


@pytest.mark.parametrize(("least", "status"), [("0.00000006", "unsat"), ("0.000000009", "sat")])
def test_a_pinned_float64_input_is_the_double_not_the_float32(least: str, status: str, tmp_path: Path) -> None:
    model = shifted(tmp_path / "net.onnx", [8.0, 1e-8])  # at float32(0.3) it is 8 · 1.2e-8 more
    verdict = netproof.verify(model, query(tmp_path / "q.vnnlib", f"{PIN}(assert (>= Y[0,0] {least}))", 2), timeout=30)
    assert verdict.status == status
    if verdict.witness is not None:
        assert verdict.witness.input.dtype == np.float64
        assert verdict.witness.input[0, 0] == 0.3
        assert "holds no float64" in verdict.witness.note
        assert verdict.witness.note.endswith("(X[0,0])")  # as the query writes it
        assert "float64" in verdict.reason


def test_a_pinned_float32_input_is_the_float32(tmp_path: Path) -> None:
    model = shifted(tmp_path / "net.onnx", [8.0, 1e-8], "float32")
    spec = tmp_path / "q.vnnlib"
    declared = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0"))
    spec.write_text(declared + "(assert (= X_0 0.3))(assert (>= X_1 0))(assert (<= X_1 1))(assert (<= Y_0 1))")
    verdict = netproof.verify(model, spec, timeout=30)
    assert verdict.status == "sat"
    assert verdict.witness is not None
    assert verdict.witness.input.dtype == np.float32
    assert "holds no float32" in verdict.witness.note
    assert verdict.witness.note.endswith("(X_0)")


def test_a_range_between_two_float32_has_float64_witnesses(tmp_path: Path) -> None:
    model = shifted(tmp_path / "net.onnx", [2.0**20])
    bounds = "(assert (>= X[0,0] 0.3000000001))(assert (<= X[0,0] 0.3000000002))"
    spec = query(tmp_path / "q.vnnlib", f"{bounds}(assert (<= Y[0,0] 1.0))", 1)
    verdict = netproof.verify(model, spec, timeout=30)
    assert verdict.status == "sat"
    assert verdict.witness is not None
    assert Fraction("0.3000000001") <= Fraction(float(verdict.witness.input[0, 0])) <= Fraction("0.3000000002")
    assert not verdict.witness.note


def test_networks_of_two_types_do_not_pin_a_float64_input_to_a_float32(tmp_path: Path) -> None:
    wide, narrow = shifted(tmp_path / "wide.onnx", [8.0, 1e-8]), shifted(tmp_path / "narrow.onnx", [1.0], "float32")
    second = "(declare-network g (declare-input Z float32 [1,1]) (declare-output W float32 [1,1]))"
    more = "(assert (and (>= Z[0,0] 0.0) (<= Z[0,0] 1.0)))"
    spec = query(tmp_path / "q.vnnlib", f"{second}{PIN}{more}(assert (>= Y[0,0] 0.00000006))", 2)
    verdict = netproof.verify({"f": wide, "g": narrow}, spec, timeout=10)
    assert verdict.status in ("unknown", "unsat", "timeout")


@pytest.mark.parametrize("form", ["1.0", "2.0"])
def test_a_float64_witness_reads_back_as_the_point_that_was_replayed(form: str, tmp_path: Path) -> None:
    model = shifted(tmp_path / "net.onnx", [2.0**20])
    spec = query(
        tmp_path / "q.vnnlib", "(assert (and (>= X[0,0] 0.1) (<= X[0,0] 0.7000001)))(assert (>= Y[0,0] 1.0))", 1
    )
    if form == "1.0":
        spec.write_text(
            "(declare-const X_0 Real)(declare-const Y_0 Real)"
            "(assert (>= X_0 0.1))(assert (<= X_0 0.7000001))(assert (>= Y_0 1))"
        )
    witness = netproof.verify(model, spec, timeout=30).witness
    assert witness is not None
    text = format_witness(witness)
    numbers = text.splitlines()[1::2] if form == "2.0" else [part.strip("()").split()[1] for part in text.split("\n")]
    assert [float(n) for n in numbers] == [float(witness.input[0, 0]), float(witness.output[0, 0])]


@pytest.mark.parametrize("opened", [False, True])
def test_a_point_is_projected_to_the_ends_of_its_own_type(opened: bool) -> None:
    ends = frozenset([0]) if opened else frozenset()
    disjunct = Disjunct(Box((Fraction("0.25"),), (Fraction("0.3"),), ends, frozenset()), ())
    for dtype, low, high in (("float32", np.float32(0.25), np.float32(0.29999998)), ("float64", 0.25, 0.3)):
        low = np.nextafter(low, type(low)(1)) if opened else low
        high = float(np.nextafter(high, 0)) if Fraction(float(high)) > Fraction("0.3") else high
        for x, expected in ((-1.0, low), (1.0, high)):
            point = project(np.array([x]), disjunct, dtype)
            assert point.dtype == dtype
            assert point[0] == expected
            assert in_set(point, disjunct)
        assert not in_set(np.nextafter(point, point.dtype.type(1)), disjunct)
