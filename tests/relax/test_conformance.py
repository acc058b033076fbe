"""Every relaxation that netproof has passes the suite; ones that are wrong do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
import torch

from netproof.core.forms import Interval
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.relax import Fan, relaxation_of
from netproof.relax.hinge import HingeRelaxation
from support.conformance import Conformance, usual_bounds


@pytest.mark.parametrize("leak", [0.0, 0.01, 0.25, 1 / 3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_hinges_conform(leak: float, seed: int) -> None:
    relaxation = relaxation_of(LeakyRelu(leak) if leak else Relu())
    Conformance(relaxation, lambda x: max(x, Fraction(leak) * x), usual_bounds(seed)).check()


@dataclass(frozen=True)
class TooLow(HingeRelaxation):
    """Its upper line is a hair too low, so that it cuts the function at both ends."""

    def family(self, h: Interval, *, proof: bool) -> Fan:
        found = super().family(h, proof=proof)
        return replace(found, upper_intercept=found.upper_intercept * (1 - 1e-15))


@dataclass(frozen=True)
class TooNarrow(HingeRelaxation):
    def range(self, h: Interval) -> Interval:
        return Interval(h.lower.clamp(min=0), h.upper)


@dataclass(frozen=True)
class NotLinear(HingeRelaxation):
    def linear_on(self, h: Interval) -> torch.Tensor:
        return h.upper - h.lower < 1.0


@pytest.mark.parametrize("kind", [TooLow, TooNarrow, NotLinear])
def test_what_is_wrong_fails(kind: type[HingeRelaxation]) -> None:
    with pytest.raises(AssertionError):
        Conformance(kind(0.0), lambda x: max(x, Fraction(0)), usual_bounds()).check()
