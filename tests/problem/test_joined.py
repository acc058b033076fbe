"""Several problems on one graph as one, and back."""

from __future__ import annotations

import pytest
import torch

from netproof.errors import UsageError
from netproof.problem.joined import Joined
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
    joined = Joined.of(three())
    assert joined.problem.disjuncts == (5, 2, 7, 4)
    assert joined.home.tolist() == [0, 1, 1, 2]
    assert joined.lower[:, 0].tolist() == [-1.0, 0.0, 0.25]
    assert joined.upper[:, 0].tolist() == [0.0, 0.5, 2.0]
    assert joined.problem.rows.valid.tolist() == [[True, False], [True, True], [True, False], [True, False]]
    assert (float(joined.problem.input_set.lower.min()), float(joined.problem.input_set.upper.max())) == (-1.0, 2.0)


def test_some_targets_are_the_problems_that_they_are_of() -> None:
    problems = three()
    some = Joined.of(problems).parts(problems, torch.tensor([3, 2, 3]))
    assert [p.disjuncts for p in some] == [(7,), (4,)]
    assert some[0].input_set is problems[1].input_set
    assert torch.equal(some[0].rows.coef, problems[1].rows.coef[1:, :1])
    assert Joined.of(problems).parts(problems, torch.tensor([], dtype=torch.int64)) == []


def test_problems_of_two_networks_are_not_joined() -> None:
    other = box_problem(random_relus(1, (4,), 2), -1.0, 1.0)
    with pytest.raises(UsageError, match="boxes"):
        Joined.of([three()[0], other])
