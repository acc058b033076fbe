"""The lemma, and the pass back on random networks, against fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npcheck.bound import Form, Ranges, lower_bound
from npcheck.exact import Exact, Pass
from npcheck.network import Affine, Convolution, Input, Linear, Network, Node, Op, Relu, Scale, Sum, Take, Windows
from npcheck.ranges import Lines, interval, start
from rational import exact_values

GRID = [-2.0, -0.75, -0.1, -0.0, 0.0, 0.3, 1.0, 2.5]
numbers = st.floats(-(2.0**40), 2.0**40)


def lemma(a: Fraction, p: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """Return k as the text of `bound` has it."""
    ends = [a * max(end, Fraction(0)) - p * end for end in (low, high)]
    return min([*ends, Fraction(0)] if low < 0 < high else ends)


class Given:
    """p as it is given."""

    def __init__(self, p: dict[int, np.ndarray]) -> None:
        self._p = p

    def shares(self, node: int) -> None:
        pass

    def columns(self, node: int) -> np.ndarray:
        return np.arange(len(self._p[node]))

    def choose(self, node: int, p: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self._p[node][columns], p.shape)


def one_relu(a: float, p: float, low: float, high: float) -> float:
    """Return the bound of a·relu(x) on a box, with p."""
    network = Network((Node(Input(), (), 1, "x"), Node(Relu(), (0,), 1, "z")))
    ranges = start(network, np.array([[low]]), np.array([[high]]))
    ranges.lower[1], ranges.upper[1] = interval(network, 1, ranges)
    form = Form(np.zeros(1), np.zeros(1), {1: np.array([[a]])})
    return float(lower_bound(network, form, ranges, Given({0: np.array([p])}))[0])


def check_lemma(a: float, p: float, low: float, high: float, points: list[float]) -> None:
    """Demand that the lemma holds at points, that the bound is by the lemma, and is not above any value."""
    exact_a, exact_p, *ends = (Fraction(number) for number in (a, p, low, high))
    k = lemma(exact_a, exact_p, *ends)
    for h in (low, high, *points):
        if low <= h <= high:
            assert exact_a * max(Fraction(h), Fraction(0)) >= exact_p * Fraction(h) + k
    by_hand = k + min(exact_p * end for end in ends)
    bound = one_relu(a, p, low, high)
    assert bound <= by_hand
    largest = (abs(a) + abs(p)) * max(abs(low), abs(high))
    assert float(by_hand) - bound <= 1e-11 * largest + 1e-200


def test_the_lemma_on_a_grid() -> None:
    for a, p, low, high in itertools.product(GRID, repeat=4):
        if low <= high:
            check_lemma(a, p, low, high, GRID)


@given(numbers, numbers, numbers, numbers, st.lists(numbers, max_size=5))
@settings(max_examples=300, deadline=None)
def test_the_lemma(a: float, p: float, low: float, high: float, points: list[float]) -> None:
    check_lemma(a, p, min(low, high), max(low, high), points)


def test_nothing_is_known_beyond_the_lemma() -> None:
    """The bound is the largest that p allows: with the best p it is the least value."""
    assert one_relu(-1.0, -2.0 / 3.0, -1.0, 2.0) == pytest.approx(-2.0, abs=1e-9)
    assert one_relu(1.0, 0.0, -1.0, 2.0) == pytest.approx(0.0, abs=1e-9)


def test_an_empty_part_has_any_bound() -> None:
    """It is where a node that the form meets has l > u; NaN is no such thing."""
    network = Network((Node(Input(), (), 1, "x"), Node(Relu(), (0,), 1, "z")))
    one = np.ones((2, 1))
    ranges = Ranges([-one, 0 * one], [np.array([[1.0], [-2.0]]), one])
    form = Form(np.zeros(2), np.zeros(2), {1: one})
    assert (lower_bound(network, form, ranges, Lines({})) == np.inf).tolist() == [False, True]
    for wild in (np.nan, np.inf, -np.inf):
        with np.errstate(all="ignore"):
            form = Form(np.zeros(1), np.zeros(1), {1: np.array([[wild]])})
            assert lower_bound(network, form, ranges.part(0), Lines({})) == -np.inf


# --- random networks ---


def random_op(rng: np.random.Generator, sizes: list[int]) -> Op:
    """Return an operator of nodes with these sizes: more than one where they are equal, or are joined."""

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) * 2.0 ** rng.integers(-25, 25, shape)

    size = sizes[0]
    kind = rng.integers(6) if len(sizes) == 1 else 6 + (len(set(sizes)) > 1 or rng.integers(2))
    if kind == 6:
        return Sum(tuple(rng.choice([-1, 1], len(sizes)).tolist()), size)
    if kind in (5, 7):
        picked = rng.integers(-1, sum(sizes), 5)
        return Take(picked, tuple(sizes), bias=normal(5) if rng.integers(2) else None)
    if kind == 0 and size == 4:
        windows = Windows((2, 2), (2, 2), pads=(1, 0, 0, 1))
        return Convolution(normal(2, 1, 2, 2), windows, bias=normal(2))
    if kind == 1:
        return Scale(normal(size), bias=normal(size) if rng.integers(2) else None)
    if kind == 2:
        return Relu()
    if kind == 3 and size % 2 == 0:
        return Linear(normal(2, size // 2), copies=2)
    rows = int(rng.integers(1, 5))
    return Linear(normal(rows, size), bias=normal(rows) if rng.integers(2) else None)


def random_network(rng: np.random.Generator) -> Network:
    """Return a network whose nodes read any earlier ones, some of them twice."""
    nodes = [Node(Input(), (), int(rng.integers(1, 5)), "x")]
    for place in range(int(rng.integers(2, 9))):
        count = int(rng.choice([1, 1, 1, 2, 3]))
        inputs = [int(i) for i in rng.integers(max(0, len(nodes) - 3), len(nodes), count)]
        op = random_op(rng, [nodes[i].size for i in inputs])
        size = op.size if isinstance(op, Affine) else nodes[inputs[0]].size
        nodes.append(Node(op, tuple(inputs), size, f"node {place}"))
    return Network(tuple(nodes))


class Kept:
    """A trace of the only form of a batch."""

    def __init__(self, kept: Pass) -> None:
        self.kept = kept

    def begin(self, form: Form, ranges: Ranges) -> Kept:
        return self

    def disjunct(self, target: int) -> None:
        raise AssertionError

    def replaced(self, node: int, coefficients: np.ndarray, p: np.ndarray | None) -> None:
        self.kept.coefficients[node] = coefficients[0].copy()
        if p is not None:
            self.kept.p[node] = p[0].copy()

    def found(self, bounds: np.ndarray) -> None:
        self.kept.bound = float(bounds[0])


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=400, deadline=None)
def test_no_bound_is_above_the_value_at_any_point(seed: int, by_lines: bool) -> None:
    """Also at the corner where the form of the inputs that is left in the end is least; and the ranges hold, too."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    n = network.nodes[0].size
    middle = rng.standard_normal(n) * 2.0 ** rng.integers(-25, 25, n)
    wide = np.abs(rng.standard_normal(n)) * 2.0 ** rng.integers(-25, 25, n) * rng.integers(0, 2, n)
    low, high = middle - wide, middle + wide
    ranges = start(network, low[None], high[None])
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
    output = len(network.nodes) - 1
    seeds = {
        node: rng.standard_normal((1, network.nodes[node].size)) for node in {output, int(rng.integers(1, output + 1))}
    }
    slopes = Lines({}) if by_lines else Given({i: rng.standard_normal(x.size) for i, x in enumerate(network.nodes)})
    exact_seeds = {node: {i: Fraction(c) for i, c in enumerate(part[0].tolist())} for node, part in seeds.items()}
    kept = Pass("", Fraction(0), exact_seeds, [part[0] for part in ranges.lower], [part[0] for part in ranges.upper])
    ranges.watch = Kept(kept)
    form = Form(np.zeros(1), np.zeros(1), dict(seeds))
    bound = float(lower_bound(network, form, ranges, slopes)[0])
    assume(np.isfinite(bound))
    assert Exact(network).bound(kept) >= bound
    last = form.coefficients.get(0, np.zeros((1, n)))[0]
    for point in (np.where(last > 0, low, high), low, high, np.clip(low + rng.random(n) * (high - low), low, high)):
        values = exact_values(network, [Fraction(x) for x in point.tolist()])
        total = sum(c * values[node][i] for node, part in exact_seeds.items() for i, c in part.items())
        assert total >= bound
        for value, least, most in zip(values, ranges.lower, ranges.upper, strict=True):
            assert all(a <= v <= b for a, v, b in zip(least[0].tolist(), value, most[0].tolist(), strict=True))
