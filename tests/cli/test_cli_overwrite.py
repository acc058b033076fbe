"""No output may replace a file that the command reads: one line, exit 2, and every file as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import run
from onnx import TensorProto, helper
from PIL import Image


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose weights lie beside it, one of them behind a link; an image, a data set and all else to be read."""
    tensors = [_outside("w", "weights.bin"), _outside("v", "X.pb")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Mul", ["s", "v"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "blob").write_bytes(np.ones(4, dtype=np.float32).tobytes())
    (tmp_path / "weights.bin").symlink_to("blob")
    (tmp_path / "X.pb").write_bytes(np.ones(4, dtype=np.float32).tobytes())
    (tmp_path / "p.vnnlib").write_text("; spec")
    (tmp_path / "pre.json").write_text('{"mean": 0.5, "std": 0.5}')
    (tmp_path / "plain").write_text("not an input")
    np.savez(tmp_path / "d.npz", X=np.zeros((2, 4), dtype=np.float32), y=np.zeros(2, dtype=int))
    (tmp_path / "counterexamples").mkdir()
    Image.fromarray(np.zeros((2, 2), dtype=np.uint8)).save(tmp_path / "i.png")
    Image.fromarray(np.zeros((2, 2), dtype=np.uint8)).save(tmp_path / "counterexamples" / "00000.png")
    (tmp_path / "labels.csv").write_text("i.png,0\n")
    (tmp_path / "counterexamples" / "labels.csv").write_text("00000.png,0\n")
    (tmp_path / "results.csv").write_text("c,m.onnx,p.vnnlib,0,sat,1\n")
    (tmp_path / "instances.csv").write_text("m.onnx,p.vnnlib,9\n")
    return tmp_path


def _outside(name: str, location: str) -> TensorProto:
    tensor = TensorProto(name=name, dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


VERIFY = ("verify", "m.onnx", "p.vnnlib")
ROBUST = ("robust", "m.onnx", "--image", "i.png", "--eps", "1/255", "--preprocess", "pre.json")
CERTIFY = ("certify", "m.onnx", "--eps", "1/255")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*VERIFY, "--json", "weights.bin"), "weights.bin: --json would overwrite"),
        ((*VERIFY, "--json", "blob"), "blob: --json would overwrite"),
        ((*VERIFY, "--results-file", "weights.bin"), "--results-file would overwrite"),
        ((*VERIFY, "--witness", "weights.bin"), "--witness would overwrite"),
        ((*VERIFY, "--serialise-assignments", "."), "a tensor might overwrite"),
        (("inspect", "m.onnx", "--json", "weights.bin"), "--json would overwrite"),
        (("bounds", "m.onnx", "p.vnnlib", "--json", "weights.bin"), "--json would overwrite"),
        ((*ROBUST, "--json", "weights.bin"), "--json would overwrite"),
        ((*ROBUST, "--json", "pre.json"), "--json would overwrite pre.json"),
        ((*ROBUST, "--picture", "i.png"), "--picture would overwrite i.png"),
        (("bounds", *ROBUST[1:], "--json", "pre.json"), "--json would overwrite pre.json"),
        ((*CERTIFY, "--data", "d.npz", "--json", "d.npz"), "--json would overwrite d.npz"),
        ((*CERTIFY, "--data", "d.npz", "--json", "weights.bin"), "--json would overwrite"),
        ((*CERTIFY, "--data", ".", "--json", "labels.csv"), "--json would overwrite labels.csv"),
        ((*CERTIFY, "--data", ".", "--json", "i.png"), "--json would overwrite i.png"),
        (
            (*CERTIFY, "--data", ".", "--preprocess", "pre.json", "--json", "pre.json"),
            "--json would overwrite pre.json",
        ),
        ((*CERTIFY, "--data", "d.npz", "--out", ".", "--json", "certify.sqlite"), "--json would overwrite"),
        ((*CERTIFY, "--data", "counterexamples", "--out", "."), "--out would write over the data set"),
        (("bench", ".", "--out", ".", "--rival", "r=results.csv"), "--rival: netproof's own results go there"),
        (("report", ".", "--rival", "r=results.csv"), "--rival: netproof's own results go there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_no_input_is_replaced(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = run(*arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_another_file_may_be_replaced(folder: Path) -> None:
    done = run(*VERIFY, "--json", "plain", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert '"verdict": "unsat"' in (folder / "plain").read_text()
