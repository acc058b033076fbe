"""The command line of VNN-LIB 2.0: verify QUERY --network NAME=PATH, supports --CAPABILITY, --name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import REAL, run, run_cold
from onnx import TensorProto, numpy_helper

from netproof.cli.commands.supports import CAPABILITIES
from netproof.model.onnx import reader
from netproof.model.onnx.context import CONVERTERS
from support.asking import dense
from support.queries import VERSION, network, save_text

PAIR = VERSION + network("f", {"X": "[1,1]"}, {"Y": "[1,1]"}) + network("g", {"U": "[1,1]"}, {"W": "[1,1]"})
BOX = "(assert (and (>= X[0,0] 0.0) (<= X[0,0] 1.0)))(assert (== X[0,0] U[0,0]))"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """f(x) = 2x and g(x) = x + 0.25, on [0, 1]: g − f goes from 0.25 to −0.75."""
    dense(([[2]], [0])).save(tmp_path / "f.onnx")
    dense(([[1]], [0.25])).save(tmp_path / "g.onnx")
    save_text(tmp_path, PAIR + BOX + "(assert (>= W[0,0] (+ Y[0,0] 0.25)))(assert (<= X[0,0] 0.0))", "broken.vnnlib")
    save_text(tmp_path, PAIR + BOX + "(assert (>= W[0,0] (+ Y[0,0] 0.26)))", "holds.vnnlib")
    save_text(tmp_path, PAIR + BOX + "(assert (and (> Y[0,0] 1.0) (< Y[0,0] 1.0)))", "contradictory.vnnlib")
    return tmp_path


NETWORKS = ("--network", "f=f.onnx", "--network", "g=g.onnx", "--device", "cpu")


def test_two_networks_and_a_witness(pair: Path) -> None:
    files = ("--results-file", "r.txt", "--json", "j.json", "--witness", "w.txt")
    done = run_cold("verify", "broken.vnnlib", *NETWORKS, *files, engine=REAL, cwd=pair)
    text = "X real [1,1]\n0.0\nY real [1,1]\n0.0\nU real [1,1]\n0.0\nW real [1,1]\n0.25\n"
    assert (done.returncode, done.stdout) == (0, "sat\n" + text), done.stderr
    assert (pair / "r.txt").read_text() == done.stdout
    assert (pair / "w.txt").read_text() == text
    found = json.loads((pair / "j.json").read_text())
    assert found["witness"]["tensors"] == {"X": [[0.0]], "Y": [[0.0]], "U": [[0.0]], "W": [[0.25]]}
    assert found["model"]["path"] == "f.onnx"
    assert [other["path"] for other in found["other_models"]] == ["g.onnx"]


def test_a_proof_and_a_warning(pair: Path) -> None:
    done = run("verify", "holds.vnnlib", *NETWORKS, engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
    done = run("verify", "contradictory.vnnlib", *NETWORKS, engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
    assert "the assertions contradict each other, which says nothing (warning: check the spec)" in done.stderr


def test_tensors_as_onnx_holds_them(pair: Path) -> None:
    done = run("verify", "broken.vnnlib", *NETWORKS, "--serialise-assignments", "out/w", engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (0, "sat\n"), done.stderr
    found = {path.name: TensorProto.FromString(path.read_bytes()) for path in (pair / "out" / "w").iterdir()}
    arrays = {name: numpy_helper.to_array(tensor) for name, tensor in found.items()}
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "X.pb": [[0.0]],
        "Y.pb": [[0.0]],
        "U.pb": [[0.0]],
        "W.pb": [[0.25]],
    }
    assert {str(array.dtype) for array in arrays.values()} == {"float32"}
    done = run("verify", "broken.vnnlib", *NETWORKS, "--serialise-assignments", "f.onnx", engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (2, "")
    assert "f.onnx: cannot be made" in done.stderr


def test_tied_inputs_are_saved_as_the_network_takes_them(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["x"], ["f"]), onnx.helper.make_node("MatMul", ["f", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2])],
        [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(np.float32([[1], [2], [3], [4]]), "w")],
    )
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    names = [f"X[0,0,{i},{j}]" for i in (0, 1) for j in (0, 1)]
    boxes = "".join(f"(assert (and (>= {name} 0.0) (<= {name} 1.0)))" for name in names)
    query = VERSION + network("f", {"X": "[1,1,2,2]"}, {"Y": "[1,1]"}) + boxes
    save_text(tmp_path, query + f"(assert (== {names[0]} {names[3]}))(assert (>= Y[0,0] 9.5))", "q.vnnlib")
    asked = ("verify", "m.onnx", "q.vnnlib", "--device", "cpu", "--witness")
    done = run(*asked, "w.npy", engine=REAL, cwd=tmp_path)
    assert (done.returncode, done.stdout[:4]) == (0, "sat\n"), done.stderr
    x = np.load(tmp_path / "w.npy")
    assert x.shape == (1, 1, 2, 2)
    assert x.reshape(-1)[0] == x.reshape(-1)[3]
    assert float(x.reshape(-1) @ [1, 2, 3, 4]) >= 9.5
    done = run(*asked, "w.png", engine=REAL, cwd=tmp_path)
    assert (done.returncode, done.stdout[:4]) == (0, "sat\n"), done.stderr
    assert (tmp_path / "w.png").read_bytes()[1:4] == b"PNG"


def test_the_standard_says_timed_out(folder: Path) -> None:
    asked = ("verify", "p.vnnlib", "--network", "f=m.onnx", "--timeout", "0.5", "--results-file", "r.txt")
    done = run(*asked, engine="slow", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "timed-out\n"), done.stderr
    assert (folder / "r.txt").read_text() == "timeout\n"  # VNN-COMP's word


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("holds.vnnlib", "f.onnx", *NETWORKS), "with --network only the query is given besides"),
        (("f.onnx", *NETWORKS), "with --network only the query is given besides"),
        (("holds.vnnlib", "--network", "f"), "--network: 'f' is not NAME=PATH"),
        (("holds.vnnlib", *NETWORKS, "--network", "f=g.onnx"), "--network: 'f' is given twice"),
        (("holds.vnnlib", "--network", "f=none.onnx"), "none.onnx: no such file"),
        (("holds.vnnlib", "--network", "f=f.onnx"), "no model was given for network g"),
        (("holds.vnnlib", *NETWORKS, "--network", "h=f.onnx"), "no model is needed for network h"),
        (("holds.vnnlib", "f.onnx"), "the query declares 2 networks with a model each: f, g"),
        (("holds.vnnlib", *NETWORKS, "--witness", "w.png"), "the query declares 2 input tensors, so there is no"),
        (("holds.vnnlib", *NETWORKS, "--witness", "w.npy"), "(use .txt, or --serialise-assignments FOLDER"),
    ],
)
def test_what_does_not_fit_is_one_line(pair: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("verify", *arguments, engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bounds_of_two_networks_say_who_takes_them_by_name(pair: Path) -> None:
    done = run("bounds", "holds.vnnlib", "f.onnx", engine=REAL, cwd=pair)
    assert (done.returncode, done.stdout) == (2, "")
    assert "{name: model} in Python; `netproof verify` takes --network NAME=PATH" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# What the standard allows as answers, by capability.
THEORIES = {
    "--hidden-node-theories": {"NH", "H"},
    "--multiple-input-output-theories": {"SIO", "MIO"},
    "--multiple-network-theories": {"SNET", "MENET", "MINET", "MNET"},
    "--multiple-node-comparison-theories": {"SNC", "MNC"},
    "--arithmetic-complexity-theories": {"BND", "OUTC", "LIN", "POLY"},
    "--optimised-disjunctive-reasoning": {"true", "false"},
    "--serialise-assignments": {"true", "false"},
    "--unsat-proofs": {"true", "false"},
    "--onnx-element-types": {"real"},
}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_capabilities_are_answered_one_item_a_line(capability: str, tmp_path: Path) -> None:
    done = run("supports", capability, engine=REAL, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines
    if capability == "--onnx-operators":
        assert reader.read_graph  # importing it registers the operators
        assert lines == sorted(CONVERTERS)
        assert {"Relu", "Conv", "Gemm", "MatMul"} <= set(lines)
    elif capability.endswith("-versions"):
        low, high = (tuple(map(int, line.split("."))) for line in lines)
        assert low <= high
    else:
        assert set(lines) <= THEORIES[capability]


def test_unknown_capabilities(tmp_path: Path) -> None:
    for arguments in ((), ("--none",), ("--vnnlib-versions", "--unsat-proofs")):
        done = run("supports", *arguments, engine=REAL, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "one of: --onnx-opset-versions, " in done.stderr


def test_the_name(tmp_path: Path) -> None:
    assert run("--name", cwd=tmp_path).stdout == "netproof\n"
