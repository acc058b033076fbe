"""When the frontier passes η, or the bounds are stuck, LPs take over.

They ran, they climbed to parents, they pruned; and the verdicts are those of a search that hardly needs them.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.core.verdict import Status, Verdict
from support.asking import ask, knotted, sharpened
from support.random_graphs import Question, random_question, seeded

MARGIN = Fraction(1, 50)
PATIENT = {"patience": "100000"}  # so that only η brings the LP in
BRIEF = {"root_steps": "10", "neuron_steps": "0", "steps": "2"}


def with_threshold(question: Question, folder: Path, method: str, options: dict[str, str], threshold: int) -> Verdict:
    options = {**options, **PATIENT, "lp_threshold": str(threshold)}
    return ask(question.network, question.property, folder, method=method, attack=False, options=options)


def both_thresholds(question: Question, folder: Path, method: str, options: dict[str, str]) -> tuple[Verdict, Verdict]:
    few, many = (with_threshold(question, folder, method, options, threshold) for threshold in (20, 12_000))
    return few, many


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_fifty_networks_have_the_same_verdict_with_a_low_threshold(first: int, tmp_path: Path) -> None:
    """One in four is knotted, so that more than 20 sub-domains are open at once."""
    lps = 0
    for seed in range(first, first + 20, 2):
        truth = Status.SAT if seed % 10 == 0 else Status.UNSAT
        random = knotted(2000 + seed, (2, 6, 2)) if seed % 4 == 0 else random_question(seeded(2000 + seed))
        question = sharpened(random, (MARGIN if truth == Status.UNSAT else -MARGIN,))
        few, many = both_thresholds(question, tmp_path, "lirpa-printed", BRIEF)
        assert few.status == many.status == truth, seed
        assert many.stats.lps == 0
        lps += few.stats.lps
    assert lps > 0


def went_up(verdict: Verdict) -> None:
    assert verdict.stats.lps > 0
    assert verdict.stats.lp_parents_proved > 0
    assert verdict.stats.lp_pruned > 0


@pytest.mark.parametrize(
    ("method", "seed"),
    [("lirpa-printed", 2), ("lirpa-printed", 3), ("lirpa-printed-fixed", 2), ("lirpa-printed-fixed", 3)],
)
def test_a_parent_is_proved_by_lp_and_its_descendants_are_pruned(method: str, seed: int, tmp_path: Path) -> None:
    question = sharpened(knotted(seed, (2, 7, 6, 2)), (MARGIN,))
    few, many = both_thresholds(question, tmp_path, method, {"batch": "16"})
    assert few.status == many.status == Status.UNSAT
    went_up(few)
    assert few.stats.leaf_lps < many.stats.leaf_lps  # what was pruned needed no LP of its own


def test_pruning_loses_no_counterexample(tmp_path: Path) -> None:
    """Some disjuncts hold and are climbed in; a search that prunes too much would call the broken one proved too."""
    climbed = 0
    for seed in range(16):
        question = sharpened(knotted(3000 + seed, (2, 6, 3, 2)), (MARGIN, -MARGIN))
        if len(question.property.disjuncts) == 2:
            few = with_threshold(question, tmp_path, "lirpa-printed-fixed", {"batch": "8"}, 20)
            assert few.status == Status.SAT, seed
            climbed += few.stats.lp_parents_proved > 0
    assert climbed >= 2


@pytest.mark.parametrize("batch", ["1", "4", "64"])
def test_the_lp_takes_over_when_bounds_are_stuck(batch: str, tmp_path: Path) -> None:
    """Without a frontier that is large: `patience` rounds without a better bound are enough."""
    question = sharpened(knotted(9, (2, 7, 6, 2)), (MARGIN,))
    options = {"batch": batch, "lp_turns": "yes", "patience": "1", "lp_threshold": "1000000"}
    verdict = ask(question.network, question.property, tmp_path, method="lirpa-printed", attack=False, options=options)
    assert verdict.status == Status.UNSAT
    assert verdict.stats.lps > 0


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.parametrize(("place", "climbs"), [(1, True), (2, False)])
def test_two_base_properties_have_the_same_verdict_with_a_low_threshold(
    place: int, climbs: bool, benchmarks: Path
) -> None:
    folder = benchmarks / "oval_base_easy"
    with (folder / "instances.csv").open(newline="", encoding="utf-8") as file:
        model, spec, _ = list(csv.reader(file))[place]
    few, many = (
        netproof.verify(
            folder / model,
            folder / spec,
            device="cpu",
            method="lirpa-printed",
            timeout=600,
            attack=False,
            options={"lp_threshold": threshold, "batch": "16", **PATIENT},
        )
        for threshold in ("20", "12000")
    )
    assert few.status == many.status == Status.UNSAT
    assert few.stats.lps > 0
    if climbs:
        went_up(few)
