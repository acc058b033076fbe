"""Certificates about ℓ2 balls, which are written as VNN-LIB: what is proved is certified, and only on this ball."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.problem.property import Ball, Property
from netproof.problem.vnnlib.writer import version_1
from npcheck.check import check
from npcheck.errors import Invalid
from support.asking import knotted

SHARE = Fraction(1, 64)  # of the value, by which the statement holds


def on_a_ball(question: Property, radius: Fraction, limit: Fraction) -> Property:
    """Ask about a ball whose box is that of the question, with right-hand sides moved down."""
    disjuncts = []
    for disjunct in question.disjuncts:
        ball = Ball((Fraction(0),) * len(disjunct.box.lower), radius, 2)
        rows = tuple(replace(row, rhs=row.rhs - limit) for row in disjunct.rows)
        disjuncts.append(replace(disjunct, rows=rows, ball=ball))
    return replace(question, disjuncts=tuple(disjuncts))


@pytest.mark.parametrize("method", ["beta", "auto"])
@pytest.mark.parametrize("seed", [0, 2])
def test_a_proof_on_a_ball_is_certified(seed: int, method: str, tmp_path: Path) -> None:
    """The right-hand sides go down until it is proved; with a larger ball the certificate does not hold."""
    question = knotted(seed)
    model, spec = question.network.save(tmp_path / "m.onnx"), tmp_path / "p.vnnlib"
    for step in range(40):
        asked = on_a_ball(question.property, Fraction(1), Fraction(step, 8))
        spec.write_text(version_1(asked, asked.disjuncts[0].box))
        request = Request(tmp_path / "c.npcert", model, spec, tmp_path / "hints", 60.0, check=False, at_once=False)
        recording = Recording.of(request)
        if netproof.verify(str(model), str(spec), device="cpu", threads=1, method=method, certificate=recording).proved:
            break
        recording.close()
    state = request.finish(request.subject())
    assert (state.written, state.reason) == (True, "")
    found = check(request.path, model, spec, exact=5)
    assert found.leaves == state.leaves
    _, body = request.path.read_bytes().split(b"\n", 1)
    wide = on_a_ball(asked, Fraction(3, 2), Fraction(0))
    spec.write_text(version_1(wide, wide.disjuncts[0].box))
    other = request.subject()
    header = f'{{"npcert": 1, "claim": "unsat", "model": "{other.model}", "spec": "{other.spec}"}}\n'
    request.path.write_bytes(header.encode() + body)
    with pytest.raises(Invalid):
        check(request.path, model, spec)
