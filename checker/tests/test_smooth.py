"""Smooth operators and products: their bounds and planes against fractions, each charge, and passes back over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npcheck.bound
import npcheck.exponential
import npcheck.product
import npcheck.smooth
from npcheck.bound import UNIT, Form, Ranges, lower_bound
from npcheck.exact import Exact, Pass
from npcheck.exponential import Exp, Log, Sigmoid, Softplus, exponential, logarithm
from npcheck.network import Input, Linear, Network, Node, Nonlinear, Op, Plane, Planes, Relu, Sum
from npcheck.product import Product, Reciprocal, Root, Square
from npcheck.ranges import Lines, by_default, interval, start
from npcheck.smooth import Curve, Enclosure
from rational import SLOPES, VALUES, Ends, exact_values, exp, log
from test_bound import Given, Kept
from test_charges import without

CURVES = [Exp, Log, Reciprocal, Root, Sigmoid, Softplus, Square]
POSITIVE = (Log, Root)
Changes = Sequence[tuple[str, str]]


def floats(rng: np.random.Generator, count: int, largest: int = 9) -> np.ndarray:
    return np.asarray(rng.standard_normal(count) * 2.0 ** rng.integers(-30, largest, count))


def outside(pair: tuple[np.ndarray, np.ndarray], exact: Sequence[Ends]) -> int:
    """Say how often bounds do not hold a number, which is known to lie between two fractions."""
    low, high = (side.tolist() for side in pair)
    return sum(
        (np.isfinite(a) and Fraction(a) > least) or (np.isfinite(b) and Fraction(b) < most)
        for a, b, (least, most) in zip(low, high, exact, strict=True)
    )


# --- e^x and log ---


def test_the_logarithm_of_2_is_in_two_parts() -> None:
    high, low = npcheck.exponential.LN2_HIGH, npcheck.exponential.LN2_LOW
    for end in log(Fraction(2)):
        assert abs(end - Fraction(high) - Fraction(low)) < Fraction(1, 2**85)
    assert all(Fraction(n * high) == n * Fraction(high) for n in range(-1011, 1012))


def test_the_exponential_lies_between_its_bounds() -> None:
    """Also where n changes, at the ends of the series' range, and beyond; with room, since the charge is generous."""
    rng = np.random.default_rng(1)
    halves = (np.arange(-1009, 1009, 37) + 0.5) * np.log(2.0)
    near = np.concatenate([floats(rng, 300, 10), halves, np.nextafter(halves, 0.0), [0.0, 1.0, 700.0, -700.0]])
    near = near[np.abs(near) <= 700.0]
    exact = [exp(Fraction(x)) for x in near.tolist()]
    low, high = exponential(near)
    assert outside((low, high), exact) == 0
    assert (high - low <= 2.0**-44 * high).all()
    middle = 0.5 * (low + high)
    off = [abs(Fraction(m) / least - 1) for m, (least, _) in zip(middle.tolist(), exact, strict=True)]
    assert max(off) < 64 * Fraction(UNIT)
    with np.errstate(all="ignore"):
        low, high = exponential(np.array([-np.inf, -701.0, 701.0, np.inf, np.nan]))
    assert low[:2].tolist() == [0.0, 0.0]
    assert high[2:4].tolist() == [np.inf, np.inf]
    assert 0.0 < high[1] < 2.0**-1000
    assert low[2] > 2.0**1000
    assert np.isnan(low[4])


def test_the_exponential_is_charged() -> None:
    points = floats(np.random.default_rng(2), 200)
    bare = without(npcheck.exponential, ("value * (1.0 - CHARGE), value * (1.0 + CHARGE)", "value, value"))
    assert outside(bare.exponential(points), [exp(Fraction(x)) for x in points.tolist()]) > 50


def test_a_logarithm_is_tried() -> None:
    """A guess that is off is no bound, and the space around a good one is needed for it to be one."""
    points = np.abs(floats(np.random.default_rng(3), 50)) + 1e-300
    exact = [log(Fraction(x)) for x in points.tolist()]
    space = "near - away, near + away"
    trusted = ("np.where(exponential(low)[1] <= y, low, -np.inf), np.where(exponential(high)[0] >= y, high, np.inf)",)
    assert outside(logarithm(points), exact) == 0
    assert np.isfinite(logarithm(points)).all()
    for shift in ("1e-6", "-1e-6"):
        off = without(npcheck.exponential, ("near = np.log(y)", f"near = np.log(y) + {shift}"))
        assert outside(off.logarithm(points), exact) == 0
        believed = without(
            npcheck.exponential, ("near = np.log(y)", f"near = np.log(y) + {shift}"), (*trusted, "low, high")
        )
        assert outside(believed.logarithm(points), exact) == 50
    with np.errstate(all="ignore"):
        narrow = without(npcheck.exponential, (space, "near, near")).logarithm(points)
        assert not np.isfinite(narrow).any()
        assert logarithm(np.array([-1.0])) == (-np.inf, np.inf)


