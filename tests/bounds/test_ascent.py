"""The climber on functions whose maximum is known: it keeps the best, drops what is settled, and stops when told."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import FEW, LOOK, Climb, Schedule, ascend
from netproof.core.deadline import Deadline

NEVER = math.inf
PATIENT = Schedule(60, gain=None)


class Found(NamedTuple):
    value: Tensor
    slope: Tensor  # the gradient, taken from here so that it must be that of the problems asked for

    def select(self, index: Tensor) -> Found:
        return Found(self.value[index], self.slope[index])


@dataclass
class Asked:
    """How an objective was asked, evaluation by evaluation."""

    subsets: list[list[int]] = field(default_factory=list)
    seen: list[Tensor] = field(default_factory=list)
    values: list[dict[int, float]] = field(default_factory=list)
    last: list[bool] = field(default_factory=list)
    gradients: int = 0


class Peaks:
    """−|p − goal| + top of each problem, and a memory of how it was asked."""

    def __init__(self, goal: list[float], top: list[float], limits: tuple[float, float] = (-10.0, 10.0)) -> None:
        self.goal, self.top, self.limits = torch.tensor(goal), torch.tensor(top), limits
        self.index, self.asked = torch.arange(len(goal)), Asked()

    def start(self, point: Tensor) -> list[Tensor]:
        return [point]

    def point(self, moving: Sequence[Tensor]) -> Tensor:
        return moving[0]

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Found:
        (p,) = moving
        self.asked.subsets.append(self.index.tolist())
        self.asked.seen.append(p.clone())
        self.asked.last.append(last)
        found = self.found(p)
        self.asked.values.append(dict(zip(self.index.tolist(), found.value.tolist(), strict=True)))
        return found

    def found(self, p: Tensor) -> Found:
        away = p - self.goal[self.index, None]
        return Found(self.top[self.index] - away.abs().sum(1), -away.sign())

    def gradient(self, moving: Sequence[Tensor], seen: Found) -> list[Tensor]:
        self.asked.gradients += 1
        assert torch.equal(seen.slope.nan_to_num(), self.found(moving[0]).slope.nan_to_num())
        return [seen.slope]

    def project_(self, moving: Sequence[Tensor]) -> None:
        moving[0].clamp_(*self.limits)

    def select(self, index: Tensor) -> Peaks:
        some = copy.copy(self)
        some.index = self.index[index]
        return some


def climb(
    peaks: Peaks,
    threshold: float | list[float] = NEVER,
    schedule: Schedule = PATIENT,
    deadline: Deadline | None = None,
    known: list[float] | None = None,
) -> tuple[Tensor, Tensor]:
    count = len(peaks.goal)
    limit = torch.tensor(threshold if isinstance(threshold, list) else [threshold] * count)
    floor = None if known is None else torch.tensor(known)
    return ascend(peaks, torch.zeros(count, 2), Climb(schedule, limit, deadline or Deadline(), floor))


def assert_gives(peaks: Peaks, params: Tensor, best: Tensor) -> None:
    """Each problem's parameters are at its own place, and give what is said to be its best."""
    assert torch.equal(peaks.found(params).value, best)


def test_it_climbs_to_the_top() -> None:
    peaks = Peaks([0.5, -1.0, 2.0], [3.0, 0.0, -7.0])
    best, params = climb(peaks)
    assert best.tolist() == pytest.approx([3.0, 0.0, -7.0], abs=0.3)
    assert bool((params - peaks.goal[:, None]).abs().max() < 0.2)


def test_the_best_is_kept_with_the_parameters_that_gave_it() -> None:
    """A rate this large jumps past the top again and again."""
    peaks = Peaks([0.5, -1.0, 2.0], [3.0, 0.0, -7.0])
    best, params = climb(peaks, schedule=Schedule(30, rate=3.0, decay=1.0, gain=None))
    for i in range(3):
        assert float(best[i]) == max(values[i] for values in peaks.asked.values if i in values)
    assert_gives(peaks, params, best)
    assert peaks.asked.values[-1][0] < float(best[0])  # the last was not the best


