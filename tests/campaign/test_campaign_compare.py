"""A counterexample of a campaign is compared with the middle of its input set, and nothing of that costs the answer."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netproof.campaign import worker
from netproof.core.deadline import Deadline
from netproof.demo import Instance
from netproof.errors import UsageError
from netproof.problem.vnnlib import reader
from netproof.report.counterexamples import picture_of, words_of
from netproof.workers.worker import Job
from support.campaign import a_result

Demo = dict[str, tuple[Path, Path, Instance]]


def ask(demo: Demo, name: str = "conv-8-breaks", seconds: float | None = None) -> tuple[str, dict[str, Any]]:
    model, spec, _ = demo[name]
    job = Job(Deadline(seconds), lambda message: None)
    record, _, more = worker.answer(job, onnx=str(model), sha256="", vnnlib=str(spec), device="cpu", threads=1)
    return record.verdict, more


def test_it_is_compared_with_the_middle_of_the_set(demo: Demo) -> None:
    """The property's box is x ± eps clipped to pixels, so that the middle is x where nothing was clipped."""
    verdict, more = ask(demo)
    assert verdict == "sat"
    lower, upper = (
        np.array([float(value) for _, value in re.findall(rf"\({sign} X_(\d+) ([-\d.e]+)\)", demo_text(demo))])
        for sign in (">=", "<=")
    )
    original = np.array([float(value) for value in more["original"].split()])
    np.testing.assert_allclose(original, (lower + upper) / 2, rtol=1e-6)
    assert more["was"] == 8 != more["read_as"]
    assert 0 < more["changed"] <= (upper - lower).max() / 2 + 1e-6


def demo_text(demo: Demo) -> str:
    return demo["conv-8-breaks"][1].read_text()


def test_a_proof_has_nothing_to_compare(demo: Demo) -> None:
    assert ask(demo, "conv-3-holds") == ("unsat", {})


def test_the_answer_stands_without_it(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may be gone by then; or there may be no time left to read it."""
    with monkeypatch.context() as patched:

        def gone(path: str) -> None:
            raise UsageError("gone", file=path)

        patched.setattr(reader, "load_property", gone)
        assert ask(demo) == ("sat", {})
    with monkeypatch.context() as patched:
        patched.setattr(worker, "SLOWER", 1e9)
        assert ask(demo, seconds=100.0) == ("sat", {})


def test_the_page_draws_both_and_the_difference() -> None:
    witness = "(" + "\n ".join(f"(X_{i} {i / 4})" for i in range(4)) + "\n (Y_0 1.0))\n"
    alone = dataclasses.replace(a_result("p", "sat"), witness=witness, input_shape="1,1,2,2")
    both = dataclasses.replace(alone, original="0.0 0.0 0.5 0.5", read_as=3, was=8, changed=0.25)
    drawn = picture_of(both)
    assert drawn is not None
    assert drawn.count(b"<image") == 3
    assert re.findall(rb"<text[^>]*>([^<]*)<", drawn) == [
        *(b"middle of the set", b"read as 8", b"counterexample", b"read as 3", b"difference", b"at most 0.25"),
    ]
    assert words_of(both) == "read as 3 (was 8 in the middle of the input set), changed by at most 0.25"
    before = picture_of(alone)
    assert before is not None
    assert (before.count(b"<image"), words_of(alone)) == (1, ""), "a store of an earlier form has no middle"
