"""Balls as input sets, and the ranges of outputs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status
from netproof.errors import UsageError
from netproof.model.load import load_network
from netproof.problem.property import Disjunct, Property
from netproof.problem.specs import InputRegion, box, l1_ball, l2_ball, linf_ball
from support.api import ask, below, module

# --- balls ---


def ball_points(region: InputRegion, count: int = 4000) -> torch.Tensor:
    """Points of the ball, many of them on its boundary."""
    rng = np.random.default_rng(0)
    assert region.ball is not None
    n, p, radius = len(region.ball.centre), region.ball.p, float(region.ball.radius)
    if p == 2:
        way = rng.standard_normal((count, n))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
    else:
        way = rng.dirichlet(np.full(n, 0.3), count) * rng.choice([-1.0, 1.0], (count, n))
    way[::3] *= rng.random((len(way[::3]), 1))
    low, high = (np.array([float(v) for v in side]) for side in (region.box.lower, region.box.upper))
    return torch.from_numpy(np.clip(np.array([float(v) for v in region.ball.centre]) + radius * way, low, high))


@pytest.mark.parametrize("make", [l1_ball, l2_ball])
@pytest.mark.parametrize("seed", range(6))
def test_on_balls_the_verdict_agrees_with_sampling(make: Any, seed: int) -> None:
    net = module(3, 6, 6, 2, seed=seed)
    loaded = load_network(net, example_shape=(1, 3))
    region = make(np.array([[0.1, -0.2, 0.3]]), 0.5)
    with torch.no_grad():
        y = net.double()(ball_points(region))[:, 0]
    least, spread = float(y.min()), float(y.max() - y.min())
    for share, expected in ((0.1, Status.SAT), (-0.3, Status.UNSAT)):
        row = below(0, least + share * spread)
        verdict = ask(loaded, Property((Disjunct(region.box, (row,), region.ball),), 3, 2), timeout=30)
        if share > 0:
            assert verdict.status == expected
            assert verdict.witness is not None
            assert region.ball.contains([Fraction(float(v)) for v in verdict.witness.input.flatten()])
        else:
            assert verdict.status != Status.SAT
            assert verdict.lower_bound is None or verdict.lower_bound <= -share * spread + 1e-6
            assert make is l2_ball or verdict.status == expected


@pytest.mark.parametrize("seed", range(4))
def test_l1_balls_are_decided_to_the_last_digits(seed: int) -> None:
    """Leaves of an ℓ1 ball are LPs, so the minimum itself is the border between the verdicts."""
    loaded = load_network(module(2, 5, 2, seed=seed), example_shape=(1, 2))
    region = l1_ball(np.array([[0.1, -0.2]]), 0.75)
    found = netproof.bounds(loaded, region, method="exact", device="cpu", threads=1)
    assert found.exact
    with torch.no_grad():
        seen = float(module(2, 5, 2, seed=seed).double()(ball_points(region, 40_000))[:, 0].min())
    least = float(found.lower.flatten()[0])
    assert least <= seen + 1e-9
    assert least == pytest.approx(seen, abs=5e-3)
    for gap, status in ((1e-4, Status.SAT), (-1e-4, Status.UNSAT)):
        row = below(0, least + gap)
        assert ask(loaded, Property((Disjunct(region.box, (row,), region.ball),), 2, 2)).status == status


@pytest.mark.parametrize("make", [l1_ball, l2_ball])
def test_a_clipped_ball_is_sound(make: Any) -> None:
    net = module(3, 6, 2, seed=1)
    region = make(np.array([[0.1, 0.2, 0.9]]), 0.5, clip=(0, 1))
    with torch.no_grad():
        y = net.double()(ball_points(region))
    label = int(y.mean(0).argmax())
    margin = float((y[:, label] - y[:, 1 - label]).min())
    verdict = ask(load_network(module(3, 6, 2, seed=1), example_shape=(1, 3)), region, label=label, timeout=30)
    assert verdict.status == Status.SAT if margin < 0 else verdict.status != Status.SAT or margin < 1e-3
    assert verdict.lower_bound is None or verdict.lower_bound <= margin + 1e-6


# --- ranges ---


@pytest.mark.parametrize("method", ["ibp", "crown", "alpha", "lp", "exact"])
def test_ranges_hold_every_value_and_get_tighter(method: str) -> None:
    net = module(3, 8, 8, 2)
    loaded = load_network(net, example_shape=(1, 3))
    region = linf_ball(np.zeros((1, 3)), 1)
    found = {m: netproof.bounds(loaded, region, method=m, device="cpu", threads=1) for m in {method, "ibp", "exact"}}
    with torch.no_grad():
        y = net.double()(torch.rand(5000, 3, dtype=torch.float64) * 2 - 1).numpy()
    mine, widest, best = found[method], found["ibp"], found["exact"]
    assert (mine.lower <= y.min(0)).all()
    assert (y.max(0) <= mine.upper).all()
    assert (mine.upper - mine.lower <= widest.upper - widest.lower + 1e-9).all()
    assert (mine.upper - mine.lower >= best.upper - best.lower - 1e-5).all()
    assert mine.exact == (method == "exact")
    assert mine.method == method


def test_exact_ranges_of_a_network_with_one_output() -> None:
    """min and max of |x| − y on [−1, 1]^2."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 2.0]))
        net[2].weight.copy_(torch.tensor([[1.0, 1.0, -1.0]]))
        net[2].bias.fill_(2.0)
    found = netproof.bounds(net, linf_ball(np.zeros((1, 2)), 1), method="exact", device="cpu", threads=1)
    assert found.exact
    assert found.lower.item() == pytest.approx(-1.0, abs=1e-5)
    assert found.upper.item() == pytest.approx(2.0, abs=1e-5)


def test_ranges_of_nothing_and_by_nothing_are_refused() -> None:
    net = module(2, 3, 2)
    with pytest.raises(UsageError, match="input set is empty"):
        netproof.bounds(net, box([[1.0, 1.0]], [[0.0, 0.0]]), device="cpu", threads=1)
    with pytest.raises(UsageError, match="no bounding method 'guess'"):
        netproof.bounds(net, linf_ball(np.zeros((1, 2)), 1), method="guess", device="cpu", threads=1)


def test_ranges_cut_short_say_so() -> None:
    net = module(2, 6, 6, 2)
    for method in ("alpha", "exact"):
        found = netproof.bounds(
            net, linf_ball(np.zeros((1, 2)), 1), method=method, device="cpu", threads=1, deadline=Deadline(0.0)
        )
        assert not found.exact
        assert found.reason
        assert (found.lower == -np.inf).all()