def test_below_what_is_known_the_last_point_is_kept() -> None:
    """The first steps of the first two lead down, past the top; only the second is known to be better than that."""
    peaks = Peaks([0.0, 0.0, 9.0], [1.0, 1.0, 1.0])
    best, params = climb(peaks, schedule=Schedule(2, rate=3.0, decay=1.0), known=[0.5, 1.5, -100.0])
    assert best.tolist() == [1.0, 1.0, float(peaks.found(params).value[2])]
    assert params[0].tolist() == [0.0, 0.0]
    assert torch.equal(params[1], peaks.asked.seen[-1][1])
    assert bool((params[2] > 0).all())


def test_below_what_is_known_it_does_not_settle() -> None:
    peaks = Peaks([0.0, 0.0], [1.0, 1.0])  # starts at the top
    climb(peaks, schedule=Schedule(20), known=[2.0, 0.0])
    assert peaks.asked.subsets[-1] == [0]
    assert len(peaks.asked.subsets) == 21


def test_settled_problems_are_dropped_and_the_rest_goes_on() -> None:
    peaks = Peaks([0.1, 0.2, 8.0, 9.0], [1.0, 1.0, 1.0, 1.0])
    best, params = climb(peaks, threshold=[0.5, 0.5, NEVER, NEVER])
    subsets = peaks.asked.subsets
    assert subsets[0] == [0, 1, 2, 3]
    assert subsets[-1] == [2, 3]
    for before, after in itertools.pairwise(subsets):
        assert set(after) <= set(before)
    assert bool((best[:2] > 0.5).all())
    assert_gives(peaks, params, best)


def test_problems_may_be_dropped_again_and_again() -> None:
    peaks = Peaks([9.0, 0.1, 9.5, 2.0, 0.15, 0.2, 2.1, 9.1], [1.0] * 8)
    best, params = climb(peaks, threshold=[NEVER, 0.5, NEVER, 0.5, 0.5, 0.5, 0.5, NEVER])
    sizes = [len(subset) for subset in peaks.asked.subsets]
    assert sorted(set(sizes), reverse=True) == [8, 5, 3]
    assert peaks.asked.subsets[-1] == [0, 2, 7]
    assert_gives(peaks, params, best)


def test_a_few_settled_ones_stay_in_the_batch() -> None:
    """Dropping them would cost more than it saves; they may still get better."""
    peaks = Peaks([0.1, 9.0, 9.1, 9.2], [1.0] * 4)
    assert FEW * 4 < 3
    best, params = climb(peaks, threshold=[0.5, NEVER, NEVER, NEVER])
    assert {len(subset) for subset in peaks.asked.subsets} == {4}
    assert_gives(peaks, params, best)


def test_each_problem_keeps_its_own_moments_when_others_are_dropped() -> None:
    """What a problem does must not depend on its company."""
    together, alone = Peaks([0.1, 8.0], [1.0, 1.0]), Peaks([8.0], [1.0])
    both, _ = climb(together, threshold=[0.5, NEVER])
    one, _ = climb(alone, threshold=[NEVER])
    assert together.asked.subsets[-1] == [1]
    assert float(both[1]) == float(one[0])
    assert [v[1] for v in together.asked.values] == [v[0] for v in alone.asked.values]


def test_it_stops_once_all_are_settled() -> None:
    peaks = Peaks([0.1, 0.2], [1.0, 1.0])
    climb(peaks, threshold=0.0)
    assert len(peaks.asked.subsets) == LOOK  # the start was good enough, which the first look shows
    assert peaks.asked.gradients == LOOK - 1


def test_it_stops_when_nothing_improves() -> None:
    peaks = Peaks([0.0, 0.0], [1.0, 1.0])  # starts at the top
    climb(peaks, schedule=Schedule(50))
    assert len(peaks.asked.subsets) == 2 * LOOK  # the second look sees what the first saw


def test_what_no_longer_rises_is_dropped_and_the_rest_goes_on() -> None:
    peaks = Peaks([0.0, 9.0], [1.0, 1.0])
    best, params = climb(peaks, schedule=Schedule(20))
    assert [len(subset) for subset in peaks.asked.subsets] == [2] * 2 * LOOK + [1] * (21 - 2 * LOOK)
    assert peaks.asked.subsets[-1] == [1]
    assert_gives(peaks, params, best)


