"""Which way a question is searched: from the problem alone, never from a name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.methods.plan import FEW_INPUTS, SOME_INPUTS, Strategy, choose_strategy
from netproof.methods.registry import METHODS
from netproof.problem.problem import InputSet, Problem
from support.asking import gaussian
from support.problems import box_problem, targets_of


def problem(inputs: int, varying: int | None = None, seed: int = 0) -> Problem:
    graph = gaussian(seed, (inputs, 5, 2)).graph
    upper = np.ones(inputs)
    upper[varying if varying is not None else inputs :] = -1.0
    return box_problem(graph, -np.ones(inputs), upper)


def test_few_inputs_are_split() -> None:
    assert choose_strategy(METHODS["auto"], [problem(FEW_INPUTS)]) is Strategy.INPUTS
    assert choose_strategy(METHODS["auto"], [problem(FEW_INPUTS + 1)]) is Strategy.INPUTS_FIRST
    assert choose_strategy(METHODS["auto"], [problem(SOME_INPUTS + 1)]) is Strategy.NEURONS


def test_some_inputs_are_tried_where_there_is_one_layer_of_neurons() -> None:
    inputs = FEW_INPUTS + 1
    deep = box_problem(gaussian(0, (inputs, 5, 4, 2)).graph, -1.0, 1.0)
    assert choose_strategy(METHODS["auto"], [deep]) is Strategy.NEURONS
    assert choose_strategy(METHODS["auto"], [problem(inputs)]) is Strategy.INPUTS_FIRST


def test_inputs_that_are_fixed_do_not_count() -> None:
    assert choose_strategy(METHODS["auto"], [problem(40, varying=3)]) is Strategy.INPUTS


def test_many_input_sets_of_one_network_are_bounded_together() -> None:
    one = problem(SOME_INPUTS + 1)
    other = replace(one, input_set=InputSet(one.input_set.lower / 2, one.input_set.upper / 2))
    assert choose_strategy(METHODS["auto"], [one, other]) is Strategy.TOGETHER


def test_balls_are_not_split() -> None:
    ball = replace(problem(3), input_set=InputSet(-torch.ones(3), torch.ones(3), torch.zeros(3), 1.0, 2))
    assert choose_strategy(METHODS["auto"], [ball]) is Strategy.NEURONS


@pytest.mark.parametrize("method", ["beta", "lirpa", "lirpa-single", "lirpa-fixed", "babsr-lp", "mip"])
def test_other_methods_are_what_they_say(method: str) -> None:
    assert choose_strategy(METHODS[method], [problem(2)]) is Strategy.NEURONS
    assert choose_strategy(METHODS["input-split"], [problem(FEW_INPUTS + 20)]) is Strategy.INPUTS


def test_targets_keep_their_rows_and_their_disjuncts() -> None:
    rows = targets_of([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]], [[0.1], [0.2], [0.3]])
    whole = replace(box_problem(gaussian(0, (3, 4, 2)).graph, -1.0, 1.0, rows), disjuncts=(7, 8, 9))
    some = whole.select(torch.tensor([0, 2]))
    assert some.disjuncts == (7, 9)
    assert some.rows.offset.flatten().tolist() == pytest.approx([0.1, 0.3])


def test_rows_of_some_targets_are_padded_no_further_than_these_need() -> None:
    rows = targets_of([[[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]]], [[0.1], [0.2, 0.4], [0.3]])
    assert rows.valid.shape == (3, 2)
    some = rows.select(torch.tensor([2, 0]))
    assert some.valid.tolist() == [[True], [True]]
    assert some.offset.flatten().tolist() == pytest.approx([0.3, 0.1])
    assert torch.equal(rows.select(torch.tensor([1])).coef, rows.coef[1:2])
