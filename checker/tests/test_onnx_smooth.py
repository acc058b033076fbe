"""Operators beyond ReLUs: as onnxruntime computes them, and how a proof may be kept free of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import npcheck.__main__ as command
from certificates import Case, chunks, header, leaf, onnx_model, spec
from npcheck.errors import Refused
from npcheck.onnx_file import read_network
from npcheck.onnx_smooth import SMOOTH
from test_onnx_file import agree, ints, model, node, normal

ABOVE = {"one": np.ones(1, np.float32)}
POSITIVE = [node("Mul", ["x", "x"], ["q"]), node("Add", ["q", "one"], ["p"])]

CASES: dict[str, onnx.ModelProto] = {
    "sigmoid": model([node("Sigmoid", ["x"])], [2, 3]),
    "tanh": model([node("Tanh", ["x"])], [2, 3]),
    "exp": model([node("Exp", ["x"])], [2, 3]),
    "softplus": model([node("Softplus", ["x"])], [2, 3]),
    "log": model([*POSITIVE, node("Log", ["p"])], [2, 3], ABOVE),
    "sqrt": model([*POSITIVE, node("Sqrt", ["p"])], [2, 3], ABOVE),
    "reciprocal": model([*POSITIVE, node("Reciprocal", ["p"])], [2, 3], ABOVE),
    "argmax": model([node("ArgMax", ["x"], ["i"], axis=1), node("Cast", ["i"], to=1)], [2, 3]),
    "argmax, the last": model(
        [node("ArgMax", ["x"], ["i"], axis=-2, keepdims=0, select_last_index=1), node("Cast", ["i"], to=1)], [2, 3, 4]
    ),
    "elu": model([node("Elu", ["x"], alpha=0.5)], [2, 3]),
    "hard sigmoid": model([node("HardSigmoid", ["x"], alpha=0.3)], [2, 3]),
    "hard swish": model([node("HardSwish", ["x"])], [2, 3], opset=14),
    "softmax": model([node("Softmax", ["x"])], [2, 3]),
    "softmax of an axis": model([node("Softmax", ["x"], axis=1)], [2, 3, 4]),
    "softmax of all that follows": model([node("Softmax", ["x"], axis=1)], [2, 3, 2], opset=11),
    "log softmax": model([node("LogSoftmax", ["x"])], [2, 3]),
    "squared": model([node("Pow", ["x", "p"])], [2, 3], {"p": np.full((), 2.0, np.float32)}),
    "to the first": model([node("Pow", ["x", "p"])], [2, 3], {"p": ints(1)}),
    "root by power": model([*POSITIVE, node("Pow", ["p", "h"])], [2], ABOVE | {"h": np.full(1, 0.5, np.float32)}),
    "swish": model([node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"])], [2, 3]),
    "square": model([node("Mul", ["x", "x"])], [2, 3]),
    "product broadcast": model([node("ReduceSum", ["x", "a"], ["s"]), node("Mul", ["s", "x"])], [2, 3], {"a": ints(1)}),
    "quotient": model([*POSITIVE, node("Div", ["x", "p"])], [2, 3], ABOVE),
    "quotient of a constant": model([*POSITIVE, node("Div", ["one", "p"])], [2, 3], ABOVE),
    "matmul of values": model([node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"])], [2, 3, 4]),
    "matmul of values broadcast": model(
        [node("ReduceSum", ["x", "a"], ["s"], keepdims=0), node("MatMul", ["x", "s"])], [2, 3, 3], {"a": ints(0)}
    ),
    "matmul of constants": model(
        [node("MatMul", ["v", "w"], ["m"]), node("Relu", ["m"], ["r"]), node("Mul", ["x", "r"])],
        [3],
        {"v": normal(2), "w": normal(2, 3)},
    ),
}


@pytest.mark.parametrize("proto", CASES.values(), ids=CASES)
def test_operators_are_those_of_onnxruntime(proto: onnx.ModelProto) -> None:
    agree(proto)


def test_every_operator_has_a_case() -> None:
    assert set(SMOOTH) <= {node.op_type for proto in CASES.values() for node in proto.graph.node}


def test_the_names_of_the_command_are_those_of_the_operators() -> None:
    names = {name for proto in CASES.values() for name in read_network(proto.SerializeToString()).nonlinear.values()}
    assert {*names, "relu", "order"} == set(command.OPERATORS)


def perceptron(activation: str, last: str = "") -> bytes:
    """Return two neurons with an activation, two outputs, and perhaps a map of them."""
    constants = {"w": np.eye(2, dtype=np.float32), "v": np.array([[1, 2], [0, 1]], np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node(activation, ["h"], ["z"]),
        helper.make_node("MatMul", ["z", "v"], ["o" if last else "y"]),
    ]
    nodes += [helper.make_node(last, ["o"], ["y"])] if last else []
    return onnx_model(nodes, 2, constants)


def run_command(case: Case, body: bytes, *options: str) -> int:
    case.certificate.write_bytes(header(case.model.read_bytes(), case.spec.read_bytes()) + chunks(body))
    return command.main([str(case.certificate), str(case.model), str(case.spec), *options])


def test_a_proof_says_what_it_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = bytes(1) + bytes(2)  # one node that an operator reads: nothing packed, two codes
    smooth = Case(tmp_path, perceptron("Sigmoid"), spec([0.5, 0.5], [1, 1], 2, "(<= Y_1 0)"))
    body = section + leaf()
    assert run_command(smooth, body) == 0
    assert "beyond ReLUs and affine operators it rests on: sigmoid\n" in capsys.readouterr().out
    assert run_command(smooth, body, "--only", "relu,sigmoid", "--exact", "3") == 0
    text = capsys.readouterr().out
    assert "1 leaf and 0 bounds of neurons, chosen at random" in text
    assert "held in exact arithmetic too, planes of operators taken as they are\n" in text
    capsys.readouterr()
    assert run_command(smooth, body, "--only", "relu") == 2
    assert "m.onnx: node 1 (Sigmoid): the operator sigmoid is not among --only" in capsys.readouterr().err
    ordered = Case(tmp_path, perceptron("Relu", "Softmax"), spec([0.5, 0.5], [1, 1], 2, "(<= Y_1 Y_0)"))
    assert run_command(ordered, body) == 0
    text = capsys.readouterr().out
    assert "asked before the last maps of the network: softmax\n" in text
    assert "it rests on" not in text
    assert run_command(ordered, body, "--only", "relu,order") == 0
    for options, what in (
        ("relu", "asked before the last softmax, and order is not"),
        ("order", "the operator relu is"),
    ):
        capsys.readouterr()
        assert run_command(ordered, body, "--only", options) == 2
        assert what in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        command.main(["c", "m", "s", "--only", "relu,sine"])
    assert stopped.value.code == 2
    assert "is no list of relu, argmax," in capsys.readouterr().err


def test_integers_are_not_computed_with() -> None:
    """A quotient of two places would be rounded towards 0."""
    for op in ("Div", "Add", "Relu"):
        inputs = ["i"] if op == "Relu" else ["i", "j"]
        nodes = [node("ArgMax", ["x"], ["i"]), node("Identity", ["i"], ["j"]), node(op, inputs)]
        with pytest.raises(Refused, match=f"{op}.*: it computes with integers that depend on the input"):
            read_network(model(nodes, [2, 3]).SerializeToString())


def test_lists_of_weights_make_no_network_of_their_own() -> None:
    """What is computed of constants alone is a node that is bounded, and no constant."""
    constants = {"v": normal(2), "w": normal(2, 3)}
    proto = model([node("MatMul", ["v", "w"], ["m"]), node("Reshape", ["x", "m"])], [3], constants)
    with pytest.raises(Refused, match="depends on the network's input"):
        read_network(proto.SerializeToString())
    assert numpy_helper.to_array(proto.graph.initializer[0]).shape == (2,)
