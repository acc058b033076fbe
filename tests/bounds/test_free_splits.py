"""Neurons that a split holds on one side, with a lower line of any slope: a multiplier of the split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.domains import Domains, split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.core.forms import Interval
from netproof.relax.hinge import HingeRelaxation
from support.asking import bound_of, gaussian, problem_of, root_of
from support.joint import assert_holds
from support.problems import random_points
from support.random_graphs import rows_tensor

FREE = Lirpa(root_steps=10, steps=8, free_splits=True, gain=None)
RELEASED = replace(FREE, layer_slopes=True, joint=False, rate=0.5)
ENDS = [0.0, -3.0, 0.0, 0.5, -1.0], [2.0, 0.0, 0.0, 2.0, 1.0]
HELD = Interval(*(torch.tensor(side, dtype=torch.float64) for side in ENDS))


@pytest.mark.parametrize("leak", [0.0, 0.1, -0.25])
@pytest.mark.parametrize("slope", [0.0, 0.37, 1.0])
def test_both_lines_hold_on_the_half(leak: float, slope: float) -> None:
    relaxation = HingeRelaxation(leak).with_free_splits()
    lines = relaxation.family(HELD, proof=True).at(torch.full((5,), slope, dtype=torch.float64))
    for share in torch.linspace(0, 1, 33, dtype=torch.float64):
        h = HELD.lower + share * (HELD.upper - HELD.lower)
        g = relaxation.value(h)
        assert bool((lines.lower_slope * h <= g + 1e-15).all())
        assert bool((g <= lines.upper_slope * h + lines.upper_intercept + 1e-15).all())


def test_only_a_half_has_a_free_slope_and_its_upper_line_is_exact() -> None:
    family = HingeRelaxation(0.0).with_free_splits().family(HELD, proof=False)
    low, high = (family.at(torch.full((5,), t, dtype=torch.float64)).lower_slope for t in (0.0, 1.0))
    assert (low != high).tolist() == [True, True, False, False, True]
    lines = family.at(torch.full((5,), 0.5, dtype=torch.float64))
    assert lines.upper_slope[:2].tolist() == [1.0, 0.0]
    assert lines.upper_intercept[:2].tolist() == [0.0, 0.0]
    forced = HingeRelaxation(0.0).family(HELD, proof=False).at(torch.full((5,), 0.5, dtype=torch.float64))
    assert forced.lower_slope[:2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("leak", [0.0, 0.1, 0.9, -0.25, -1.0, -3.0])
def test_rounding_is_charged_for_chords_on_wider_bounds(leak: float) -> None:
    """Up to `stretch` times the largest |h|, as bounds of neurons may be that rest on fresh ones alone."""
    relaxation = HingeRelaxation(leak)
    ends = torch.linspace(0.01, relaxation.stretch, 200, dtype=torch.float64)
    wide = Interval(-ends.repeat(200), ends.repeat_interleave(200))
    intercept = relaxation.family(wide, proof=False).at(torch.zeros(40_000, dtype=torch.float64)).upper_intercept
    known = Interval(torch.tensor(-1.0, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64))
    slopes = max(1.0, abs(leak))  # of the three that are charged, one is that of slope·h
    assert float(intercept.max()) <= (float(relaxation.rounding(known, 1.0)) - slopes) * (1 + 1e-12)


def test_a_slope_never_leaves_its_range_in_a_proof() -> None:
    """0.1 + t·0.9 rounds past 1 for some t; beyond 1 the line would lie above h."""
    t = torch.linspace(0.9, 1.0, 10001, dtype=torch.float64)
    h = Interval(torch.zeros_like(t), torch.ones_like(t))
    for leak in (0.1, 0.3, 0.7):
        slope = HingeRelaxation(leak).with_free_splits().family(h, proof=True).at(t).lower_slope
        assert bool((slope <= 1.0).all())


def rooted(bounder: Lirpa, seed: int = 3) -> tuple[Root, Domains]:
    graph = gaussian(seed, (4, 10, 10, 1)).graph
    box = np.full(4, -1.0), np.full(4, 1.0)
    root, bounds = root_of(bounder, problem_of(graph, box, rows_tensor(np.ones((1, 1)), np.zeros(1))))
    return root, bounds.domains


@pytest.mark.parametrize("seed", range(4))
def test_no_split_is_a_loss_where_the_coefficient_is_positive(seed: int) -> None:
    """At the parent's slopes a child has the parent's bound at least; with forced slopes it may lie far below."""
    for bounder, may_lose in ((FREE, False), (replace(FREE, free_splits=False), True)):
        root, domains = rooted(bounder, seed)
        whole = bound_of(replace(bounder, steps=1), root, domains)  # the same slopes once more
        positive = (whole.coef[0] > 1e-6).nonzero()[:, 0]
        unsplit = replace(whole.domains, bound=torch.full_like(whole.domains.bound, -torch.inf))
        children = split(unsplit.select(torch.zeros(len(positive), dtype=torch.int64)), positive[:, None])
        again = bound_of(replace(bounder, steps=1, rebound=0), root, children).domains.bound
        lost = bool((again < whole.domains.bound - 1e-4).any())
        assert not lost or may_lose


@pytest.mark.parametrize("bounder", [FREE, RELEASED], ids=["free", "released"])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_on_their_sub_domains(bounder: Lirpa, seed: int) -> None:
    root, domains = rooted(bounder, seed)
    points = random_points(root.problem, 400, seed)
    for depth in range(4):
        bounds = bound_of(bounder, root, domains)
        assert_holds(root, bounds, points)
        ranked = (Babsr() if depth % 2 else BabsrOriginal()).choose(root, bounds, 1)
        domains = split(bounds.domains, ranked)


def test_free_slopes_are_worth_something() -> None:
    """Bounds of all parts are better on average than with forced slopes."""
    least = []
    for bounder in (FREE, replace(FREE, free_splits=False)):
        root, domains = rooted(bounder)
        for _ in range(6):
            bounds = bound_of(replace(bounder, steps=20), root, domains)
            domains = split(bounds.domains, BabsrOriginal().choose(root, bounds, 1))
        least.append(float(bounds.domains.bound.clamp(max=1.0).mean()))
    assert least[0] > least[1]


# --- slopes of layers, and one pass below the root ---


def test_each_layers_bounds_have_slopes_that_the_root_keeps() -> None:
    root, _ = rooted(RELEASED)
    shared, _ = rooted(FREE)
    for layer, slopes in zip(root.layers[1:], root.slopes[1:], strict=True):
        assert slopes.shape == (2, 1, layer.start)
        assert slopes.dtype == torch.float32
    assert all(slopes.dtype == torch.float16 for slopes in shared.slopes)
    assert float(root.packed_bounds.lower.sum()) != float(shared.packed_bounds.lower.sum())


def test_below_the_root_neurons_are_bounded_once_before_the_output() -> None:
    """By the root's slopes, so with one step as with many."""
    root, domains = rooted(RELEASED)
    first = torch.tensor([[0]])
    children = split(domains, first)
    few, many = (bound_of(replace(RELEASED, steps=steps), root, children).domains for steps in (1, 12))
    assert torch.equal(few.lower, many.lower)
    assert torch.equal(few.upper, many.upper)
    assert bool((few.lower >= children.lower).all())
    assert bool((few.lower > children.lower).any())
    assert bool((many.bound >= few.bound).all())


# --- scores at parallel lines ---


def test_the_original_score_does_not_depend_on_the_bounds_slopes() -> None:
    root, domains = rooted(FREE)
    scores = []
    for steps in (1, 12):
        bounds = bound_of(replace(FREE, steps=steps, rebound=0), root, domains)
        scores.append(BabsrOriginal().scores(root, bounds))
        taken = BabsrOriginal(parallel=True).scores(root, bounds)
        assert not torch.allclose(scores[-1], taken, atol=1e-4)
    assert torch.equal(*scores)
    still = replace(FREE, root_steps=0, steps=0, free_splits=False)  # whose own slopes are parallel
    root, domains = rooted(still)
    bounds = bound_of(still, root, domains)
    own, passed = (BabsrOriginal(parallel=parallel).scores(root, bounds) for parallel in (True, False))
    assert torch.allclose(own, passed, atol=1e-5)
