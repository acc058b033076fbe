"""babsr-lp, gnn and mip: a solver's claims decide nothing; what they do when it fails, lies or runs out of time."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
import torch

import netproof
from netproof.api import Progress
from netproof.bounds.domains import split
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.demo import Instance
from netproof.model.load import load_network
from netproof.paper.rivals import babsr_lp, mip, mip_model
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.mip_model import Claim, Watch, solve_mip
from netproof.programs.condensed import CondensedLP
from netproof.programs.highs import NOTHING, Answer, new_solver
from netproof.programs.model import Floats
from netproof.programs.triangle import LPOutcome, TriangleLP
from support.api import below, constant_property, least_of, module
from support.asking import ask, at_most, bound_of, dense, first_problem, knotted, root_of, sample, sharpened, whole_box
from support.problems import inside, packed_values
from support.random_graphs import Question

Demo = dict[str, tuple[Path, Path, Instance]]
BY_LPS = ("babsr-lp", "gnn", "gnn-online")
RIVALS = (*BY_LPS, "mip")
every_rival = pytest.mark.parametrize("method", RIVALS)
by_lps = pytest.mark.parametrize("method", BY_LPS)
MARGIN = Fraction(1, 50)
WEAK = {"steps": "0", "root_steps": "0", "leaf_lp": "false", "probes": "0"}  # a search that proves next to nothing


def holds(seed: int, widths: Sequence[int] = (3, 4, 3, 2)) -> Question:
    return sharpened(knotted(seed, widths), [MARGIN])


def breaks(seed: int) -> Question:
    return sharpened(knotted(seed, (3, 4, 3, 2)), [-MARGIN])


def answer(question: Question, folder: Path, method: str, **how: Any) -> Verdict:
    return ask(question.network, question.property, folder, method=method, attack=False, **how)


# --- babsr-lp ---


@by_lps
def test_one_sub_domain_at_a_time_two_a_split_and_no_other_lps(method: str, tmp_path: Path) -> None:
    verdict = answer(holds(1), tmp_path, method)
    assert verdict.status == Status.UNSAT
    assert verdict.stats.domains == 2 * verdict.stats.rounds > 0
    assert verdict.stats.lps == verdict.stats.leaf_lps == 0


def test_it_is_complete_without_an_lp_of_leaves(tmp_path: Path) -> None:
    """Every leaf of |x + y| + |x − y| >= |2x| is feasible, so it is their values that prove."""
    weight = [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [2.0, 0.0], [-2.0, 0.0]]
    network = dense((weight, [0.0] * 6), ([[1.0, 1.0, 1.0, 1.0, -1.0, -1.0]], [0.0]))
    verdict = ask(network, at_most(whole_box([-1, -1], [1, 1]), network, "-1/100"), tmp_path, method="babsr-lp")
    assert verdict.status == Status.UNSAT
    assert verdict.stats.domains > 0
    assert verdict.stats.leaf_lps == 0


def test_bounding_neurons_again_saves_branches(tmp_path: Path) -> None:
    counts = []
    for again in ("true", "false"):
        options = {"rebound": again}
        runs = [answer(holds(seed, (3, 6, 6, 5, 2)), tmp_path, "babsr-lp", options=options) for seed in range(1, 4)]
        assert {run.status for run in runs} == {Status.UNSAT}
        counts.append(sum(run.stats.domains for run in runs))
    assert counts[0] < counts[1]


def test_a_solver_that_always_fails_leaves_it_to_the_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(babsr_lp, "solve_from", lambda *_: (NOTHING, None))
    verdict = answer(holds(1), tmp_path, "babsr-lp")
    assert verdict.status == Status.UNSAT
    assert verdict.stats.leaf_lps > 0
    monkeypatch.setattr(TriangleLP, "solve", lambda *_: LPOutcome("failed"))
    assert answer(holds(1), tmp_path, "babsr-lp").status == Status.UNKNOWN


def lying(answer_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver's duals replaced, its basis kept."""
    real = babsr_lp.solve_from

    def solve(*how: Any) -> Any:
        found, basis = real(*how)
        return answer_of(found, len(how[0].row_lower)), basis

    monkeypatch.setattr(babsr_lp, "solve_from", solve)


def random_duals(found: Answer, rows: int) -> Answer:
    return Answer(False, found.point, np.random.default_rng(0).normal(scale=10.0, size=rows))


def empty_everywhere(found: Answer, rows: int) -> Answer:
    duals: Floats = np.ones(rows) if found.duals is None else found.duals
    return Answer(True, None, duals)


