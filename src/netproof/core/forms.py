"""Intervals and linear forms, the two shapes a bound takes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Interval(NamedTuple):
    """lower <= value <= upper, elementwise."""

    lower: Tensor
    upper: Tensor

    @property
    def flat(self) -> Interval:
        """Return both sides flattened."""
        return Interval(self.lower.flatten(), self.upper.flatten())

    @property
    def magnitude(self) -> Tensor:
        """Return the largest |value|."""
        return self.lower.abs().maximum(self.upper.abs())


class LinearForm(NamedTuple):
    """coef·x + const with coef (*lead, *input), const (*lead): a lower bound of something over the input set."""

    coef: Tensor
    const: Tensor
