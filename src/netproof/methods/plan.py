"""How a question is searched: over boxes of the input, over the signs of neurons, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from netproof.methods.registry import MethodInfo
from netproof.problem.joined import joinable
from netproof.problem.problem import Problem
from netproof.relax import without_lp_form

FEW_INPUTS = 10  # where no more inputs vary, splitting them decides nearly everything
SOME_INPUTS = 100  # where no more inputs vary, splitting them is worth a try if there is one layer of neurons
PINNED = 2.0**-20  # of the widest input's width: where no LP closes a leaf, one that is no wider does not vary
MANY_NEURONS = 20_000  # past so many neurons a box costs too much for splitting inputs to be cheap


class Strategy(Enum):
    INPUTS = "boxes of the input until they are decided, then the signs of neurons on those that are left"
    INPUTS_FIRST = "boxes of the input for a while, then the signs of neurons on the targets that are left"
    TOGETHER = "all input sets bounded in one batch, then the signs of neurons on what is left"
    NEURONS = "the signs of neurons, one input set after the other"


def choose_strategy(method: MethodInfo, problems: Sequence[Problem]) -> Strategy:
    """Choose how to search: methods that always split the input do, others where few inputs vary, or never.

    Those that never do count as others where a nonlinearity has no LP form.

    Measured: with one layer of neurons, splitting up to a hundred inputs wins where bounds by signs tie for long, as in
    logical puzzles. With more layers it only delays what signs decide.
    """
    if method.splits_inputs == "always":
        return Strategy.INPUTS
    graph = problems[0].graph
    # Where no LP closes a leaf, splitting neurons alone need not end.
    never = method.splits_inputs == "never" and without_lp_form(graph) is None
    if never or not joinable(problems):
        return Strategy.NEURONS
    neurons = sum(graph.nodes[i].size for i in graph.nonlinear)
    pinned = PINNED if without_lp_form(graph) is not None else 0.0
    widest = max(_varying(problem, pinned) for problem in problems)
    if widest <= FEW_INPUTS and neurons <= MANY_NEURONS:
        return Strategy.INPUTS
    if widest <= SOME_INPUTS and neurons <= MANY_NEURONS and len(graph.nonlinear) == 1:
        return Strategy.INPUTS_FIRST
    return Strategy.TOGETHER if len(problems) > 1 else Strategy.NEURONS


def _varying(problem: Problem, pinned: float) -> int:
    """Count the inputs that vary: that are wider than this share of the widest.

    One that is pinned to a decimal is as wide as its rounding.
    """
    width = problem.input_set.upper - problem.input_set.lower
    return int((width > pinned * width.max()).sum())
