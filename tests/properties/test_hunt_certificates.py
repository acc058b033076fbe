"""The campaign of mutants: nothing false is accepted, and a checker with a fault is found out.

`make hunt HUNT=--certificates` goes on from here with other seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import npcheck.check
import npcheck.region
import npcheck.tree
from hunt.certificates import campaign, hunting
from hunt.certificates.campaign import ACCEPTED, ANSWERS, FALSE, OTHER_FILES, REFUSED, VALID
from hunt.certificates.reading import UnreadableError, read_model, read_spec
from hunt.certificates.smooth import SURE, oracle_of
from hunt.certificates.statements import BODIES, BY, TIES, falsified, make
from hunt.loop import Tally
from hunt.network import to_onnx
from netproof.certificate.request import Request
from netproof.certificate.state import Certificate
from npcheck.errors import Invalid

Patch = pytest.MonkeyPatch


def hunted(seeds: range, folder: Path, mutants: int, *, until_fault: bool = False) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.merge(hunting.try_seed(seed, folder, lambda line: None, mutants))
        if until_fault and tally.faults:
            break
    return tally


def test_nothing_false_is_accepted(tmp_path: Path) -> None:
    tally = hunted(range(4), tmp_path, 30)
    assert not tally.faults
    assert not list(tmp_path.iterdir())
    counts = tally.certificates
    assert counts.certificates["certified"]
    answers = {answer: sum(n for key, n in counts.offered.items() if key[2] == answer) for answer in ANSWERS}
    assert min(answers[VALID], answers[FALSE], answers[REFUSED]) > 0


# --- faults put into the checker, each of which the campaign finds ---


def claims_are_believed(patch: Patch) -> None:
    real = npcheck.region._check_tree

    def check_tree(*args: Any) -> int:
        try:
            return real(*args)
        except Invalid:
            name, *_ = next(argument for argument in args if isinstance(argument, tuple))
            if name.startswith("disjunct"):
                raise
            return 0

    patch.setattr(npcheck.region, "_check_tree", check_tree)


def hashes_do_not_count(patch: Patch) -> None:
    real, hashes = npcheck.check.read, dict[str, str]()

    def read(path: Path, *more: Any) -> tuple[Any, str]:
        content, digest = real(path, *more)
        hashes["model" if path.suffix == ".onnx" else "spec"] = digest
        return content, digest

    header = npcheck.check.read_header
    patch.setattr(npcheck.check, "read", read)
    patch.setattr(npcheck.check, "read_header", lambda file: header(file) | hashes)


def bounds_are_off_by_little(patch: Patch) -> None:
    real = npcheck.tree.lower_bound
    patch.setattr(npcheck.tree, "lower_bound", lambda *args: real(*args) + 1e-8)


def second_halves_are_first_ones(patch: Patch) -> None:
    real = npcheck.tree.Walk._leaf

    def leaf(self: npcheck.tree.Walk) -> npcheck.tree.Leaf:
        signs = self._part.signs.copy()
        self._part.signs = np.abs(signs)
        found = real(self)
        self._part.signs = signs
        return found

    patch.setattr(npcheck.tree.Walk, "_leaf", leaf)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (claims_are_believed, ACCEPTED),
        (hashes_do_not_count, OTHER_FILES),
        (bounds_are_off_by_little, ACCEPTED),
        (second_halves_are_first_ones, ACCEPTED),
    ],
)
def test_a_fault_of_the_checker_is_found(
    fault: Callable[[Patch], None], name: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    tally = hunted(range(1, 40), tmp_path, 60, until_fault=True)
    assert tally.faults[name]
    case = next(tmp_path.iterdir())
    assert {file.name for file in case.iterdir()} == {"c.npcert", "model.onnx", "spec.vnnlib", "CASE"}
    assert (case / "CASE").read_text().startswith(name)


# --- what the campaign stands on ---


@pytest.mark.parametrize("seed", range(len(BODIES)))
def test_statements_are_what_their_files_say(seed: int) -> None:
    """The oracle agrees with onnxruntime, and what is read back from the files with what was written."""
    statement = make(seed)
    model = to_onnx(statement.question.network).SerializeToString()
    inputs = statement.question.disjuncts[0].inputs
    x = [
        Fraction(float(np.float32(float(lo / 3 + hi * 2 / 3))))
        for lo, hi in zip(inputs.lower, inputs.upper, strict=True)
    ]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    point = np.array([float(v) for v in x], dtype=np.float32).reshape(statement.question.network[0].shape)
    exact = [float(v) for v in statement.oracle.outputs(x)]
    np.testing.assert_allclose(session.run(None, {"v0": point})[0].reshape(-1), exact, rtol=1e-4, atol=1e-4)
    if statement.question.disjuncts[0].inputs.centre is not None:
        return  # balls are not read back
    for by in (None, *BY.values()):
        question = statement.question if by is None else falsified(statement, np.random.default_rng(0), by)
        again = read_spec(question.text(), read_model(model), statement.question.direction)
        assert again.disjuncts == question.disjuncts
        oracle = oracle_of(again.network, again.direction)
        least = min(oracle.answer(disjunct).least for disjunct in again.disjuncts)
        assert least == min(statement.oracle.answer(disjunct).least for disjunct in question.disjuncts)
        assert (least >= 0 if statement.form == TIES else least > 0) if by is None else -by - 4 * SURE <= least <= -by


def test_what_is_not_understood_is_not_read() -> None:
    statement = make(0)
    text = statement.question.text()
    network = statement.question.network
    for other in (text.replace("<=", "=", 1), text + "(assert (<= X_0 1e999999999))", text[:-3], text + "(check-sat)"):
        with pytest.raises(UnreadableError):
            read_spec(other, network, statement.question.direction)
    with pytest.raises(UnreadableError):
        read_model(b"no model")


def test_a_search_with_a_fault_gets_no_certificate_of_something_false(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(hunting, "SEARCHING", 20.0)  # a busy machine must not end it
    tally = hunting.try_planted(5000, "stale_bound", tmp_path, lambda line: None)
    assert not tally.faults
    assert tally.plants["stale_bound", "wrong unsat, no certificate"]


def test_an_accepted_certificate_of_something_false_is_a_fault(tmp_path: Path, monkeypatch: Patch) -> None:
    """With a writer that always writes, and a checker that accepts all."""

    def finish(self: Request, subject: Any) -> Certificate:
        self.path.write_bytes(b"anything")
        return Certificate(str(self.path), written=True)

    monkeypatch.setattr(Request, "finish", finish)
    monkeypatch.setattr(campaign, "check", lambda *paths: None)
    tally = hunting.try_planted(5000, "leaf_dropped", tmp_path, lambda line: None)
    assert tally.faults[ACCEPTED]
