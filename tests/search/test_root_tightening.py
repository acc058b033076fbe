"""Tighter roots on the way of a search: better each time, and what is open carried over or begun again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.bounds.neurons.transfer import repack
from netproof.branching.babsr import Babsr
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.core.extras import CANDIDATES, Extras
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.search import loop
from netproof.search.effort import Effort
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from netproof.search.root_tightening import tightening_cost, tighter_root
from support.asking import CPU, EVERY_EXTRA, first_problem, knotted, problem_of, root_of, sharpened
from support.boxes import deaf
from support.exact import enumerate_minimum, rows_of
from support.problems import box_problem, random_relus, targets_of

BETA = Beta(root_steps=5, neuron_steps=4, steps=2)
FOREVER = Deadline(None)


def test_a_bounder_without_tighter_roots_is_never_asked_for_one() -> None:
    lirpa = Lirpa(root_steps=5, neuron_steps=2, steps=2)
    root, _ = root_of(lirpa, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    assert tightening_cost(lirpa, root) is None


def test_the_first_costs_what_slopes_of_their_own_cost_and_the_next_are_branched() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    assert tightening_cost(BETA, root) == 2 * sum(layer.count for layer in root.layers[1:]) + 10 * len(root.valid)
    effort = Effort.on(CPU, Extras())
    bounds = []
    for _ in range(3):
        effort.tightening.pay(100, 1000)
        tighter = tighter_root(BETA, Babsr(), root, effort, FOREVER, Clock())
        assert tighter is not None
        root = tighter
        bounds.append(float(root.intervals.of[-1].lower.sum()))
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [2, 64])
def test_a_search_with_tighter_roots_says_what_is_true_and_repeats_itself(seed: int, batch: int) -> None:
    """Small margins, so that the root is tightened: proved where it holds, and never where it does not."""
    for margin, expected in ((Fraction(1, 100), "proved"), (Fraction(-1, 100), "found")):
        question = sharpened(knotted(seed, (3, 6, 5, 4, 2)), (margin,))
        problem = first_problem(question)
        outcomes = []
        for _ in range(2):
            goal = Decide(problem, lambda point, target: point)  # type: ignore[arg-type,return-value]
            stats = Stats()
            method = Method(BETA, Babsr(), batch=batch, lp_threshold=None, extras=EVERY_EXTRA)
            outcome = Search(problem, method, goal, Work(CPU, 1, FOREVER, stats)).run()
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
    method = Method(BETA, Babsr(), batch=2, lp_threshold=None, extras=EVERY_EXTRA)
    goal = Decide(problem, lambda point, target: None)
    outcome = Search(problem, method, goal, Work(CPU, 1, FOREVER, Stats(), partial(_note_phase, phases))).run()
    assert (outcome.status == "proved") == proved
    assert phases.count("root") > 1, "the root is never tightened, so that this tests nothing"


def _note_phase(phases: list[str], phase: str, bound: float, frontier: int) -> None:
    phases.append(phase)


@pytest.mark.parametrize("superfluous", [0, 1])
def test_what_is_not_carried_over_in_time_waits_beside_what_is(
    superfluous: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tighter root packs fewer neurons, so that fewer are ranked; the deadline comes between two chunks.

    What the tighter root makes superfluous counts as proved.
    """
    graph = random_relus(124, (6, 5), 1)
    ends = np.full(2, -1.0), np.full(2, 1.0)
    least = enumerate_minimum(graph, *ends, np.ones((1, 1)), np.zeros(1)).value
    problem = box_problem(graph, *ends, targets_of([[np.ones(1)]], [[least - 0.01]]))
    method = build_method("beta", method_info("beta").options({"batch": "4", "tighter_roots": "0"}), CPU)
    first = Search(problem, method, Decide(problem, deaf), Work(CPU, 1, Deadline(), Stats()))
    proved, start = first.run(rounds=2).proved, first.still_open()
    assert start is not None
    deadline, counts = Deadline(), []
    real = Beta.bound

    def bound(self: Beta, root: Root, *given: Any) -> Bounds:
        counts.append(root.count)
        if root.count < start.root.count:
            deadline.cancel()
        return real(self, root, *given)

    def repacked(domains: Domains, old: Root, new: Root) -> tuple[Domains, Domains]:
        moved, dropped = repack(domains.select(slice(superfluous, None)), old, new)
        return moved, concatenate([domains.select(slice(superfluous)), dropped])

    monkeypatch.setattr(loop, "repack", repacked)
    monkeypatch.setattr(Beta, "bound", bound)
    monkeypatch.setattr(Effort, "tightening_is_due", lambda self, cost: not counts)
    search = Search(problem, method, Decide(problem, deaf), Work(CPU, 1, deadline, Stats()), start=start)
    outcome, left = search.run(), search.still_open()
    assert counts[-1] < min(CANDIDATES, start.root.count)
    assert left is not None
    assert not left.bounded
    shares = sum(Fraction(1, 2**level) for level in left.domains.level.tolist())
    assert proved[0] + outcome.proved[0] + shares == 1
