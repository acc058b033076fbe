"""The three scripts of VNN-COMP, called as the organisers call them."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from organisers import GRACE, SCRIPTS, TOLERANCE, Outcome, organise, read_tensors, read_witness, replayed, run, violates

from model.onnx_models import Model
from netproof.core.network_list import networks_of
from support.both_ways import box_spec
from support.processes import alive, wait_for
from support.queries import VERSION, network

SOURCE = Path(__file__).resolve().parents[2] / "src"
ENV = {**os.environ, "NETPROOF_PYTHON": sys.executable, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
LIMIT = 60  # seconds, of questions that take one or two: the machine may be busy

SLEEPER = """#!/bin/bash
# Stands for Python: says who it is and sleeps; what ends it, it ignores if asked to.
case "$*" in *"-m netproof"*) ;; *) exec "$REAL" "$@" ;; esac
[ -n "${STUBBORN:-}" ] && trap '' TERM
echo $$ >"$NOTE"
printf '%s\\n' "$@" >"$NOTE.arguments"
while true; do sleep 0.05; done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A benchmark: two inputs, f = |x₀ + x₁| + |x₀ − x₁| <= 2 on the unit box, in the competition's folders."""
    (tmp_path / "onnx").mkdir()
    (tmp_path / "vnnlib").mkdir()
    model = Model((1, 2))
    model.add("Gemm", "x", np.float32([[1, -1, 1, -1], [1, -1, -1, 1]]), out="h").add("Relu", "h", out="r")
    model.add("Gemm", "r", np.ones((4, 1), np.float32)).save(tmp_path / "onnx" / "net.onnx")
    one = torch.ones(2)
    for name, value in (("holds", 2.1), ("breaks", 1.5)):
        (tmp_path / "vnnlib" / f"{name}.vnnlib").write_text(box_spec(-one, one, 1, f"(>= Y_0 {value})"))
    return tmp_path


def asked(folder: Path, spec: str, network: str = "onnx/net.onnx", timeout: float | str = LIMIT) -> Outcome:
    return organise(str(folder / network), str(folder / "vnnlib" / f"{spec}.vnnlib"), timeout, folder, ENV)


def unprepared(folder: Path, spec: str, network: str = "onnx/net.onnx", timeout: float = LIMIT) -> Outcome:
    """Run alone: what prepares an instance starts a Python that imports all, and other tests are about it."""
    return run(str(folder / network), str(folder / "vnnlib" / f"{spec}.vnnlib"), timeout, folder, ENV, GRACE)


def test_a_property_that_holds(folder: Path) -> None:
    found = asked(folder, "holds")
    assert found.result == "unsat", found
    assert found.witness == ""


def test_a_witness_that_onnxruntime_confirms(folder: Path) -> None:
    found = unprepared(folder, "breaks")
    assert found.result == "sat", found
    x, y = read_witness(found.witness)
    spec, again = folder / "vnnlib" / "breaks.vnnlib", replayed(folder / "onnx" / "net.onnx", x)
    assert violates(spec, x, again, TOLERANCE)
    assert violates(spec, x, again)  # it needs no tolerance
    assert np.allclose(y, again, rtol=1e-3, atol=1e-4)


def test_the_replay_can_tell(folder: Path) -> None:
    """Outputs that do not violate, and inputs outside of the box, are no counterexample."""
    spec = folder / "vnnlib" / "breaks.vnnlib"
    assert not violates(spec, np.asarray([0.1, 0.1]), np.asarray([0.2]))
    assert not violates(spec, np.asarray([1.01, 1.0]), np.asarray([2.0]), TOLERANCE)
    assert violates(spec, np.asarray([1.00005, 1.0]), np.asarray([2.0]), TOLERANCE)
    assert not violates(spec, np.asarray([1.00005, 1.0]), np.asarray([2.0]))


def test_files_that_are_zipped_are_named_without_gz(folder: Path) -> None:
    for path in (folder / "onnx" / "net.onnx", folder / "vnnlib" / "holds.vnnlib"):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert asked(folder, "holds").result == "unsat"


def test_paths_with_spaces_and_timeouts_with_fractions(folder: Path) -> None:
    moved = folder.parent / f"{folder.name} and more"
    shutil.copytree(folder, moved)
    assert asked(moved, "holds", timeout="60.5").result == "unsat"


