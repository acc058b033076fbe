"""Ctrl-C, kill -9 or a full disk while a certificate is on its way: the verdict stays, and no torn file does."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from command import SOURCE, THREADLESS

import netproof
from netproof.campaign.store import Store
from netproof.certificate.room import PREFIX
from netproof.problem.vnnlib.writer import version_1
from support.api import module
from support.asking import knotted, sharpened
from support.processes import HANG, wait_for

SLOW = Path(__file__).parent / "slow"
ROBUST = ("robust", "image.onnx", "--image", "x.npy", "--eps", "1/1000", "--certificate", "c.npcert")
VERIFY = ("verify", "m.onnx", "p.vnnlib", "--certificate", "c.npcert")
CERTIFY = ("certify", "image.onnx", "--data", "d.npz", "--eps", "1/1000", "--certificates", "certs", "--out", "out")
BENCH = ("bench", ".", "--certificates", "certs", "--out", "out", "--no-report", "--device", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Questions that are proved: two files, an image, a data set, a folder of instances."""
    question = sharpened(knotted(1), [Fraction(1, 64)])
    question.network.save(tmp_path / "m.onnx")
    (tmp_path / "p.vnnlib").write_text(version_1(question.property, question.property.disjuncts[0].box))
    (tmp_path / "instances.csv").write_text("m.onnx,p.vnnlib,60\n")
    network = module(16, 24, 3, seed=1)
    image = np.full((1, 16), 0.5, dtype=np.float32)
    (tmp_path / "image.onnx").write_bytes(netproof.load_network(network, example_shape=(1, 16)).model)
    np.save(tmp_path / "x.npy", image)
    with torch.no_grad():
        np.savez(tmp_path / "d.npz", X=image, y=network(torch.from_numpy(image)).argmax(1).numpy())
    return tmp_path


def start(at: str, *arguments: str, cwd: Path, full: bool = False) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(SLOW), str(SOURCE), *sys.path])
    slow = {"SLOW_AT": at, "SLOW_MARK": str(cwd / "mark")} if at else {}
    return subprocess.Popen(
        [sys.executable, "-m", "netproof", *arguments],
        cwd=cwd,
        env={**os.environ, **THREADLESS, **slow, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_nearly_full if full else None,
    )


def _nearly_full() -> None:
    """Let no file grow beyond a certificate's head."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


def stopped(at: str, *arguments: str, cwd: Path, by: int = signal.SIGINT) -> tuple[int, str, str]:
    """Run a command up to a place, and end it there as a terminal does: all that it has started, too."""
    process = start(at, *arguments, cwd=cwd)
    wait_for((cwd / "mark").exists)
    (cwd / "mark").unlink()
    os.kill(process.pid, by) if by == signal.SIGKILL else os.killpg(process.pid, by)
    return ended(process)


def left(folder: Path) -> set[str]:
    """Return what is there of certificates and their questions, and whatever is hidden."""
    there = [path for path in folder.rglob("*") if PREFIX not in str(path.parent)]
    hidden = {path.name for path in there if path.name.startswith(".")} - {".lock"}  # a campaign's own
    return hidden | {path.name for path in there if path.stem == "c" or path.suffix == ".npcert"}


@pytest.mark.parametrize(
    ("at", "arguments", "stays"),
    [
        ("search", ROBUST, set()),
        ("writing", VERIFY, set()),
        ("writing", ROBUST, set()),
        ("checking", ROBUST, {"c.npcert", "c.vnnlib"}),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_ctrl_c_leaves_the_verdict_and_whole_files(
    at: str, arguments: tuple[str, ...], stays: set[str], folder: Path
) -> None:
    code, out, err = stopped(at, *arguments, "--json", "j.json", cwd=folder)
    verdict = "unknown" if at == "search" else "unsat"
    assert (code, out) == (130, f"{verdict}\n")
    assert left(folder) == stays
    found = json.loads((folder / "j.json").read_text())
    assert found["verdict"] == verdict
    if at != "search":
        assert "interrupted; the verdict stands" in err
        assert (found["certificate"]["written"], found["certificate"]["reason"]) == (bool(stays), "interrupted")


def test_ctrl_c_in_a_data_set_keeps_answers_and_a_rerun_makes_the_certificate(folder: Path) -> None:
    code, out, err = stopped("writing", *CERTIFY, cwd=folder)
    assert (code, "certified 1.0000" in out) == (130, True)
    assert "0 of 1 proofs have a certificate" in err
    assert left(folder) == set()
    code, _, err = ended(start("", *CERTIFY, cwd=folder))
    assert (code, "1 of 1 proofs have a certificate that npcheck accepts" in err) == (0, True)
    assert [name[:5] for name in left(folder)] == ["00000"]


def test_ctrl_c_in_a_campaign_keeps_the_proof_and_a_rerun_makes_the_certificate(folder: Path) -> None:
    code, _, err = stopped("writing", *BENCH, cwd=folder)
    assert (code, "1 of 1 runs are kept" in err) == (130, True)
    assert left(folder) == set()
    with Store(folder / "out" / "results.sqlite") as store:
        (row,) = store.results()
    assert row.verdict == "unsat"
    assert row.certificate is not None
    assert row.certificate["reason"] == "interrupted"
    code, _, err = ended(start("", *BENCH, cwd=folder))
    assert (code, "accepts the certificates of 1 of 1 proofs" in err) == (0, True)
    assert left(folder) == {"m--p--auto.npcert"}


def test_what_kill_9_leaves_behind_goes_with_the_next_run(folder: Path) -> None:
    (folder / "c.npcert").write_bytes(b"an earlier one")
    code, out, _ = stopped("writing", *VERIFY, cwd=folder, by=signal.SIGKILL)
    assert (code, out) == (-signal.SIGKILL, "unsat\n")
    (hidden,) = left(folder) - {"c.npcert"}
    assert hidden.startswith(PREFIX)
    assert (folder / "c.npcert").read_bytes() == b"an earlier one"
    code, out, _ = ended(start("", *VERIFY, cwd=folder))
    assert (code, out) == (0, "unsat\n")
    assert left(folder) == {"c.npcert"}
    assert (folder / "c.npcert").read_bytes().startswith(b"{")


def test_a_full_disk_takes_no_verdict(folder: Path) -> None:
    code, out, err = ended(start("", *VERIFY, cwd=folder, full=True))
    assert (code, out) == (2, "unsat\n")
    assert "no certificate: it cannot be written: File too large" in err
    assert left(folder) == set()
