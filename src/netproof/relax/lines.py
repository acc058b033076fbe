"""The lines between which a nonlinearity lies on [lower, upper], and what a relaxation must provide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor


class Lines(NamedTuple):
    """lower_slope·h <= g(h) <= upper_slope·h + upper_intercept; all broadcast to (*lead, *node).

    The lower line passes through the origin: every relaxation here has one that does.
    """

    lower_slope: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


class Relaxation(ABC):
    """A nonlinearity g that is linear on either side of 0, where it is split."""

    @property
    @abstractmethod
    def steepest(self) -> float:
        """The largest |slope| that g or its lines can have."""

    @abstractmethod
    def upper_line(self, lower: Tensor, upper: Tensor, *, proof: bool) -> tuple[Tensor, Tensor]:
        """(slope, intercept) of a line above g on [lower, upper]; with `proof` rounded so that it is."""

    @abstractmethod
    def stable_slope(self, lower: Tensor, upper: Tensor) -> Tensor:
        """g's slope where the sign of h is known; anything where it is not."""

    @abstractmethod
    def initial(self, lower: Tensor, upper: Tensor) -> Tensor:
        """The lower slopes to start from."""

    @abstractmethod
    def project(self, slopes: Tensor) -> Tensor:
        """The nearest slopes that are sound."""

    def unstable(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Where g is not linear on [lower, upper]. An empty interval (lower > upper) counts as stable."""
        return (lower < 0) & (upper > 0)
