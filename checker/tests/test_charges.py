"""Each charge for rounding is needed, and enough.

A charge is taken out of the text of `bound` or `ranges`, and what is left is run on numbers chosen so that its error
shows: products that cancel, sums whose roundings all go one way, numbers that underflow. Then the result is above the
exact value, which is computed here in fractions; with the charge it never is. Some charges are covered by another one
wherever they matter: then both are taken out, and the test says so.

Two numbers of `bound` cannot be shown to be needed. E is doubled, and g has a factor of 4 and 64 more terms than there
are: this is slack for the rounding of E itself and for folded constants (which are off by 4 units at most where 16 are
allowed), so that each of them covers the others.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import npcheck.bound
import npcheck.ranges
import npcheck.statement
from npcheck.bound import UNIT
from npcheck.network import Affine, Input, Linear, Network, Node, Op, Relu, Scale
from npcheck.statement import Rows

NO_WEIGHTS = ("total = op.magnitude(", "total = 0.0 * op.magnitude(")
NO_BIAS = ("(total if op.bias_magnitude is None else total + op.bias_magnitude) + UNDERFLOW", "total + UNDERFLOW")
AFFINE_C = ("ranges.sums(network, node)) + np.abs(form.constant))", "ranges.sums(network, node)))")
RELU_A = ("np.abs(a) * right + np.abs(chosen)", "np.abs(chosen)")
RELU_P = (" + np.abs(chosen) * np.maximum(np.abs(low), np.abs(high))", "")
RELU_C = ("(sizes + np.abs(form.constant))", "sizes")
RELU_LINES = ("dot(above - below, lines.reach)", "dot(0.0 * below, lines.reach)")
RELU_UNDERFLOW = ("high + np.maximum(-low, high) + UNDERFLOW", "high + np.maximum(-low, high)")
BOX_A = ("dot(np.abs(a), ranges.magnitude(0)) + np.abs", "np.abs")
BOX_C = (" + np.abs(form.constant))\n    value", ")\n    value")
READERS = ("self.error += rate * dot(np.abs(total), ranges.magnitude(node))", "pass")
ROWS_C = ("dot(weights @ np.abs(rows.outputs), ranges.magnitude(output)) + weights", "weights")
ROWS_D = (" + weights @ np.abs(rows.right)", "")
ROWS_INPUTS = ("form.error += rate * dot(weights @ np.abs(rows.inputs), ranges.magnitude(0))", "pass")
DOWN = ("np.nextafter(form.constant - 2.0 * form.error - UNDERFLOW, -np.inf)", "form.constant - 2.0 * form.error")
UNDERFLOW_ONCE = ("2.0 * form.error - UNDERFLOW", "2.0 * form.error")
UNDERFLOW_SUMS = ("op.bias_magnitude) + UNDERFLOW", "op.bias_magnitude)")

SIZES = ("(rate * sizes + UNDERFLOW)", "UNDERFLOW")
SIZES_BIAS = ("sizes = sizes + op.bias_magnitude", "pass")
RADIUS = ("np.nextafter(np.maximum(high - mid, mid - low), np.inf)", "np.maximum(high - mid, mid - low)")
OUTWARD = (
    "np.nextafter(centre - away, -np.inf), np.nextafter(centre + away, np.inf)",
    "centre - away, centre + away",
)
INTERVAL_UNDERFLOW = ("rate * sizes + UNDERFLOW", "rate * sizes")


def without(module: types.ModuleType, *changes: tuple[str, str]) -> Any:
    """Return a module whose text is changed."""
    assert module.__file__
    with open(module.__file__, encoding="utf-8") as file:
        text = file.read()
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is not in {module.__name__} once"
        text = text.replace(old, new)
    changed = types.ModuleType(module.__name__)
    exec(compile(text, module.__file__, "exec"), changed.__dict__)
    return changed


def chain(inputs: int, *ops: Op) -> Network:
    """Return a network of operators one behind the other."""
    nodes = [Node(Input(), (), inputs, "x")]
    for op in ops:
        size = op.size if isinstance(op, Affine) else nodes[-1].size
        nodes.append(Node(op, (len(nodes) - 1,), size, f"node {len(nodes)}"))
    return Network(tuple(nodes))


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def dot(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Fraction:
    """Return an exact product of vectors."""
    return sum(
        (Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True)),
        start=Fraction(0),
    )


def ranges_of(module: Any, network: Network, low: np.ndarray, high: np.ndarray) -> Any:
    """Return ranges by intervals, as an object of a changed module."""
    found = npcheck.ranges.start(network, low[None], high[None])
    for node in range(1, len(network.nodes)):
        found.lower[node], found.upper[node] = npcheck.ranges.interval(network, node, found)
    return module.Ranges(found.lower, found.upper)


def cancelling(rng: np.random.Generator, weights: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """Return factors (B, n) whose products with weights (n,) all but cancel: what is left is mostly roundings."""
    a = rng.standard_normal((300, len(weights))) * scale
    a[:, -1] = -(a[:, :-1] @ weights[:-1]) / weights[-1]
    return a


class Chosen:
    """Any p at all, for some neurons: p itself, or what is added to p by lines."""

    def __init__(self, p: np.ndarray | None = None, more: float = 0.0, count: int = 1) -> None:
        self._p, self._more, self._count = p, more, count if p is None else len(p)

    def shares(self, node: int) -> None:
        pass

    def columns(self, node: int) -> np.ndarray:
        return np.arange(self._count)

    def choose(self, node: int, p: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return p + self._more if self._p is None else np.broadcast_to(self._p[columns], p.shape)


def above(changes: Sequence[tuple[str, str]], make: Any) -> int:
    """Say how often a bound is above the exact value; `make` returns both for a module."""
    with np.errstate(all="ignore"):
        bounds, exact = make(without(npcheck.bound, *changes))
    return sum(bool(bound > value) for bound, value in zip(bounds.tolist(), exact, strict=True))


def needed(make: Any, *changes: tuple[str, str]) -> None:
    """Demand that bounds are too high without some charges, and never with them."""
    assert above(changes, make) > 0
    assert above((), make) == 0


def covered(make: Any, charge: tuple[str, str], *others: tuple[str, str]) -> None:
    """Demand that a charge is not missed alone, but is with others."""
    assert above([charge], make) == 0
    needed(make, charge, *others)


# --- affine operators ---


def weights_cancel(module: Any, scale: float = 1.0) -> Any:
    """F = Σ A_i W_i x, where the products cancel: B is all rounding, and so is what the box is charged for."""
    rng = np.random.default_rng(2)
    weights = rng.standard_normal(9) * 2.0 ** rng.integers(-40, 40, 9)
    network = chain(1, Linear(weights[:, None]))
    point = floats(scale)
    a = cancelling(rng, weights)
    ranges = ranges_of(module, network, point, point)
    form = module.Form(np.zeros(len(a)), np.zeros(len(a)), {1: a})
    bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
    return bounds, [dot(row, weights) * Fraction(scale) for row in a]


def biases_cancel(module: Any) -> Any:
    """F = Σ A_i b_i + x/2^90: the products cancel in c."""
    rng = np.random.default_rng(3)
    bias = rng.standard_normal(9) * 2.0 ** rng.integers(-20, 20, 9)
    network = chain(1, Linear(np.full((9, 1), 2.0**-90), bias=bias))
    ranges = ranges_of(module, network, floats(0.0), floats(0.0))
    a = cancelling(rng, bias)
    form = module.Form(np.zeros(len(a)), np.zeros(len(a)), {1: a})
    bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
    return bounds, [dot(row, bias) for row in a]


def long_sum(module: Any) -> Any:
    """c = 1, and 1500 shifts by a little more than half of its last place each: every sum is rounded up."""
    step = UNIT * (1 + 2.0**-9)
    network = chain(1, *[Scale(np.ones(1), bias=floats(step)) for _ in range(1500)])
    ranges = ranges_of(module, network, floats(0.0), floats(0.0))
    form = module.Form(np.ones(1), np.zeros(1), {1500: np.ones((1, 1))})
    bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
    return bounds, [1 + 1500 * Fraction(step)]


def folded_bias(module: Any) -> Any:
    """b = beta − mean·factor cancels, as in a batch normalization: it is as wrong as these are large."""
    rng = np.random.default_rng(4)
    factor, mean = rng.standard_normal(200), rng.standard_normal(200)
    beta = mean * factor * (1 + 1e-15 * rng.standard_normal(200))
    op = Scale(factor, bias=beta - mean * factor, folded=True, spread=np.abs(beta) + np.abs(mean * factor))
    network = chain(200, op)
    ranges = ranges_of(module, network, np.zeros(200), np.zeros(200))
    form = module.Form(np.zeros(200), np.zeros(200), {1: np.eye(200)})
    bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
    return bounds, [dot([beta[i], -mean[i]], [1.0, factor[i]]) for i in range(200)]


def test_affine_weights() -> None:
    needed(weights_cancel, NO_WEIGHTS)


def test_affine_bias() -> None:
    needed(biases_cancel, NO_BIAS)
    needed(folded_bias, NO_BIAS)
    needed(folded_bias, (".bias_magnitude) + UNDERFLOW", ".bias_magnitude * 0.0 + np.abs(op.bias)) + UNDERFLOW"))


def test_affine_constant() -> None:
    """Needed where many steps add to one constant, which a few do not: other charges are for 256 of them."""
    needed(long_sum, AFFINE_C)


# --- several readers ---


def test_several_readers() -> None:
    """Needed where hundreds of nodes read one node: what follows charges for 256 roundings of its coefficient."""

    def many(module: Any) -> Any:
        step, count = UNIT * (1 + 2.0**-9), 3000
        nodes = [Node(Input(), (), 1, "x")]
        factors = [*[step] * (count - 1), 1.0]
        nodes += [Node(Scale(floats(factor)), (0,), 1, "a reader") for factor in factors]
        network = Network(tuple(nodes))
        ranges = ranges_of(module, network, floats(1.0), floats(1.0))
        form = module.Form(np.zeros(1), np.zeros(1), {node: np.ones((1, 1)) for node in range(1, count + 1)})
        bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
        return bounds, [1 + (count - 1) * Fraction(step)]

    needed(many, READERS)


# --- ReLU ---


def test_relu_coefficients() -> None:
    """Σ a_i relu(h_i) cancels, with h_i known and p = 0: nothing is left for later charges."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(5)
        values = np.abs(rng.standard_normal(9)) * 2.0 ** rng.integers(-20, 20, 9)
        network = chain(1, Linear(np.zeros((9, 1)), bias=values), Relu())
        ranges = ranges_of(module, network, floats(0.0), floats(0.0))
        ranges.lower[1] = ranges.upper[1] = values[None]
        a = cancelling(rng, values)
        form = module.Form(np.zeros(len(a)), np.zeros(len(a)), {2: a})
        return module.lower_bound(network, form, ranges, Chosen(np.zeros(9))), [dot(row, values) for row in a]

    needed(make, RELU_A)


