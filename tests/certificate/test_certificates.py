"""Certificates from end to end: what a search proves is written, accepted by npcheck, and refused where it is false."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import onnx
import pytest

import netproof
from hunt.plants import PLANTS, planted
from netproof.certificate.asking import ask
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.certificate.spool import Hint, Spool
from netproof.certificate.state import Certificate
from netproof.core.deadline import DeadlineExpired
from netproof.core.verdict import Verdict
from netproof.errors import UsageError
from netproof.problem.vnnlib.writer import version_1
from npcheck.check import Checked, check
from npcheck.errors import Invalid
from support.asking import knotted, sharpened
from support.random_graphs import Question

CLOSE = Fraction(1, 128)
BY_NEURONS = {"method": "beta"}
BY_BOXES = {"method": "auto"}


def files(question: Question, folder: Path) -> tuple[Path, Path]:
    model, spec = question.network.save(folder / "m.onnx"), folder / "p.vnnlib"
    spec.write_text(version_1(question.property, question.property.disjuncts[0].box))
    return model, spec


def certified(
    question: Question, folder: Path, *, attack: bool = True, **engine: Any
) -> tuple[Verdict, Certificate, Request]:
    """Search, and write a certificate of what the search says is a proof."""
    model, spec = files(question, folder)
    request = Request(folder / "c.npcert", model, spec, folder / "hints", 60.0, check=False, at_once=False)
    recording = Recording.of(request)
    verdict = netproof.verify(
        str(model), str(spec), device="cpu", threads=1, attack=attack, certificate=recording, **engine
    )
    return verdict, request.finish(request.subject()), request


def checked(request: Request) -> Checked:
    return check(request.path, request.model, request.spec)


@pytest.mark.parametrize("engine", [BY_NEURONS, BY_BOXES], ids=["neurons", "boxes"])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_proved_is_certified(seed: int, engine: dict[str, str], tmp_path: Path) -> None:
    question = sharpened(knotted(seed), [CLOSE])
    verdict, state, request = certified(question, tmp_path, **engine)
    assert verdict.proved
    assert (state.written, state.reason) == (True, "")
    found = checked(request)
    assert found.targets == len(question.property.disjuncts)
    assert found.leaves == state.leaves >= 1
    assert state.bytes == request.path.stat().st_size


@pytest.mark.parametrize("seed", range(8))
def test_of_another_statement_it_proves_nothing(seed: int, tmp_path: Path) -> None:
    """The right-hand sides are moved past the least value by 1e-6: the statement is false by that little."""
    question = sharpened(knotted(seed), [CLOSE])
    _, _, request = certified(question, tmp_path, **BY_NEURONS)
    false = sharpened(question, [Fraction(-1, 1_000_000)])
    request.spec.write_text(version_1(false.property, false.property.disjuncts[0].box))
    with pytest.raises(Invalid, match="of another spec"):
        checked(request)
    header, body = request.path.read_bytes().split(b"\n", 1)
    about = json.loads(header) | {"spec": request.subject().spec}
    request.path.write_bytes(json.dumps(about).encode() + b"\n" + body)
    with pytest.raises(Invalid, match="is not shown"):
        checked(request)


@pytest.mark.parametrize("plant", PLANTS)
def test_no_fault_of_the_engine_ends_in_an_accepted_certificate(plant: str, tmp_path: Path) -> None:
    """Questions that are false by little, under each fault of the hunt; some are answered wrongly."""
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        question = sharpened(knotted(seed), [-CLOSE])
        model, spec = files(question, folder)
        request = Request(folder / "c.npcert", model, spec, folder / "hints", 1.0, check=False, at_once=False)
        recording = Recording.of(request)
        with planted(plant):
            verdict = netproof.verify(str(model), str(spec), device="cpu", threads=1, timeout=20, certificate=recording)
        if verdict.proved or seed == 0:  # what is not called a proof is not certified anyway
            assert not request.finish(request.subject()).written
            assert not request.path.exists()


def test_a_search_is_the_same_with_a_certificate_but_for_bounds_that_it_cannot_state(tmp_path: Path) -> None:
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        question = sharpened(knotted(seed), [CLOSE])
        verdict, _, request = certified(question, folder, **BY_NEURONS)
        without = {"planes": 0, "envelope": False}
        files = str(request.model), str(request.spec)
        alone = netproof.verify(*files, device="cpu", threads=1, options=without, **BY_NEURONS)
        assert (alone.status, alone.stats.domains) == (verdict.status, verdict.stats.domains)
        assert alone.certificate is None


def test_verify_in_python_writes_checks_and_says_so(tmp_path: Path) -> None:
    model, spec = files(sharpened(knotted(1), [CLOSE]), tmp_path)
    path = tmp_path / "c.npcert"
    verdict = netproof.verify(str(model), str(spec), device="cpu", certificate=path)
    assert verdict.certificate is not None
    assert verdict.certificate["checked"] is True
    assert verdict.certificate["path"] == str(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.npcert", "m.onnx", "p.vnnlib"]
    assert json.loads(json.dumps(verdict.to_dict()))["certificate"] == verdict.certificate


def test_a_counterexample_has_none(tmp_path: Path) -> None:
    model, spec = files(sharpened(knotted(1), [-CLOSE]), tmp_path)
    verdict = netproof.verify(str(model), str(spec), device="cpu", certificate=tmp_path / "c.npcert")
    assert verdict.broken
    assert verdict.certificate is not None
    assert not verdict.certificate["written"]
    assert "only a proof has one" in verdict.certificate["reason"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "p.vnnlib"]


def test_what_cannot_be_certified_is_said_before_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, spec = files(sharpened(knotted(1), [CLOSE]), tmp_path)
    changed = onnx.load_model(model)
    changed.graph.node.append(onnx.helper.make_node("Sin", [changed.graph.output[0].name], ["wave"]))
    changed.graph.output[0].name = "wave"
    onnx.save_model(changed, model)
    monkeypatch.setattr("netproof.api.Run.decide", None)
    with pytest.raises(UsageError, match=r"no certificate can be written: .*m\.onnx: node .*Sin"):
        netproof.verify(str(model), str(spec), certificate=tmp_path / "c.npcert")
    with pytest.raises(UsageError, match="there is no folder"):
        netproof.verify(str(model), str(spec), certificate=tmp_path / "nowhere" / "c.npcert")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("fault", [DeadlineExpired(), OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_ends_the_writing_leaves_nothing_behind(
    fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier file of that name stays as it was."""
    question = sharpened(knotted(1), [CLOSE])
    _, _, request = certified(question, tmp_path, **BY_NEURONS)
    before = request.path.read_bytes()

    def fail(*args: Any) -> None:
        raise fault

    monkeypatch.setattr("netproof.certificate.tree.write_part", fail)
    monkeypatch.setattr("netproof.certificate.write.write_boxes", fail)
    if isinstance(fault, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            request.finish(request.subject())
    else:
        state = request.finish(request.subject())
        assert not state.written
        assert ("time was up" if isinstance(fault, DeadlineExpired) else "No space left") in state.reason
    assert request.path.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".*.part"))


