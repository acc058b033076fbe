"""Projected gradient ascent (Adam) on a batch of independent bounds, best point kept, settled ones dropped.

Equation (9) of the paper, with its min over α read as max: the slopes are chosen to make the lower bound greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.deadline import Deadline

Params = list[Tensor]  # each (problem, ...)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to climb."""

    steps: int
    rate: float = 0.25
    decay: float = 0.98
    patience: int = 3  # steps without a gain worth having before a problem is left alone
    gain: float = 1e-3  # what is worth having, relative to |bound|


def ascend(
    evaluate: Callable[[Params, Tensor | None], Tensor],
    project: Callable[[Params], Params],
    params: Params,
    schedule: Schedule,
    threshold: Tensor,
    deadline: Deadline,
) -> tuple[Tensor, Params]:
    """The best bounds found (problem,) and the parameters that gave them.

    evaluate(params, subset): bounds of the problems in `subset` (None: all), differentiable in params. A problem is
    settled, and computed no more, once its bound passes `threshold` (problem,) or has stopped improving.
    """
    total = threshold.shape[0]
    best = torch.full_like(threshold, -torch.inf)
    kept = [p.clone() for p in params]
    subset: Tensor | None = None
    live = _Live(best.clone(), [p.clone() for p in params], torch.zeros(total, device=best.device))
    limit = threshold
    moments = _Adam.zeros(params)
    for step in range(schedule.steps + 1):
        last = step == schedule.steps or deadline.expired
        with torch.set_grad_enabled(not last):
            params = [p.detach().requires_grad_(not last) for p in params]
            value = evaluate(params, subset)
        live.record(value.detach(), params, schedule)
        if last:
            break
        active = (live.best <= limit) & (live.stale < schedule.patience)
        count = int(active.sum())
        if count == 0:
            break
        grads = torch.autograd.grad(value.sum(), params, allow_unused=True)
        params = project(moments.step(params, grads, step, schedule))
        if count <= 0.75 * len(active):
            # Fewer problems from here on: write back what is known, go on with the rest.
            _write_back(best, kept, live, subset)
            index = active.nonzero()[:, 0]
            subset = index if subset is None else subset[index]
            live, limit = live.select(index), limit[index]
            params, moments = [p[index] for p in params], moments.select(index)
    _write_back(best, kept, live, subset)
    return best, kept


@dataclass
class _Live:
    """The best so far of the problems still computed."""

    best: Tensor
    params: Params
    stale: Tensor

    def record(self, value: Tensor, params: Sequence[Tensor], schedule: Schedule) -> None:
        # A NaN compares false, so it never becomes the best.
        worth = value > self.best + schedule.gain * self.best.abs().nan_to_num(posinf=0.0)
        better = value > self.best
        self.stale = torch.where(worth, torch.zeros_like(self.stale), self.stale + 1)
        self.best = torch.where(better, value, self.best)
        self.params = [
            torch.where(better.view(-1, *(1,) * (p.dim() - 1)), p.detach(), b)
            for p, b in zip(params, self.params, strict=True)
        ]

    def select(self, index: Tensor) -> _Live:
        return _Live(self.best[index], [p[index] for p in self.params], self.stale[index])


def _write_back(best: Tensor, kept: Params, live: _Live, subset: Tensor | None) -> None:
    where = slice(None) if subset is None else subset
    best[where] = live.best
    for full, part in zip(kept, live.params, strict=True):
        full[where] = part


@dataclass
class _Adam:
    first: Params
    second: Params

    @classmethod
    def zeros(cls, params: Params) -> _Adam:
        return cls([torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params])

    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor | None], step: int, schedule: Schedule) -> Params:
        rate = schedule.rate * schedule.decay**step
        moved: Params = []
        for i, (p, g) in enumerate(zip(params, grads, strict=True)):
            if g is None:
                moved.append(p.detach())
                continue
            self.first[i].lerp_(g, 0.1)
            self.second[i].mul_(0.999).addcmul_(g, g, value=0.001)
            scale = (self.second[i] / (1 - 0.999 ** (step + 1))).sqrt_().add_(1e-8)
            moved.append(p.detach().addcdiv(self.first[i], scale, value=rate / (1 - 0.9 ** (step + 1))))
        return moved

    def select(self, index: Tensor) -> _Adam:
        return _Adam([p[index] for p in self.first], [p[index] for p in self.second])
