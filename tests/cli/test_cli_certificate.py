"""`netproof verify --certificate` and `netproof check`, as a user meets them."""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest
from command import REAL, run, run_cold
from onnx import TensorProto, helper

from netproof.problem.vnnlib.writer import version_1
from support.asking import knotted, sharpened

FILES = ("m.onnx", "p.vnnlib")


def asked(folder: Path, margin: Fraction = Fraction(1, 64)) -> None:
    question = sharpened(knotted(1), [margin])
    question.network.save(folder / "m.onnx")
    (folder / "p.vnnlib").write_text(version_1(question.property, question.property.disjuncts[0].box))


def netproof(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_cold(*arguments, engine=REAL, cwd=cwd)


def test_a_proof_has_one_that_npcheck_accepts(tmp_path: Path) -> None:
    asked(tmp_path)
    done = netproof("verify", *FILES, "--certificate", "c.npcert", "--json", "j.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "unsat\n")
    assert "certificate: c.npcert, " in done.stderr
    assert done.stderr.endswith("checked: valid\n")
    state = json.loads((tmp_path / "j.json").read_text())["certificate"]
    assert (state["written"], state["checked"], state["reason"]) == (True, True, "")
    assert state["bytes"] == (tmp_path / "c.npcert").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npcert", "j.json", *FILES]
    again = netproof("check", "c.npcert", *FILES, cwd=tmp_path)
    assert (again.returncode, again.stdout.split("\n")[0]) == (0, "valid")
    (tmp_path / "c.npcert").write_bytes((tmp_path / "c.npcert").read_bytes()[:-1])
    broken = netproof("check", "c.npcert", *FILES, cwd=tmp_path)
    assert (broken.returncode, broken.stdout.split("\n")[0]) == (1, "invalid")
    nothing = netproof("check", "nowhere.npcert", *FILES, cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert nothing.stderr == "npcheck: nowhere.npcert: No such file or directory\n"


def test_stdout_as_json_has_the_certificate(tmp_path: Path) -> None:
    asked(tmp_path)
    options = ("--certificate", "c.npcert", "--no-certificate-check", "--json", "-", "--quiet")
    done = netproof("verify", *FILES, *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    state = json.loads(done.stdout)["certificate"]
    assert (state["written"], state["checked"]) == (True, None)


def test_a_counterexample_is_its_own(tmp_path: Path) -> None:
    asked(tmp_path, Fraction(-1, 4))
    done = netproof("verify", *FILES, "--certificate", "c.npcert", "--json", "j.json", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("sat\n")
    state = json.loads((tmp_path / "j.json").read_text())["certificate"]
    assert not state["written"]
    assert "only a proof has one" in state["reason"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.json", *FILES]
    (tmp_path / "w.txt").write_text(done.stdout)
    judged = netproof("check", "w.txt", *FILES, cwd=tmp_path)
    assert (judged.returncode, judged.stdout.split("\n")[0]) == (0, "violated")


def test_no_time_for_it_takes_no_verdict(tmp_path: Path) -> None:
    asked(tmp_path)
    done = netproof("verify", *FILES, "--certificate", "c.npcert", "--certificate-timeout", "1e-9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "unsat\n")
    assert "no certificate: its time was up" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [*FILES]


def test_an_operator_without_a_certificate_is_named_before_the_search(tmp_path: Path) -> None:
    node = helper.make_node("Sin", ["x"], ["y"])
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", sides[:1], sides[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    text = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (>= X_0 0))(assert (<= Y_0 0))"
    (tmp_path / "p.vnnlib").write_text(text)
    done = netproof("verify", *FILES, "--certificate", "c.npcert", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "no certificate can be written: m.onnx: " in line
    assert "Sin" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*FILES, "--certificate", "nowhere/c.npcert"), "there is no directory nowhere"),
        ((*FILES, "--certificate", "m.onnx"), "--certificate would overwrite m.onnx"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    done = run("verify", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
