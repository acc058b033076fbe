"""Some passes back once more, in exact arithmetic: a check of the rounding argument of `bound`, on this very proof.

All numbers of a pass are floats, so they are whole numbers times powers of 2, and sums and products of them are, too.
Python's integers hold them without any rounding. What is done again is one form on one part: a leaf of a disjunct, or a
neuron's bound. It starts from the exact weights and from the specification's own fractions. It uses the ranges that the
pass in float64 used, and of its other numbers only those that may be chosen freely: the p of ReLUs, and the
coefficients A_v of the nodes on the way. Each step is an inequality that holds whatever these are.

    v = W·w + b     ⟨A, v⟩ = ⟨Wᵀ A, w⟩ + ⟨A, b⟩, exactly
    z = relu(h)     a·z >= p·h + k by the lemma, exactly
    z = g(h, …)     a·z >= Σ a·s·h + a·c by the plane that was taken: the plane itself is taken as it is
    at a node       with coefficients A' by these steps, and A of the pass in float64:
                    ⟨A', v⟩ >= ⟨A, v⟩ + Σ min(δ_i l_i, δ_i u_i), δ = A' − A

The last is what a charge pays for: a rounding error times the largest value that it may meet. So when the charges are
right, the exact value is never below the one in float64, and when it is below, a charge was too small, or a step was
done wrongly: the check ends with `Invalid`. The value in float64 was above what was to be shown: so is the exact one.

What this does not do again: intervals and planes (both are taken as they are), how the tree covers the box, and
numbers that were folded in float64 when the file was read (`folded` in `network`): the exact value is about the folded
numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npcheck.ball import Ball, root_above
from npcheck.bound import Form, Ranges
from npcheck.errors import Invalid
from npcheck.network import Affine, Convolution, Linear, Network, Nonlinear, Plane, Relu, Scale, Sum, Take
from npcheck.statement import Array
from npcheck.vnnlib_file import Question, Row

Integers = NDArray[np.object_]

HUGE = Fraction(2**1000)  # within float64


@dataclass(frozen=True)
class Dyadic:
    """An array of numbers n·2^e, with one e for all of them."""

    numbers: Integers  # of Python's own, without limit
    exponent: int

    def __add__(self, other: Dyadic) -> Dyadic:
        exponent = min(self.exponent, other.exponent)
        return Dyadic(self.at(exponent) + other.at(exponent), exponent)

    def __sub__(self, other: Dyadic) -> Dyadic:
        exponent = min(self.exponent, other.exponent)
        return Dyadic(self.at(exponent) - other.at(exponent), exponent)

    def __mul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(self.numbers * other.numbers, self.exponent + other.exponent)

    def __getitem__(self, places: Any) -> Dyadic:
        return Dyadic(self.numbers[places], self.exponent)

    def at(self, exponent: int) -> Integers:
        """Return the numbers for an exponent that is not larger."""
        shifted: Integers = self.numbers * (1 << (self.exponent - exponent))
        return shifted

    def least(self, other: Dyadic) -> Dyadic:
        """Return the smaller of two numbers, entry by entry."""
        exponent = min(self.exponent, other.exponent)
        return Dyadic(np.minimum(self.at(exponent), other.at(exponent)), exponent)

    def fraction(self, place: int) -> Fraction:
        """Return one number."""
        return Fraction(self.numbers[place]) * Fraction(2) ** self.exponent

    def total(self) -> Fraction:
        """Return the sum of all numbers."""
        return Fraction(sum(self.numbers.reshape(-1).tolist())) * Fraction(2) ** self.exponent


def dyadic(floats: Array) -> Dyadic:
    """Return floats exactly; they are finite."""
    mantissas, exponents = np.frexp(floats)
    whole = np.asarray(mantissas * 2.0**53).astype(np.int64)  # exact: 53 bits
    zeros = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # trailing zero bits; of 0, anything
    used = whole != 0
    if not used.any():
        return Dyadic(whole.astype(object), 0)
    powers = exponents.astype(np.int64) - 53 + zeros
    lowest = int(powers[used].min())
    shifts = np.where(used, powers - lowest, 0).astype(object)
    return Dyadic(np.left_shift((whole >> np.where(used, zeros, 0)).astype(object), shifts), lowest)


# --- affine operators ---


def transposed(op: Affine, weights: Dyadic, a: Dyadic) -> list[Dyadic]:
    """Return Wᵀ a for one vector a, by input; weights: `weights_of` the operator."""
    exponent = a.exponent + weights.exponent
    if isinstance(op, Linear):
        rows = a.numbers.reshape(op.copies, -1)
        used = (rows != 0).any(0)  # most coefficients are often 0
        products = rows[:, used] @ weights.numbers[used]
        return [Dyadic(np.zeros(op.sizes[0], dtype=object) if not used.any() else products.reshape(-1), exponent)]
    if isinstance(op, Convolution):
        return [Dyadic(_unconvolved(op, weights.numbers, a.numbers), exponent)]
    if isinstance(op, Scale):
        return [a * weights]
    if isinstance(op, Sum):
        return [Dyadic(a.numbers * sign, a.exponent) for sign in op.signs]
    assert isinstance(op, Take), "an operator that is not known here"
    picked = np.zeros(sum(op.sizes), dtype=object)
    there = op.index >= 0
    np.add.at(picked, op.index[there], a.numbers[there])
    return [Dyadic(part, a.exponent) for part in np.split(picked, np.cumsum(op.sizes)[:-1])]


def weights_of(op: Affine) -> Dyadic:
    """Return the numbers of W, as the operator keeps them; none where they are all 0 or ±1."""
    if isinstance(op, Linear):
        return dyadic(op.weight)
    if isinstance(op, Convolution):
        return dyadic(op.taps)
    return dyadic(op.factor if isinstance(op, Scale) else np.zeros(0))


def _unconvolved(op: Convolution, taps: Integers, a: Integers) -> Integers:
    """Return the transpose of a convolution: each entry of the result goes back to the pixels it was made of."""
    top, left, _, _ = op.windows.pads
    height, width = op.windows.image
    image = np.zeros((op.group, op.ins, *op.windows.padded), dtype=object)
    results = a.reshape(op.group, op.outs, -1)
    for i, j in op.windows.positions():
        rows, columns = op.windows.under(i, j)
        image[..., rows, columns] += np.stack(
            [(taps[i, j, group].T @ results[group]).reshape(op.ins, *op.windows.result) for group in range(op.group)]
        )
    inner: Integers = image[..., top : top + height, left : left + width].reshape(-1)
    return inner


# --- one pass ---


@dataclass
class Pass:
    """One form on one part: what it starts from, what was chosen on its way, and what came out in float64."""

    place: str
    constant: Fraction
    seeds: dict[int, dict[int, Fraction]]  # by node, by entry: the form, exactly
    lower: list[Array]  # by node (n,), as far as the form reaches
    upper: list[Array]
    ball: Ball | None = None
    coefficients: dict[int, Array] = field(default_factory=dict)  # by node (n,): A
    p: dict[int, Array] = field(default_factory=dict)  # by ReLU (n,)
    planes: dict[int, tuple[list[Array], Plane]] = field(default_factory=dict)  # by other node: p, s and c
    bound: float = -np.inf


class Exact:
    """Does passes again, for one network; W of an operator is made exact once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._weights: dict[int, Dyadic] = {}

    def bound(self, given: Pass) -> Fraction | float:
        """Return the exact value; inf where the part is empty, −inf where ranges without end leave none."""
        nodes = self._network.nodes
        if (given.lower[0] > given.upper[0]).any():
            return np.inf
        passed = {h for node in (*given.p, *given.planes) for h in nodes[node].inputs}
        if any((given.lower[h] > given.upper[h]).any() for h in passed):
            return np.inf
        constant = given.constant
        left: dict[int, Dyadic] = {}
        for node in range(max(given.seeds), 0, -1):
            if node not in given.coefficients:
                continue
            chosen = dyadic(given.coefficients[node])
            lost = _exchanged(given, node, left.pop(node, None), chosen)
            if lost is None:
                return -np.inf
            constant += lost
            op, inputs = nodes[node].op, nodes[node].inputs
            if isinstance(op, Relu):
                (h,) = inputs
                k = _lemma(given.coefficients[node], given.p[node], given.lower[h], given.upper[h])
                if k is None:
                    return -np.inf
                constant += k
                _add(left, h, dyadic(given.p[node]))
                continue
            if isinstance(op, Nonlinear):
                k = _between_planes(given, node, inputs)
                if k is None:
                    return -np.inf
                constant += k
                for h, p in zip(inputs, given.planes[node][0], strict=True):
                    _add(left, h, dyadic(p))
                continue
            assert isinstance(op, Affine)
            if op.bias is not None:
                constant += (chosen * dyadic(op.bias)).total()
            for w, part in zip(inputs, transposed(op, self._weights_of(node, op), chosen), strict=True):
                _add(left, w, part)
        assert left.keys() <= {0}, "a node of the form was not replaced"
        return constant + _over_the_box(given, left.get(0))

    def _weights_of(self, node: int, op: Affine) -> Dyadic:
        if node not in self._weights:
            self._weights[node] = weights_of(op)
        return self._weights[node]


