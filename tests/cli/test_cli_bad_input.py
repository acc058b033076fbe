"""Every kind of bad usage is one line that names the thing and the remedy, exit 2, and no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import REAL, run, run_cold
from onnx import TensorProto, helper

VERIFY = ("verify", "m.onnx", "p.vnnlib")
ROBUST = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.1")
BAD = {
    "unknown command": (("prove",), "prove"),
    "unknown option": ((*VERIFY, "--fast"), "--fast"),
    "no files": (("verify",), "--help"),
    "missing model": (("verify", "gone.onnx", "p.vnnlib"), "gone.onnx: no such file"),
    "missing spec": (("verify", "m.onnx", "gone.vnnlib"), "gone.vnnlib: no such file"),
    "no spec": (("verify", "m.onnx"), "no spec"),
    "no model": (("verify", "p.vnnlib"), "no model"),
    "two models": ((*VERIFY, "n.onnx"), "a second model"),
    "two specs": ((*VERIFY, "p.vnnlib"), "a second spec"),
    "wrong suffix": (("verify", "m.pt", "p.vnnlib"), "m.pt"),
    "folder for a file": (("verify", "d.onnx", "p.vnnlib"), "d.onnx: is a directory"),
    "unknown device": ((*VERIFY, "--device", "tpu"), "'tpu'"),
    "unknown method": ((*VERIFY, "--method", "lirpq"), "did you mean 'lirpa'"),
    "set without value": ((*VERIFY, "--set", "batch"), "FIELD=VALUE"),
    "set without field": ((*VERIFY, "--set", "=3"), "FIELD=VALUE"),
    "set of no field": ((*VERIFY, "--set", "batchh=3"), "did you mean 'batch'"),
    "set twice": ((*VERIFY, "--set", "batch=3", "--set", "batch=4"), "twice"),
    "set of the wrong type": ((*VERIFY, "--set", "batch=many"), "batch=many"),
    "set out of range": ((*VERIFY, "--set", "batch=0"), "batch=0"),
    "timeout zero": ((*VERIFY, "--timeout", "0"), "--timeout"),
    "timeout negative": ((*VERIFY, "--timeout", "-1"), "--timeout"),
    "timeout nan": ((*VERIFY, "--timeout", "nan"), "--timeout"),
    "timeout infinite": ((*VERIFY, "--timeout", "inf"), "--timeout"),
    "timeout in words": ((*VERIFY, "--timeout", "long"), "--timeout"),
    "no threads": ((*VERIFY, "--threads", "0"), "--threads"),
    "no memory": ((*VERIFY, "--memory", "0G"), "--memory: '0G' is not a size of memory"),
    "memory nowhere": ((*VERIFY, "--memory", "disk=8G"), "--memory: 'disk' is no place"),
    "negative seed": ((*VERIFY, "--seed", "-1"), "--seed"),
    "json in no folder": ((*VERIFY, "--json", "no/j.json"), "no directory no"),
    "json is a folder": ((*VERIFY, "--json", "d"), "--json names a directory"),
    "results in no folder": ((*VERIFY, "--results-file", "no/r.txt"), "no directory no"),
    "results to stdout": ((*VERIFY, "--results-file", "-"), "stdout has it already"),
    "witness to stdout": ((*VERIFY, "--witness", "-"), "stdout has it already"),
    "witness as another picture": ((*VERIFY, "--witness", "w.jpg"), "--witness cannot write .jpg (use .png"),
    "witness of robust as another picture": ((*ROBUST, "--witness", "w.JPEG"), "use .png"),
    "witness is a folder": ((*VERIFY, "--witness", "d"), "--witness names a directory"),
    "output over input": ((*VERIFY, "--json", "m.onnx"), "overwrite m.onnx"),
    "two outputs in one": ((*VERIFY, "--json", "o", "--witness", "o"), "overwrite o"),
    "unknown bound": (("bounds", "m.onnx", "p.vnnlib", "--method", "zonotope"), "'zonotope'"),
    "no image": (("robust", "m.onnx", "--label", "1", "--eps", "0.1"), "--image"),
    "missing image": ((*ROBUST, "--image", "gone.png"), "gone.png: no such file"),
    "image of another kind": ((*ROBUST, "--image", "x.gif"), "x.gif"),
    "eps in words": ((*ROBUST, "--eps", "small"), "'small'"),
    "eps over zero": ((*ROBUST, "--eps", "1/0"), "'1/0'"),
    "eps negative": ((*ROBUST, "--eps", "-0.1"), "negative"),
    "eps nan": ((*ROBUST, "--eps", "nan"), "'nan'"),
    "within nothing": ((*ROBUST, "--eps", "0.1", "--within", "0.5"), "--within: there is nothing to close in on"),
    "within all": ((*ROBUST, "--eps", "0.1", "--largest", "--within", "1"), "--within is no share"),
    "largest from zero": ((*ROBUST, "--eps", "0", "--largest"), "--largest"),
    "unknown norm": ((*ROBUST, "--norm", "3"), "'3'"),
    "negative label": ((*ROBUST, "--label", "-1"), "--label"),
    "clip of one side": ((*ROBUST, "--clip", "0"), "--clip"),
    "clip upside down": ((*ROBUST, "--clip", "1,0"), "--clip"),
    "targets in words": ((*ROBUST, "--targets", "a,b"), "--targets"),
    "mean for an array": ((*ROBUST, "--mean", "0.5"), "--mean"),
    "std zero": ((*ROBUST, "--image", "x.png", "--std", "0"), "--std"),
    "model for robust by another name": (("robust", "p.vnnlib", *ROBUST[2:]), "not a model"),
    "preprocessing of a spec": (
        ("bounds", "m.onnx", "p.vnnlib", "--preprocess", "mnist"),
        "p.vnnlib: --preprocess, --mean, --std and --resize are for picture files only",
    ),
    "resizing of a spec": (("bounds", "m.onnx", "p.vnnlib", "--resize"), "a spec is of the network's own inputs"),
    "norm of a spec": (("bounds", "m.onnx", "p.vnnlib", "--norm", "2"), "--norm: a spec has its own input set"),
    "clip of a spec": (("bounds", "m.onnx", "p.vnnlib", "--clip", "0,1"), "--clip: a spec has its own input set"),
    "demo over a file": (("demo", "--out", "m.onnx"), "--out"),
}


@pytest.fixture
def full_folder(folder: Path) -> Path:
    for name in ("n.onnx", "m.pt", "x.npy", "x.png", "x.gif"):
        (folder / name).write_bytes(b"")
    for name in ("d", "d.onnx"):
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("kind", BAD)
def test_bad_usage(kind: str, full_folder: Path) -> None:
    arguments, named = BAD[kind]
    before = sorted(path.name for path in full_folder.iterdir())
    done = run(*arguments, cwd=full_folder, engine="raise")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("netproof: error: ")
    assert named in done.stderr
    assert done.stderr.rstrip().endswith(")"), "the remedy comes last, in brackets"
    assert sorted(path.name for path in full_folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o500)
    done = run(*VERIFY, "--json", "closed/j.json", cwd=folder)
    assert done.returncode == 2
    assert "closed/j.json" in done.stderr


def test_what_the_engine_refuses_is_one_line_too(folder: Path) -> None:
    done = run_cold(*VERIFY, engine="refuse", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "netproof: error: p.vnnlib: line 3, column 7: no such variable X_9 (declare it)\n"
    assert done.stderr == expected


@pytest.mark.parametrize("command", [("verify", "t.onnx", "p.vnnlib"), ("inspect", "t.onnx")])
def test_an_operator_that_an_opset_gave_up_is_no_bug(command: tuple[str, ...], folder: Path) -> None:
    """onnx raises an error for it that is no error of Python's own."""
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml")
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 5)]
    model = helper.make_model(helper.make_graph([node], "g", [shape], [y]), opset_imports=opsets)
    (folder / "t.onnx").write_bytes(model.SerializeToString())
    names = "X_0", "X_1", "Y_0"
    bounds = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 0))(assert (<= X_1 1))(assert (<= Y_0 0))"
    (folder / "p.vnnlib").write_text("".join(f"(declare-const {name} Real)" for name in names) + bounds)
    done = run(*command, engine=REAL, cwd=folder)
    assert done.returncode == 2
    told = done.stderr if command[0] == "verify" else done.stdout
    assert "node 'y': unsupported operator ai.onnx.ml.TreeEnsembleRegressor" in told
    assert "internal error" not in done.stderr
