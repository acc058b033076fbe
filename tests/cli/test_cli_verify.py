"""The contract of `netproof verify`: stdout, files, exit codes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import environment, run, run_cold
from onnx import TensorProto, helper

from netproof.methods.registry import METHODS

KEYS = [
    "schema",
    *("verdict", "reason", "decided_by", "arithmetic", "seconds", "lower_bound", "upper_bound", "domains"),
    *(
        "peak_memory",
        "peak_host_memory",
        "leaf_lps",
        "rounds",
        "split",
        "cut_in_lp",
        "method",
        "device",
        "seed",
        "witness",
    ),
    *("about", "certificate", "model", "property", "versions"),
]
WITNESS = "((X_0 0.5)\n (X_1 -inf)\n (Y_0 1.5))\n"


@pytest.mark.parametrize("order", [("m.onnx", "p.vnnlib"), ("p.vnnlib", "m.onnx")])
def test_a_proof(folder: Path, order: tuple[str, str]) -> None:
    done = run_cold("verify", *order, "--results-file", "r.txt", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "unsat\n")
    assert done.stderr.startswith("PROVED: holds for every input\n")
    assert (folder / "r.txt").read_text() == "unsat\n"


def test_a_counterexample(folder: Path) -> None:
    files = ("--results-file", "r.txt", "--witness", "w.txt", "--json", "j.json")
    done = run_cold("verify", "m.onnx", "p.vnnlib", *files, engine="sat", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "sat\n" + WITNESS)
    assert (folder / "r.txt").read_text() == done.stdout
    assert (folder / "w.txt").read_text() == WITNESS
    assert "BROKEN: counterexample saved to w.txt" in done.stderr
    witness = json.loads((folder / "j.json").read_text())["witness"]
    assert witness == {"input": [[0.5, None]], "output": [[1.5]]}


def test_a_contradiction_is_a_bug_and_no_answer(folder: Path) -> None:
    done = run("verify", "m.onnx", "p.vnnlib", "--json", "j.json", engine="contradiction", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "unknown\n")
    assert done.stderr.startswith("CONTRADICTION: everything is proved, and a point violates it; this is a bug")
    assert "netproof-contradiction-1" in done.stderr
    found = json.loads((folder / "j.json").read_text())
    assert (found["verdict"], found["reason"]) == ("unknown", "contradiction")
    assert found["contradiction"]["saved"] == "netproof-contradiction-1"


def test_a_witness_as_array(folder: Path) -> None:
    run("verify", "m.onnx", "p.vnnlib", "--witness", "w.npy", engine="sat", cwd=folder)
    saved = np.load(folder / "w.npy")
    assert saved.dtype == np.float32
    np.testing.assert_array_equal(saved, np.array([[0.5, -np.inf]], dtype=np.float32))


def test_no_witness_file_without_a_witness(folder: Path) -> None:
    run("verify", "m.onnx", "p.vnnlib", "--witness", "w.npy", cwd=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "p.vnnlib"]


@pytest.mark.parametrize(("setting", "code"), [("tighter_roots=None", 0), ("batch=none", 0), ("probes=none", 2)])
def test_none_can_be_set_where_netproof_chooses(folder: Path, setting: str, code: int) -> None:
    done = run("verify", "m.onnx", "p.vnnlib", "--method", "beta", "--set", setting, cwd=folder)
    assert done.returncode == code
    assert ("probes=none: not an int" in done.stderr) == (code == 2)


def test_json_has_the_keys_of_the_contract(folder: Path) -> None:
    run("verify", "m.onnx", "p.vnnlib", "--json", "j.json", "--seed", "7", "--method", "lirpa", cwd=folder)
    found = json.loads((folder / "j.json").read_text())
    assert list(found) == KEYS
    assert list(found["seconds"]) == ["load", "attack", "root", "search", "leaf", "confirm", "other", "total"]
    assert list(found["versions"]) == ["netproof", "torch", "onnxruntime", "highspy", "cuda", "gpu"]
    assert found["model"] == {"path": "m.onnx", "sha256": hashlib.sha256(b"model").hexdigest(), "external": []}
    assert found["property"]["sha256"] == hashlib.sha256(b"; spec").hexdigest()
    assert (found["verdict"], found["seed"], found["method"]) == ("unsat", 7, "lirpa")
    assert (found["lower_bound"], found["witness"]) == (0.5, None)
    assert found["seconds"]["total"] > 0


def test_json_lists_the_files_that_weights_lie_in(folder: Path) -> None:
    node = helper.make_node("Constant", [], ["y"], value_float=1.0)
    tensor = TensorProto(name="w", dims=[1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", 1, [1])], [tensor])
    (folder / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    (folder / "w.bin").write_bytes(bytes(4))
    run("verify", "m.onnx", "p.vnnlib", "--json", "j.json", cwd=folder)
    found = json.loads((folder / "j.json").read_text())["model"]
    assert found["sha256"] == hashlib.sha256((folder / "m.onnx").read_bytes()).hexdigest()
    assert found["external"] == [{"path": "w.bin", "sha256": hashlib.sha256(bytes(4)).hexdigest()}]


def test_an_empty_input_set_is_a_proof_with_a_warning(folder: Path) -> None:
    done = run("verify", "m.onnx", "p.vnnlib", "--json", "j.json", engine="empty", cwd=folder)
    assert done.stdout == "unsat\n"
    assert "warning" in done.stderr
    found = json.loads((folder / "j.json").read_text())
    assert found["reason"] == "input set is empty"
    assert found["lower_bound"] is None  # an infinity is no JSON


def test_a_name_without_gz_finds_the_packed_file(folder: Path) -> None:
    (folder / "m.onnx").rename(folder / "m.onnx.gz")
    done = run("verify", "m.onnx", "p.vnnlib", "--json", "j.json", cwd=folder)
    assert done.stdout == "unsat\n"
    assert json.loads((folder / "j.json").read_text())["model"]["path"] == "m.onnx.gz"


def test_quiet_leaves_stderr_empty(folder: Path) -> None:
    assert run("verify", "m.onnx", "p.vnnlib", "--quiet", cwd=folder).stderr == ""


def test_a_library_that_prints_does_not_spoil_stdout(folder: Path) -> None:
    done = run_cold("verify", "m.onnx", "p.vnnlib", engine="print", cwd=folder)
    assert done.stdout == "unsat\n"
    assert "noise from C" in done.stderr


def test_results_replace_older_ones_and_leave_nothing_else(folder: Path) -> None:
    (folder / "r.txt").write_text("sat\n")
    run("verify", "m.onnx", "p.vnnlib", "--results-file", "r.txt", cwd=folder)
    assert (folder / "r.txt").read_text() == "unsat\n"
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "p.vnnlib", "r.txt"]


def test_a_device_file_is_written_to_and_not_replaced(folder: Path) -> None:
    done = run("verify", "m.onnx", "p.vnnlib", "--json", "/dev/null", "--results-file", "/dev/null", cwd=folder)
    assert done.returncode == 0
    assert Path("/dev/null").is_char_device()


def test_a_bug_is_one_line_and_exit_1(folder: Path) -> None:
    done = run_cold("verify", "m.onnx", "p.vnnlib", engine="raise", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "this is a bug in netproof" in done.stderr
    assert "NETPROOF_TRACEBACK=1" in done.stderr


def test_a_bug_shows_its_traceback_when_asked(folder: Path) -> None:
    done = run("verify", "m.onnx", "p.vnnlib", engine="raise", cwd=folder, NETPROOF_TRACEBACK="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "the engine fell over" in done.stderr


def test_bounds_print_both_sides_with_every_digit(folder: Path) -> None:
    done = run("bounds", "p.vnnlib", "m.onnx", "--method", "exact", "--json", "j.json", cwd=folder)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [["Y_0", "-1.0", "2.0"], ["Y_1", "0.1", "0.30000000000000004"]]
    found = json.loads((folder / "j.json").read_text())
    assert (found["lower"], found["exact"], found["method"]) == ([-1.0, 0.1], True, "exact")


def test_methods_are_listed_and_one_is_shown(folder: Path) -> None:
    done = run("methods", cwd=folder)
    listed = [line.split("  ", 1) for line in done.stdout.splitlines()]
    assert [(name, summary.strip()) for name, summary in listed] == [(m.name, m.summary) for m in METHODS.values()]
    done = run("methods", "lirpa", cwd=folder)
    assert done.stdout.splitlines()[0] == f"lirpa  {METHODS['lirpa'].summary}"
    assert len(done.stdout.splitlines()) == 1 + len(METHODS["lirpa"].fields)
    done = run("methods", "lipra", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown method 'lipra'; did you mean 'lirpa'?" in done.stderr


def test_methods_lists_typed_fields(folder: Path) -> None:
    done = run("methods", "--all", cwd=folder)
    assert done.returncode == 0
    for method in METHODS.values():
        assert f"{method.name}  {method.summary}" in done.stdout
        for field in method.fields:
            assert f"{field.name}: {field.type.__name__} = " in done.stdout
            assert field.help in done.stdout


@pytest.mark.parametrize(
    ("closed", "engine", "found"),
    [
        ("<&-", "unsat", "unsat\n"),
        (">&-", "unsat", "unsat\n"),
        ("2>&-", "unsat", "unsat\n"),
        ("<&- >&- 2>&-", "sat", "sat\n" + WITNESS),
    ],
)
def test_closed_streams_are_no_error(folder: Path, closed: str, engine: str, found: str) -> None:
    """A process of cron or of a daemon may have none."""
    words = f"exec {sys.executable} -m netproof verify m.onnx p.vnnlib --results-file r.txt {closed}"
    done = subprocess.run(["sh", "-c", words], cwd=folder, env=environment(engine), capture_output=True, text=True)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert (folder / "r.txt").read_text() == found
