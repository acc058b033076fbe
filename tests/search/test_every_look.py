"""A deadline that comes at any look: what is proved is an answer, and what is no answer has no bound above 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.bounds.neurons import worth
from netproof.core.verdict import Status, Verdict
from netproof.problem.property import Disjunct, Property
from support.asking import knotted, sharpened, whole_box
from support.looks import Looks
from support.random_graphs import Question

METHODS = ("auto", "lirpa", "beta", "babsr-lp", "mip")
OPEN = (Status.TIMEOUT, Status.UNKNOWN)


def boxes(question: Question) -> Question:
    """The same violations on each half of the box: problems of their own."""
    disjuncts: list[Disjunct] = []
    for disjunct in question.property.disjuncts:
        lower, upper = disjunct.box.lower, disjunct.box.upper
        middle = (lower[0] + upper[0]) / 2
        halves = whole_box(lower, [middle, *upper[1:]]), whole_box([middle, *lower[1:]], upper)
        disjuncts += [Disjunct(half, disjunct.rows) for half in halves]
    whole = question.property
    return Question(question.network, Property(tuple(disjuncts), whole.inputs, whole.outputs, whole.source))


def questions() -> dict[str, Question]:
    """By how hard they are: intervals prove all of the first, one case of the second, and nothing of the third."""
    margins: dict[str, Sequence[Fraction]] = {
        "easy": [Fraction(50)],
        "mixed": [Fraction(1, 8), Fraction(50)],
        "tight": [Fraction(1, 16), Fraction(1, 2)],
    }
    return {name: sharpened(knotted(0), margin) for name, margin in margins.items()}


def decided(verdict: Verdict) -> bool:
    """Say whether it is an answer; else it has a reason, and no bound that would be one."""
    if verdict.status in OPEN:
        assert verdict.reason
        assert verdict.lower_bound is None or verdict.lower_bound <= 0
        return False
    assert verdict.status == Status.UNSAT
    return True


@pytest.mark.parametrize("late", [False, True], ids=["", "intervals first"])
@pytest.mark.parametrize("halved", [False, True], ids=["one box", "two boxes"])
@pytest.mark.parametrize("kind", ["easy", "mixed", "tight"])
@pytest.mark.parametrize("method", METHODS)
def test_a_proof_is_never_thrown_away(
    method: str, kind: str, halved: bool, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worth, "SHORT", 0.0 if late else math.inf)
    question = questions()[kind]
    question = boxes(question) if halved else question
    network = netproof.load_network(question.network.save(tmp_path / "n.onnx"))

    def ask(looks: float) -> tuple[Verdict, Looks]:
        deadline = Looks(looks)
        how = {"method": method, "device": "cpu", "threads": 1, "deadline": deadline}
        return netproof.verify(network, question.property, **how), deadline

    whole, deadline = ask(1e9)
    assert decided(whole)
    needed = int(1e9 - deadline.left)
    some = range(needed) if needed <= 48 else [*range(24), *range(24, needed, needed // 12)]
    found = [decided(ask(looks)[0]) for looks in some]
    assert found == sorted(found)  # with more time it is decided still