def _add(left: dict[int, Dyadic], node: int, part: Dyadic) -> None:
    left[node] = left[node] + part if node in left else part


def _exchanged(given: Pass, node: int, exact: Dyadic | None, chosen: Dyadic) -> Fraction | None:
    """Return what the exact coefficients are worth at least beyond the chosen ones; None: nothing is known."""
    low, high = given.lower[node], given.upper[node]
    if node in given.seeds:
        own = given.seeds[node]
        rest = [own.get(i, Fraction(0)) - chosen.fraction(i) for i in range(len(low))]
        if exact is not None:
            rest = [difference + exact.fraction(i) for i, difference in enumerate(rest)]
        return _least(dict(enumerate(rest)), low, high)
    assert exact is not None
    difference = exact - chosen
    (places,) = (difference.numbers != 0).nonzero()
    if not len(places):
        return Fraction(0)
    if not (np.isfinite(low[places]).all() and np.isfinite(high[places]).all()):
        return None
    some = difference[places]
    return (some * dyadic(low[places])).least(some * dyadic(high[places])).total()


def _least(factors: dict[int, Fraction], low: Array, high: Array) -> Fraction | None:
    """Return Σ min(f_i l_i, f_i u_i); None where an end that counts is infinite."""
    total = Fraction(0)
    for i, factor in factors.items():
        if factor:
            end = float(low[i] if factor > 0 else high[i])
            if not np.isfinite(end):
                return None
            total += factor * Fraction(end)
    return total


