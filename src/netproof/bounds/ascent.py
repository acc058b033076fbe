"""The one optimiser: dual points of a batch climbed by Adam, the best of each kept, settled ones dropped.

Equation (9) of the paper, with its min over α read as max: the slopes are chosen to make the lower bound greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from netproof.core.deadline import Deadline, DeadlineExpired

LOOK = 4  # steps between two looks at what is settled: a look waits for the device
NEAR = 10.0  # seconds before a deadline from which on nothing is asked of the device ahead of time
FEW = 0.7  # of a batch that may be left for the others to be dropped


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to climb."""

    steps: int
    rate: float = 0.25
    decay: float = 0.98
    gain: float | None = 1e-3  # of |bound| between two looks that is worth going on for; None: to the last step
    planes: int = 0  # steps in which planes above the first layer are climbed too, where that is asked for


class Climb(NamedTuple):
    """How far to climb: by which steps, past which value each sub-domain is left alone, and until when."""

    schedule: Schedule
    threshold: Tensor  # (domain,)
    deadline: Deadline
    known: Tensor | None = None  # (domain,): what holds already, whatever is found; None: nothing does


class Seen(Protocol):
    """What a function was found to be at a point."""

    @property
    def value(self) -> Tensor: ...  # (domain,)

    def select(self, index: Tensor) -> Self:
        """Return that of some sub-domains."""


Point = TypeVar("Point")
Found = TypeVar("Found", bound=Seen)


class Objective(Protocol[Point, Found]):
    """A function of each sub-domain's own parameters, to be made as large as it gets."""

    def start(self, point: Point) -> list[Tensor]:
        """Return what moves, (domain, …) each, at a point."""

    def point(self, moving: Sequence[Tensor]) -> Point:
        """Return the point that these parameters are."""

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Found:
        """Evaluate at the parameters; after the last time no gradient is asked for."""

    def gradient(self, moving: Sequence[Tensor], seen: Found) -> list[Tensor]:
        """Return the gradient of what was seen, up to a positive factor for each number."""

    def project_(self, moving: Sequence[Tensor]) -> None:
        """Make parameters allowed ones, in place."""

    def select(self, index: Tensor) -> Self:
        """Return the function of some sub-domains."""


def ascend(objective: Objective[Point, Found], point: Point, climb: Climb) -> tuple[Tensor, Point]:
    """Return the best values found (domain,), and the point that gave them.

    A sub-domain is settled once its value passes the threshold or has stopped rising: then it keeps what it
    has, computed any further or not, so that what one finds does not depend on its company. Where the best is below
    what is known already it is worth nothing, and the last point is returned: whoever goes on from there, as the
    sub-domain's children do, climbs on, where the best may be the start again and again. An objective that takes long
    may end the climb itself, by DeadlineExpired.
    """
    whole, (schedule, threshold, deadline, known) = objective, climb
    state = _State.at(objective.start(point), threshold, known)
    best, kept = state.best, state.kept
    places: Tensor | None = None  # of the sub-domains still computed
    for step in range(schedule.steps + 1):
        keep_up(threshold.device, deadline)
        last = step == schedule.steps or deadline.expired
        try:
            seen = objective.evaluate(state.now, last=last)
        except DeadlineExpired:
            break
        state.record(seen.value)
        if last:
            break
        if step % LOOK == LOOK - 1:
            active = state.look(threshold, schedule)
            if len(active) == 0:
                break
            if len(active) <= FEW * len(threshold):
                best, kept = _write_back(best, kept, state, places)
                places = active if places is None else places[active]
                objective, state, threshold = objective.select(active), state.select(active), threshold[active]
                seen = seen.select(active)
        try:
            slopes = objective.gradient(state.now, seen)
        except DeadlineExpired:
            break
        state.step(slopes, step, schedule)
        objective.project_(state.now)
    state.keep_last_below()
    best, kept = _write_back(best, kept, state, places)
    return best, whole.point(kept)


def keep_up(device: torch.device, deadline: Deadline) -> None:
    """Wait for the device where the deadline is near: what is asked of it ahead of time would be done after it."""
    if device.type == "cuda" and deadline.remaining() < NEAR:
        torch.cuda.current_stream(device).synchronize()


def _write_back(best: Tensor, kept: list[Tensor], state: _State, places: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    if places is None:
        return state.best, state.kept
    old_and_new = zip(kept, state.kept, strict=True)
    return best.index_copy(0, places, state.best), [old.index_copy(0, places, new) for old, new in old_and_new]


@dataclass
class _State:
    """The parameters now, the best so far, and Adam's moments: a list of tensors (domain, …) each."""

    now: list[Tensor]
    kept: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    best: Tensor  # (domain,)
    last_look: Tensor  # (domain,): the best when last looked at
    known: Tensor  # (domain,): below which the best is worth nothing
    active: Tensor | None = None  # (domain,) bool: the others are settled; None: all are active

    @classmethod
    def at(cls, now: list[Tensor], threshold: Tensor, known: Tensor | None) -> Self:
        none = torch.full_like(threshold, -torch.inf)
        first, second = [torch.zeros_like(t) for t in now], [torch.zeros_like(t) for t in now]
        return cls(now, now, first, second, none, none, none if known is None else known)

    def select(self, index: Tensor) -> _State:
        """Return that of some sub-domains."""
        now, kept, first, second = ([t[index] for t in part] for part in (self.now, self.kept, self.first, self.second))
        return _State(now, kept, first, second, self.best[index], self.last_look[index], self.known[index])

    def record(self, value: Tensor) -> None:
        """Keep what is better than all before it; a NaN compares false, so it never is."""
        better = value > self.best
        if self.active is not None:
            better &= self.active
        self.best = torch.where(better, value, self.best)
        self._keep_now(better)

    def keep_last_below(self) -> None:
        """Keep the parameters as they are now where the best is below what is known."""
        self._keep_now(self.best < self.known)

    def _keep_now(self, where: Tensor) -> None:
        self.kept = [
            torch.where(where.view(-1, *(1,) * (new.dim() - 1)), new, old)
            for new, old in zip(self.now, self.kept, strict=True)
        ]

    def look(self, threshold: Tensor, schedule: Schedule) -> Tensor:
        """Settle what has passed its threshold, or gained too little since the last look: the places of the rest."""
        active = self.best <= threshold
        if schedule.gain is not None:
            rises = self.best > self.last_look + schedule.gain * self.last_look.abs().nan_to_num(posinf=0.0)
            active &= rises | (self.best < self.known)
        if self.active is not None:
            active &= self.active
        self.last_look, self.active = self.best, active
        return active.nonzero()[:, 0]

    def step(self, gradient: Sequence[Tensor], step: int, schedule: Schedule) -> None:
        """Move by Adam; new tensors, as the old ones may be the best."""
        length = schedule.rate * schedule.decay**step / (1 - 0.9 ** (step + 1))
        moved = []
        for now, slope, first, second in zip(self.now, gradient, self.first, self.second, strict=True):
            first.lerp_(slope, 0.1)
            second.mul_(0.999).addcmul_(slope, slope, value=0.001)
            scale = second.sqrt().mul_((1 - 0.999 ** (step + 1)) ** -0.5).add_(1e-8)
            moved.append(now.addcdiv(first, scale, value=length))
        self.now = moved
