"""`--certificate`, `--certificates` and `netproof check`, as a user meets them."""

from __future__ import annotations

import csv
import json
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from command import REAL, run, run_cold
from onnx import TensorProto, helper

from netproof.model.load import load_network
from netproof.problem.property import Disjunct, Property, Row
from netproof.problem.vnnlib.reader import load_property
from netproof.problem.vnnlib.writer import version_1
from npcheck.check import check
from support.api import module
from support.asking import dense, knotted, sharpened, whole_box

FILES = ("m.onnx", "p.vnnlib")


def asked(folder: Path, margin: Fraction = Fraction(1, 64)) -> None:
    question = sharpened(knotted(1), [margin])
    question.network.save(folder / "m.onnx")
    (folder / "p.vnnlib").write_text(version_1(question.property, question.property.disjuncts[0].box))


ONE = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (>= X_0 0))"


def waves(path: Path) -> None:
    """Write a network with an operator of which npcheck knows nothing."""
    node = helper.make_node("Sin", ["x"], ["y"])
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xy"]
    graph = helper.make_graph([node], "g", sides[:1], sides[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


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
    assert (judged.returncode, judged.stdout.split("\n")[0]) == (3, "violated")


def test_no_time_for_it_takes_no_verdict(tmp_path: Path) -> None:
    asked(tmp_path)
    done = netproof("verify", *FILES, "--certificate", "c.npcert", "--certificate-timeout", "1e-9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "unsat\n")
    assert "no certificate: its time was up" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [*FILES]


def test_an_operator_without_a_certificate_is_named_before_the_search(tmp_path: Path) -> None:
    waves(tmp_path / "m.onnx")
    (tmp_path / "p.vnnlib").write_text(ONE + "(assert (<= Y_0 -2))")
    done = netproof("verify", *FILES, "--certificate", "c.npcert", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "no certificate can be written: m.onnx: " in line
    assert "Sin" in line


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A classifier, an image, and both as a data set."""
    network = module(16, 24, 3, seed=1)
    values = np.full((1, 16), 0.5, dtype=np.float32)
    (tmp_path / "m.onnx").write_bytes(load_network(network, example_shape=(1, 16)).model)
    np.save(tmp_path / "x.npy", values)
    with torch.no_grad():
        labels = network(torch.from_numpy(values)).argmax(1).numpy()
    np.savez(tmp_path / "d.npz", X=np.concatenate([values, values]), y=np.append(labels, (labels + 1) % 3))
    return tmp_path


@pytest.mark.parametrize("more", [(), ("--largest", "--within", "1/2"), ("--output", "scores")])
def test_an_image_has_one_about_all_targets(more: tuple[str, ...], image: Path) -> None:
    model = onnx.load_model(image / "m.onnx")
    scores = model.graph.node[-1].output[0] if more[:1] == ("--output",) else ""
    more = tuple(scores if word == "scores" else word for word in more)
    asked = ("robust", "m.onnx", "--image", "x.npy", "--eps", "1/1000", *more, "--certificate", "c.npcert")
    done = run(*asked, "--json", "j.json", engine=REAL, cwd=image)
    assert (done.returncode, done.stdout.split("\n")[0]) == (0, "unsat"), done.stderr
    assert "certificate: c.npcert with c.vnnlib, " in done.stderr
    assert done.stderr.count("the search does without at first") <= 1
    document = json.loads((image / "j.json").read_text())
    state = document["certificate"]
    assert (state["checked"], state["model"], state["spec"]) == (True, "m.onnx", "c.vnnlib")
    box = load_property(image / "c.vnnlib").disjuncts[0].box
    radius = document["robustness"]["certified"] or 1 / 1000
    assert float(box.upper[0] - box.lower[0]) == pytest.approx(2 * radius)
    assert len(load_property(image / "c.vnnlib").disjuncts) == 2
    check(*(image / name for name in ("c.npcert", "m.onnx", "c.vnnlib")))


def test_a_query_of_2_0_about_one_network_is_written_in_1_0(image: Path) -> None:
    (image / "q.vnnlib").write_text(
        "(vnnlib-version <2.0>)\n"
        "(declare-network f\n(declare-input X float32 [1,16])\n(declare-output Y float32 [1,3]))\n"
        + "".join(f"(assert (<= X[0,{i}] 0.5))\n(assert (>= X[0,{i}] 0.49))\n" for i in range(16))
        + "(assert (>= Y[0,0] 1000.0))\n"
    )
    for network in ((), ("--network", "f=m.onnx")):
        model = () if network else ("m.onnx",)
        asked = ("verify", *model, "q.vnnlib", *network, "--certificate", "c.npcert", "--quiet")
        done = run(*asked, engine=REAL, cwd=image)
        assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
        check(*(image / name for name in ("c.npcert", "m.onnx", "c.vnnlib")))
        (image / "c.npcert").unlink()


def test_a_data_set_has_one_for_each_proof(image: Path) -> None:
    asked = ("certify", "m.onnx", "--data", "d.npz", "--eps", "1/1000", "--certificates", "certs", "--out", "out")
    done = run(*asked, "--json", "j.json", engine=REAL, cwd=image)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 proofs have a certificate that npcheck accepts, in certs" in done.stderr
    found = json.loads((image / "j.json").read_text())
    assert found["certificates"] == {"folder": "certs", "proofs": 1, "written": 1, "accepted": 1}
    assert [result["certificate"] is None for result in found["results"]] == [False, True]
    rows = list(csv.DictReader((image / "out" / "results.csv").open()))
    (name,) = (path.name for path in (image / "certs").glob("*.npcert"))
    assert [(row["certificate"], row["checked"]) for row in rows] == [(f"certs/{name}", "True"), ("", "")]
    (image / "certs" / name).unlink()
    none = run(*asked, "--certificate-timeout", "1e-9", engine=REAL, cwd=image)
    assert none.returncode == 2
    assert "0 of 1 proofs have a certificate" in none.stderr
    assert "its time was up" in none.stderr
    kept = run(*asked, "--certificate-timeout", "1e-9", engine=REAL, cwd=image)
    assert "2 answers are kept" in kept.stderr


def test_a_campaign_counts_what_has_none(tmp_path: Path) -> None:
    """A proof, a counterexample, and a network with an operator that npcheck does not know."""
    asked(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    asked(broken, Fraction(-1, 4))
    waves(tmp_path / "wave.onnx")
    (tmp_path / "wave.vnnlib").write_text(ONE + "(assert (<= Y_0 -2))")
    rows = ("m.onnx,p.vnnlib,60", "broken/m.onnx,broken/p.vnnlib,60", "wave.onnx,wave.vnnlib,60")
    (tmp_path / "instances.csv").write_text("\n".join(rows))
    options = ("--certificates", "certs", "--out", "out", "--device", "cpu", "--workers", "1")
    done = netproof("bench", ".", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "npcheck accepts the certificates of 1 of 2 proofs" in done.stderr
    assert "1 without one: wave.onnx: node 0 (Sin)" in done.stderr
    runs = {row["onnx"]: row for row in csv.DictReader((tmp_path / "out" / "report" / "runs.csv").open())}
    assert {name: row["verdict"] for name, row in runs.items()} == {
        "m.onnx": "unsat",
        "broken/m.onnx": "sat",
        "wave.onnx": "unsat",
    }
    assert {name: row["certificate_checked"] for name, row in runs.items()} == {
        "m.onnx": "True",
        "broken/m.onnx": "",
        "wave.onnx": "",
    }
    assert "Sin" in runs["wave.onnx"]["certificate_reason"]
    (path,) = (tmp_path / "certs").rglob("*.npcert")
    assert (path.name, runs["m.onnx"]["certificate_leaves"] != "") == ("m--p--auto.npcert", True)
    assert [path.name for path in (tmp_path / "certs").iterdir()] == [path.parent.name]
    path.unlink()
    again = netproof("bench", ".", *options, cwd=tmp_path)
    assert "2 of 3 were there already" in again.stderr
    assert path.is_file()


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


def test_a_proof_by_splits_is_written_as_aptp(tmp_path: Path) -> None:
    """relu(x + y) + relu(x − y) − relu(x + y/2) + 1/64 is above 0."""
    hidden = [[1.0, 1.0], [1.0, -1.0], [1.0, 0.5]], [0.0] * 3
    dense(hidden, ([[1.0, 1.0, -1.0]], [1 / 64])).save(tmp_path / "m.onnx")
    box = whole_box([-1, -1], [1, 1])
    disjuncts = tuple(Disjunct(box, (Row({0: Fraction(1)}, Fraction(right)),)) for right in (0, -9))
    (tmp_path / "p.vnnlib").write_text(version_1(Property(disjuncts, 2, 1, "made here"), box))
    options = ("--certificate", "c.npcert", "--method", "beta")
    assert netproof("verify", *FILES, *options, cwd=tmp_path).stdout == "unsat\n"
    done = netproof("certificate", "c.npcert", *FILES, "--to", "aptp", "--out", "d", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "d/p-0.aptp\n")
    assert done.stderr == "netproof: no file: disjunct 1 without a split, and APTP needs one\n"
    assert [file.name for file in (tmp_path / "d").iterdir()] == ["p-0.aptp"]
    other = netproof("certificate", "c.npcert", *FILES, "--to", "vipr", "--out", "d", cwd=tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "netproof: error: --to vipr: this format is not known (one of aptp)\n"
