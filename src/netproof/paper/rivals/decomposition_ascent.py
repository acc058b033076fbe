"""The prices ρ of a batch of decompositions, climbed by supergradients (Adam) or by proximal steps (Frank–Wolfe).

Both rules cost one `decomposition.solve` per step and anneal, so the number of steps is theirs to know beforehand: a
nonsmooth bound stands still while steps are long and gains as they shrink, which is why standing still ends nothing
here. Steps are measured by how large a layer's coefficients are, since ρ is of that order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.ascent import LOOK
from netproof.bounds.dual import Dual, by_logits
from netproof.core.deadline import Deadline
from netproof.paper.rivals.decomposition import Hull, Solved, solve

LAST = 0.01  # of the first step's length that the last one has
INNER = 2  # conditional-gradient steps about one proximal point
PROXIMAL = 5.0  # the proximal term's inverse weight for a step of length 1
LOGIT_RATE = {False: 0.2, True: 0.05}  # of the rows' weights, by `proximal`: copies that are averaged lag behind


@dataclass(frozen=True)
class Rule:
    """How to climb. rate: the length of the first step, as a share of a layer's size."""

    steps: int
    rate: float
    proximal: bool = False

    def anneal(self, step: int) -> float:
        fraction: float = LAST ** (step / max(1, self.steps))
        return fraction


@dataclass(frozen=True, eq=False)
class Prices:
    """Where a climb starts, and where it got to."""

    rho: Tensor  # (domain, U)
    logits: Tensor  # (domain, row)

    def select(self, index: Tensor) -> Prices:
        return Prices(self.rho[index], self.logits[index])


def climb_prices(
    seeds: Dual,
    hull: Hull,
    scale: Tensor,
    start: Prices,
    rule: Rule,
    threshold: Tensor,
    deadline: Deadline,
) -> Prices:
    """Return the best prices found; a domain whose bound passes `threshold` (domain,) is left alone.

    scale (domain, U): the size of ρ, by which steps are measured.
    """
    state = _State.at(seeds, hull, scale, start, rule)
    kept = start
    places: Tensor | None = None  # of the domains still computed
    for step in range(rule.steps + 1):
        weights = by_logits(state.logits, state.seeds.valid)
        solved = solve(state.hull, state.seeds.mix(weights), state.rho)
        state.record(solved.value)
        if step == rule.steps or deadline.expired:
            break
        if step % LOOK == LOOK - 1:
            active = (state.best <= threshold).nonzero()[:, 0]
            if len(active) == 0:
                break
            if len(active) <= 0.7 * len(threshold):
                kept = _write_back(kept, state, places)
                places = active if places is None else places[active]
                state, threshold, weights = state.select(active), threshold[active], weights[active]
                solved = Solved(*(t[active] for t in solved))
        state.step(solved, weights, step, rule)
    return _write_back(kept, state, places)


def _write_back(kept: Prices, state: _State, places: Tensor | None) -> Prices:
    if places is None:
        return Prices(state.best_rho, state.best_logits)
    return Prices(kept.rho.index_copy(0, places, state.best_rho), kept.logits.index_copy(0, places, state.best_logits))