def test_relu_p() -> None:
    """−p·u is taken from a constant that it cancels; the range is wider than what h's own charge is for."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(6)
        count, size = 200, 4
        network = chain(1, Linear(np.zeros((size, 1)), bias=np.zeros(size)), Relu())
        ranges = ranges_of(module, network, floats(0.0), floats(0.0))
        high = 1 + rng.random(size)
        ranges.lower[1], ranges.upper[1] = -np.ones((1, size)), high[None]
        bounds, exact = [], []
        for _ in range(count):
            p = 1 + rng.random(size)
            start = floats((p * high).sum())
            form = module.Form(start.copy(), np.zeros(1), {2: np.zeros((1, size))})
            bounds.append(module.lower_bound(network, form, ranges, Chosen(p))[0])
            exact.append(Fraction(float(start[0])) - dot(p, high))
        return np.array(bounds), exact

    needed(make, RELU_P)


def test_relu_lines() -> None:
    """Chords take Σ |a|·drop from a constant that it cancels: what the lemma says of p = fl(a·c) is below."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(16)
        count, size = 200, 4
        network = chain(1, Linear(np.zeros((size, 1)), bias=np.zeros(size)), Relu())
        ranges = ranges_of(module, network, floats(0.0), floats(0.0))
        low, high = -1 - rng.random(size), 1 + rng.random(size)
        ranges.lower[1], ranges.upper[1] = low[None], high[None]
        bounds, exact = [], []
        for _ in range(count):
            a = -1 - rng.random(size)
            p = a * (high / (high - low))
            k = [
                min(-Fraction(q) * Fraction(left), (Fraction(b) - Fraction(q)) * Fraction(right))
                for b, q, left, right in zip(a.tolist(), p.tolist(), low.tolist(), high.tolist(), strict=True)
            ]
            start = floats(float(-sum(k)))
            form = module.Form(start.copy(), np.zeros(1), {2: a[None]})
            bounds.append(module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))[0])
            exact.append(Fraction(float(start[0])) + sum(k))
        return np.array(bounds), exact

    needed(make, RELU_LINES)