def test_paths_count_from_the_folder_of_the_benchmark_too(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    found = organise("onnx/net.onnx", str(folder / "vnnlib" / "holds.vnnlib"), LIMIT, folder / "elsewhere", ENV)
    assert found.result == "unsat", found


def test_a_hard_question_ends_in_time(folder: Path) -> None:
    """A wide random network whose largest value nobody can prove in seconds: the answer comes before the limit."""
    model = Model((1, 40))
    sizes = (40, 120, 120, 120, 1)
    for k, (fan, width) in enumerate(pairwise(sizes)):
        last = k == len(sizes) - 2
        weight = model.weights(fan, width) / np.sqrt(fan, dtype=np.float32)
        model.add("Gemm", f"h{k}" if k else "x", weight, out="y" if last else f"z{k}")
        if not last:
            model.add("Relu", f"z{k}", out=f"h{k + 1}")
    model.save(folder / "onnx" / "hard.onnx")
    one, network = torch.ones(40), folder / "onnx" / "hard.onnx"
    corners = np.sign(np.random.default_rng(0).normal(size=(200, 40)))
    most = max(float(replayed(network, corner)[0]) for corner in corners)
    (folder / "vnnlib" / "hard.vnnlib").write_text(box_spec(-one, one, 1, f"(>= Y_0 {most + 3.0:.6f})"))
    limit = 12.0
    found = unprepared(folder, "hard", "onnx/hard.onnx", limit)
    assert found.result == "timeout", found
    assert found.seconds < limit


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_a_network_that_cannot_be_read_is_an_error_with_a_reason(folder: Path) -> None:
    (folder / "onnx" / "net.onnx").write_bytes(b"no network")
    found = unprepared(folder, "holds")
    assert found.result == "error"
    assert "net.onnx" in found.messages


def test_a_timeout_that_is_no_number_is_an_error(folder: Path) -> None:
    results = folder / "results.txt"
    command = [SCRIPTS / "run_instance.sh", "v1", "test", folder / "onnx/net.onnx", "spec", results, "soon"]
    assert subprocess.run(command, env=ENV, capture_output=True, check=False).returncode == 0
    assert results.read_text() == "error\n"


@pytest.mark.parametrize(
    ("timeout", "most"), [("1e1", 9.0), ("0.3E+1", 2.0), ("2.", 1.0), (".5", 0.25), ("1e300", 1e9)]
)
def test_how_a_timeout_may_be_written(timeout: str, most: float, folder: Path) -> None:
    arguments = handed_over(folder, timeout, sleeper(folder))
    assert 0.5 * most < float(arguments[arguments.index("--timeout") + 1]) <= most


def test_a_clock_with_a_decimal_comma(folder: Path) -> None:
    (folder / "comma").write_text("unset EPOCHREALTIME; EPOCHREALTIME=1700000000,087654")  # as in a German locale
    arguments = handed_over(folder, "3", sleeper(folder, BASH_ENV=str(folder / "comma")))
    assert arguments[arguments.index("--timeout") + 1] == "2.000000"


def handed_over(folder: Path, timeout: str, env: dict[str, str]) -> list[str]:
    """Start an instance; return what netproof was started with."""
    spec = folder / "vnnlib" / "holds.vnnlib"
    command = [SCRIPTS / "run_instance.sh", "v1", "test", folder / "onnx/net.onnx", spec, folder / "r.txt", timeout]
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(
            lambda: (folder / "note.arguments").exists() and "--timeout" in (folder / "note.arguments").read_text()
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return (folder / "note.arguments").read_text().split()


@pytest.mark.parametrize("timeout", ["9", "soon"])
def test_results_that_cannot_be_written_are_no_success(timeout: str, folder: Path) -> None:
    spec, nowhere = folder / "vnnlib" / "holds.vnnlib", folder / "none" / "results.txt"
    command = [SCRIPTS / "run_instance.sh", "v1", "test", folder / "onnx/net.onnx", spec, nowhere, timeout]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"cannot write the results file '{nowhere}'" in done.stderr


def test_a_file_that_is_missing_skips_the_instance(folder: Path) -> None:
    found = asked(folder, "holds", "onnx/none.onnx")
    assert found.result == "prepare_instance_error_1"
    assert "none.onnx" in found.messages


@pytest.mark.parametrize("script", ["install_tool", "prepare_instance", "run_instance"])
def test_another_version_is_refused(script: str) -> None:
    done = subprocess.run([SCRIPTS / f"{script}.sh", "v2"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "v1" in done.stderr


# --- being ended --------------------------------------------------------------------------------------------


def sleeper(folder: Path, **more: str) -> dict[str, str]:
    path = folder / "python"
    path.write_text(SLEEPER)
    path.chmod(0o755)
    return {**ENV, "NETPROOF_PYTHON": str(path), "REAL": sys.executable, "NOTE": str(folder / "note"), **more}


@pytest.mark.parametrize("stubborn", ["", "yes"])
def test_a_run_that_does_not_end_is_killed_with_all_that_it_started(folder: Path, stubborn: str) -> None:
    env = sleeper(folder, STUBBORN=stubborn)
    spec = str(folder / "vnnlib" / "holds.vnnlib")
    found = run(str(folder / "onnx" / "net.onnx"), spec, 1.0, folder, env, grace=1.0)
    assert found.result == "run_instance_timeout"
    wait_for(lambda: not alive(int((folder / "note").read_text())))


def test_the_time_limit_is_a_second_early(folder: Path) -> None:
    spec = str(folder / "vnnlib" / "holds.vnnlib")
    for timeout, most, least in ((3.0, 2.0, 1.5), (1.0, 0.5, 0.3)):
        run(str(folder / "onnx" / "net.onnx"), spec, timeout, folder, sleeper(folder), grace=0.1)
        given = (folder / "note.arguments").read_text().split()
        assert least < float(given[given.index("--timeout") + 1]) <= most


# --- several networks ---------------------------------------------------------------------------------------


def test_several_networks_are_passed_on_by_name(folder: Path) -> None:
    (folder / "onnx" / "other one.onnx").write_bytes((folder / "onnx" / "net.onnx").read_bytes())
    field = "[('f', 'onnx/net.onnx'), ('g', 'onnx/other one.onnx')]"
    spec = str(folder / "vnnlib" / "holds.vnnlib")
    run(field, spec, 1.0, folder, sleeper(folder), grace=0.1)
    given = (folder / "note.arguments").read_text().splitlines()
    assert given[:3] == ["-m", "netproof", "verify"]
    assert given[3:8] == [spec, "--network", "f=onnx/net.onnx", "--network", "g=onnx/other one.onnx"]


def test_a_list_of_one_network_goes_with_any_specification(folder: Path) -> None:
    found = organise("[('f', 'onnx/net.onnx')]", str(folder / "vnnlib" / "holds.vnnlib"), LIMIT, folder, ENV)
    assert found.result == "unsat", found.messages


def two_networks(folder: Path, limit: str, how: Callable[..., Outcome] = run) -> Outcome:
    """Ask whether g may exceed f by a limit on the unit box, where f = |x₀ + x₁| + |x₀ − x₁| and g is 5/4 of it."""
    more = Model((1, 2))
    more.add("Gemm", "x", np.float32([[1, -1, 1, -1], [1, -1, -1, 1]]), out="h").add("Relu", "h", out="r")
    more.add("Gemm", "r", np.full((4, 1), 1.25, np.float32)).save(folder / "onnx" / "more.onnx")
    declared = network("f", {"X": "[1,2]"}, {"Y": "[1,1]"}) + network("g", {"U": "[1,2]"}, {"W": "[1,1]"})
    box = [f"(and (>= X[0,{i}] -1.0) (<= X[0,{i}] 1.0))" for i in range(2)]
    same = [f"(== X[0,{i}] U[0,{i}])" for i in range(2)]
    asked_for = f"(>= (- W[0,0] Y[0,0]) {limit})"
    lines = "".join(f"(assert {text})\n" for text in (*box, *same, asked_for))
    spec = folder / "vnnlib" / "two.vnnlib"
    spec.write_text(VERSION + declared + lines)
    return how("[('f', 'onnx/net.onnx'), ('g', 'onnx/more.onnx')]", str(spec), LIMIT, folder, ENV, GRACE)


def test_two_networks_that_never_differ_by_more(folder: Path) -> None:
    found = two_networks(folder, "0.5625", organise)  # the largest difference is a quarter of 2
    assert found.result == "unsat", found
    assert found.witness == ""


def test_a_witness_of_two_networks_that_onnxruntime_confirms(folder: Path) -> None:
    found = two_networks(folder, "0.4375")
    assert found.result == "sat", found
    x, y, u, w = read_tensors(found.witness, "X", "Y", "U", "W")
    assert np.array_equal(x, u)
    assert (np.abs(x) <= 1.0).all()
    first, second = replayed(folder / "onnx" / "net.onnx", x), replayed(folder / "onnx" / "more.onnx", u)
    assert second[0] - first[0] >= 0.4375
    assert np.allclose([*y, *w], [*first, *second], rtol=1e-3, atol=1e-4)


FIELDS = {
    "onnx/net.onnx": [(None, "onnx/net.onnx")],
    " onnx/net.onnx ": [(None, "onnx/net.onnx")],
    "[('f', 'a.onnx'), ('g', 'b.onnx')]": [("f", "a.onnx"), ("g", "b.onnx")],
    '[["f", "a.onnx"], ["g", "b.onnx"]]': [("f", "a.onnx"), ("g", "b.onnx")],
    "(('f', 'a.onnx'), ('g', 'b.onnx'))": [("f", "a.onnx"), ("g", "b.onnx")],
    "{'f': 'a.onnx', 'g': 'b.onnx'}": [("f", "a.onnx"), ("g", "b.onnx")],
    "('f', 'a.onnx')": [("f", "a.onnx")],
    "['a.onnx']": [(None, "a.onnx")],
}


@pytest.mark.parametrize("field", FIELDS)
def test_the_network_field(field: str) -> None:
    assert networks_of(field) == FIELDS[field]


@pytest.mark.parametrize(
    "field", ["[]", "[('f', 'a.onnx'", "[('f',)]", "[1, 2]", "[('f', 'a'), ('f', 'b')]", "['a', 'b']"]
)
def test_a_field_that_is_none(field: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="the networks"):
        networks_of(field)
    found = run(field, str(folder / "vnnlib" / "holds.vnnlib"), LIMIT, folder, ENV, grace=5.0)
    assert found.result == "error"


def test_shellcheck_has_nothing_to_say() -> None:
    tool = shutil.which("shellcheck")
    if tool is None:
        pytest.skip("no shellcheck here")
    done = subprocess.run([tool, *sorted(SCRIPTS.glob("*.sh"))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