def test_without_a_gain_worth_having_it_goes_to_the_last_step() -> None:
    peaks = Peaks([0.0, 0.0], [1.0, 1.0])
    climb(peaks, schedule=Schedule(50, gain=None))
    assert len(peaks.asked.subsets) == 51


def test_no_step_is_one_evaluation_without_gradients() -> None:
    peaks = Peaks([3.0], [1.0])
    best, params = climb(peaks, schedule=Schedule(0))
    assert (peaks.asked.last, peaks.asked.gradients) == ([True], 0)
    assert best.tolist() == [-5.0]
    assert params.tolist() == [[0.0, 0.0]]


def test_the_last_evaluation_is_told_so_and_needs_no_gradient() -> None:
    peaks = Peaks([9.0], [1.0])
    climb(peaks, schedule=Schedule(5, gain=None))
    assert (peaks.asked.last, peaks.asked.gradients) == ([False] * 5 + [True], 5)


class Poisoned(Peaks):
    """NaN for problem 0 from the second evaluation on, its gradient too."""

    def found(self, p: Tensor) -> Found:
        found = super().found(p)
        if len(self.asked.subsets) < 2:
            return found
        poison = torch.where(self.index == 0, torch.nan, 1.0)
        return Found(found.value * poison, found.slope * poison[:, None])


@pytest.mark.parametrize("schedule", [PATIENT, Schedule(60)])
def test_a_nan_is_never_the_best_and_harms_no_other(schedule: Schedule) -> None:
    poisoned, clean = Poisoned([1.0, 2.0], [0.0, 0.0]), Peaks([1.0, 2.0], [0.0, 0.0])
    best, params = climb(poisoned, schedule=schedule)
    expected, _ = climb(clean, schedule=schedule)
    assert float(best[0]) == -2.0  # the start's, the only number there was
    assert params[0].tolist() == [0.0, 0.0]
    assert float(best[1]) == float(expected[1])


def test_a_nan_from_the_start_leaves_no_bound() -> None:
    best, params = climb(Peaks([math.nan, 2.0], [0.0, 0.0]))
    assert float(best[0]) == -math.inf
    assert bool(params.isfinite().all())


def test_an_expired_deadline_allows_one_evaluation() -> None:
    peaks = Peaks([5.0], [0.0])
    best, _ = climb(peaks, deadline=Deadline(0.0))
    assert (peaks.asked.last, peaks.asked.gradients) == ([True], 0)
    assert best.tolist() == [-10.0]


def test_a_deadline_that_comes_on_the_way_is_obeyed() -> None:
    deadline = Deadline()

    class Cancels(Peaks):
        def found(self, p: Tensor) -> Found:
            if len(self.asked.subsets) == 3:
                deadline.cancel()
            return super().found(p)

    peaks = Cancels([50.0], [0.0], limits=(-100.0, 100.0))
    climb(peaks, deadline=deadline)
    assert peaks.asked.last == [False] * 3 + [True]


def test_every_evaluated_point_is_projected() -> None:
    peaks = Peaks([50.0, -50.0], [0.0, 0.0], limits=(-0.5, 0.75))
    _, params = climb(peaks)
    assert all(bool(((p >= -0.5) & (p <= 0.75)).all()) for p in peaks.asked.seen)
    assert params.tolist() == [[0.75, 0.75], [-0.5, -0.5]]


class Idle(Peaks):
    """With a second parameter that nothing depends on."""

    def start(self, point: Tensor) -> list[Tensor]:
        return [point, torch.full((len(point), 3), 7.0)]

    def point(self, moving: Sequence[Tensor]) -> Tensor:
        return torch.cat([*moving], 1)

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Found:
        return super().evaluate(moving[:1], last=last)

    def gradient(self, moving: Sequence[Tensor], seen: Found) -> list[Tensor]:
        return [*super().gradient(moving[:1], seen), torch.zeros_like(moving[1])]


def test_a_parameter_that_nothing_depends_on_stays() -> None:
    start = torch.zeros(2, 2)
    _, params = ascend(Idle([1.0, 1.0], [0.0, 0.0]), start, Climb(Schedule(20), torch.full((2,), NEVER), Deadline()))
    assert params[:, 2:].tolist() == [[7.0] * 3] * 2
    assert not torch.equal(params[:, :2], start)
    assert start.tolist() == [[0.0, 0.0]] * 2  # what was given is not written to
