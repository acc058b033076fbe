"""Intervals hold every value of every node, in exact arithmetic, and are as tight as intervals can be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.linear.interval import Intervals, interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval
from netproof.errors import ModelError
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet
from support.awkward import GraphBuilder, awkward_graph
from support.random_graphs import random_network, seeded
from support.rational import affine_map, exact, exact_values

CPU = torch.device("cpu")


def random_region(graph: Graph, seed: int, width: float = 1.0) -> Region:
    rng = np.random.default_rng(seed)
    middle, half = rng.uniform(-1, 1, graph.input.shape), rng.uniform(0, width, graph.input.shape)
    return Region.of(InputSet(torch.from_numpy(middle - half), torch.from_numpy(middle + half)), CPU, torch.float64)


def region_points(region: Region, count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    low, high = exact(region.lower), exact(region.upper)
    shares = [rng.integers(0, 2, len(low)) if i % 2 else rng.random(len(low)) for i in range(count)]
    return [low + exact(share) * (high - low) for share in shares]


def assert_contains(intervals: list[Interval], values: list[np.ndarray]) -> None:
    for interval, value in zip(intervals, values, strict=True):
        assert all(exact(interval.lower) <= value)
        assert all(value <= exact(interval.upper))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("width", [0.0, 1e-14, 1.0])
def test_intervals_hold_rational_values(seed: int, width: float) -> None:
    """With a box of no width, rounding is all that there is to cover."""
    graph = awkward_graph(seed)
    region = random_region(graph, seed, width)
    intervals = interval_bounds(graph, region)
    for x in region_points(region, 4, seed):
        assert_contains(intervals.of, exact_values(graph, x))


@pytest.mark.parametrize("seed", range(30))
def test_intervals_hold_values_of_every_kind_of_op(seed: int) -> None:
    graph = random_network(seeded(seed)).graph
    region = random_region(graph, seed)
    intervals = interval_bounds(graph, region)
    for x in region_points(region, 6, seed):
        assert_contains(intervals.of, exact_values(graph, x))


@pytest.mark.parametrize("leak", [0.1, 0.01, 1 / 3])
def test_the_rounding_of_a_leaky_slope_is_covered(leak: float) -> None:
    """At single points there is no width to hide behind; the product leak·h is rounded up half the time."""
    build = GraphBuilder(1, 40)
    build.relu(0, leak)
    graph = build.finish()
    region = random_region(graph, 0, 0.0)
    intervals = interval_bounds(graph, region)
    assert_contains(intervals.of, exact_values(graph, exact(region.lower)))


def test_one_layer_from_the_input_intervals_are_attained() -> None:
    graph = awkward_graph(0)
    region = random_region(graph, 0)
    interval = interval_bounds(graph, region).of[1]
    (weight,), bias = affine_map(graph, graph.nodes[1])
    low, high = exact(region.lower), exact(region.upper)
    least = np.where(weight > 0, weight * low, weight * high).sum(1) + bias
    most = np.where(weight > 0, weight * high, weight * low).sum(1) + bias
    size = (abs(weight) @ np.maximum(abs(low), abs(high)) + abs(bias)) * Fraction(1e-12)
    slack = (most - least) * Fraction(1e-5) + size
    assert all(least - slack <= exact(interval.lower))
    assert all(exact(interval.upper) <= most + slack)


def test_magnitudes_and_weights_follow_the_bounds() -> None:
    graph = awkward_graph(1)
    intervals = interval_bounds(graph, random_region(graph, 1))
    for interval, magnitude, weight in zip(
        intervals.of, intervals.charge.magnitude, intervals.charge.weight, strict=True
    ):
        assert torch.equal(magnitude, torch.maximum(interval.lower.abs(), interval.upper.abs()))
        assert weight.shape == interval.lower.shape
        assert bool((weight >= 0).all())


def test_a_tightened_node_tightens_what_follows() -> None:
    build = GraphBuilder(1, 1)
    a = build.linear(0, np.array([[2.0]]), np.array([0.0]))
    build.linear(build.relu(a), np.array([[1.0]]), np.array([0.0]))
    graph = build.finish()
    box = InputSet(torch.tensor([[-1.0]], dtype=torch.float64), torch.tensor([[1.0]], dtype=torch.float64))
    intervals = Intervals(graph, Region.of(box, CPU, torch.float64))
    for _ in range(2):
        intervals.extend()
    half = torch.full((1, 1), 0.5, dtype=torch.float64)
    intervals.tighten(a, Interval(-half, half))
    assert float(intervals.charge.magnitude[a]) == 0.5
    for _ in range(2):
        intervals.extend()
    assert float(intervals.of[-1].upper) == pytest.approx(0.5)
    assert float(intervals.of[-1].upper) >= 0.5


def test_values_beyond_float64_are_refused() -> None:
    build = GraphBuilder(1, 1)
    node = 0
    for _ in range(9):
        node = build.linear(node, np.array([[1e38]]), np.array([0.0]))
    graph = build.finish()
    with pytest.raises(ModelError, match="overflow float64"):
        interval_bounds(graph, random_region(graph, 0))
