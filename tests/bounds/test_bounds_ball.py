"""The first neurons over a ball: bounds that hold in rationals, rounding included."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.forms import LinearForm
from netproof.problem.problem import InputSet
from support.awkward import GraphBuilder
from support.rational import exact

CPU = torch.device("cpu")


def region_of(centre: np.ndarray, radius: float, p: int) -> Region:
    sides = (torch.from_numpy(v[None]) for v in (centre - 2 * radius, centre + 2 * radius, centre))
    return Region.of(InputSet(*sides, radius, p), CPU, torch.float64)


@pytest.mark.parametrize("p", [1, 2])
def test_a_first_neuron_is_bounded_outward(p: int) -> None:
    """w·x + b over a ball: one weight, so that both norms are |w| and the ends are rational."""
    near = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        centre, radius = rng.uniform(-1, 1, 1), float(rng.uniform(0.1, 1))
        weight, bias = rng.uniform(-1, 1, (1, 1)), rng.uniform(-1, 1, 1) * 10.0 ** rng.integers(-3, 4)
        build = GraphBuilder(1, 1)
        build.linear(0, weight, bias)
        found = interval_bounds(build.finish(), region_of(centre, radius, p)).of[1]
        w, b, c = Fraction(weight[0, 0]), Fraction(bias[0]), Fraction(centre[0])
        low, high = w * c + b - abs(w) * Fraction(radius), w * c + b + abs(w) * Fraction(radius)
        assert all(exact(found.lower) <= low)
        assert all(exact(found.upper) >= high)
        near += float(found.upper) - float(high) < 1e-13 * (1 + abs(float(b)))
    assert near > 200


class _Nowhere(Region):
    """A region whose least values are no numbers."""

    def least(self, form: LinearForm) -> torch.Tensor:
        return torch.full_like(form.const, torch.nan)


def test_what_is_not_a_number_bounds_nothing() -> None:
    build = GraphBuilder(1, 2)
    build.relu(build.linear(0, np.eye(2), np.zeros(2)))
    region = region_of(np.zeros(2), 0.5, 2)
    bad = _Nowhere(**{name: getattr(region, name) for name in ("centre", "radius", "lower", "upper", "ball")})
    for interval in interval_bounds(build.finish(), bad).of:
        assert bool(interval.lower.isfinite().all())
        assert bool(interval.upper.isfinite().all())


@pytest.mark.parametrize("p", [1, 2])
def test_past_a_hinge_neurons_are_bounded_by_their_intervals(p: int) -> None:
    """relu(x) + relu(−x) reaches 1 on [−1, 1], which no linear form of x does."""
    build = GraphBuilder(1, 1)
    h = build.relu(build.linear(0, np.array([[1.0], [-1.0]]), np.zeros(2)))
    build.linear(h, np.array([[1.0, 1.0]]), np.zeros(1))
    found = interval_bounds(build.finish(), region_of(np.zeros(1), 1.0, p)).of[-1]
    assert float(found.lower) <= 0
    assert float(found.upper) >= 1