def _lemma(a: Array, p: Array, low: Array, high: Array) -> Fraction | None:
    """Return Σ k of a node, all ranges having l <= u; None where one that counts is infinite."""
    linear = ((low >= 0.0) & (p == a)) | ((high <= 0.0) & (p == 0.0))  # there k is 0
    (places,) = (~linear).nonzero()
    if not len(places):
        return Fraction(0)
    low, high = low[places], high[places]
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    factor, line = dyadic(a[places]), dyadic(p[places])
    at_low = factor * dyadic(np.maximum(low, 0.0)) - line * dyadic(low)
    at_high = factor * dyadic(np.maximum(high, 0.0)) - line * dyadic(high)
    k = at_low.least(at_high)
    both = (low < 0.0) & (high > 0.0)
    k.numbers[both] = np.minimum(k.numbers[both], 0)
    return k.total()


def _between_planes(given: Pass, node: int, operands: tuple[int, ...]) -> Fraction | None:
    """Return Σ a·c + Σ min((a·s − p)·h) of a node, by the plane Σ s·h + c that was taken; None where there was none."""
    a, (chosen, plane) = given.coefficients[node], given.planes[node]
    (places,) = a.nonzero()
    if not np.isfinite(plane.constant[places]).all():
        return None
    total = (dyadic(a[places]) * dyadic(plane.constant[places])).total()
    for h, p, slope in zip(operands, chosen, plane.slopes, strict=True):
        rest = dyadic(a) * dyadic(slope) - dyadic(p)
        factors = {i: rest.fraction(i) for i in rest.numbers.nonzero()[0].tolist()}
        lost = _least(factors, given.lower[h], given.upper[h])
        if lost is None:
            return None
        total += lost
    return total


