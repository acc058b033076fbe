"""Slopes, multipliers and row weights of a batch of condensed bounds, climbed together (Adam, no tape)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.passes import Packed, Pulled, packed_lines, pull, push, within
from netproof.bounds.domains import Known
from netproof.bounds.graph.ascent import Schedule
from netproof.core.deadline import Deadline
from netproof.numerics import INFLATE, gamma

LEAST_WEIGHT = 0.02  # that a row starts with: from next to nothing it would take many steps to come back
LOOK = 4  # steps between two looks at what is settled: a look waits for the device


@dataclass(frozen=True, eq=False)
class Seeds:
    """The forms to bound: Σ_j λ_j r_j of each domain's target, with λ on the simplex of its rows."""

    forms: Tensor  # (domain, row, columns), or (domain, 1, columns) where λ is 1
    valid: Tensor  # (domain, row) bool

    @classmethod
    def of(cls, net: Condensed, target: Tensor, valid: Tensor) -> Seeds:
        """valid: (target, row)."""
        return cls(net.rows[target], valid[target])

    @property
    def free(self) -> bool:
        return self.forms.shape[1] > 1

    def select(self, index: Tensor) -> Seeds:
        return Seeds(self.forms[index], self.valid[index])

    def weights(self, logits: Tensor) -> Tensor:
        return torch.where(self.valid, logits, -torch.inf).softmax(1)

    def mix(self, weights: Tensor) -> Tensor:
        """(domain, columns)."""
        if not self.free:
            return self.forms[:, 0]
        return torch.bmm(weights[:, None], self.forms)[:, 0]


@dataclass(frozen=True, eq=False)
class Start:
    """Where a climb starts, and where it got to."""

    slopes: Tensor  # (domain, U)
    multipliers: Tensor | None  # (domain, U), None where nothing is split
    logits: Tensor  # (domain, row)


def first_logits(weights: Tensor) -> Tensor:
    """Where the rows' weights (domain, row) are climbed from."""
    return weights.clamp(min=LEAST_WEIGHT).log()


def climb(
    net: Condensed,
    seeds: Seeds,
    lines: Packed,
    start: Start,
    schedule: Schedule,
    threshold: Tensor,
    deadline: Deadline,
) -> tuple[Tensor, Start]:
    """The best bounds (domain,) and what gave them; a domain whose bound passes `threshold` is left alone."""
    state = _State.at(seeds, lines, start)
    best, kept = state.best.clone(), start
    places: Tensor | None = None  # of the domains still computed
    for step in range(schedule.steps + 1):
        pulled, weights = state.evaluate(net)
        state.record(pulled)
        last = step == schedule.steps or deadline.expired
        if last:
            break
        if step % LOOK == LOOK - 1:
            active = ((state.best <= threshold) & state.improving(schedule)).nonzero()[:, 0]
            if len(active) == 0:
                break
            if len(active) <= 0.7 * len(threshold):
                best, kept = _write_back(best, kept, state, places)
                places = active if places is None else places[active]
                state, threshold = state.select(active), threshold[active]
                pulled, weights = pulled.select(active), weights[active]
        state.step(net, pulled, weights, step, schedule)
    return _write_back(best, kept, state, places)


def climb_forms(
    search: Condensed,
    proof: Condensed,
    forms: Tensor,
    error: Tensor,
    known: Known,
    start: tuple[Tensor, Tensor | None],
    settled: Tensor,
    schedule: Schedule,
    deadline: Deadline,
) -> tuple[Tensor, Tensor]:
    """Confirm lower bounds (n,) of neurons' forms (n, columns), float64 with errors (n,); and return the slopes found.

    known: of the neurons before. start: slopes and multipliers, (n, U). A form is left alone once its bound passes
    `settled` (n,), float32.
    """
    one = torch.ones(len(forms), 1, dtype=torch.bool, device=forms.device)
    begin = Start(*start, torch.zeros(len(forms), 1, device=forms.device))
    lines = packed_lines(search, known, proof=False)
    _, best = climb(search, Seeds(forms.float()[:, None], one), lines, begin, schedule, settled, deadline)
    lines = packed_lines(proof, known, proof=True)
    beta = None if best.multipliers is None else lines.project_(best.multipliers.double())
    value = pull(proof, forms, lines, within(best.slopes.double()), beta).value
    return value - error * INFLATE - value.abs() * gamma(4), best.slopes


