"""Every relaxation that netproof has passes the suite; ones that are wrong do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
import torch

from netproof.core.forms import Interval
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.relax import Fan, Line, Lines, Mix, Relaxation, relaxation_of
from netproof.relax.hinge import HingeRelaxation
from netproof.relax.parallel import parallel_planes
from support.conformance import Conformance, usual_bounds
from support.rational import exact


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


class Given(Relaxation):
    """Any two lines at all, as if a function touched both at the ends of its bounds."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def family(self, h: Interval, *, proof: bool) -> Mix:
        lower, upper, above, below = self._lines
        assert below is not None
        return Mix((Line(lower, below),) * 2, (Line(upper, above),) * 2, None)

    def initial(self, h: Interval) -> torch.Tensor:
        return torch.zeros_like(h.lower)

    linear_on = range = steepest = Relaxation.loss


def test_parallel_planes_are_rounded_outward() -> None:
    """Exactly: what a line may be at the ends of the bounds, the planes allow."""
    rng = torch.Generator().manual_seed(0)
    scale = 10.0 ** torch.randint(-6, 6, (6, 400), generator=rng)
    ends, others = (torch.randn(6, 400, generator=rng, dtype=torch.float64) * scale).split([2, 4])
    h, lines = Interval(ends.amin(0), ends.amax(0)), Lines(*others)
    falls = torch.arange(400) % 2 == 0
    slope, low, high = (exact(t) for t in parallel_planes(Given(lines), h, torch.zeros_like(h.lower), falls))
    lower, upper, above, below = (exact(t) for t in others)
    for end in (exact(h.lower), exact(h.upper)):
        for i in range(400):
            assert slope[i] * end[i] + low[i] <= lower[i] * end[i] + below[i]
            assert upper[i] * end[i] + above[i] <= slope[i] * end[i] + high[i]