def test_hints_are_only_hints(tmp_path: Path) -> None:
    """Without any, and with those of another question, what is written is accepted all the same."""
    question = sharpened(knotted(3), [CLOSE])
    _, _, request = certified(question, tmp_path, **BY_NEURONS)
    hints = request.spool.read_bytes()
    request.spool.write_bytes(b"")
    assert request.finish(request.subject()).written
    checked(request)
    other = tmp_path / "other"
    other.mkdir()
    moved = sharpened(knotted(3), [2 * CLOSE])
    model, spec = files(moved, other)
    elsewhere = replace(request, path=other / "c.npcert", model=model, spec=spec, spool=other / "hints")
    elsewhere.spool.write_bytes(hints)
    assert elsewhere.finish(elsewhere.subject()).written
    checked(elsewhere)


def test_a_tree_is_made_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more leaves are read at once than a window has, and the same tree comes of it."""
    _, _, request = certified(sharpened(knotted(3), [CLOSE]), tmp_path, **BY_NEURONS)
    before = request.path.read_bytes()
    read: list[int] = []
    hints = Spool.hints

    def watched(self: Spool, disjunct: int, which: Sequence[int]) -> Iterator[Hint]:
        read.append(0 if isinstance(which, range) else len(which))  # of a range the splits alone are kept
        return hints(self, disjunct, which)

    monkeypatch.setattr(Spool, "hints", watched)
    monkeypatch.setattr("netproof.certificate.tree.WINDOW", 3)
    monkeypatch.setattr("netproof.certificate.tree.SAMPLE", 3)
    monkeypatch.setattr("netproof.certificate.leaves.most_at_once", lambda network: 3)
    assert request.finish(request.subject()).leaves > 9
    assert request.path.read_bytes() == before
    assert 1 < max(read) <= 3


def test_a_full_disk_takes_hints_and_no_verdict(tmp_path: Path) -> None:
    """What was written of the hints before is used; half an entry is not."""
    question = sharpened(knotted(3), [CLOSE])
    model, spec = files(question, tmp_path)
    full = Request(tmp_path / "c.npcert", model, spec, Path("/dev/full"), 60.0, check=False, at_once=False)
    recording = Recording.of(full)
    assert netproof.verify(str(model), str(spec), device="cpu", certificate=recording, **BY_NEURONS).proved
    _, _, request = certified(question, tmp_path, **BY_NEURONS)
    hints = request.spool.read_bytes()
    for length in (len(hints) - 1, len(hints) // 2, 3):
        request.spool.write_bytes(hints[:length])
        assert request.finish(request.subject()).written
        checked(request)


def test_the_progress_of_a_check_is_told_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lines are kept for its answer; without anybody to tell it is quiet; a time limit ends it."""
    program = """import sys, time
quiet = "--quiet" in sys.argv
if not quiet: print("npcheck: 10% of the certificate, disjunct 0, 3 leaves, 2 s", file=sys.stderr, flush=True)
print("npcheck: why", file=sys.stderr)
if "slow" in sys.argv: time.sleep(60)
print("invalid")
sys.exit(1)"""
    (tmp_path / "python").write_text(f"#!/bin/sh\nshift 2\nexec {sys.executable} -c '{program}' \"$@\"\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    told: list[str] = []
    answer = ask(Path("c"), Path("m"), Path("s"), 60.0, told.append)
    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "invalid\n", "npcheck: why\n")
    assert told == ["npcheck: 10% of the certificate, disjunct 0, 3 leaves, 2 s"]
    assert ask(Path("c"), Path("m"), Path("s"), 60.0, None).stderr == "npcheck: why\n"
    assert len(told) == 1
    with pytest.raises(subprocess.TimeoutExpired):
        ask(Path("slow"), Path("m"), Path("s"), 0.01, told.append)