def _write_back(best: Tensor, kept: Start, state: _State, places: Tensor | None) -> tuple[Tensor, Start]:
    if places is None:
        return state.best, state.kept
    found = state.kept
    beta = kept.multipliers
    if beta is not None and found.multipliers is not None:
        beta = beta.index_copy(0, places, found.multipliers)
    slopes = kept.slopes.index_copy(0, places, found.slopes)
    return best.index_copy(0, places, state.best), Start(slopes, beta, kept.logits.index_copy(0, places, found.logits))


@dataclass
class _State:
    """Parameters as one tensor (1 or 2, domain, U): slopes, then multipliers if there are any."""

    seeds: Seeds
    lines: Packed
    now: Tensor
    logits: Tensor
    best: Tensor  # (domain,)
    best_now: Tensor
    best_logits: Tensor
    first: Tensor
    second: Tensor
    logit_first: Tensor
    logit_second: Tensor
    last_look: Tensor  # (domain,): the best when last looked at

    @classmethod
    def at(cls, seeds: Seeds, lines: Packed, start: Start) -> _State:
        parts = [start.slopes] if start.multipliers is None else [start.slopes, start.multipliers]
        now = torch.stack(parts)
        now[0].clamp_(0.0, 1.0)
        none = torch.full_like(now[0, :, 0] if now.shape[2] else start.logits[:, 0], -torch.inf)
        zero, flat = torch.zeros_like(now), torch.zeros_like(start.logits)
        logits = start.logits
        return cls(seeds, lines, now, logits, none, now, logits, zero, zero.clone(), flat, flat.clone(), none)

    def select(self, index: Tensor) -> _State:
        return _State(
            self.seeds.select(index),
            self.lines.select(index),
            *(t[:, index] if t.dim() == 3 else t[index] for t in self._tensors()),
        )

    def _tensors(self) -> tuple[Tensor, ...]:
        return (
            self.now,
            self.logits,
            self.best,
            self.best_now,
            self.best_logits,
            self.first,
            self.second,
            self.logit_first,
            self.logit_second,
            self.last_look,
        )

    @property
    def kept(self) -> Start:
        beta = self.best_now[1] if self.best_now.shape[0] > 1 else None
        return Start(self.best_now[0], beta, self.best_logits)

    def evaluate(self, net: Condensed) -> tuple[Pulled, Tensor]:
        weights = self.seeds.weights(self.logits) if self.seeds.free else self.logits
        beta = self.now[1] if self.now.shape[0] > 1 else None
        return pull(net, self.seeds.mix(weights), self.lines, self.now[0], beta), weights

    def record(self, pulled: Pulled) -> None:
        better = pulled.value > self.best  # a NaN compares false, so it never becomes the best
        self.best = torch.where(better, pulled.value, self.best)
        self.best_now = torch.where(better[None, :, None], self.now, self.best_now)
        if self.seeds.free:
            self.best_logits = torch.where(better[:, None], self.logits, self.best_logits)

    def improving(self, schedule: Schedule) -> Tensor:
        """Whether the last few steps gained anything worth having."""
        gained = self.best > self.last_look + schedule.gain * self.last_look.abs().nan_to_num(posinf=0.0)
        self.last_look = self.best
        return gained

    def step(self, net: Condensed, pulled: Pulled, weights: Tensor, step: int, schedule: Schedule) -> None:
        h, values = push(net, pulled)
        grad = torch.empty_like(self.now)
        self.lines.gradient(self.now[0], pulled.after, h, grad[0])
        if grad.shape[0] > 1:
            self.lines.multiplier_gradient(self.now[1], h, grad[1])
        rate = schedule.rate * schedule.decay**step
        self.now = _adam(self.now, grad, self.first, self.second, step, rate)
        self.now[0].clamp_(0.0, 1.0)
        if grad.shape[0] > 1:
            self.lines.project_(self.now[1])
        if self.seeds.free:
            each = torch.bmm(self.seeds.forms, values[:, :, None])[:, :, 0]  # ∂bound/∂λ_j = r_j at the minimiser
            slope = weights * (each - (weights * each).sum(1, keepdim=True))
            self.logits = _adam(self.logits, slope, self.logit_first, self.logit_second, step, rate)


def _adam(now: Tensor, grad: Tensor, first: Tensor, second: Tensor, step: int, rate: float) -> Tensor:
    """One step of ascent; the moments are updated in place."""
    first.lerp_(grad, 0.1)
    second.mul_(0.999).addcmul_(grad, grad, value=0.001)
    scale = second.sqrt().mul_((1 - 0.999 ** (step + 1)) ** -0.5).add_(1e-8)
    return now.addcdiv(first, scale, value=rate / (1 - 0.9 ** (step + 1)))