@by_lps
@pytest.mark.parametrize("lie", [random_duals, empty_everywhere])
def test_a_solver_that_lies_proves_nothing_false(
    lie: Any, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying(lie, monkeypatch)
    for seed in range(1, 5):
        assert answer(breaks(seed), tmp_path, method).status != Status.UNSAT
        assert answer(holds(seed), tmp_path, method).status != Status.SAT


@pytest.mark.parametrize("lie", [random_duals, empty_everywhere])
def test_no_sub_domain_is_empty_because_a_solver_says_so(lie: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The four parts of a set hold points, whatever their bounds: +inf is for parts that hold none."""
    problem, bounder = first_problem(holds(1)), babsr_lp.BabsrLP()
    root, bounds = root_of(bounder, problem)
    parts = split(bounds.domains.select(slice(0, 1)), torch.tensor([[0, 1]]))
    full = inside(parts, packed_values(root, sample(problem, 2000, 0))).any(1)
    assert int(full.sum()) >= 2
    lying(lie, monkeypatch)
    assert bool(bound_of(bounder, root, parts).domains.bound[full].isfinite().all())


# --- bdd, as first published ---

FIRST = {"root_steps": "50", "steps": "50", "parallel": "true", "rebound": "true", "original": "true", "batch": "1"}


def test_bdd_as_first_published_splits_one_neuron_at_a_time(tmp_path: Path) -> None:
    for seed in range(1, 4):
        verdict = answer(holds(seed, (3, 6, 5, 2)), tmp_path, "bdd", options=FIRST)
        assert verdict.status == Status.UNSAT
        assert verdict.stats.domains == 2 * verdict.stats.rounds > 0


def test_bdd_may_have_the_neurons_bounds_of_babsr_lp() -> None:
    """At the root, and below it, where neurons are bounded again and only those that a split moves."""
    moved = 0
    for seed in range(1, 4):
        problem = first_problem(knotted(seed, (3, 6, 5, 2)))
        found = []
        for bounder in (Bdd(5, 0, 5, rebound=True, parallel=True), babsr_lp.BabsrLP(), Bdd(5, 0, 5, parallel=True)):
            root, bounds = root_of(bounder, problem)
            found.append(bound_of(bounder, root, split(bounds.domains.select(slice(0, 1)), torch.tensor([[0]]))))
        mine, theirs, kept = (bounds.domains for bounds in found)
        assert torch.equal(mine.lower, theirs.lower)
        assert torch.equal(mine.upper, theirs.upper)
        moved += int((mine.upper < kept.upper).sum())
    assert moved > 3


# --- mip ---


def test_the_solver_and_the_proof_are_told_apart(tmp_path: Path) -> None:
    verdict = answer(holds(2), tmp_path, "mip")
    assert verdict.status == Status.UNSAT
    assert verdict.decided_by in ("search", "leaf")
    assert verdict.stats.seconds["search"] > 0
    assert verdict.stats.seconds["confirm"] > 0
    assert verdict.lower_bound is not None
    assert 0 < verdict.lower_bound <= MARGIN + 1e-5


def test_its_solutions_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation is found by the solver itself: no search follows."""
    monkeypatch.setattr(mip.MipSearch, "_confirm", lambda *_: pytest.fail("nothing was left to confirm"))
    for seed in range(4):
        verdict = answer(breaks(seed), tmp_path, "mip")
        assert verdict.status == Status.SAT
        assert verdict.decided_by == "search"


@pytest.mark.parametrize("options", [{"minimise": "true"}, {"parallel": "false"}])
def test_however_it_is_asked_the_answers_are_the_same(options: dict[str, str], tmp_path: Path) -> None:
    for seed in range(1, 5):
        assert answer(holds(seed), tmp_path, "mip", options=options).status == Status.UNSAT
        assert answer(breaks(seed), tmp_path, "mip", options=options).status == Status.SAT


@pytest.mark.parametrize("margin", [MARGIN, Fraction(10)])
def test_a_minimum_above_zero_is_a_claim_that_it_holds(margin: Fraction) -> None:
    """Of the first the minimum is found; of the second a bound above 0 is enough."""
    problem = first_problem(sharpened(knotted(1, (3, 4, 3, 2)), [margin]))
    root, bounds = root_of(babsr_lp.BabsrLP(), problem)
    lp, sides = CondensedLP(root, Deadline()), (bounds.domains.lower[0], bounds.domains.upper[0])
    points: list[Floats] = []

    def offer(x: Floats) -> bool:
        points.append(x)
        return False

    for minimise in (False, True):
        watch = Watch(offer, lambda nodes: None, Deadline(None))
        assert solve_mip(lp, 0, sides, watch, minimise=minimise).status == "holds"
        assert bool(points) == minimise  # there are points, if no violation


def test_a_minimum_below_zero_is_a_claim_that_it_is_violated() -> None:
    root, bounds = root_of(babsr_lp.BabsrLP(), first_problem(breaks(1)))
    lp, sides = CondensedLP(root, Deadline()), (bounds.domains.lower[0], bounds.domains.upper[0])
    for minimise in (False, True):
        watch = Watch(lambda x: False, lambda nodes: None, Deadline(None))
        assert solve_mip(lp, 0, sides, watch, minimise=minimise).status == "violated"


@pytest.mark.parametrize(("least", "claim"), [(0.5, "holds"), (0.0, "violated"), (-1.0, "violated")])
def test_what_the_minimum_claims(least: float, claim: str) -> None:
    solver = new_solver(10.0, {})
    solver.addVar(least, 3.0)
    solver.changeColCost(0, 1.0)
    solver.changeColIntegrality(0, highspy.HighsVarType.kContinuous)
    solver.run()
    assert mip_model._ended(solver) == claim


def claiming(status: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mip, "solve_mip", lambda *_, **__: Claim(status, 0))


@pytest.mark.parametrize("claim", ["holds", "violated"])
def test_a_false_claim_is_not_believed(claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claiming(claim, monkeypatch)
    for seed in (1, 2):
        assert answer(breaks(seed), tmp_path, "mip").status == Status.SAT
        assert answer(holds(seed), tmp_path, "mip").status == Status.UNSAT


@pytest.mark.parametrize(("claim", "words"), list(mip.CLAIMS.items()))
def test_a_claim_that_cannot_be_proved_is_unknown(
    claim: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming(claim, monkeypatch)
    verdict = answer(holds(1), tmp_path, "mip", options=WEAK)
    assert verdict.status == Status.UNKNOWN
    assert verdict.reason.startswith(f"{words}; it could not be confirmed: ")


def test_a_solver_that_gives_up_claims_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claiming("failed", monkeypatch)
    verdict = answer(holds(1), tmp_path, "mip")
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, "the MIP solver gave up")


def test_without_time_to_prove_it_a_claim_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline(3600)

    def solve(*_: Any, **__: Any) -> Claim:
        monkeypatch.setattr(deadline, "_end", time.monotonic())
        return Claim("holds", 5)

    monkeypatch.setattr(mip, "solve_mip", solve)
    verdict = answer(holds(1), tmp_path, "mip", deadline=deadline)
    assert verdict.status == Status.TIMEOUT
    assert verdict.reason == "the MIP solver says that it holds; there was no time to confirm it"
    assert verdict.stats.domains == 5


def test_what_the_root_proves_needs_no_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mip, "solve_mip", lambda *_, **__: pytest.fail("there was nothing to solve"))
    verdict = answer(sharpened(knotted(1), [Fraction(100)]), tmp_path, "mip")
    assert (verdict.status, verdict.decided_by) == (Status.UNSAT, "root")


# --- the clock ---


def run_for_long(method: str, **how: Any) -> Verdict:
    """A hundred neurons, and a margin that takes either rival minutes to prove."""
    net = module(8, 32, 32, 32, 2, seed=1)
    property = constant_property((below(0, least_of(net, -1, 1, 8) - 0.05),), n=8)
    network = load_network(net, example_shape=(1, 8))
    return netproof.verify(network, property, method=method, device="cpu", threads=1, attack=False, **how)


@every_rival
def test_it_ends_at_the_deadline(method: str) -> None:
    verdict = run_for_long(method, timeout=1.0)
    assert verdict.status == Status.TIMEOUT
    assert verdict.witness is None


@every_rival
def test_it_ends_when_it_is_cancelled(method: str) -> None:
    """No time limit to go by: a solver at work must see it by itself."""
    deadline = Deadline()
    told: list[Progress] = []

    def progress(step: Progress) -> None:
        told.append(step)
        if step.phase == "search" and not deadline.cancelled:
            thread = threading.Thread(target=deadline.cancel)
            thread.start()
            thread.join()

    verdict = run_for_long(method, progress=progress, deadline=deadline)
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, "interrupted")
    assert told[-1].phase == "search"


# --- against what is known ---


@every_rival
def test_the_bundled_instances(method: str, demo: Demo) -> None:
    for name in ("fc-4-needs-splits", "fc-5-breaks"):
        model, spec, instance = demo[name]
        verdict = netproof.verify(model, spec, method=method, device="cpu", threads=1, timeout=20)
        assert verdict.status in (instance.expected, Status.TIMEOUT), name


@pytest.mark.benchmark
@pytest.mark.slow
@every_rival
@pytest.mark.parametrize("folder", ["sat_relu", "acasxu_2023"])
def test_nothing_contradicts_the_truth(method: str, folder: str, benchmarks: Path) -> None:
    """Three instances of either kind for some seconds each; undecided is no contradiction, but not all may be."""
    with (benchmarks / folder / "known.csv").open(newline="", encoding="utf-8") as file:
        known = list(csv.DictReader(file))
    decided = 0
    for truth in ("sat", "unsat"):
        for row in [row for row in known if row["truth"] == truth][:3]:
            files = benchmarks / folder / row["onnx"], benchmarks / folder / row["vnnlib"]
            verdict = netproof.verify(*files, method=method, device="cpu", threads=1, timeout=10, attack=False)
            assert verdict.status in (truth, Status.TIMEOUT, Status.UNKNOWN), row["vnnlib"]
            decided += verdict.status == truth
    assert decided > 0