@pytest.mark.parametrize(("code", "stays"), [(0, True), (1, False), (2, True)])
def test_only_what_npcheck_refuses_goes_away(
    code: int, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, request = certified(sharpened(knotted(1), [CLOSE]), tmp_path, **BY_NEURONS)
    answer = subprocess.CompletedProcess([], code, "invalid\nwhy\n" if code == 1 else "", "")
    monkeypatch.setattr("netproof.certificate.request.ask", lambda *args: answer)
    state = replace(request, check=True).finish(request.subject())
    assert (state.written, state.checked) == (stays, {0: True, 1: False, 2: None}[code])
    assert request.path.exists() == stays


@pytest.mark.parametrize(
    ("fault", "why"), [(MemoryError(), "memory ran out"), (OSError(5, "Input/output error"), "Input")]
)
def test_no_fault_of_the_machine_takes_the_verdict(
    fault: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, spec = files(sharpened(knotted(1), [CLOSE]), tmp_path)

    def fail(*args: Any) -> None:
        raise fault

    monkeypatch.setattr("netproof.certificate.write.Spool", fail)
    verdict = netproof.verify(str(model), str(spec), device="cpu", certificate=tmp_path / "c.npcert")
    assert verdict.proved
    assert verdict.certificate is not None
    assert (verdict.certificate["written"], why in verdict.certificate["reason"]) == (False, True)


def test_a_certificate_does_not_replace_what_it_is_about(tmp_path: Path) -> None:
    model, spec = files(sharpened(knotted(1), [CLOSE]), tmp_path)
    for asked in (model, spec):
        with pytest.raises(UsageError, match="would overwrite"):
            netproof.verify(str(model), str(spec), certificate=asked)


def test_what_lies_in_the_current_folder_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named as npcheck is would call anything valid."""
    model, spec = files(sharpened(knotted(1), [CLOSE]), tmp_path)
    (tmp_path / "npcheck.py").write_text("import sys; sys.exit(5)")
    monkeypatch.chdir(tmp_path)
    verdict = netproof.verify(str(model), str(spec), device="cpu", certificate=tmp_path / "c.npcert")
    assert verdict.certificate is not None
    assert verdict.certificate["checked"] is True
