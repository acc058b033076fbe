"""Certificates of ties: a row that is strict holds where its exact value is 0."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import netproof
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.problem.vnnlib.writer import version_1
from npcheck.check import check
from support.asking import at_most, dense, whole_box

TWINS = dense(([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))  # relu(x) − relu(x)


def test_hints_of_a_statement_that_is_a_little_weaker_are_enough(tmp_path: Path) -> None:
    """A search needs room for rounding; with its hints, the pass shows the tie, for the strict row alone."""
    question = at_most(whole_box([-1], [1]), TWINS, Fraction(-1, 1000), strict=True)
    model, spec = TWINS.save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    spec.write_text(version_1(question, question.disjuncts[0].box))
    request = Request(tmp_path / "c.npcert", model, spec, tmp_path / "hints", 5.0, check=False, at_once=False)
    recording = Recording.of(request)
    assert netproof.verify(str(model), str(spec), device="cpu", threads=1, method="beta", certificate=recording).proved
    for strict, written in ((True, True), (False, False)):
        (disjunct,) = at_most(whole_box([-1], [1]), TWINS, Fraction(0), strict=strict).disjuncts
        spec.write_text(version_1(replace(question, disjuncts=(disjunct,)), disjunct.box))
        state = request.finish(request.subject())
        assert state.written is written
        if written:
            assert check(request.path, model, spec).leaves == state.leaves
        else:
            assert "nothing is left to split" in state.reason
