"""Files that ask for too much or hide something, through the command and the engine itself: one line, exit 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import REAL, run, run_cold
from onnx import TensorProto, helper, numpy_helper

SPEC = """(declare-const X_0 Real)
(declare-const Y_0 Real)
(assert (>= X_0 0))
(assert (<= X_0 1))
(assert (or
  (<= Y_0 -100) ; never?
  (<= Y_0 100) ; always
))
"""


def model(*nodes: object, tensors: tuple[TensorProto, ...] = ()) -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph(list(nodes), "g", ends[:1], ends[1:], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    size = numpy_helper.from_array(np.asarray([3_000_000_000], dtype=np.int64), "n")
    huge = helper.make_node("ConstantOfShape", ["n"], ["c"])
    add = helper.make_node("Add", ["x", "c"], ["y"])
    outside = TensorProto(name="c", dims=[1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="../w.bin")
    constant = helper.make_node("Constant", [], ["c"], value=outside)
    (tmp_path / "bomb.onnx").write_bytes(model(huge, add, tensors=(size,)))
    (tmp_path / "outside.onnx").write_bytes(model(constant, add))
    (tmp_path / "relu.onnx").write_bytes(model(helper.make_node("Relu", ["x"], ["y"])))
    (tmp_path / "spec.vnnlib").write_text(SPEC)
    (tmp_path / "return.vnnlib").write_bytes(SPEC.replace("never?\n", "never?\r").encode())
    (tmp_path / "blank.vnnlib").write_text(SPEC.replace("Y_0 100", "Y_0 1\u00a000"))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "bomb.onnx", "spec.vnnlib"), "bomb.onnx: node 'c': unsupported operator ConstantOfShape"),
        (("verify", "outside.onnx", "spec.vnnlib"), "'../w.bin' lies outside the model's folder"),
        (("inspect", "outside.onnx"), "'../w.bin' lies outside the model's folder"),
        (("verify", "relu.onnx", "blank.vnnlib"), "blank.vnnlib: line 7, column 12: the character U+00A0"),
    ],
)
def test_one_line_and_exit_2(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments, engine=REAL, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("netproof: reading:")]
    assert line.startswith("netproof: error: ")
    assert said in line


def test_inspect_names_what_is_too_large(folder: Path) -> None:
    done = run("inspect", "bomb.onnx", engine=REAL, cwd=folder)
    assert "makes the network too large" in done.stdout + done.stderr
    assert done.returncode != 1


def test_a_comment_ends_at_a_carriage_return(folder: Path) -> None:
    done = run_cold("verify", "relu.onnx", "return.vnnlib", "--timeout", "60", engine=REAL, cwd=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "sat")