class _Update(ABC):
    """What a rule remembers between steps; every tensor (domain, ...)."""

    @abstractmethod
    def next(
        self, rho: Tensor, solved: Solved, scale: Tensor, rows: Tensor, weights: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """Return the next prices, and the bound's slope in λ (domain, row).

        rows (domain, row): each row's value at the minimisers; weights: λ.
        """

    @abstractmethod
    def select(self, index: Tensor) -> _Update: ...


@dataclass
class _Supergradient(_Update):
    rule: Rule
    first: Tensor
    second: Tensor

    @classmethod
    def at(cls, rule: Rule, like: Tensor) -> _Supergradient:
        return cls(rule, torch.zeros_like(like), torch.zeros_like(like))

    def next(
        self, rho: Tensor, solved: Solved, scale: Tensor, rows: Tensor, weights: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        return self.move(rho, solved.residual, scale, step), rows

    def move(self, now: Tensor, grad: Tensor, scale: Tensor | float, step: int) -> Tensor:
        """Return `now` after one step of Adam along `grad`."""
        self.first.lerp_(grad, 0.1)
        self.second.mul_(0.999).addcmul_(grad, grad, value=0.001)
        width = self.second.sqrt().mul_((1 - 0.999 ** (step + 1)) ** -0.5).add_(1e-8)
        length = self.rule.rate * self.rule.anneal(step) / (1 - 0.9 ** (step + 1))
        return now.addcdiv(self.first * scale, width, value=length)

    def select(self, index: Tensor) -> _Supergradient:
        return _Supergradient(self.rule, self.first[index], self.second[index])


@dataclass
class _Proximal(_Update):
    """max_ρ bound(ρ) − Σ (ρ − anchor)²/2η, by its own dual: the least over the copies of the augmented Lagrangian.

    With r = ẑ_A − ẑ_B of the copies held, ρ = anchor + ηr. The subproblems solved under that ρ are the conditional
    gradient; the objective is quadratic on the way there, so the best step is known. Only r and the rows' values of
    the copies are needed, never the copies themselves.
    """

    rule: Rule
    anchor: Tensor
    residual: Tensor | None = None
    rows: Tensor | None = None

    def next(
        self, rho: Tensor, solved: Solved, scale: Tensor, rows: Tensor, weights: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        if self.residual is None or self.rows is None:
            self.residual, self.rows = solved.residual, rows
        else:
            eta = self._eta(scale, step - 1)
            way, gain = solved.residual - self.residual, rows - self.rows
            slope = (weights * gain).sum(1) + (rho * way).sum(1)  # <= 0: of the objective along the way
            curvature = (eta * way * way).sum(1)
            share = (-slope / curvature.clamp(min=1e-30)).clamp(0, 1)[:, None]
            self.residual, self.rows = self.residual + share * way, self.rows + share * gain
            if step % INNER == 0:
                self.anchor = self.anchor + eta * self.residual
        return self.anchor + self._eta(scale, step) * self.residual, self.rows

    def _eta(self, scale: Tensor, step: int) -> Tensor:
        """Return η of the prices that `step` gives; the same about one anchor."""
        return scale * (PROXIMAL * self.rule.rate * self.rule.anneal(step // INNER * INNER))

    def select(self, index: Tensor) -> _Proximal:
        rest = (None if t is None else t[index] for t in (self.residual, self.rows))
        return _Proximal(self.rule, self.anchor[index], *rest)


@dataclass
class _State:
    seeds: Dual
    hull: Hull
    scale: Tensor
    rho: Tensor
    logits: Tensor
    best: Tensor  # (domain,)
    best_rho: Tensor
    best_logits: Tensor
    update: _Update
    mixing: _Supergradient  # of the rows' weights

    @classmethod
    def at(cls, seeds: Dual, hull: Hull, scale: Tensor, start: Prices, rule: Rule) -> _State:
        rho, logits = start.rho, start.logits
        none = torch.full_like(logits[:, 0], -torch.inf)
        update = _Proximal(rule, rho) if rule.proximal else _Supergradient.at(rule, rho)
        mixing = _Supergradient.at(Rule(rule.steps, LOGIT_RATE[rule.proximal]), logits)
        return cls(seeds, hull, scale, rho, logits, none, rho, logits, update, mixing)

    def select(self, index: Tensor) -> _State:
        scale, rho, logits, best, best_rho, best_logits = (
            t[index] for t in (self.scale, self.rho, self.logits, self.best, self.best_rho, self.best_logits)
        )
        seeds, hull, update = self.seeds.select(index), self.hull.select(index), self.update.select(index)
        mixing = self.mixing.select(index)
        return _State(seeds, hull, scale, rho, logits, best, best_rho, best_logits, update, mixing)

    def record(self, value: Tensor) -> None:
        better = value > self.best  # a NaN compares false, so it never becomes the best
        self.best = torch.where(better, value, self.best)
        self.best_rho = torch.where(better[:, None], self.rho, self.best_rho)
        if self.seeds.free:
            self.best_logits = torch.where(better[:, None], self.logits, self.best_logits)

    def step(self, solved: Solved, weights: Tensor, step: int, rule: Rule) -> None:
        rows = self._rows(solved) if self.seeds.free or rule.proximal else weights
        self.rho, rows = self.update.next(self.rho, solved, self.scale, rows, weights, step)
        if self.seeds.free:
            slope = weights * (rows - (weights * rows).sum(1, keepdim=True))
            self.logits = self.mixing.move(self.logits, slope, 1.0, step)

    def _rows(self, solved: Solved) -> Tensor:
        """Return each row's value at the minimisers, (domain, row)."""
        return self.seeds.rows_at(solved.values)