def _over_the_box(given: Pass, exact: Dyadic | None) -> Fraction:
    """Return the least value of what is left, a form of the inputs; with a ball, by a division as in `ball`."""
    factors = dict(given.seeds.get(0, {}))
    if exact is not None:
        for i in (exact.numbers != 0).nonzero()[0].tolist():
            factors[i] = factors.get(i, Fraction(0)) + exact.fraction(i)
    ball, bound = given.ball, Fraction(0)
    if ball is not None:
        a = np.zeros((1, len(given.lower[0])))
        a[0, list(factors)] = [float(min(max(factor, -HUGE), HUGE)) for factor in factors.values()]  # any u is sound
        u = [Fraction(part) for part in ball.divided(a, given.lower[0][None], given.upper[0][None])[0][0].tolist()]
        for i, part, c in zip(ball.inputs.tolist(), u, ball.centre.tolist(), strict=True):
            factors[i] = factors.get(i, Fraction(0)) - part
            bound += part * Fraction(c)
        bound -= Fraction(ball.radius) * root_above(sum((part * part for part in u), Fraction(0)))
    least = _least(factors, given.lower[0], given.upper[0])
    assert least is not None  # boxes have ends
    return bound + least


# --- a sample of them ---


class Reservoir:
    """Keeps some of the things that come by, each with the same chance however many they will be."""

    def __init__(self, count: int, chance: random.Random) -> None:
        self.kept: list[Pass] = []
        self.met = 0
        self._count, self._chance = count, chance

    def offer(self, made: Callable[[], Pass]) -> Pass | None:
        """Hear of one more; return it where it is kept, for now."""
        self.met += 1
        slot = len(self.kept) if len(self.kept) < self._count else self._chance.randrange(self.met)
        if slot >= self._count:
            return None
        self.kept[slot : slot + 1] = [made()]
        return self.kept[slot]


class Followed:
    """A `bound.Trace` of some forms of a batch."""

    def __init__(self, passes: dict[int, Pass]) -> None:
        self._passes = passes  # by place in the batch

    def replaced(self, node: int, coefficients: Array, p: Array | None) -> None:
        """Keep what was chosen at a node."""
        for place, kept in self._passes.items():
            kept.coefficients[node] = coefficients[place].copy()
            if p is not None:
                kept.p[node] = p[place].copy()

    def bent(self, node: int, p: list[Array], plane: Plane) -> None:
        """Keep the plane that was taken, and what came of it."""
        for place, kept in self._passes.items():
            slopes = tuple(slope[place].copy() for slope in plane.slopes)
            kept.planes[node] = [part[place].copy() for part in p], Plane(slopes, plane.constant[place].copy())

    def found(self, bounds: Array) -> None:
        """Keep the value in float64."""
        for place, kept in self._passes.items():
            kept.bound = float(bounds[place])


