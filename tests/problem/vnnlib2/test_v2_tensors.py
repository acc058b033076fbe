"""Several inputs and outputs, hidden tensors, ties, and the witness in the standard's form."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.errors import NetproofError
from netproof.problem.witness import format_witness
from support.asking import dense
from support.queries import VERSION, network, save_text


def two_in_two_out(folder: Path) -> Path:
    """s = a + 2b, h = relu(s), y = h − 1: inputs a (1, 2) and b (1, 2), outputs s and y (1, 2), with h inside."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["b", "two"], ["double"], name="scale"),
            helper.make_node("Add", ["a", "double"], ["s"]),
            helper.make_node("Relu", ["s"], ["h"], name="rectify"),
            helper.make_node("Sub", ["h", "one"], ["y"]),
        ],
        "test",
        [info("a", TensorProto.FLOAT, [1, 2]), info("b", TensorProto.FLOAT, [1, 2])],
        [info("s", TensorProto.FLOAT, [1, 2]), info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(np.float32(v), n) for v, n in ((2, "two"), (1, "one"))],
    )
    path = folder / "f.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def asked(*assertions: str, hidden: str = "", kind: str = "real") -> str:
    declared = (
        f"(declare-network f (declare-input A {kind} [1,2]) (declare-input B {kind} [2])\n{hidden}\n"
        f"(declare-output S {kind} [1,2]) (declare-output Y {kind} [1,2]))\n"
    )
    names = ("A[0,0]", "A[0,1]", "B[0]", "B[1]")
    box = "".join(f"(assert (and (>= {name} 0.0) (<= {name} 1.0)))\n" for name in names)
    return VERSION + declared + box + "".join(f"(assert {assertion})\n" for assertion in assertions)


@pytest.mark.parametrize(
    ("assertion", "status"),
    [
        ("(>= S[0,1] 3.01)", "unsat"),
        ("(>= S[0,1] 2.99)", "sat"),
        ("(>= (- S[0,0] (* 2.0 B[0])) 1.01)", "unsat"),
        ("(>= (- S[0,0] (* 2.0 B[0])) 0.99)", "sat"),
        ("(<= (- Y[0,0] S[0,0]) -1.01)", "unsat"),
    ],
)
def test_several_inputs_and_outputs(assertion: str, status: str, tmp_path: Path) -> None:
    verdict = netproof.verify(two_in_two_out(tmp_path), save_text(tmp_path, asked(assertion)), timeout=60, device="cpu")
    assert verdict.status == status


@pytest.mark.parametrize("name", ["h", "rectify"])  # the tensor, or the node that makes it
@pytest.mark.parametrize(("limit", "status"), [("3.01", "unsat"), ("2.5", "sat")])
def test_hidden_tensors(name: str, limit: str, status: str, tmp_path: Path) -> None:
    text = asked(f"(>= H[0,1] {limit})", hidden=f'(declare-hidden H real [1,2] "{name}")')
    verdict = netproof.verify(two_in_two_out(tmp_path), save_text(tmp_path, text), timeout=60, device="cpu")
    assert verdict.status == status
    if verdict.witness is not None:
        named = {tensor.name: tensor.array for tensor in verdict.witness.tensors}
        assert list(named) == ["A", "B", "H", "S", "Y"]
        assert named["H"][0, 1] >= 2.5
        assert np.array_equal(named["Y"], named["H"] - 1)
        assert np.array_equal(named["S"], named["A"] + 2 * named["B"])


def test_a_hidden_tensor_that_is_not_there(tmp_path: Path) -> None:
    text = asked("(>= H[0,1] 1.0)", hidden='(declare-hidden H real [1,2] "none")')
    with pytest.raises(NetproofError, match=r"line 3: hidden H: the model .* has no tensor 'none'"):
        netproof.verify(two_in_two_out(tmp_path), save_text(tmp_path, text))


@pytest.mark.parametrize("name", ["", " "])
def test_a_hidden_tensor_without_a_name(name: str, tmp_path: Path) -> None:
    text = asked("(>= H[0,1] 1.0)", hidden=f'(declare-hidden H real [1,2] "{name}")')
    with pytest.raises(NetproofError, match=r"line 3, column 17: hidden H does not say which tensor"):
        netproof.verify(two_in_two_out(tmp_path), save_text(tmp_path, text))


def test_a_hidden_tensor_by_a_name_that_two_nodes_have(tmp_path: Path) -> None:
    path = two_in_two_out(tmp_path)
    model = onnx.load(path)
    model.graph.node[0].name = "rectify"
    onnx.save(model, path)
    text = asked("(>= H[0,1] 1.0)", hidden='(declare-hidden H real [1,2] "rectify")')
    with pytest.raises(NetproofError, match=r"line 3: hidden H: the model .* has 2 nodes of the name 'rectify'"):
        netproof.verify(path, save_text(tmp_path, text))


HIDDEN_TWICE = {  # s is an output as well; h is named by its tensor and by its node
    "output": ('(declare-hidden H real [1,2] "s")', "S[0,1]"),
    "two names": ('(declare-hidden H real [1,2] "h")(declare-hidden G real [1,2] "rectify")', "G[0,1]"),
}


