"""Verdicts are made of evidence, and evidence that speaks against itself is never an answer."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.bounds.domains import Domains
from netproof.core.reasons import CONTRADICTION, ROUNDING
from netproof.core.verdict import Stats, Status, Verdict, Witness
from netproof.problem.joined import join
from netproof.problem.property import Disjunct, Property, Row
from netproof.problem.reduce import reduce
from netproof.run import gather, ranges
from netproof.run.conclude import Evidence
from netproof.search.boxes.parts import Boxes
from netproof.search.evidence import Outcome
from netproof.search.frontier import Frontier
from netproof.search.goals import Decide
from support.asking import ask, at_most, dense, gaussian, sharpened, whole_box
from support.random_graphs import Question, TinyNetwork

ONE, HALF = Fraction(1), Fraction(1, 2)
SEARCHES = ("lirpa", "beta", "bdd", "babsr-lp", "input-split", "auto")


def identity() -> TinyNetwork:
    """y = x."""
    return dense((np.eye(1), np.zeros(1)))


def two_boxes(limit: float = 0.0) -> Property:
    """y <= limit on [1, 2] or on [3, 4]: the identity violates neither where limit < 1."""
    each = [at_most(whole_box([low], [low + 1]), identity(), limit).disjuncts[0] for low in (1, 3)]
    return Property(tuple(each), 1, 1, "two boxes")


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return evidence_of(two_boxes(), tmp_path)


def evidence_of(property: Property, folder: Path) -> Evidence:
    network = netproof.load_network(identity().save(folder / "identity.onnx"))
    found = Evidence(network, property)
    found.problems = reduce(network, property)  # type: ignore[attr-defined]
    return found


def outcome(share: Fraction, bound: float = 1.0, **more: Any) -> Outcome:
    return Outcome((share,), (bound,), **more)


def add(evidence: Evidence, at: int, found: Outcome) -> None:
    evidence.add(evidence.problems[at], found)  # type: ignore[attr-defined]


def verdict_of(evidence: Evidence, cancelled: bool = False) -> Verdict:
    return evidence.verdict(Stats(), cancelled=cancelled)


def what(verdict: Verdict) -> str:
    """What is said to be wrong."""
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, CONTRADICTION)
    assert (verdict.witness, verdict.lower_bound) == (None, None)
    return str(verdict.details[CONTRADICTION]["what"])


def saw(evidence: Evidence, at: int, x: float) -> None:
    problem = evidence.problems[at]  # type: ignore[attr-defined]
    goal = Decide(problem, lambda point, target: None)
    goal.upper[0] = x
    goal.see(x, torch.tensor([[x]]), 0)
    evidence.see(problem, goal)


# --- what is an answer ---


def test_unsat_needs_every_disjunct_whole(evidence: Evidence) -> None:
    add(evidence, 0, outcome(ONE, 1.0))
    add(evidence, 1, outcome(HALF, 3.0, reason="half is open"))
    assert (verdict_of(evidence).status, verdict_of(evidence).reason) == (Status.UNKNOWN, "half is open")
    add(evidence, 1, outcome(HALF, 2.0))
    verdict = verdict_of(evidence)
    assert (verdict.status, verdict.lower_bound) == (Status.UNSAT, 1.0)


def test_an_empty_box_needs_no_search(tmp_path: Path) -> None:
    box = whole_box([2], [1])
    empty = Property((Disjunct(box, ()), two_boxes().disjuncts[0]), 1, 1)
    found = evidence_of(empty, tmp_path)
    add(found, 0, outcome(ONE))
    assert verdict_of(found).status == Status.UNSAT
    alone = verdict_of(evidence_of(Property((Disjunct(box, ()),), 1, 1), tmp_path))
    assert (alone.status, alone.reason, alone.decided_by) == (Status.UNSAT, "input set is empty", "input set")
    nothing = verdict_of(evidence_of(Property((), 1, 1), tmp_path))
    assert (nothing.status, nothing.reason) == (Status.UNSAT, "no output can violate the property")


def test_what_a_first_look_leaves_open_counts_from_nothing(evidence: Evidence) -> None:
    evidence.add_whole(join(evidence.problems), Outcome((ONE, HALF), (1.0, -1.0)))  # type: ignore[attr-defined]
    add(evidence, 1, outcome(ONE))
    assert verdict_of(evidence).status == Status.UNSAT


def test_a_deadline_is_a_timeout_and_a_cancel_an_interrupt(evidence: Evidence) -> None:
    add(evidence, 0, outcome(HALF, -1.0, stopped=True, reason="2 sub-domains still open"))
    late, cancelled = verdict_of(evidence), verdict_of(evidence, cancelled=True)
    assert (late.status, late.reason, late.lower_bound) == (Status.TIMEOUT, "2 sub-domains still open", None)
    assert (cancelled.status, cancelled.reason) == (Status.UNKNOWN, "interrupted")


def test_a_deadline_that_came_when_all_was_proved_changes_nothing(evidence: Evidence) -> None:
    for at in range(2):
        add(evidence, at, outcome(ONE))
    evidence.stop("late")
    assert verdict_of(evidence).status == Status.UNSAT


def test_the_first_witness_stays(tmp_path: Path) -> None:
    found = evidence_of(two_boxes(limit=3.5), tmp_path)
    first, second = (Witness(np.array([[x]], np.float32), np.array([[x]], np.float32)) for x in (1.5, 3.25))
    add(found, 0, outcome(Fraction(0), -1.0, witness=first, decided_by="leaf"))
    assert found.is_over
    add(found, 1, outcome(Fraction(0), -1.0, witness=second, decided_by="search"))
    verdict = verdict_of(found)
    assert (verdict.status, verdict.witness, verdict.decided_by) == (Status.SAT, first, "leaf")


def test_a_witness_is_the_answer_beside_any_proof(tmp_path: Path) -> None:
    """onnxruntime violates the property as it stands, whatever the real network does."""
    found = evidence_of(two_boxes(limit=3.5), tmp_path)
    witness = Witness(np.array([[1.5]], np.float32), np.array([[1.5]], np.float32))
    add(found, 0, outcome(ONE, 1.0, witness=witness))
    add(found, 1, outcome(ONE, 1.0))
    assert (verdict_of(found).status, verdict_of(found).witness) == (Status.SAT, witness)


def test_the_value_of_a_witness_is_that_of_the_case_it_breaks_most(tmp_path: Path) -> None:
    """At x = 1 the cases y <= 1 (only just), y <= 4 and y <= 3 are all there."""
    each = [at_most(whole_box([0], [2]), identity(), limit).disjuncts[0] for limit in (1, 4, 3)]
    found = evidence_of(Property(tuple(each), 1, 1), tmp_path)
    one = np.ones((1, 1), np.float32)
    found.found(Witness(one, one), "attack")
    assert verdict_of(found).upper_bound == pytest.approx(-3.0)


def test_a_violation_is_real_where_one_of_its_cases_is(tmp_path: Path) -> None:
    """y = x + 2^-30 is 1 in float32 at x = 1: y <= 1 holds there alone, y >= 1 in truth."""
    network = dense((np.eye(1), np.full(1, 2.0**-30)))
    box, row = whole_box([1], [1]), Row({0: Fraction(1)}, Fraction(1))
    above = Row({0: Fraction(-1)}, Fraction(-1))
    for rows, reason in (((row,), ROUNDING), ((row, above), "")):
        property = Property(tuple(Disjunct(box, (one,)) for one in rows), 1, 1)
        found = Evidence(netproof.load_network(network.save(tmp_path / "n.onnx")), property)
        one = np.ones((1, 1), np.float32)
        found.found(Witness(one, one), "attack")
        assert verdict_of(found).reason == reason


def test_a_verdict_says_sat_exactly_with_a_witness() -> None:
    with pytest.raises(ValueError, match="witness"):
        Verdict(Status.SAT)
    with pytest.raises(ValueError, match="witness"):
        Verdict(Status.UNSAT, witness=Witness(np.zeros(1), np.zeros(1)))


# --- what is none ---


def test_more_than_the_whole_is_a_contradiction(evidence: Evidence) -> None:
    for at in range(2):
        add(evidence, at, outcome(ONE))
    add(evidence, 1, outcome(HALF))
    assert "disjunct 1" in what(verdict_of(evidence))


def test_less_than_the_whole_with_nothing_open_is_a_contradiction(evidence: Evidence) -> None:
    add(evidence, 0, outcome(ONE))
    add(evidence, 1, outcome(1 - Fraction(1, 2**60)))
    assert "nothing is open" in what(verdict_of(evidence))


def test_a_proof_with_a_negative_bound_is_a_contradiction(evidence: Evidence) -> None:
    add(evidence, 0, outcome(ONE, 1.0))
    add(evidence, 1, outcome(ONE, -1e-300))
    assert "bound" in what(verdict_of(evidence))


def test_a_bound_above_an_evaluated_value_is_a_contradiction(evidence: Evidence) -> None:
    """The identity is 1.25 at 1.25, so 1.5 cannot be proved on [1, 2]; 1.25 itself can."""
    for at in range(2):
        add(evidence, at, outcome(ONE, 1.25))
    saw(evidence, 0, 1.25)
    assert verdict_of(evidence).status == Status.UNSAT
    for at in range(2):
        add(evidence, at, outcome(Fraction(0), 1.5))
    found = verdict_of(evidence)
    assert "1.5" in what(found)
    assert found.details[CONTRADICTION]["points"][0]["input"] == (1.25,)


def test_it_is_a_contradiction_without_a_proof_too(evidence: Evidence) -> None:
    for at in range(2):
        add(evidence, at, outcome(HALF, 1.5, stopped=True))
    saw(evidence, 0, 1.25)
    assert "1.5" in what(verdict_of(evidence))


def test_a_proof_beside_an_evaluated_violation_is_a_contradiction(tmp_path: Path) -> None:
    found = evidence_of(two_boxes(limit=1.25), tmp_path)
    for at in range(2):
        add(found, at, outcome(ONE, 0.0))
    saw(found, 0, 1.0)
    assert "violates" in what(verdict_of(found))


def test_a_witness_that_violates_nothing_is_a_contradiction(evidence: Evidence) -> None:
    add(evidence, 0, outcome(ONE, witness=Witness(np.array([[1.5]], np.float32), np.array([[1.5]], np.float32))))
    assert "violates nothing" in what(verdict_of(evidence))


def test_a_whole_cover_with_something_open_is_a_contradiction(evidence: Evidence) -> None:
    """Half of the set counted twice and the other half open: the shares alone do not tell."""
    add(evidence, 0, outcome(ONE))
    add(evidence, 1, outcome(ONE, 1.0, stopped=True, reason="1 sub-domains still open"))
    assert "yet something is open" in what(verdict_of(evidence))


def test_a_first_look_with_something_open_is_one_too(evidence: Evidence) -> None:
    evidence.add_whole(join(evidence.problems), Outcome((ONE, ONE), (1.0, 1.0), reason="1 boxes left"))  # type: ignore[attr-defined]
    assert "yet something is open" in what(verdict_of(evidence))


def test_the_bound_of_one_disjunct_is_held_against_its_own_points(evidence: Evidence) -> None:
    """On [3, 4] the identity is 3.25 at 3.25, so 3.5 cannot be proved there, whatever holds on [1, 2]."""
    add(evidence, 0, outcome(ONE, 1.0))
    add(evidence, 1, outcome(ONE, 3.5))
    saw(evidence, 0, 1.0)
    saw(evidence, 1, 3.25)
    assert "3.5" in what(verdict_of(evidence))


@pytest.mark.parametrize("bound", [1.0, -1.0])
def test_a_bound_of_a_mix_says_less_of_its_largest_row(bound: float, tmp_path: Path) -> None:
    """Each of 40 weights may be a rounding of float32 off, so that they add up to 1 ± 40u."""
    rows = tuple(Row({0: Fraction(k)}, Fraction(0)) for k in range(1, 41))
    found = evidence_of(Property((Disjunct(whole_box(["1"], ["2"]), rows),), 1, 1, "forty rows"), tmp_path)
    add(found, 0, outcome(HALF, bound))
    total = 1 + np.sign(bound) * 40 * 2.0**-24
    assert Fraction(found.lower) <= Fraction(bound) / Fraction(total)


def test_weights_in_float32_raise_no_alarm(tmp_path: Path) -> None:
    """3y + 4.8307176 and −2y − 2.7465319 meet at 0.2843679: float32 weights 0.4 and 0.6 add up to 1 + 3e-8."""
    rows = (Row({0: Fraction(3)}, Fraction("-4.8307176")), Row({0: Fraction(-2)}, Fraction("2.7465319")))
    property = Property((Disjunct(whole_box(["-1.805"], ["-0.409"]), rows),), 1, 1, "two rows")
    least = Fraction("0.2843679")
    for method in ("lirpa", "lirpa-fixed", "beta", "bdd", "babsr-lp", "input-split"):
        verdict = ask(identity(), property, tmp_path, method=method)
        assert verdict.status == Status.UNSAT
        assert verdict.lower_bound is not None
        assert Fraction(verdict.lower_bound) <= least


def test_a_value_that_is_no_number_hides_no_other(evidence: Evidence) -> None:
    for at in range(2):
        add(evidence, at, outcome(ONE, 1.5))
    problem = evidence.problems[0]  # type: ignore[attr-defined]
    goal = Decide(problem, lambda point, target: None)
    for value, point in ((float("nan"), 1.75), (1.25, 1.25)):
        goal.see(value, torch.tensor([[point]]), 0)
    evidence.see(problem, goal)
    assert "1.5" in what(verdict_of(evidence))


# --- a search that goes wrong, from the outside ---


def hard(margin: str) -> Question:
    """A network whose least output is `margin` above the limit, and which the root alone does not decide."""
    network = gaussian(3, (2, 8, 6, 1))
    question = Question(network, at_most(whole_box([-1, -1], [1, 1]), network, 0))
    return sharpened(question, [Fraction(margin)])


def answered(question: Question, folder: Path, method: str, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Verdict:
    monkeypatch.chdir(folder)
    return ask(question.network, question.property, folder, **{"method": method, "attack": False, **how})


@pytest.mark.parametrize("method", SEARCHES)
def test_a_lost_sub_domain_is_no_proof(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = hard("1/100")
    assert answered(question, tmp_path, method, monkeypatch).status == Status.UNSAT
    push = Frontier.push

    def lose(self: Frontier[Any], parts: Domains | Boxes) -> None:
        whole = isinstance(parts, Boxes) and not bool((parts.level > 0).any())  # it would leave nothing to prove
        push(self, parts if whole else parts.select(slice(0, max(0, len(parts) - 1))))

    monkeypatch.setattr(Frontier, "push", lose)
    verdict = answered(question, tmp_path, method, monkeypatch)
    assert re.search("nothing is open|the proved bound is", what(verdict))  # or a point on what was lost gave it away
    saved = Path(verdict.details[CONTRADICTION]["saved"])
    assert saved.parent == tmp_path
    case = json.loads((saved / "case.json").read_text())
    assert case["method"] == method
    assert len(case["violations"]) == 1
    assert netproof.load_network(saved / "model.onnx").output_shape == (1, 1)


def test_a_range_with_a_lost_sub_domain_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question, push = hard("1/100"), Frontier.push
    path = question.network.save(tmp_path / "network.onnx")

    def lose(self: Frontier, domains: Domains) -> None:
        push(self, domains.select(slice(0, max(0, len(domains) - 1))))

    def exact() -> ranges.OutputBounds:
        return netproof.bounds(path, question.property, method="exact", device="cpu", threads=1)

    assert exact().exact
    monkeypatch.setattr(Frontier, "push", lose)
    with pytest.raises(RuntimeError, match=CONTRADICTION):
        exact()


def test_a_range_whose_ends_are_crossed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = identity().save(tmp_path / "identity.onnx")
    interval = ranges._interval
    monkeypatch.setattr(ranges, "_interval", lambda *asked: interval(*asked) + 5)
    with pytest.raises(RuntimeError, match=CONTRADICTION):
        netproof.bounds(path, two_boxes(), method="ibp", device="cpu", threads=1)


@pytest.mark.parametrize("method", SEARCHES)
def test_a_threshold_that_lets_too_much_pass_is_no_proof(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from netproof.search.boxes.ledger import BoxLedger

    monkeypatch.setattr(Decide, "proved", lambda self, domains: domains.bound > -100)
    monkeypatch.setattr(BoxLedger, "decided", lambda self, least, target: (least > -100).any(1))
    assert "bound" in what(answered(hard("-1/10"), tmp_path, method, monkeypatch))


@pytest.mark.parametrize("method", ["lirpa", "beta", "bdd", "babsr-lp", "mip"])
def test_bounds_that_are_too_high_do_not_stand_beside_a_point(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bound is lifted above 0, and the replay is deaf; the points that were evaluated tell."""
    from netproof.paper.rivals.mip import MipSearch
    from netproof.search.ledger import Ledger

    question = hard("-1/10")
    settle = Ledger.settle

    def lift(self: Ledger, domains: Domains) -> torch.Tensor:
        domains.bound.clamp_(min=0.125)
        return settle(self, domains)

    monkeypatch.setattr(Ledger, "settle", lift)
    monkeypatch.setattr(Ledger, "is_open", lambda self, domains: torch.zeros(len(domains), dtype=torch.bool))
    monkeypatch.setattr(MipSearch, "_solve", lambda *_: "holds")
    monkeypatch.setattr(gather, "confirm", lambda *_: None)
    verdict = answered(question, tmp_path, method, monkeypatch, attack=True)
    assert "violates" in what(verdict)
    assert verdict.details[CONTRADICTION]["points"]


@pytest.mark.parametrize("method", ["lirpa", "beta", "bdd", "babsr-lp", "mip", "input-split", "auto"])
@pytest.mark.parametrize("attack", [True, False])
def test_a_witness_once_replayed_is_the_answer(
    method: str, attack: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the search is offered later is refused by the replay; the verdict has the first witness all the same."""
    confirm, found = gather.confirm, []

    def only_once(*asked: Any) -> Witness | None:
        witness = None if found else confirm(*asked)
        found.extend([] if witness is None else [witness])
        return witness

    monkeypatch.setattr(gather, "confirm", only_once)
    question = hard("-1/10")
    verdict = ask(question.network, question.property, tmp_path, method=method, attack=attack)
    assert (verdict.status, verdict.witness) == (Status.SAT, found[0])
