"""When a tighter root is due: by the work done, so that the same seed takes the same way."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from netproof.bounds.base import Clock
from netproof.bounds.beta import Beta
from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.search.goals import Decide
from netproof.search.loop import Method, Search
from netproof.search.root_tightening import RootTightening
from support.asking import CPU, first_problem, knotted, problem_of, root_of, sharpened
from support.exact import rows_of
from support.problems import targets_of

BETA = Beta(root_steps=5, neuron_steps=4, steps=2)
FOREVER = Deadline(None)


def test_the_first_rung_comes_when_as_much_was_searched_as_it_costs() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    ladder = RootTightening(BETA, Babsr())
    price = 2 * sum(layer.count for layer in root.graph32.layers[1:])
    root.bounded = price - 1
    assert not ladder.is_due(root)
    root.bounded = price
    assert ladder.is_due(root)


def test_rungs_grow_and_end_when_they_do_not_pay() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    ladder = RootTightening(BETA, Babsr())
    root.bounded = 1000
    second = ladder.step(root, FOREVER, Clock())
    assert second is not None
    ladder.judge(-1.0, -1.0)  # the first is only slopes, and is always followed
    second.bounded = 500
    assert ladder.is_due(second)
    third = ladder.step(second, FOREVER, Clock())
    assert third is not None
    third.bounded = 999  # the last rung cost twice 500
    assert not ladder.is_due(third)
    third.bounded = 1000
    assert ladder.is_due(third)
    ladder.judge(-1.0, -0.99)
    assert not ladder.is_due(third)


def test_a_bounder_without_tighter_roots_has_no_rungs() -> None:
    root, _ = root_of(Lirpa(root_steps=5, neuron_steps=2, steps=2), first_problem(knotted(0, (3, 6, 5, 4, 2))))
    root.bounded = 10**9
    assert not RootTightening(Lirpa(), Babsr()).is_due(root)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [2, 64])
def test_a_search_that_climbs_says_what_is_true_and_repeats_itself(seed: int, batch: int) -> None:
    """Small margins, so that the ladder is climbed: proved where it holds, and never where it does not."""
    for margin, expected in ((Fraction(1, 100), "proved"), (Fraction(-1, 100), "found")):
        question = sharpened(knotted(seed, (3, 6, 5, 4, 2)), (margin,))
        problem = first_problem(question)
        outcomes = []
        for _ in range(2):
            goal = Decide(problem, lambda point, target: point)  # type: ignore[arg-type,return-value]
            stats = Stats()
            method = Method(BETA, Babsr(), batch=batch, lp_threshold=None)
            outcome = Search(problem, method, goal, CPU, 1, FOREVER, stats).run()
            outcomes.append((outcome.status, stats.domains, stats.rounds))
        assert outcomes[0] == outcomes[1]
        if expected == "proved":
            assert outcomes[0][0] == "proved"
        else:
            assert outcomes[0][0] != "proved"


@pytest.mark.parametrize(("second", "proved"), [(Fraction(1, 100), True), (Fraction(-1, 100), False)])
def test_under_a_tighter_root_every_open_target_is_searched_again(second: Fraction, proved: bool) -> None:
    """The first target just holds; the second does or does not, and no witness is ever found."""
    question = knotted(0, (3, 6, 5, 4, 2))
    one = replace(question.property.disjuncts[0], rows=question.property.disjuncts[0].rows[:1])
    both = replace(question.property, disjuncts=(one, one))
    question = sharpened(replace(question, property=both), (Fraction(1, 100), second))
    each = [rows_of(d, question.graph.output.size) for d in question.property.disjuncts]
    rows = targets_of([list(coef) for coef, _ in each], [list(offset) for _, offset in each])
    problem = problem_of(question.graph, question.box, rows)
    phases: list[str] = []
    method = Method(BETA, Babsr(), batch=2, lp_threshold=None)
    goal = Decide(problem, lambda point, target: None)
    outcome = Search(problem, method, goal, CPU, 1, FOREVER, Stats(), partial(_note_phase, phases)).run()
    assert (outcome.status == "proved") == proved
    assert phases.count("root") > 1, "the root is never tightened, so that this tests nothing"


def _note_phase(phases: list[str], phase: str, bound: float, frontier: int) -> None:
    phases.append(phase)
