"""A function of several operands as the rest of netproof sees it: one slot for each operand of each neuron.

An op of arity k reads one node that holds its operands one after the other, (k, *node). So its neurons have k slots
each, k·n in all, all first operands first; bounds, splits, multipliers and slopes are those of slots, as they are those
of neurons everywhere else, and nothing but `relax` and what carries coefficients has to know of operands. A neuron's
intercept and what is said of it alone stand in its first slot, or in all of its slots.
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

    of: Relaxation

    @property
    def arity(self) -> int:  # type: ignore[override]
        return self.of.arity

    def _operands(self, h: Interval) -> Interval:
        return Interval(_apart(self.arity, h.lower), _apart(self.arity, h.upper))

    def _planes(self, lines: Lines) -> Lines:
        """Return lines by slots as planes."""
        count = lines.lower_slope.shape[-1] // self.arity
        below = None if lines.lower_intercept is None else lines.lower_intercept[..., :count]
        slopes = _apart(self.arity, lines.lower_slope), _apart(self.arity, lines.upper_slope)
        return Lines(*slopes, lines.upper_intercept[..., :count], below)

    def _repeated(self, each: Tensor) -> Tensor:
        """Return what neurons have (*lead, n) for all of their slots."""
        return each.repeat(*(1,) * (each.dim() - 1), self.arity)

    def linear_on(self, h: Interval) -> Tensor:
        return self._repeated(self.of.linear_on(self._operands(h)))

    def family(self, h: Interval, *, proof: bool) -> SlotFamily:
        return SlotFamily(self.of.family(self._operands(h), proof=proof), self.arity)

    def initial(self, h: Interval) -> Tensor:
        return self.of.initial(self._operands(h)).flatten(-2)

    def range(self, h: Interval) -> Interval:
        """Return bounds of g, rounded outward: (*lead, n)."""
        return self.of.range(self._operands(h))

    def steepest(self, h: Interval) -> Tensor:
        return self.of.steepest(self._operands(h)).flatten(-2)

    def rounding(self, h: Interval, unit: float, times: int = 1) -> Tensor:
        """Return what rounding may cost the coefficient of g: (*lead, n)."""
        return self.of.rounding(self._operands(h), unit, times)

    def splittable(self, h: Interval) -> Tensor:
        return self.of.splittable(self._operands(h)).flatten(-2)

    def split_point(self, h: Interval) -> Tensor:
        return self.of.split_point(self._operands(h)).flatten(-2)

    def sides(self, h: Interval) -> tuple[Tensor, Tensor]:
        left, right = self.of.sides(self._operands(h))
        return left.flatten(-2), right.flatten(-2)

    def gap(self, h: Interval, lines: Lines) -> Tensor:
        return self._repeated(self.of.gap(self._operands(h), self._planes(lines)))

    def lost(self, coef: Tensor, h: Interval, lines: Lines, *, free: bool) -> Tensor:
        own = coef[..., : coef.shape[-1] // self.arity]
        return self._repeated(self.of.lost(own, self._operands(h), self._planes(lines), free=free))


@dataclass(frozen=True, eq=False)
class SlotFamily(Family):
    """The planes of neurons, by slots."""

    of: Family
    arity: int

    def at(self, t: Tensor) -> Lines:
        lines = self.of.at(_apart(self.arity, t))
        rest = (0, (self.arity - 1) * lines.lower_slope.shape[-1])
        below = None if lines.lower_intercept is None else F.pad(lines.lower_intercept, rest)
        slopes = lines.lower_slope.flatten(-2), lines.upper_slope.flatten(-2)
        return Lines(*slopes, F.pad(lines.upper_intercept, rest), below)

    def gradient(self, t: Tensor, coef: Tensor, h: Tensor, out: Tensor) -> None:
        t, h, out = (_apart(self.arity, each) for each in (t, h, out))
        self.of.gradient(t, coef[..., : h.shape[-1]], h, out)

    def select(self, index: Tensor) -> SlotFamily:
        return SlotFamily(self.of.select(index), self.arity)


def _apart(arity: int, t: Tensor) -> Tensor:
    """Return what slots have by operand: (*lead, arity, n), a view."""
    return t.view(*t.shape[:-1], arity, t.shape[-1] // arity)
