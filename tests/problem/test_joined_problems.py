"""Several problems on one graph as one, and back."""

from __future__ import annotations

import pytest
import torch

from netproof.problem.joined import join
from netproof.problem.problem import Problem
from support.problems import box_problem, random_relus, targets_of


def three() -> list[Problem]:
    """Boxes of one network with one, two and one targets, of one and of two rows; their disjuncts are named."""
    graph = random_relus(0, (4,), 2)
    eye = [[1.0, 0.0], [0.0, 1.0]]
    rows = [targets_of([eye[:1]]), targets_of([eye, eye[1:]]), targets_of([eye[1:]])]
    sides = ((-1.0, 0.0), (0.0, 0.5), (0.25, 2.0))
    problems = [box_problem(graph, low, high, r) for (low, high), r in zip(sides, rows, strict=True)]
    names = ((5,), (2, 7), (4,))
    return [Problem(p.graph, p.input_set, p.rows, own) for p, own in zip(problems, names, strict=True)]


def test_targets_stand_one_after_the_other_on_boxes_of_their_own() -> None:
    joined = join(three())
    assert joined.disjuncts == (5, 2, 7, 4)
    assert joined.own is not None
    assert joined.own.home.tolist() == [0, 1, 1, 2]
    assert joined.own.of(torch.tensor([2]))[0, :, 0].tolist() == [0.0, 0.5]
    assert joined.rows.valid.tolist() == [[True, False], [True, True], [True, False], [True, False]]
    assert (float(joined.input_set.lower.min()), float(joined.input_set.upper.max())) == (-1.0, 2.0)


def test_some_targets_are_the_problems_that_they_are_of() -> None:
    problems = three()
    some = join(problems).select(torch.tensor([2, 3])).apart()
    assert [p.disjuncts for p in some] == [(7,), (4,)]
    assert [p.own for p in some] == [None, None]
    assert torch.equal(some[0].input_set.upper, problems[1].input_set.upper)
    assert torch.equal(some[0].rows.coef, problems[1].rows.coef[1:, :1])


def test_one_problem_is_joined_to_nothing() -> None:
    first, second, _ = three()
    assert join([first]) is first
    assert join([join([first, second]), first]).disjuncts == (5, 2, 7, 5)
    assert first.boxes.of(torch.tensor([0]))[0, :, 0].tolist() == [-1.0, 0.0]


def test_targets_are_asked_on_their_sets() -> None:
    asked = join(three()).by_set([3, 1, 2])
    assert [(float(inputs.upper.max()), targets) for inputs, targets in asked] == [(0.5, [1, 2]), (2.0, [3])]


def test_problems_of_two_networks_are_not_joined() -> None:
    other = box_problem(random_relus(1, (4,), 2), -1.0, 1.0)
    with pytest.raises(ValueError, match="different graphs"):
        join([three()[0], other])