def test_relu_underflow() -> None:
    """How far a chord is above a ReLU underflows where its coefficient is large."""

    def make(module: Any) -> Any:
        least, a = 2.0**-1074, -(2.0**700)
        network = chain(1, Relu())
        ranges = ranges_of(module, network, floats(-least), floats(least))
        form = module.Form(np.zeros(1), np.zeros(1), {1: floats(a)[None]})
        bounds = module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))
        return bounds, [Fraction(a) * Fraction(least)]

    needed(make, RELU_UNDERFLOW)


def test_relu_constant() -> None:
    """c = 1, and 1500 ReLUs one behind the other that take 0.9 of half its last place away: c stays 1."""

    def make(module: Any) -> Any:
        lost, count = 0.875 * UNIT / 2, 1500
        network = chain(1, *[Relu() for _ in range(count)])
        ranges = ranges_of(module, network, floats(0.0), floats(1.0))
        a = -(2.0**-20)
        form = module.Form(np.ones(1), np.zeros(1), {count: floats(a)[None]})
        bounds = module.lower_bound(network, form, ranges, Chosen(more=lost))
        return bounds, [1 + Fraction(a)]  # F = 1 + a·x

    needed(make, RELU_C)


# --- the box ---


def test_box() -> None:
    """Σ A_i x_i cancels."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(7)
        point = rng.standard_normal(9) * 2.0 ** rng.integers(-40, 40, 9)
        a = cancelling(rng, point)
        form = module.Form(np.zeros(len(a)), np.zeros(len(a)), {0: a})
        network = chain(9)
        ranges = ranges_of(module, network, point, point)
        return module.lower_bound(network, form, ranges, Chosen()), [dot(row, point) for row in a]

    needed(make, BOX_A)


def test_box_constant() -> None:
    """The one sum with c, and the steps after it, are covered by the last step down, and that step by the charge."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(8)
        point, constants = floats(0.875 * UNIT), 1 + rng.integers(0, 1000, 100) * 2 * UNIT
        form = module.Form(constants.copy(), np.zeros(100), {0: -np.ones((100, 1))})
        bounds = module.lower_bound(chain(1), form, ranges_of(module, chain(1), point, point), Chosen())
        return bounds, [Fraction(c) - Fraction(float(point[0])) for c in constants.tolist()]

    covered(make, BOX_C, DOWN)
    covered(make, DOWN, BOX_C)


