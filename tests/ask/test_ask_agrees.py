"""Conditions mean what they say: their properties agree with plain Python, and with their own text."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

import netproof
from netproof.problem.ask.compile import violations
from netproof.problem.property import Property
from netproof.problem.vnnlib.reader import parse_property
from support.conditions import Conditions, grid, network, same_violations, written

BOX = netproof.box([[-1, -0.5]], [[1, 0.75]])
MANY = 60


def drawn(seed: int, *, products: bool = True, depth: int = 2):  # type: ignore[no-untyped-def]
    x, y = netproof.variables(network(2, 3))
    return Conditions(seed, {"x": x, "y": y}, products).condition(depth)


@pytest.mark.parametrize("seed", range(250))
def test_a_condition_is_violated_where_python_says_that_it_does_not_hold(seed: int) -> None:
    condition, said = drawn(seed)
    property = violations(condition, BOX)
    assert property.interface is None or len(set(property.interface.place)) < 2
    _compare(property, said, seed)


def _compare(property: Property, said, seed: int) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(seed)
    place = (0, 1) if property.interface is None else property.interface.place
    for _ in range(MANY):
        x, y = grid(rng, property.inputs), grid(rng, 3)
        at = {"x": [x[entry] for entry in place], "y": y}
        inside = -1 <= at["x"][0] <= 1 and -0.5 <= at["x"][1] <= 0.75
        assert property.violated(x, y) == (inside and not said(at)), at
    if len(set(place)) < len(place):  # inputs that every violation equates
        for _ in range(MANY):
            x, y = grid(rng, 2), grid(rng, 3)
            assert x[0] == x[1] or said({"x": x, "y": y}) or not -1 <= x[0] <= 1 or not -0.5 <= x[1] <= 0.75


def test_random_conditions_are_of_both_kinds() -> None:
    """The test above would show nothing if all conditions were false, or all true."""
    held = []
    for seed in range(40):
        _, said = drawn(seed)
        rng = random.Random(seed)
        held.append(sum(said({"x": grid(rng, 2), "y": grid(rng, 3)}) for _ in range(MANY)))
    assert sum(0 < count < MANY for count in held) > 20


@pytest.mark.parametrize("make", [netproof.l1_ball, netproof.l2_ball])
@pytest.mark.parametrize("seed", range(10))
def test_a_ball_counts_too(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    condition, said = drawn(seed)
    region = make([[0.25, 0.5]], 1)
    property = violations(condition, region)
    assert property.interface is None
    rng = random.Random(seed)
    for _ in range(MANY):
        x, y = grid(rng, 2), grid(rng, 3)
        assert property.violated(x, y) == (region.ball.contains(x) and not said({"x": x, "y": y}))


@pytest.mark.parametrize("seed", range(150))
def test_the_text_reads_back_as_the_same_property(seed: int) -> None:
    condition, said = drawn(seed, products=seed % 2 == 0)
    text = written(condition, BOX)
    if text is None:
        return
    read = parse_property(text)
    assert same_violations(read, violations(condition, BOX, cases=10**6)) or read.vacuous
    assert ("<2.0>" in text) == (read.interface is not None)
    _compare(read, said, seed)


def test_text_1_0_is_used_where_it_can_say_it() -> None:
    x, y = netproof.variables(network(2, 3))
    linear = netproof.when(x[0] + x[1] <= 1, y[0] > x[0]) & (y.argmax() != 2) & (abs(y[0]) < 3)
    assert "vnnlib-version" not in linear.vnnlib(BOX)
    assert "<2.0>" in (y[0] * y[1] < 1).vnnlib(BOX)
    assert "<2.0>" in (y[0] < 1).vnnlib(netproof.l2_ball([[0, 0]], 1))


@pytest.mark.parametrize("radius", ["1/3", "0.7", 0.1])
def test_numbers_without_a_decimal_are_written_exactly(radius: str | float) -> None:
    _, y = netproof.variables(network(2, 3))
    region = netproof.linf_ball([["1/7", 0.1]], radius)
    condition = Fraction(1, 3) * y[0] + y[1] / 7 < Fraction(22, 9)
    assert same_violations(parse_property(condition.vnnlib(region)), violations(condition, region))


@pytest.mark.parametrize("seed", range(6))
def test_the_text_of_an_l2_ball_has_the_same_points(seed: int) -> None:
    condition, said = drawn(seed, products=False, depth=1)
    region = netproof.l2_ball([[0.1, 0.5]], "5/7")
    read = parse_property(condition.vnnlib(region))
    rng = random.Random(seed)
    for _ in range(MANY):
        x, y = grid(rng, 2), grid(rng, 3)
        if read.interface is not None and read.interface.place != (0, 1):
            continue
        assert read.violated(x, y) == (region.ball.contains(x) and not said({"x": x, "y": y}))


@pytest.mark.parametrize("seed", range(60))
def test_two_runs_agree_with_python_and_with_their_text(seed: int) -> None:
    (a, b), (c, d) = netproof.runs(network(2, 3), 2)
    condition, said = Conditions(seed, {"x1": a, "y1": b, "x2": c, "y2": d}).condition(2)
    if seed % 2:
        condition, before = netproof.when(a[1] == c[1], condition), said
        said = lambda at: before(at) if at["x1"][1] == at["x2"][1] else True  # noqa: E731
    region = [BOX, netproof.box([[-0.5, -1]], [[1, 1]])]
    both = [violations(condition, region)]
    text = written(condition, region)
    if text is not None:
        both.append(parse_property(text))
    for property in both:
        assert property.interface is not None
        place = property.interface.place
        rng = random.Random(seed)
        for _ in range(MANY):
            x, y = grid(rng, property.inputs), grid(rng, 6)
            full = [x[entry] for entry in place]
            at = {"x1": full[:2], "x2": full[2:], "y1": y[:3], "y2": y[3:]}
            inside = all(
                low <= v <= high
                for v, (low, high) in zip(full, [(-1, 1), (-0.5, 0.75), (-0.5, 1), (-1, 1)], strict=True)
            )
            assert property.violated(x, y) == (inside and not said(at)), at


def test_inputs_that_runs_share_are_one_entry() -> None:
    (a, b), (c, d) = netproof.runs(network(2, 3), 2)
    property = violations(netproof.when((a[0] <= c[0]) & (a[1] == c[1]), b[0] <= d[0]), BOX)
    assert property.inputs == 3
    assert property.interface is not None
    assert property.interface.place == (0, 1, 2, 1)


@pytest.mark.parametrize("terms", [2, 4, 5, 8])
def test_sums_of_absolute_values_are_cases_or_neurons(terms: int) -> None:
    _, y = netproof.variables(network(2, 8))
    property = violations(sum(abs(v - 0.1) for v in list(y)[:terms]) <= 1, BOX)
    assert (len(property.derived) == 0) == (terms <= 4)
    rng = random.Random(0)
    for _ in range(MANY):
        values = [Fraction(rng.randint(-10, 10), 20) for _ in range(8)]
        expected = sum(abs(v - Fraction(0.1)) for v in values[:terms]) > 1
        assert property.violated([Fraction(0)] * 2, values) == expected


def test_the_rows_are_those_that_were_written() -> None:
    """So a bound in the verdict is a margin in the units of the condition."""
    _, y = netproof.variables(network(2, 3))
    (disjunct,) = violations(0.1 * y[0] + 0.3 * y[1] < 5, BOX).disjuncts
    (row,) = disjunct.rows
    assert row.coefs == {0: -Fraction(0.1), 1: -Fraction(0.3)}
    assert row.rhs == -5


def test_numbers_in_products_are_doubles_or_refused() -> None:
    """A product is a node of the graph, whose weights are float64."""
    _, y = netproof.variables(network(2, 3))
    for factor in (y[0] - 0.1, 0.1 * y[0] + 0.3 * y[1], 1e-3 * y[0] - 1e9):
        (one,) = violations(factor * y[2] < 1, BOX).derived
        numbers = [c for form in one.forms for c in (form.constant, *(c for _, c in form.terms))]
        assert all(Fraction(float(c)) == c for c in numbers)
        assert max(map(abs, numbers)) < 2**30
    with pytest.raises(netproof.UsageError, match="too many digits"):
        violations((y[0] * (Fraction(0.1) * Fraction(0.3)) + y[1] * Fraction(1, 3) + 1) * y[2] < 1, BOX)