# --- curves ---


def some_points(rng: np.random.Generator, op: type[Curve], count: int) -> np.ndarray:
    points = floats(rng, count)
    return np.abs(points) + 2.0**-40 if op in POSITIVE else points


@pytest.mark.parametrize("op", CURVES)
def test_a_curve_and_its_slope_lie_between_bounds(op: type[Curve]) -> None:
    points = some_points(np.random.default_rng(4), op, 50)
    known = op().at(points)
    assert outside(known.value, [VALUES[op](Fraction(x)) for x in points.tolist()]) == 0
    assert outside(known.slope, [SLOPES[op](Fraction(x)) for x in points.tolist()]) == 0


def ranges_of(rng: np.random.Generator, op: type[Curve], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges on which a curve is defined, and is not beyond all measure."""
    low = some_points(rng, op, count)
    high = low + np.abs(floats(rng, count, 5)) * rng.integers(0, 2, count)
    if op is Reciprocal:
        low, high = np.abs(low) + 2.0**-20, np.abs(low) + 2.0**-20 + (high - low)
        left = rng.random(count) < 0.5
        low, high = np.where(left, -high, low), np.where(left, -low, high)
    return low, high


def planes_of(op: Nonlinear, low: np.ndarray, high: np.ndarray) -> Planes:
    """Return the planes of one operand on one sub-domain, by entry."""
    planes = op.planes([low[None]], [high[None]])
    below, above = (Plane((side.slopes[0][0],), side.constant[0]) for side in (planes.below, planes.above))
    return Planes(below, above)


def broken(op: Nonlinear, planes: Planes, points: Sequence[list[Fraction]], values: Sequence[Ends], at: int) -> int:
    """Say how often a value at points of one entry's operands is not between the planes."""
    wrong = 0
    for point, (least, most) in zip(points, values, strict=True):
        for plane, sign in ((planes.below, 1), (planes.above, -1)):
            if not np.isfinite(plane.constant[at]):
                continue
            height = Fraction(float(plane.constant[at]))
            for slope, x in zip(plane.slopes, point, strict=True):
                height += Fraction(float(slope[at])) * x
            wrong += height > least if sign > 0 else height < most
    return wrong


def curve_is_broken(op: Curve, low: np.ndarray, high: np.ndarray, seed: int) -> int:
    rng, wrong = np.random.default_rng(seed), 0
    planes = planes_of(op, low, high)
    value = next(function for kind, function in VALUES.items() if kind.__name__ == type(op).__name__)
    for at, (left, right) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        touching = [0.5 * left + 0.5 * right, 0.0, left + rng.random() * (right - left)]
        points = [Fraction(x) for x in (left, right, *touching) if left <= x <= right]
        wrong += broken(op, planes, [[x] for x in points], [value(x) for x in points], at)
    return wrong


@pytest.mark.parametrize("op", CURVES)
def test_a_curve_lies_between_its_planes(op: type[Curve]) -> None:
    with np.errstate(all="ignore"):
        low, high = ranges_of(np.random.default_rng(5), op, 15 if op in (Log, Softplus) else 100)
        assert curve_is_broken(op(), low, high, 6) == 0
        least, most = op().interval([low], [high])
        for ends in (low, high):
            exact = [VALUES[op](Fraction(x)) for x in ends.tolist()]
            assert outside((least, most), exact) == 0


@pytest.mark.parametrize("op", [Exp, Sigmoid, Softplus, Square])
def test_planes_are_good(op: type[Curve]) -> None:
    """On the left of a bend, across it and on its right: no chord or tangent is closer in the middle or at the ends."""
    for low, high in ((-4.0, -1.0), (-2.0, 5.0), (-6.0, 0.5), (-1.0, 3.0), (0.5, 4.0), (2.0, 2.0)):
        grid = np.linspace(low, high, 101)
        values = op().near([grid])
        planes = planes_of(op(), np.array([low]), np.array([high]))
        gaps = []
        for plane, sign in ((planes.below, 1.0), (planes.above, -1.0)):
            gaps.append(sign * (values - plane.slopes[0] * grid - plane.constant))
            assert gaps[-1].min() <= 0.02 * gaps[-1].max() + 1e-12, (low, high)  # a plane touches the curve
        chord = (values[-1] - values[0]) * (grid - low) / max(high - low, 1e-9) + values[0]
        assert gaps[0].mean() + gaps[1].mean() <= 2.2 * np.abs(values - chord).mean() + 1e-12, (low, high)


def test_ranges_without_an_end_have_no_line() -> None:
    for op in (Exp(), Sigmoid(), Log(), Reciprocal(), Root(), Softplus(), Square()):
        low, high = np.array([-np.inf, -1.0, -np.inf, 3.0]), np.array([np.inf, np.inf, -1.0, 2.0])
        with np.errstate(all="ignore"):
            planes = planes_of(op, low, high)
        for plane in (planes.below, planes.above):
            assert (plane.slopes[0] == 0.0).all()
            assert not np.isnan(plane.constant).any()
    bounded = planes_of(Sigmoid(), np.array([-np.inf]), np.array([np.inf]))
    assert (bounded.below.constant, bounded.above.constant) == (0.0, 1.0)


@pytest.mark.parametrize("op", [Log, Reciprocal, Root])
def test_a_curve_is_not_bounded_where_it_is_not_defined(op: type[Curve]) -> None:
    low, high = np.array([-1.0, -1e-3]), np.array([1.0, 1e-3])
    with np.errstate(all="ignore"):
        assert op().interval([low], [high])[0].tolist() == [-np.inf] * 2
        assert planes_of(op(), low, high).above.constant.tolist() == [np.inf] * 2


# --- charges ---

LINE = (" - (16.0 * UNIT * sizes + UNDERFLOW)", "")
LINE_DOWN = ("constant = np.nextafter(least, -np.inf)", "constant = least")
STEEP = ("tangent.slope[1] * (low - touch)", "tangent.slope[0] * (low - touch)")
FLAT = ("tangent.slope[0] * (inner - touch)", "tangent.slope[1] * (inner - touch)")
LEFT = ("(convex, tangent.value[0], tangent.slope[1]", "(convex & False, tangent.value[0], tangent.slope[1]")
RIGHT = ("(convex, tangent.value[0], tangent.slope[0]", "(convex & False, tangent.value[0], tangent.slope[0]")
CORNERS = (" - away, -np.inf)\n", ", -np.inf)\n")
CORNERS_ABOVE = (" + away, np.inf)\n", ", np.inf)\n")
BELOW = ("np.nextafter(x - 4.0 * UNIT * np.abs(x), -np.inf)", "x")
ABOVE = ("np.nextafter(x + 4.0 * UNIT * np.abs(x), np.inf)", "x")


class Straight(Curve):
    """x, of whose slope little is known."""

    bend = 0.0

    def at(self, x: np.ndarray) -> Enclosure:
        return Enclosure((x, x), (np.full_like(x, 0.75), np.full_like(x, 1.5)))


def lines_missed(op: type[Curve], changes: Changes) -> int:
    """Say how often a value is beyond the lines that a changed `smooth` gives."""
    rng, wrong = np.random.default_rng(7), 0
    low = floats(rng, 200)
    high = low + np.abs(floats(rng, 200, 3))
    changed = type("Changed", (op,), {"_lines": without(npcheck.smooth, *changes).Curve._lines})
    planes = planes_of(changed(), low, high)
    for at, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        values = [Fraction(x) ** (2 if op is Square else 1) for x in ends]
        wrong += broken(op(), planes, [[Fraction(x)] for x in ends], [(value, value) for value in values], at)
    return wrong


def test_a_line_is_charged() -> None:
    """The step down alone is covered by the charge."""
    assert lines_missed(Square, []) == 0
    assert lines_missed(Square, [LINE_DOWN]) == 0
    assert lines_missed(Square, [LINE, LINE_DOWN]) > 0


@pytest.mark.parametrize(("slope", "change"), [(0.0, STEEP), (0.0, LEFT), (3.0, FLAT), (3.0, RIGHT)])
def test_a_line_of_any_slope_is_sound(slope: float, change: tuple[str, str]) -> None:
    """The worse slope counts on either side of the tangent's point, and both ends count."""
    any_slope = (
        "slope, touch = _slopes(at, low, high, bend, ends)",
        f"slope, touch = np.full_like(low, {slope}), 0.5 * low + 0.5 * inner",
    )
    assert lines_missed(Straight, [any_slope]) == 0
    assert lines_missed(Straight, [any_slope, change]) > 0


@pytest.mark.parametrize(("charge", "op"), [(BELOW, Reciprocal), (ABOVE, Reciprocal), (BELOW, Root), (ABOVE, Root)])
def test_a_rounded_quotient_or_root_is_charged(charge: tuple[str, str], op: type[Curve]) -> None:
    points = some_points(np.random.default_rng(9), op, 100)
    smooth = without(npcheck.smooth, charge)
    changed = without(npcheck.product)
    changed.below, changed.above = smooth.below, smooth.above
    exact = [VALUES[op](Fraction(x)) for x in points.tolist()]
    slopes = [SLOPES[op](Fraction(x)) for x in points.tolist()]
    known, right = getattr(changed, op.__name__)().at(points), op().at(points)
    assert outside(known.value, exact) > 0
    assert outside(known.slope, slopes) > 0
    assert outside(right.value, exact) + outside(right.slope, slopes) == 0


def corners_missed(module: Any, seed: int) -> int:
    rng, wrong = np.random.default_rng(seed), 0
    boxes = [np.sort(floats(rng, 400).reshape(2, 200), axis=0) for _ in range(2)]
    op = module.Product()
    planes = op.planes([box[0] for box in boxes], [box[1] for box in boxes])
    low, high = op.interval([box[0] for box in boxes], [box[1] for box in boxes])
    for at in range(200):
        for x in (boxes[0][0][at], boxes[0][1][at]):
            for y in (boxes[1][0][at], boxes[1][1][at]):
                product = Fraction(float(x)) * Fraction(float(y))
                wrong += broken(op, planes, [[Fraction(float(x)), Fraction(float(y))]], [(product, product)], at)
                wrong += not Fraction(float(low[at])) <= product <= Fraction(float(high[at]))
    return wrong


def test_a_product_is_charged() -> None:
    assert corners_missed(npcheck.product, 10) == 0
    assert corners_missed(without(npcheck.product, CORNERS), 10) > 0
    assert corners_missed(without(npcheck.product, CORNERS_ABOVE), 10) > 0
    exactly = (
        "np.nextafter(least, -np.inf), np.nextafter(most, np.inf)\n\n    def near",
        "least, most\n\n    def near",
    )
    assert corners_missed(without(npcheck.product, exactly), 10) > 0


class Between(Nonlinear):
    """An operator that lies between planes which are given."""

    name = "between"
    operands = 1

    def __init__(self, slope: np.ndarray, constant: np.ndarray) -> None:
        plane = Plane((slope[None],), constant[None])
        self._planes = Planes(plane, plane)

    def interval(self, lows: Sequence[np.ndarray], highs: Sequence[np.ndarray]) -> Any:
        raise AssertionError

    def planes(self, lows: Sequence[np.ndarray], highs: Sequence[np.ndarray]) -> Planes:
        return self._planes

    def near(self, values: Sequence[np.ndarray]) -> np.ndarray:
        raise AssertionError


def over_planes(module: Any, op: Between, high: float, seeds: Any, depth: int = 1) -> np.ndarray:
    """Bound forms c + ⟨A, z⟩ + ⟨B, x⟩ of nodes one behind the other, from x in [0, high]."""
    size = len(op.planes([], []).below.constant[0])
    nodes = [Node(Input(), (), size, "x")] + [Node(op, (i,), size, "z") for i in range(depth)]
    low, top = np.zeros((1, size)), np.full((1, size), high)
    ranges = module.Ranges([low] * len(nodes), [top] * len(nodes))
    constant, coefficients = seeds
    form = module.Form(constant.copy(), np.zeros(len(constant)), dict(coefficients))
    return np.asarray(module.lower_bound(Network(tuple(nodes)), form, ranges, Lines({})))


def too_high(changes: Changes, make: Callable[[Any], tuple[np.ndarray, list[Fraction]]]) -> int:
    bounds, exact = make(without(npcheck.bound, *changes))
    return sum(Fraction(bound) > value for bound, value in zip(bounds.tolist(), exact, strict=True))


PLANE_P = ("form.error += rate * dot(np.abs(part), ranges.magnitude(w))\n        form.add", "form.add")
PLANE_K = ("(np.abs(k).sum(1) + np.abs(form.constant))\n    empty", "np.abs(form.constant)\n    empty")
PLANE_C = ("(np.abs(k).sum(1) + np.abs(form.constant))\n    empty", "np.abs(k).sum(1)\n    empty")


def test_a_rounded_slope_is_charged() -> None:
    """p = fl(a·s) meets another coefficient of the same node, and they cancel: what follows charges for nothing."""

    def make(module: Any) -> tuple[np.ndarray, list[Fraction]]:
        rng = np.random.default_rng(11)
        a, s = rng.random(50) + 0.5, float(rng.random() + 0.5)
        op = Between(np.array([s]), np.zeros(1))
        seeds = np.zeros(50), {1: a[:, None], 0: -(a * s)[:, None]}
        exact = [min(Fraction(x) * Fraction(s) - Fraction(x * s), Fraction(0)) for x in a.tolist()]
        return over_planes(module, op, 1.0, seeds), exact

    assert too_high([PLANE_P], make) > 0
    assert too_high([], make) == 0


def test_constants_of_planes_are_charged() -> None:
    """Σ a·c cancels."""

    def make(module: Any) -> tuple[np.ndarray, list[Fraction]]:
        rng = np.random.default_rng(12)
        c = rng.standard_normal(9) * 2.0 ** rng.integers(-20, 20, 9)
        a = rng.standard_normal((200, 9))
        a[:, -1] = -(a[:, :-1] @ c[:-1]) / c[-1]
        exact = [sum((Fraction(x) * Fraction(y) for x, y in zip(row, c.tolist(), strict=True))) for row in a.tolist()]
        return over_planes(module, Between(np.zeros(9), c), 0.0, (np.zeros(200), {1: a})), exact  # type: ignore[return-value]

    assert too_high([PLANE_K], make) > 0
    assert too_high([], make) == 0


def test_the_sum_of_many_planes_is_charged() -> None:
    """c = 1, and 1500 planes that add a little more than half of its last place each."""

    def make(module: Any) -> tuple[np.ndarray, list[Fraction]]:
        step = UNIT * (1 + 2.0**-9)
        seeds = np.ones(1), {1500: np.ones((1, 1))}
        return over_planes(module, Between(np.ones(1), np.array([step])), 0.0, seeds, 1500), [1 + 1500 * Fraction(step)]

    assert too_high([PLANE_C], make) > 0
    assert too_high([], make) == 0


# --- networks ---


def random_network(rng: np.random.Generator) -> Network:
    """Return a network of smooth operators, products, ReLUs and matrices, on arguments where all of them are tame."""
    nodes = [Node(Input(), (), int(rng.integers(1, 4)), "x")]

    def add(op: Op, inputs: tuple[int, ...], size: int) -> None:
        nodes.append(Node(op, inputs, size, f"node {len(nodes)}"))

    for _ in range(int(rng.integers(2, 6))):
        last = len(nodes) - 1
        size = int(rng.integers(1, 4))
        add(Linear(rng.standard_normal((size, nodes[last].size)), bias=rng.standard_normal(size)), (last,), size)
        kind = int(rng.integers(9))
        if kind < 5:
            add((Sigmoid, Softplus, Square, Relu, Sigmoid)[kind](), (last + 1,), size)
        elif kind == 5:
            add(Sigmoid(), (last + 1,), size)
            add(Product(), (last + 1, last + 2), size)
        elif kind == 6:
            add(Product(), (last + 1, last + 1), size)
        else:
            add(Sigmoid(), (last + 1,), size)
            add((Exp, Log, Reciprocal, Root)[int(rng.integers(4))](), (last + 2,), size)
            add(Sum((1, 1), size), (last + 3, last + 1), size)
    return Network(tuple(nodes))


class Followed(Kept):
    """A trace of the only form of a batch, with its planes."""

    def bent(self, node: int, p: list[np.ndarray], plane: Plane) -> None:
        slopes = tuple(slope[0].copy() for slope in plane.slopes)
        self.kept.planes[node] = [part[0].copy() for part in p], Plane(slopes, plane.constant[0].copy())


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=15, deadline=None)
def test_no_bound_is_above_the_value_at_any_point(seed: int, by_lines: bool, tight: bool) -> None:
    """Bounds and ranges hold at corners and inside, and the pass done again exactly is not below."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    n, output = network.nodes[0].size, len(network.nodes) - 1
    middle, wide = rng.standard_normal(n), rng.random(n) * 2.0 ** rng.integers(-20, 1, n)
    low, high = middle - wide, middle + wide
    with np.errstate(all="ignore"):
        ranges = start(network, low[None], high[None])
        for node in range(1, output + 1):
            ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if tight:
            ranges = by_default(network, low[None], high[None], {}, ranges)
        seeds = rng.standard_normal((1, network.nodes[output].size))
        exact_seeds = {output: {i: Fraction(c) for i, c in enumerate(seeds[0].tolist())}}
        sides = ([part[0] for part in side] for side in (ranges.lower, ranges.upper))
        kept = Pass("", Fraction(0), exact_seeds, *sides)
        ranges.watch = Followed(kept)
        any_p = Given({i: rng.standard_normal(x.size) for i, x in enumerate(network.nodes)})
        form = Form(np.zeros(1), np.zeros(1), {output: seeds})
        bound = float(lower_bound(network, form, ranges, Lines({}) if by_lines else any_p)[0])
    if np.isfinite(bound):
        assert Exact(network).bound(kept) >= bound
    for point in (low, high, middle, low + rng.random(n) * (high - low)):
        values = exact_values(network, [Fraction(x) for x in np.clip(point, low, high).tolist()])
        for value, least, most in zip(values, ranges.lower, ranges.upper, strict=True):
            slack = Fraction(1, 2**200)
            for a, v, b in zip(least[0].tolist(), value, most[0].tolist(), strict=True):
                assert not np.isfinite(a) or Fraction(a) <= v + slack
                assert not np.isfinite(b) or v <= Fraction(b) + slack
        if np.isfinite(bound):
            total = sum(c * values[output][i] for i, c in exact_seeds[output].items())
            assert total + Fraction(1, 2**200) >= bound


def test_bounds_of_smooth_networks_are_not_loose() -> None:
    """On a small box they are off by its size squared: planes follow the function."""
    rng, ratios = np.random.default_rng(13), []
    for _ in range(30):
        network = random_network(rng)
        n, output = network.nodes[0].size, len(network.nodes) - 1
        middle = rng.standard_normal(n)
        losses = []
        for wide in (2.0**-6, 2.0**-8):
            low, high = middle - wide, middle + wide
            with np.errstate(all="ignore"):
                ranges = start(network, low[None], high[None])
                for node in range(1, output + 1):
                    ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
                ranges = by_default(network, low[None], high[None], {}, ranges)
                seeds = np.ones((1, network.nodes[output].size))
                form = Form(np.zeros(1), np.zeros(1), {output: seeds})
                bound = lower_bound(network, form, ranges, Lines({}))[0]
            points = low + rng.random((2000, n)) * (high - low)
            losses.append(network.values(points)[-1].sum(1).min() - bound)
        if np.isfinite(losses).all():
            ratios.append(losses[1] / losses[0])
    assert len(ratios) > 20
    assert np.median(ratios) < 0.2  # a fourth of the width; 1/16 but for the points


def test_an_operand_without_values_is_an_empty_part() -> None:
    nodes = (Node(Input(), (), 1, "x"), Node(Sigmoid(), (0,), 1, "z"))
    one = np.ones((1, 1))
    for high, bound in ((2.0, 0.7310585), (0.5, np.inf)):
        ranges = Ranges([one, 0.0 * one], [np.array([[high]]), one])
        form = Form(np.zeros(1), np.zeros(1), {1: one})
        assert lower_bound(Network(nodes), form, ranges, Lines({}))[0] == pytest.approx(bound)


def test_what_a_pass_back_may_tighten() -> None:
    """A ReLU needs a sign; other operators need ends; what follows one node alone is as tight as that node."""
    eye = np.eye(2)
    nodes = (
        Node(Input(), (), 2, "x"),
        Node(Linear(eye), (0,), 2, "a"),
        Node(Relu(), (1,), 2, "r"),
        Node(Linear(eye), (2,), 2, "b"),
        Node(Sigmoid(), (3,), 2, "s"),
        Node(Product(), (4, 3), 2, "p"),
        Node(Square(), (5,), 2, "q"),
    )
    network = Network(nodes)
    assert network.hidden == (1, 3, 4, 5)
    assert network.behind == (3, 5)
    low, high = np.array([[1.0, -1.0]]), np.array([[2.0, 1.0]])
    assert network.doubtful(1, low, high).tolist() == [[False, True]]
    assert network.doubtful(3, low, high).tolist() == [[True, True]]
    assert network.nonlinear == {4: "sigmoid", 5: "product", 6: "product"}