def test_no_charge_at_all() -> None:
    for make in (weights_cancel, biases_cancel, long_sum):
        needed(make, ("- 2.0 * form.error -", "-"))


# --- rows ---


def rows_cancel(module: Any, what: str) -> Any:
    """Two rows with decimals, weights λ under which they cancel; exact are the specification's fractions."""
    rng = np.random.default_rng(9)
    network = chain(3, Linear(np.eye(3)))
    point = floats(1.0, 2.0, 4.0) if what != "right" else np.zeros(3)
    ranges = ranges_of(module, network, point, point)
    bounds, exact = [], []
    for _ in range(200):
        decimals = [Fraction(int(n), 10**7) for n in rng.integers(10**6, 10**8, 3)]
        weight = float(np.float32(rng.random() + 0.5))
        # The second row is the first, times −λ, to ten places: as near as a specification may well be.
        second = [Fraction(round(-d * Fraction(weight) * 10**14), 10**14) for d in decimals]
        sides = np.array([[float(d) for d in decimals], [float(d) for d in second]])
        lambdas = floats(weight, 1.0)[None]
        nothing = np.zeros((2, 3))
        rows = {
            "outputs": Rows(sides, None, np.zeros(2)),
            "inputs": Rows(nothing, sides, np.zeros(2)),
            "right": Rows(nothing, None, sides[:, 0]),
        }[what]
        form = module.Form.of_rows(rows, lambdas, 1, ranges)
        bounds.append(module.lower_bound(network, form, ranges, npcheck.ranges.Lines({}))[0])
        both = [Fraction(weight) * a + b for a, b in zip(decimals, second, strict=True)]
        exact.append(
            -both[0] if what == "right" else sum(v * Fraction(x) for v, x in zip(both, point.tolist(), strict=True))
        )
    return np.array(bounds), exact


