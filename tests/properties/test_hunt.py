"""The hunt for wrong verdicts: the oracle is right, the judge not fooled, planted faults are found, and no others.

`make hunt SECONDS=600` goes on from here with other seeds.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from scipy.optimize import linprog

import netproof
from hunt.generate import Case, make
from hunt.judge import Asked, Finding, Run, judge, judged
from hunt.loop import hunt
from hunt.network import Builder, Network, to_onnx
from hunt.oracle import Oracle, reach, scale_of
from hunt.plants import PLANTS, planted
from hunt.question import Disjunct, InputSet, Question, Row
from hunt.runs import runs_of
from hunt.sets import ball
from hunt.shrink import shrink, smaller
from hunt.workers import Plan, run_workers
from netproof.core.verdict import Status, Verdict, Witness
from netproof.methods.registry import METHODS
from netproof.problem.vnnlib.reader import load_property

ORACLE_SEEDS = range(40)
SEGMENT = InputSet((Fraction(-1),), (Fraction(1),))


def point_at(inputs: InputSet, direction: tuple[int, ...], t: Fraction) -> list[Fraction]:
    """A point of a box where Σ k x is t: on the way between the corners where it is least and greatest."""
    ends = [(lo, hi) if k > 0 else (hi, lo) for k, lo, hi in zip(direction, inputs.lower, inputs.upper, strict=True)]
    low, high = reach(inputs, direction)
    share = (t - low) / (high - low) if high > low else Fraction(0)
    return [a + share * (b - a) for a, b in ends]


def worst(disjunct: Disjunct, y: list[Fraction]) -> Fraction:
    return max(sum((c * y[i] for i, c in row.coefs.items()), -row.rhs) for row in disjunct.rows)


def run_onnx(network: Network, x: list[Fraction]) -> np.ndarray:
    session = onnxruntime.InferenceSession(to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"])
    point = np.array([float(v) for v in x], dtype=np.float32).reshape(network[0].shape)
    return session.run(None, {"v0": point})[0].reshape(-1)


# --- the oracle ---


@pytest.mark.parametrize("seed", ORACLE_SEEDS)
def test_exact_answers_agree_with_dense_evaluation(seed: int) -> None:
    """Point by point in rationals: nothing lies below the least value, which is taken where the oracle says."""
    case = make(seed)
    for disjunct in case.question.disjuncts:
        if disjunct.inputs.centre is not None:
            continue
        answer = case.oracle.answer(disjunct)
        low, high = reach(disjunct.inputs, case.question.direction)
        bends = {t for piece in case.oracle.pieces(low, high) for t in (piece.low, piece.high)}
        grid = {low + (high - low) * Fraction(i, 97) for i in range(98)}
        values = {}
        for t in bends | grid | {answer.at}:
            x = point_at(disjunct.inputs, case.question.direction, t)
            y = case.oracle.outputs(x)
            values[t] = worst(disjunct, y)
            assert all(row.holds(x, y) for row in disjunct.rows) <= answer.violated
        assert min(values.values()) == values[answer.at] == answer.least
        assert answer.violated >= (answer.least < 0)
        assert answer.violated <= (answer.least <= 0)


@pytest.mark.parametrize("seed", ORACLE_SEEDS)
def test_the_oracle_reads_the_model_as_onnxruntime_does(seed: int) -> None:
    case = make(seed)
    for disjunct in case.question.disjuncts[:1]:
        middle = [
            Fraction(float(np.float32(float(lo / 2 + hi / 2))))
            for lo, hi in zip(disjunct.inputs.lower, disjunct.inputs.upper, strict=True)
        ]
        exact = np.array([float(v) for v in case.oracle.outputs(middle)])
        rows = tuple(Row({i: Fraction(1)}, Fraction(0)) for i in range(case.question.outputs))
        slack = 1e-5 * scale_of(case.oracle, Disjunct(disjunct.inputs, rows))
        np.testing.assert_allclose(run_onnx(case.question.network, middle), exact, rtol=0, atol=slack)


def test_strict_rows_and_touching_ones_are_told_apart() -> None:
    """f = |t|, which touches 0 at one point: <= 0 is violated, < 0 is not, nor both <= 0 and >= 1/4."""
    build = Builder(1, 1)
    build.gemm(build.relu(build.gemm(0, np.array([[1.0], [-1.0]]), np.zeros(2))), np.ones((1, 2)), np.zeros(1))
    oracle = Oracle(build.finish(), (1,))
    up, down = {0: Fraction(1)}, {0: Fraction(-1)}
    rows = {"<=": Row(up, Fraction(0)), "<": Row(up, Fraction(0), True), "far": Row(down, Fraction(-1, 4))}
    assert oracle.answer(Disjunct(SEGMENT, (rows["<="],))).violated
    assert not oracle.answer(Disjunct(SEGMENT, (rows["<"],))).violated
    both = oracle.answer(Disjunct(SEGMENT, (rows["<="], rows["far"])))
    assert not both.violated
    assert both.least == Fraction(1, 8)


@pytest.mark.parametrize("seed", range(20))
def test_the_reach_of_a_clipped_ball_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    direction = tuple(int(k) for k in rng.choice([-3, -2, -1, 1, 2], 3))
    inputs = ball(rng, 3, 1)
    assert inputs.centre is not None
    # x = centre + p − q with p, q >= 0 and Σ p + q <= radius, in the box
    sides = np.hstack([np.eye(3), -np.eye(3)])
    centre, lower, upper = (np.array([float(v) for v in side]) for side in (inputs.centre, inputs.lower, inputs.upper))
    above = np.vstack([np.ones((1, 6)), sides, -sides])
    limit = np.concatenate([[float(inputs.radius)], upper - centre, centre - lower])
    for sign, end in zip((1, -1), reach(inputs, direction), strict=True):
        found = linprog(sign * np.array(direction) @ sides, above, limit)
        assert float(end) == pytest.approx(direction @ centre + sign * found.fun, abs=1e-9)


def test_the_text_says_what_the_question_does(tmp_path: Path) -> None:
    for seed in ORACLE_SEEDS:
        question = make(seed).question
        if question.has_text:
            path = tmp_path / "spec.vnnlib"
            path.write_text(question.text())
            assert load_property(path).disjuncts == question.property().disjuncts


# --- the judge ---


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """f = x, violated where x <= −1/2, on [−1, 1]."""
    build = Builder(1, 1)
    build.gemm(0, np.ones((1, 1)), np.zeros(1))
    question = Question(build.finish(), (1,), (Disjunct(SEGMENT, (Row({0: Fraction(1)}, Fraction(-1, 2)),)),))
    return Asked(question, Oracle(question.network, question.direction), tmp_path)


def witness(x: float, y: float, note: str = "") -> Witness:
    return Witness(np.array([[x]], dtype=np.float32), np.array([[y]], dtype=np.float32), note)


def test_a_right_verdict_passes(asked: Asked) -> None:
    assert judged(asked, Verdict(Status.SAT, witness=witness(-0.75, -0.75), lower_bound=-0.5)) == ("", "")
    assert judged(asked, Verdict(Status.UNKNOWN, lower_bound=-0.75, upper_bound=0.0)) == ("", "")


@pytest.mark.parametrize(
    ("verdict", "fault"),
    [
        (Verdict(Status.UNSAT, lower_bound=0.25), "wrong unsat"),
        (Verdict(Status.SAT, witness=witness(-0.25, -0.25)), "wrong witness"),  # violates nothing
        (Verdict(Status.SAT, witness=witness(-0.25, -0.75)), "wrong witness"),  # not what onnxruntime says
        (Verdict(Status.SAT, witness=witness(-1.25, -1.25)), "wrong witness"),  # outside
        (Verdict(Status.SAT, witness=witness(-1.25, -1.25, "pinned")), "wrong witness"),  # which no note excuses
        (Verdict(Status.UNKNOWN, lower_bound=-0.25), "wrong lower bound"),
        (Verdict(Status.UNKNOWN, upper_bound=-0.75), "wrong upper bound"),
        (Verdict(Status.UNKNOWN, "contradiction"), "contradiction"),
    ],
)
def test_a_wrong_verdict_is_named(asked: Asked, verdict: Verdict, fault: str) -> None:
    assert judged(asked, verdict)[0] == fault


def test_unsat_with_a_negative_bound_is_no_proof(tmp_path: Path) -> None:
    build = Builder(1, 1)
    build.gemm(0, np.ones((1, 1)), np.zeros(1))
    question = Question(build.finish(), (1,), (Disjunct(SEGMENT, (Row({0: Fraction(1)}, Fraction(-2)),)),))
    holds = Asked(question, Oracle(question.network, question.direction), tmp_path)
    assert judged(holds, Verdict(Status.UNSAT, lower_bound=1.0)) == ("", "")
    assert judged(holds, Verdict(Status.UNSAT, lower_bound=-0.5))[0] == "unsat without a proof"


def test_a_crash_is_a_fault_and_so_is_a_refusal(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(asked, Run("no such method")).fault == "refused"

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(netproof, "verify", broken)
    found = judge(asked, Run("auto"))
    assert found.fault == "crash"
    assert "broken" in found.detail


# --- planted faults, each with a seed and a method that show it ---

SHOWN = {
    "f1_restored": (5093, "auto"),
    "disjunct_dropped": (5003, "auto"),
    "leaf_dropped": (5008, "auto"),
    "rounding_zeroed": (5037, "auto"),
    "sign_flipped": (5003, "auto"),
    "stale_bound": (5037, "lirpa-gnn"),
    "strictness_swapped": (5025, "auto"),
    "unreplayed_witness": (5000, "auto"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    seed, method = SHOWN[name]
    case = make(seed)
    (run,) = (r for r in runs_of(case, timeout=20.0) if r.method == method)
    asked = Asked(case.question, case.oracle, tmp_path)
    assert judge(asked, run).fault == ""
    with planted(name):
        assert judge(asked, run).fault not in ("", "crash")
    assert judge(asked, run).fault == ""


def test_a_plant_that_has_no_ground_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("netproof.problem.reduce._on_one_set")
    with pytest.raises(AttributeError):
        planted("disjunct_dropped").__enter__()


# --- shrinking, saving, and the workers ---


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_what_is_smaller_is_still_a_question(seed: int) -> None:
    question = make(seed).question
    for less in smaller(question):
        oracle = Oracle(less.network, less.direction)
        assert all(oracle.answer(d).least is not None for d in less.disjuncts)
        x = [Fraction(0)] * len(less.direction)
        slack = 1e-5 * scale_of(oracle, Disjunct(InputSet(tuple(x), tuple(x)), (Row({0: Fraction(1)}, Fraction(0)),)))
        assert run_onnx(less.network, x)[0] == pytest.approx(float(oracle.outputs(x)[0]), rel=0, abs=slack)


def test_a_failing_case_is_saved_and_made_smaller(tmp_path: Path) -> None:
    seed, _ = SHOWN["disjunct_dropped"]
    plan = Plan(1.0, 1, seed, 20.0, tmp_path, "disjunct_dropped", stop=True, shrink=10.0)
    tally = run_workers(plan)
    assert tally.faults["contradiction"] == 1
    (folder,) = tmp_path.iterdir()
    for place in (folder, folder / "small"):
        assert (place / "model.onnx").exists()
        assert (place / "CASE").read_text().startswith("contradiction")
        assert f"--seed {seed}" in (place / "CASE").read_text()
    assert (folder / "small" / "model.onnx").stat().st_size < (folder / "model.onnx").stat().st_size


def test_shrinking_keeps_the_fault() -> None:
    case = make(SHOWN["disjunct_dropped"][0])
    with planted("disjunct_dropped"):
        run = runs_of(case)[0]
        small = shrink(case.question, run, "contradiction", 30.0)
    assert small.finding.fault == "contradiction"
    assert len(small.question.disjuncts) == 2  # one is dropped, so two it takes
    assert len(small.question.network) < len(case.question.network)


# --- the hunt ---


def test_every_method_and_family_comes_up() -> None:
    cases = [make(seed) for seed in range(60)]
    runs = [run for case in cases for run in runs_of(case)]
    assert {run.method for run in runs} >= {*METHODS}
    assert {run.attack for run in runs} == {True, False}
    truth = {any(case.oracle.answer(d).violated for d in case.question.disjuncts) for case in cases}
    assert truth == {True, False}


def test_a_seed_gives_the_same_question_for_ever() -> None:
    for seed in (3, 5):
        first, again = make(seed), make(seed)
        assert first.question.disjuncts == again.question.disjuncts
        assert to_onnx(first.question.network) == to_onnx(again.question.network)
        assert runs_of(first) == runs_of(again)


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_no_verdict_is_wrong(first: int) -> None:
    faults = []

    def note(case: Case, run: Run, finding: Finding) -> bool:
        faults.append(f"seed {case.seed}, {run}: {finding.fault}, {finding.detail}")
        return True

    tally = hunt(range(first, first + 8), note)
    assert not faults, "\n".join(faults)
    assert tally.runs > 8