class Sample:
    """A `bound.Watch` that keeps up to `count` leaves and `count` neurons' bounds, and does them again in the end."""

    def __init__(self, network: Network, question: Question, count: int, seed: int) -> None:
        self._network, self._question = network, question
        chance = random.Random(seed)
        self.leaves, self.neurons = Reservoir(count, chance), Reservoir(count, chance)
        self._target, self._before = 0, 0

    def disjunct(self, target: int) -> None:
        """Hear that the leaves that follow are of this disjunct."""
        self._target, self._before = target, self.leaves.met

    def begin(self, form: Form, ranges: Ranges) -> Followed | None:
        """Choose among the forms of a batch."""
        passes: dict[int, Pass] = {}
        among = self.neurons if form.weights is None else self.leaves
        for place in range(len(form.constant)):
            kept = among.offer(lambda place=place: self._pass(form, ranges, place))  # type: ignore[misc]
            if kept is not None:
                passes[place] = kept
        return Followed(passes) if passes else None

    def check(self, progress: Callable[[str, int], None]) -> None:
        """Do again what was kept; Invalid where the exact value is below the one in float64."""
        exact = Exact(self._network)
        for kept in self.leaves.kept + self.neurons.kept:
            value = exact.bound(kept)
            if kept.bound > value:  # exact between floats and fractions
                raise Invalid(f"{kept.place}: the bound {kept.bound!r} is above its exact value, {float(value)!r}")
            progress("exact arithmetic", 0)

    def _pass(self, form: Form, ranges: Ranges, place: int) -> Pass:
        if form.weights is None:
            seeds = self._neuron(form, place)
            return _pass(self._neuron_name(seeds), Fraction(0), seeds, ranges, place)
        rows = self._question.disjuncts[self._target].rows
        name = f"disjunct {self._target}: leaf {self.leaves.met - 1 - self._before}"
        return pass_of_rows(name, rows, form.weights[place], len(self._network.nodes) - 1, ranges, place)

    def _neuron(self, form: Form, place: int) -> dict[int, dict[int, Fraction]]:
        return {
            node: {int(i): Fraction(float(part[place, i])) for i in part[place].nonzero()[0]}
            for node, part in form.coefficients.items()
        }

    def _neuron_name(self, seeds: dict[int, dict[int, Fraction]]) -> str:
        node = max(seeds)
        ((neuron, sign),) = seeds[node].items()
        return f"neuron {neuron} of {self._network.nodes[node].name} from {'below' if sign > 0 else 'above'}"


def pass_of_rows(name: str, rows: tuple[Row, ...], weights: Array, output: int, ranges: Ranges, place: int) -> Pass:
    """Return what a pass of a weighted sum of rows starts from, on one of the parts of the ranges."""
    return _pass(name, *_sum_of(rows, weights, output), ranges, place)


def _pass(name: str, constant: Fraction, seeds: dict[int, dict[int, Fraction]], ranges: Ranges, place: int) -> Pass:
    end = max(seeds) + 1
    lower, upper = ([_of_part(part, place) for part in side[:end]] for side in (ranges.lower, ranges.upper))
    return Pass(name, constant, seeds, lower, upper, ranges.ball)


def _of_part(side: Array, row: int) -> Array:
    """Return a copy of the bounds of one part: the walk over a tree changes its box in place."""
    part: Array = side[0 if len(side) == 1 else row].copy()
    return part


def _sum_of(rows: tuple[Row, ...], weights: Array, output: int) -> tuple[Fraction, dict[int, dict[int, Fraction]]]:
    """Return Σ λ_j r_j with the specification's own numbers: its constant, and coefficients by node and entry."""
    constant, seeds = Fraction(0), {output: dict[int, Fraction](), 0: dict[int, Fraction]()}
    for row, weight in zip(rows, map(Fraction, weights.tolist()), strict=True):
        constant -= weight * row.right
        for node, part in ((output, row.outputs), (0, row.inputs)):
            for i, factor in part.items():
                seeds[node][i] = seeds[node].get(i, Fraction(0)) + weight * factor
    return constant, seeds