@pytest.mark.parametrize(("what", "charge"), [("outputs", ROWS_C), ("right", ROWS_D), ("inputs", ROWS_INPUTS)])
def test_rows(what: str, charge: tuple[str, str]) -> None:
    needed(lambda module: rows_cancel(module, what), charge)


# --- underflow ---


def test_underflow() -> None:
    """A thousand products that are a little less than half of the least float: all are 0."""

    def make(module: Any) -> Any:
        count = 1000
        low, factor = floats(*[-(2.0**-537)] * count), np.full((1, count), 0.9375 * 2.0**-538)
        form = module.Form(np.zeros(1), np.zeros(1), {0: factor})
        network = chain(count)
        bounds = module.lower_bound(network, form, ranges_of(module, network, low, low), Chosen())
        return bounds, [dot(factor[0], low)]

    needed(make, UNDERFLOW_ONCE)


def test_underflow_in_sums_of_magnitudes() -> None:
    """|W| Z underflows where A is large."""

    def make(module: Any) -> Any:
        rng = np.random.default_rng(11)
        weights = rng.standard_normal(9) * 2.0**-1000
        network = chain(1, Linear(weights[:, None]))
        point = floats(2.0**-90)
        a = cancelling(rng, weights * 2.0**1000, 2.0**700)
        form = module.Form(np.zeros(len(a)), np.zeros(len(a)), {1: a})
        bounds = module.lower_bound(network, form, ranges_of(module, network, point, point), Chosen())
        return bounds, [dot(row, weights) * Fraction(float(point[0])) for row in a]

    needed(make, UNDERFLOW_SUMS)


# --- intervals ---


def interval_above(
    changes: Sequence[tuple[str, str]], op: Affine, low: np.ndarray, high: np.ndarray, exact: Any
) -> int:
    """Say how often an interval does not hold the exact one: exact are pairs of fractions, by entry."""
    module = without(npcheck.ranges, *changes)
    network = chain(len(low), op)
    ranges = npcheck.ranges.start(network, low[None], high[None])
    with np.errstate(all="ignore"):
        lower, upper = module.interval(network, 1, ranges)
    pairs = zip(lower[0].tolist(), upper[0].tolist(), exact, strict=True)
    return sum(found_low > least or found_high < most for found_low, found_high, (least, most) in pairs)


