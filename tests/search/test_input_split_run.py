"""How input splitting runs: repeatable, in any batch, within time and memory."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.boxes import bounder
from netproof.bounds.boxes.bounder import BoxBounder
from netproof.core.deadline import Deadline
from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.errors import UsageError
from netproof.problem.joined import joinable
from netproof.problem.problem import InputSet, Problem
from netproof.search.boxes.ledger import BoxLedger
from netproof.search.boxes.parts import Boxes
from netproof.search.frontier import Frontier
from netproof.search.goals import Decide
from support.asking import knotted, sharpened
from support.awkward import GraphBuilder
from support.boxes import CPU, Run, deaf, problems_of, several
from support.problems import box_problem, random_relus, targets_of


def numbers(run: Run) -> tuple[object, ...]:
    bounds = [b.tolist() for b in run.bounds]
    return run.result.outcome, bounds, run.stats.domains, run.stats.rounds, run.reports


def test_the_same_search_twice_is_the_same_search() -> None:
    problems, _ = several()
    assert numbers(Run(problems)) == numbers(Run(problems))


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_any_batch_will_do(batch: int) -> None:
    question = sharpened(knotted(3), [Fraction(1, 50)])
    run = Run(problems_of(question), batch=batch)
    assert run.status == "proved"
    assert run.stats.rounds >= 1
    assert [step[0] for step in run.reports[:2]] == ["root", "search"]


@pytest.mark.parametrize("batch", [2, 16])
def test_boxes_that_were_split_are_counted(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from netproof.search.boxes.loop import InputSplit

    picked, split = [], InputSplit._split

    def watched(self: InputSplit, boxes: Boxes, others: int) -> Boxes:
        picked.append(len(boxes))
        return split(self, boxes, others)

    monkeypatch.setattr(InputSplit, "_split", watched)
    run = Run(problems_of(sharpened(knotted(3), [Fraction(1, 50)])), batch=batch)
    assert run.status == "proved"
    assert run.stats.split == sum(picked) > 0
    assert (run.stats.domains == 2 * run.stats.split) == (batch == 2)  # with more, several halvings at once


def test_an_expired_deadline_leaves_everything_open() -> None:
    problems, _ = several()
    expired = Deadline()
    expired.cancel()
    run = Run(problems, deadline=expired)
    assert run.status == "timeout"
    assert len(run.result.open) == sum(len(p.disjuncts) for p in problems)
    assert run.result.outcome.lower_bound == float("-inf")


def test_a_full_device_halves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    problems, _ = several()
    expected = Run(problems).status
    inner, sizes = BoxBounder.bound, []

    def narrow(self: BoxBounder, lower: Tensor, *rest: Any, **more: Any) -> Any:
        sizes.append(len(lower))
        if len(lower) > 3:
            raise torch.OutOfMemoryError("a full device")
        return inner(self, lower, *rest, **more)

    monkeypatch.setattr(BoxBounder, "bound", narrow)
    assert Run(problems).status == expected
    assert max(sizes) > 3
    assert sum(n > 3 for n in sizes) < sum(n <= 3 for n in sizes)


def test_a_device_too_small_for_one_box_leaves_all_of_them_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **more: Any) -> Any:
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(BoxBounder, "bound", full)
    problems, _ = several()
    with allowing(NO_CAPS):
        run = Run(problems)
    assert run.status == "undecided"
    assert len(run.result.open) == sum(len(p.disjuncts) for p in problems)


def test_a_crowded_frontier_is_searched_depth_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its frontier stays small, which it does not where there is room."""
    longest = 0

    def pop(self: Frontier[Boxes], n: int, *, best: bool = False) -> Boxes:
        nonlocal longest
        longest = max(longest, len(self))
        return real(self, n, best=best)

    real = Frontier.pop
    monkeypatch.setattr(Frontier, "pop", pop)
    problems = problems_of(sharpened(knotted(3), [Fraction(1, 50)]))
    assert Run(problems, batch=2).status == "proved"
    roomy, longest = longest, 0
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 2)
    monkeypatch.setattr("netproof.search.rounds.may_wait", lambda held: False)
    assert Run(problems, batch=2).status == "proved"
    assert 2 < longest < roomy


