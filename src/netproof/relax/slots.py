"""A function of several operands as the rest of netproof sees it: one slot for each operand of each neuron.

An op of arity k reads one node that holds its operands one after the other, (k, *node). So its neurons have k slots
each, k·n in all, all first operands first; bounds, splits, multipliers and slopes are those of slots, as they are those
of neurons everywhere else; outside `relax` only a few places ask for the arity. A neuron's intercept stands in its
first slot, and what else is said of it alone in all of its slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from netproof.core.forms import Interval
from netproof.relax.lines import Family, Lines
from netproof.relax.relaxation import Relaxation


@dataclass(frozen=True)
class Slots(Relaxation):
    """A relaxation of several operands, by slots: bounds of h are (*lead, arity·n)."""

    planes: Relaxation

    @property
    def arity(self) -> int:  # type: ignore[override]
        return self.planes.arity

    def _operands(self, h: Interval) -> Interval:
        return Interval(_apart(self.arity, h.lower), _apart(self.arity, h.upper))

    def _planes(self, lines: Lines) -> Lines:
        """Return lines by slots as planes."""
        below = None if lines.lower_intercept is None else of_first_slots(self.arity, lines.lower_intercept)
        slopes = _apart(self.arity, lines.lower_slope), _apart(self.arity, lines.upper_slope)
        return Lines(*slopes, of_first_slots(self.arity, lines.upper_intercept), below)

    def linear_on(self, h: Interval) -> Tensor:
        return in_all_slots(self.arity, self.planes.linear_on(self._operands(h)))

    def family(self, h: Interval, *, proof: bool) -> SlotFamily:
        return SlotFamily(self.planes.family(self._operands(h), proof=proof), self.arity)

    def initial(self, h: Interval) -> Tensor:
        return self.planes.initial(self._operands(h)).flatten(-2)

    def range(self, h: Interval) -> Interval:
        """Return bounds of g, rounded outward: (*lead, n)."""
        return self.planes.range(self._operands(h))

    def steepest(self, h: Interval) -> Tensor:
        return self.planes.steepest(self._operands(h)).flatten(-2)

    def rounding(self, h: Interval, unit: float, times: int = 1) -> Tensor:
        """Return what rounding may cost the coefficient of g: (*lead, n)."""
        return self.planes.rounding(self._operands(h), unit, times)

    def splittable(self, h: Interval) -> Tensor:
        return self.planes.splittable(self._operands(h)).flatten(-2)

    def split_point(self, h: Interval) -> Tensor:
        return self.planes.split_point(self._operands(h)).flatten(-2)

    def sides(self, h: Interval) -> tuple[Tensor, Tensor]:
        left, right = self.planes.sides(self._operands(h))
        return left.flatten(-2), right.flatten(-2)

    def gap(self, h: Interval, lines: Lines) -> Tensor:
        return in_all_slots(self.arity, self.planes.gap(self._operands(h), self._planes(lines)))

    def loss(self, h: Interval) -> Tensor:
        return in_all_slots(self.arity, self.planes.loss(self._operands(h)))

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        own = of_first_slots(self.arity, coef)
        return in_all_slots(self.arity, self.planes.lost(own, self._operands(h), self._planes(lines), free=free))


@dataclass(frozen=True, eq=False)
class SlotFamily(Family):
    """The planes of neurons, by slots."""

    planes: Family
    arity: int

    def at(self, t: Tensor) -> Lines:
        lines = self.planes.at(_apart(self.arity, t))
        below = None if lines.lower_intercept is None else in_first_slots(self.arity, lines.lower_intercept)
        slopes = lines.lower_slope.flatten(-2), lines.upper_slope.flatten(-2)
        return Lines(*slopes, in_first_slots(self.arity, lines.upper_intercept), below)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        t, h, out = (_apart(self.arity, each) for each in (t, h, out))
        self.planes.gradient(t, of_first_slots(self.arity, coef), h, out)

    def select(self, index: Tensor) -> SlotFamily:
        return SlotFamily(self.planes.select(index), self.arity)


def _apart(arity: int, t: Tensor) -> Tensor:
    """Return what slots have by operand: (*lead, arity, n), a view."""
    return t.view(*t.shape[:-1], arity, t.shape[-1] // arity)


def in_all_slots(arity: int, values: Tensor) -> Tensor:
    """Put what neurons have (*lead, n) into all of their slots: (*lead, arity·n)."""
    return values if arity == 1 else values.repeat(*(1,) * (values.dim() - 1), arity)


def in_first_slots(arity: int, values: Tensor) -> Tensor:
    """Put what neurons have (*lead, n) into their first slots, with 0 in the others: (*lead, arity·n)."""
    return values if arity == 1 else F.pad(values, (0, (arity - 1) * values.shape[-1]))


def of_first_slots(arity: int, values: Tensor) -> Tensor:
    """Return what first slots have: (*lead, n) of (*lead, arity·n)."""
    return values[..., : values.shape[-1] // arity]
