"""Turns of the LP lose nothing: what just fails to hold is never proved, however often the LP has its say."""

from __future__ import annotations

from fractions import Fraction

import pytest

from netproof.bounds.lirpa import Lirpa
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.search.goals import Decide
from netproof.search.loop import Method, Search
from support.asking import CPU, first_problem, knotted, sharpened

LIRPA = Lirpa(root_steps=3, neuron_steps=0, steps=1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [1, 4])
def test_what_does_not_hold_is_not_proved(seed: int, batch: int) -> None:
    """The replay finds nothing, so that the search goes on to the end."""
    problem = first_problem(sharpened(knotted(seed, (3, 6, 5, 2)), (Fraction(-1, 100),)))
    method = Method(LIRPA, Babsr(), batch=batch, lp_threshold=1, patience=1)
    stats = Stats()
    outcome = Search(problem, method, Decide(problem, lambda point, target: None), CPU, 1, Deadline(60.0), stats).run()
    assert stats.lps > 0
    assert outcome.status == "undecided"
    assert outcome.lower_bound <= -0.01 + 1e-6