def ends(matrix: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    """Return the exact ends of W x on a box."""
    return [
        (dot(row, np.where(row > 0, low, high)), dot(row, np.where(row > 0, high, low))) for row in np.asarray(matrix)
    ]


def test_interval_sizes() -> None:
    """W·mid cancels."""
    rng = np.random.default_rng(12)
    point = rng.standard_normal(9) * 2.0 ** rng.integers(-40, 40, 9)
    matrix = cancelling(rng, point)
    exact = ends(matrix, point, point)
    assert interval_above([SIZES], Linear(matrix), point, point, exact) > 0
    assert interval_above([], Linear(matrix), point, point, exact) == 0


def test_interval_bias() -> None:
    """Needed for folded biases alone: one sum with an exact bias is covered by the step outward."""
    rng = np.random.default_rng(13)
    factor, mean = rng.standard_normal(200), rng.standard_normal(200)
    beta = mean * factor * (1 + 1e-15 * rng.standard_normal(200))
    op = Scale(factor, bias=beta - mean * factor, folded=True, spread=np.abs(beta) + np.abs(mean * factor))
    exact = [(dot([beta[i], -mean[i]], [1.0, factor[i]]),) * 2 for i in range(200)]
    nothing = np.zeros(200)
    assert interval_above([SIZES_BIAS], op, nothing, nothing, exact) > 0
    assert interval_above([], op, nothing, nothing, exact) == 0


def test_interval_radius_and_step_outward() -> None:
    """mid − rad is near 0, while rad is large: its own rounding is covered by the sizes, and so is the step outward."""
    rng = np.random.default_rng(14)
    high = 1 + rng.random(500)
    low = high * 2.0**-30 * rng.random(500)
    one = Scale(np.ones(500))
    exact = [(Fraction(a), Fraction(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    for alone in ([], [SIZES], [RADIUS], [OUTWARD]):
        assert interval_above(alone, one, low, high, exact) == 0, alone
    assert interval_above([SIZES, RADIUS], one, low, high, exact) > 0
    third = rng.random(500)
    exact = [(p * Fraction(f), q * Fraction(f)) for (p, q), f in zip(exact, third.tolist(), strict=True)]
    assert interval_above([SIZES, OUTWARD], Scale(third), low, high, exact) > 0
    for alone in ([], [RADIUS], [OUTWARD]):
        assert interval_above(alone, Scale(third), low, high, exact) == 0, alone


def test_interval_underflow() -> None:
    point, matrix = np.full(1000, 2.0**-537), np.full((1, 1000), 0.9375 * 2.0**-538)
    exact = ends(matrix, point, point)
    assert interval_above([INTERVAL_UNDERFLOW], Linear(matrix), point, point, exact) > 0
    assert interval_above([], Linear(matrix), point, point, exact) == 0


# --- the statement ---


@pytest.mark.parametrize("up", [False, True])
def test_boxes_go_outward(up: bool) -> None:
    """A box holds the specification's decimals, and the float32 nearest to each."""
    rng = np.random.default_rng(15)
    numbers = [Fraction(int(n), 10 ** int(rng.integers(0, 30))) for n in rng.integers(-(10**9), 10**9, 500)]
    half = 1 + Fraction(1, 2**24)  # between two float32s
    numbers += [
        half,
        half + Fraction(1, 10**30),
        half - Fraction(1, 10**30),
        Fraction(1, 10**400),
        -Fraction(1, 10**400),
    ]
    directed = ("if (Fraction(nearest) < exact) if up else (Fraction(nearest) > exact):", "if False:")
    singles = ("max(nearest, single) if up else min(nearest, single)", "nearest")
    for changes, missed in (((), False), ((directed, singles), True), ((singles,), True), ((directed,), True)):
        found = without(npcheck.statement, *changes).outward(numbers, up=up)
        wrong = 0
        for bound, exact in zip(found.tolist(), numbers, strict=True):
            single = nearest_single(exact)
            worst = max(exact, single) if up else min(exact, single)
            wrong += Fraction(bound) < worst if up else Fraction(bound) > worst
        assert (wrong > 0) == missed, changes


def nearest_single(exact: Fraction) -> Fraction:
    """Return the nearest float32, of two the even one."""
    near = np.float32(float(exact))
    candidates = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    best = min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1))
    return Fraction(float(best))
