"""The climber on functions whose maximum is known: it keeps the best, drops what is settled, and stops when told."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from netproof.bounds.graph.ascent import Params, Schedule, ascend
from netproof.core.deadline import Deadline

NEVER = math.inf


class Recorder:
    """−|p − goal| + top for each problem, and a memory of how it was asked."""

    def __init__(self, goal: list[float], top: list[float]) -> None:
        self.goal, self.top = torch.tensor(goal), torch.tensor(top)
        self.subsets: list[list[int]] = []
        self.seen: list[Tensor] = []
        self.values: list[dict[int, float]] = []
        self.grads: list[bool] = []

    def __call__(self, params: Params, subset: Tensor | None) -> Tensor:
        index = torch.arange(len(self.goal)) if subset is None else subset
        self.subsets.append(index.tolist())
        self.seen.append(params[0].detach().clone())
        self.grads.append(torch.is_grad_enabled())
        value = self.value(params[0], index)
        self.values.append(dict(zip(index.tolist(), value.detach().tolist(), strict=True)))
        return value

    def value(self, p: Tensor, index: Tensor) -> Tensor:
        return self.top[index] - (p - self.goal[index, None]).abs().sum(1)


def climb(
    recorder: Recorder,
    start: float = 0.0,
    threshold: float | list[float] = NEVER,
    schedule: Schedule | None = None,
    deadline: Deadline | None = None,
    limits: tuple[float, float] = (-10.0, 10.0),
) -> tuple[Tensor, Params]:
    count = len(recorder.goal)
    limit = torch.tensor(threshold if isinstance(threshold, list) else [threshold] * count)
    params = [torch.full((count, 2), start)]
    return ascend(
        recorder,
        lambda ps: [p.clamp(*limits) for p in ps],
        params,
        schedule or Schedule(60, patience=1000),
        limit,
        deadline or Deadline(),
    )


def test_it_climbs_to_the_top() -> None:
    recorder = Recorder([0.5, -1.0, 2.0], [3.0, 0.0, -7.0])
    best, (params,) = climb(recorder)
    assert best.tolist() == pytest.approx([3.0, 0.0, -7.0], abs=0.3)
    assert bool((params - recorder.goal[:, None]).abs().max() < 0.2)


def test_the_best_is_kept_with_the_parameters_that_gave_it() -> None:
    """A rate this large jumps past the top again and again."""
    recorder = Recorder([0.5, -1.0, 2.0], [3.0, 0.0, -7.0])
    best, (params,) = climb(recorder, schedule=Schedule(30, rate=3.0, decay=1.0, patience=1000))
    for i in range(3):
        assert float(best[i]) == max(values[i] for values in recorder.values if i in values)
    assert torch.equal(recorder.value(params, torch.arange(3)), best)
    assert recorder.values[-1][0] < float(best[0])  # the last was not the best


def test_settled_problems_are_dropped_and_the_rest_goes_on() -> None:
    recorder = Recorder([0.1, 0.2, 8.0, 9.0], [1.0, 1.0, 1.0, 1.0])
    best, (params,) = climb(recorder, threshold=[0.5, 0.5, NEVER, NEVER])
    assert recorder.subsets[0] == [0, 1, 2, 3]
    assert recorder.subsets[-1] == [2, 3]
    for before, after in zip(recorder.subsets, recorder.subsets[1:], strict=False):
        assert set(after) <= set(before)
    assert bool((best[:2] > 0.5).all())
    assert torch.equal(recorder.value(params, torch.arange(4)), best)  # each at its own place again


def test_problems_may_be_dropped_again_and_again() -> None:
    recorder = Recorder([9.0, 0.1, 9.5, 2.0, 9.2, 0.2, 2.1, 9.1], [1.0] * 8)
    limit = [NEVER, 0.5, NEVER, 0.5, NEVER, 0.5, 0.5, NEVER]
    best, (params,) = climb(recorder, threshold=limit)
    sizes = [len(subset) for subset in recorder.subsets]
    assert sorted(set(sizes), reverse=True) == [8, 6, 4]
    assert recorder.subsets[-1] == [0, 2, 4, 7]
    assert torch.equal(recorder.value(params, torch.arange(8)), best)


def test_each_problem_keeps_its_own_moments_when_others_are_dropped() -> None:
    """What a problem does must not depend on its company."""
    together, alone = Recorder([0.1, 8.0], [1.0, 1.0]), Recorder([8.0], [1.0])
    both, _ = climb(together, threshold=[0.5, NEVER])
    one, _ = climb(alone, threshold=[NEVER])
    assert together.subsets[-1] == [1]
    assert float(both[1]) == float(one[0])
    assert [v[1] for v in together.values] == [v[0] for v in alone.values]


def test_it_stops_once_all_are_settled() -> None:
    recorder = Recorder([0.1, 0.2], [1.0, 1.0])
    climb(recorder, threshold=0.0)
    assert len(recorder.subsets) == 1  # the start was good enough


def test_it_stops_when_nothing_improves() -> None:
    recorder = Recorder([0.0, 0.0], [1.0, 1.0])  # starts at the top
    climb(recorder, schedule=Schedule(50, patience=3))
    assert len(recorder.subsets) == 4


def test_no_step_is_one_evaluation_without_gradients() -> None:
    recorder = Recorder([3.0], [1.0])
    best, (params,) = climb(recorder, schedule=Schedule(0))
    assert recorder.grads == [False]
    assert best.tolist() == [-5.0]
    assert params.tolist() == [[0.0, 0.0]]


def test_the_last_evaluation_needs_no_gradient() -> None:
    recorder = Recorder([9.0], [1.0])
    climb(recorder, schedule=Schedule(5, patience=100))
    assert recorder.grads == [True] * 5 + [False]


class Poisoned(Recorder):
    """NaN for problem 0 from the second evaluation on."""

    def value(self, p: Tensor, index: Tensor) -> Tensor:
        value = super().value(p, index)
        if len(self.subsets) < 2:
            return value
        return value * torch.where(index == 0, torch.nan, 1.0)


def test_a_nan_is_never_the_best_and_harms_no_other() -> None:
    poisoned, clean = Poisoned([1.0, 2.0], [0.0, 0.0]), Recorder([1.0, 2.0], [0.0, 0.0])
    best, (params,) = climb(poisoned)
    expected, _ = climb(clean)
    assert float(best[0]) == -2.0  # the start's, the only number there was
    assert params[0].tolist() == [0.0, 0.0]
    assert float(best[1]) == float(expected[1])


def test_a_nan_from_the_start_leaves_no_bound() -> None:
    recorder = Recorder([math.nan, 2.0], [0.0, 0.0])
    best, (params,) = climb(recorder)
    assert float(best[0]) == -math.inf
    assert bool(params.isfinite().all())


def test_an_expired_deadline_allows_one_evaluation() -> None:
    recorder = Recorder([5.0], [0.0])
    best, _ = climb(recorder, deadline=Deadline(0.0))
    assert len(recorder.subsets) == 1
    assert best.tolist() == [-10.0]


def test_a_deadline_that_comes_on_the_way_is_obeyed() -> None:
    deadline = Deadline()

    class Cancels(Recorder):
        def value(self, p: Tensor, index: Tensor) -> Tensor:
            if len(self.subsets) == 3:
                deadline.cancel()
            return super().value(p, index)

    recorder = Cancels([50.0], [0.0])
    climb(recorder, deadline=deadline, limits=(-100.0, 100.0))
    assert len(recorder.subsets) == 4


def test_every_evaluated_point_is_projected() -> None:
    recorder = Recorder([50.0, -50.0], [0.0, 0.0])
    _, (params,) = climb(recorder, limits=(-0.5, 0.75))
    assert all(bool(((p >= -0.5) & (p <= 0.75)).all()) for p in recorder.seen)
    assert params.tolist() == [[0.75, 0.75], [-0.5, -0.5]]


def test_a_parameter_that_nothing_depends_on_stays() -> None:
    def evaluate(params: Params, subset: Tensor | None) -> Tensor:
        return -(params[0] - 1).abs().sum(1)

    params = [torch.zeros(2, 1), torch.full((2, 3), 7.0)]
    _, (moved, still) = ascend(evaluate, lambda ps: ps, params, Schedule(20), torch.full((2,), NEVER), Deadline())
    assert torch.equal(still, params[1])
    assert not torch.equal(moved, params[0])
    assert params[0].tolist() == [[0.0], [0.0]]  # what was given is not written to