@pytest.mark.parametrize("case", HIDDEN_TWICE)
def test_a_tensor_may_have_two_names(case: str, tmp_path: Path) -> None:
    hidden, other = HIDDEN_TWICE[case]
    path = two_in_two_out(tmp_path)
    for assertion, status in ((f"(>= (- H[0,1] {other}) 0.001)", "unsat"), ("(>= H[0,1] 2.5)", "sat")):
        spec = save_text(tmp_path, asked(assertion, hidden=hidden))
        verdict = netproof.verify(path, spec, timeout=60, device="cpu")
        assert verdict.status == status
        if verdict.witness is not None:
            named = {tensor.name: tensor.array for tensor in verdict.witness.tensors}
            assert np.array_equal(named["H"], named[other[0]])


def test_an_input_that_plays_no_part_is_declared_all_the_same(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    inputs = [info("a", TensorProto.FLOAT, [1, 2]), info("b", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["b"], ["y"])], "test", inputs, [info("y", TensorProto.FLOAT, [1, 3])]
    )
    path = tmp_path / "f.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    text = VERSION + network("f", {"A": "[1,2]", "B": "[1,3]"}, {"Y": "[1,3]"})
    names = [*(f"A[0,{i}]" for i in range(2)), *(f"B[0,{i}]" for i in range(3))]
    text += "".join(f"(assert (and (>= {name} 0.{k}) (<= {name} 0.5)))" for k, name in enumerate(names))
    for limit, status in (("0.51", "unsat"), ("0.5", "sat")):
        asking = text + f"(assert (>= Y[0,1] {limit}))(assert (<= A[0,1] 0.25))"
        verdict = netproof.verify(path, save_text(tmp_path, asking), timeout=60, device="cpu")
        assert verdict.status == status
        if verdict.witness is not None:
            named = {tensor.name: tensor.array for tensor in verdict.witness.tensors}
            assert np.array_equal(named["Y"], named["B"])
            assert 0.1 <= named["A"][0, 1] <= 0.25


def test_a_loaded_network_is_read_again_for_its_hidden_tensors(tmp_path: Path) -> None:
    text = asked("(>= H[0,1] 3.01)", hidden='(declare-hidden H real [1,2] "h")')
    loaded = netproof.load_network(two_in_two_out(tmp_path))
    assert netproof.verify(loaded, save_text(tmp_path, text), timeout=60, device="cpu").status == "unsat"


def test_types_are_those_of_the_model_or_real(tmp_path: Path) -> None:
    path = two_in_two_out(tmp_path)
    assert netproof.verify(path, save_text(tmp_path, asked("(>= S[0,1] 3.01)", kind="float32"))).status == "unsat"
    with pytest.raises(NetproofError, match=r"input A has type float64, in the model .* it has float32"):
        netproof.verify(path, save_text(tmp_path, asked("(>= S[0,1] 3.01)", kind="float64")))


def test_the_witness_in_the_form_of_the_standard(tmp_path: Path) -> None:
    text = asked("(>= S[0,1] 3.0)", "(<= A[0,0] 0.0)", "(<= B[0] 0.0)", hidden='(declare-hidden H real [1,2] "h")')
    verdict = netproof.verify(two_in_two_out(tmp_path), save_text(tmp_path, text), timeout=60, device="cpu")
    assert verdict.witness is not None
    lines = format_witness(verdict.witness).split("\n")
    heads = ["A real [1,2]", "B real [2]", "H real [1,2]", "S real [1,2]", "Y real [1,2]"]
    values = [["0.0", "1.0"], ["0.0", "1.0"], ["0.0", "3.0"], ["0.0", "3.0"], ["-1.0", "2.0"]]
    assert lines == [line for head, some in zip(heads, values, strict=True) for line in (head, *some)]


@pytest.mark.parametrize(("word", "broken"), [("<=", True), ("<", False), ("==", True), ("!=", False)])
def test_strictness_at_a_tie(word: str, broken: bool, tmp_path: Path) -> None:
    """y = relu(x) on [−1, 0] is 0 everywhere. A tie is within rounding, so that there is none may stay unknown."""
    path = dense(([[1]], [0]), ([[1]], [0])).save(tmp_path / "f.onnx")
    text = VERSION + network("f", {"X": "[1]"}, {"Y": "[1]"}) + "(assert (and (>= X[0] -1.0) (<= X[0] 0.0)))"
    verdict = netproof.verify(path, save_text(tmp_path, text + f"(assert ({word} Y[0] 0.0))"), timeout=5, device="cpu")
    assert (verdict.status == "sat") == broken


def test_a_strict_bound_of_an_input_is_respected_by_witnesses(tmp_path: Path) -> None:
    path = dense(([[1]], [0])).save(tmp_path / "f.onnx")
    text = VERSION + network("f", {"X": "[1]"}, {"Y": "[1]"}) + "(assert (and (> X[0] 0.5) (<= X[0] 1.0)))"
    verdict = netproof.verify(path, save_text(tmp_path, text + "(assert (<= Y[0] 0.6))"), timeout=60, device="cpu")
    assert verdict.witness is not None
    assert Fraction(float(verdict.witness.tensors[0].array[0])) > Fraction(1, 2)


def test_equal_inputs_of_one_network(tmp_path: Path) -> None:
    """x₀ − x₁ is 0 where both are one entry, exactly."""
    path = dense(([[1, -1]], [0])).save(tmp_path / "f.onnx")
    text = VERSION + network("f", {"X": "[2]"}, {"Y": "[1]"}) + "(assert (and (>= X[0] 0.1) (<= X[0] 0.9)))"
    for assertion, status in (("(> Y[0] 0.001)", "unsat"), ("(>= Y[0] 0.0)", "sat")):
        more = f"(assert (== X[0] X[1]))(assert {assertion})"
        assert netproof.verify(path, save_text(tmp_path, text + more), timeout=60, device="cpu").status == status