@pytest.mark.parametrize("limit", [None, 8])
def test_boxes_that_the_device_has_no_room_for_wait_on_the_host(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled: list[int] = []
    real = Frontier._spill

    def spill(self: Frontier[Boxes]) -> None:
        real(self)
        spilled.append(self.waiting)

    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 2)
    monkeypatch.setattr(Frontier, "_spill", spill)
    run = Run(problems_of(sharpened(knotted(3), [Fraction(1, 50)])), limit=limit, batch=4)
    assert max(spilled) > 0
    assert run.status == ("proved" if limit is None else "undecided")
    assert set(run.finish().proved) == {1}


def test_balls_and_other_networks_are_refused() -> None:
    problems, _ = several()
    inputs = problems[0].input_set
    ball = InputSet(inputs.lower, inputs.upper, inputs.lower / 2 + inputs.upper / 2, 0.1, 2)
    round_set = Problem(problems[0].graph, ball, problems[0].rows, problems[0].disjuncts)
    other = box_problem(random_relus(1, (3,), 2), -1.0, 1.0)
    assert joinable(problems)
    for bad in ([round_set], [problems[0], other]):
        assert not joinable(bad)
        with pytest.raises((UsageError, ValueError)):
            Run(bad)


def test_a_row_that_must_be_below_is_excluded_on_the_threshold() -> None:
    problem = box_problem(random_relus(1, (3,), 1), -1.0, 1.0, targets_of([[[1.0], [1.0]]]))
    strict = Problem(problem.graph, problem.input_set, targets_of([[[1.0], [1.0]]], strict=True), (0,))
    least = torch.tensor([[0.0, -1.0, -1.0], [-1.0, -1.0, 0.0], [1e-300, -1.0, -1.0]], dtype=torch.float64)
    target = torch.zeros(3, dtype=torch.int64)
    for asked, expected in ((problem, [False, False, True]), (strict, [True, False, True])):
        ledger = BoxLedger(asked, Decide(asked, deaf), CPU)
        assert ledger.decided(least, target).tolist() == expected


@pytest.mark.gpu
def test_a_gpu_gives_the_same_answers() -> None:
    problems, _ = several()
    there, here = Run(problems, device=torch.device("cuda")), Run(problems)
    assert there.status == here.status == "proved"
    assert numbers(there) == numbers(Run(problems, device=torch.device("cuda")))


def test_a_graph_without_neurons_is_decided_at_the_root() -> None:
    build = GraphBuilder(1, 2)
    build.linear(0, np.array([[1.0, -1.0]]), np.array([2.5]))
    run = Run([box_problem(build.finish(), -1.0, 1.0)])
    assert (run.status, run.result.outcome.decided_by) == ("proved", "root")
    assert run.result.outcome.lower_bound == pytest.approx(0.5)


def test_on_many_inputs_nobody_asks_whose_width_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds without the shares of inputs in the neurons' widths; few boxes at once."""
    problem = several()[0][0]
    few = BoxBounder(problem.graph, problem.rows, problem.input_set, CPU)
    lower, upper = (side.flatten()[None] for side in (problem.input_set.lower, problem.input_set.upper))
    given = lower, upper, torch.zeros(1, dtype=torch.int64), few.unknown(1), Deadline()
    with_shares = few.bound(*given)
    monkeypatch.setattr(bounder, "FEW_INPUTS", 1)
    monkeypatch.setattr(bounder, "Share", None)
    many = few.bound(*given)
    assert torch.equal(many.least, with_shares.least)
    assert not bool(many.blame.any())
    assert bool(with_shares.blame.any())
    assert few.boxes_that_fit() == bounder.WIDE["cpu"]
