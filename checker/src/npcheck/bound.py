"""The lemma, and the pass back that rests on it: a lower bound of a linear form of the network on a sub-domain.

**The lemma.** Let l <= h <= u. For any numbers a and p

    a·relu(h) >= p·h + k,   k = min( a·relu(l) − p·l,  a·relu(u) − p·u,  and 0 where l < 0 < u ).

Proof. a·relu(h) − p·h is linear in h on [l, 0] and on [0, u], so its least value on [l, u] is at l, at u or at 0,
and at 0 it is 0. ∎

Nothing else is known of a ReLU here. Other nonlinear operators lie between two planes, which `smooth` and `product`
show; a coefficient picks one of them by its sign. A slope, a multiplier of a split, a dual point of an LP or a ray
only choose p; whatever a certificate says of p, the bound holds. A split only moves l or u to 0.

**The pass.** F(x) = Σ_v ⟨A_v, v(x)⟩ + c is carried from the output to the input, one node v of the network at a time.
At all times, for every x of the sub-domain,

    F(x) >= c + Σ ⟨A_v, v(x)⟩ − E    over the nodes v that are still to be replaced,                          (*)

where c, A_v and E >= 0 are numbers in float64, which are taken as exact from there on. A step computes new ones with
rounding errors, and E grows by at least as much as these errors can be. This is what a charge is.

**Charges.** u = 2^-53 is float64's unit roundoff. A sum of n products in any order, fused or not, is off by at most
γ_n Σ|x_i y_i|, γ_n = n·u / (1 − n·u), if nothing overflows; and by n·2^-1022 more where numbers underflow. N is larger
by 64 than the number of terms of any sum here (`Network` says how many its operators add), and g = 4·N·u. So one
charge of g times a sum of magnitudes pays four times for a sum of that many products, and with 4·64·u left over for
constants that were folded in float64 when the file was read. All of E is doubled in the end, which pays for the
rounding of E itself: its sums have positive terms, and are off by a factor below 2 by far. An overflow makes c or E
infinite or NaN, and then nothing is proved.

**Underflow.** A number that underflows is off by 2^-1022 at most. Three things may be multiplied with it after that: a
value v_i(x), a weight λ, and, in a sum of magnitudes |W| Z + |b| or in what lines drop, a coefficient. No value is
beyond 2^150, since bounds beyond that are taken as infinite, and no λ beyond 2^128, a float32: there are less than 2^40
such errors of 2^-744 each, which 2^-700 pays for in the end. And 2^-700 is added to each sum of magnitudes, and to what
a ReLU's lines are charged for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from npcheck.ball import Ball
from npcheck.network import Affine, Network, Nonlinear, Plane, Planes, Relu
from npcheck.statement import Array, Rows

Places = NDArray[np.int64]
Known = TypeVar("Known", np.float64, np.bool_)

UNIT = 2.0**-53
UNDERFLOW = 2.0**-700
LARGEST = 2.0**150  # bounds beyond it are as good as none
NEARLY = 1.0 - 2.0**-30  # u and −l are often equal but for roundings: then the share does not depend on these


class Slopes(Protocol):
    """Chooses p. Nothing that it does can make a bound wrong."""

    def shares(self, node: int) -> Array | None:
        """Return the slopes (B, n) of the lower lines of the ReLUs that read a node; NaN, or None, for the default."""

    def columns(self, node: int) -> Places:
        """Return the entries of a node that `choose` is asked about, whatever their sign."""

    def choose(self, node: int, p: Array, columns: Places) -> Array:
        """Return p (B, column) for these entries, from p by lines."""


class Trace(Protocol):
    """Keeps what a pass back chose for some of its forms. The pass goes on as if it were not there."""

    def replaced(self, node: int, coefficients: Array, p: Array | None) -> None:
        """Hear of a node's coefficients A (B, n) when the node is replaced, and of p (B, n) where it is a ReLU."""

    def bent(self, node: int, p: list[Array], plane: Plane) -> None:
        """Hear of p (B, n) by operand, and of the planes that were taken, where it is another nonlinear operator."""

    def found(self, bounds: Array) -> None:
        """Hear of the forms' bounds (B,)."""


class Watch(Protocol):
    """Chooses passes back that are to be done again, in exact arithmetic: see `exact`."""

    def begin(self, form: Form, ranges: Ranges) -> Trace | None:
        """Return what follows some of a batch's forms from here on, if any."""

    def disjunct(self, target: int) -> None:
        """Hear that sums of rows are of this disjunct from here on."""


@dataclass(frozen=True)
class Triangles:
    """The lines about relu(h) on each of some sub-domains: (D, n) each.

    Where l < 0 < u the line above is the chord through (l, 0) and (u, u), and lines below go through 0. Elsewhere
    relu(h) is linear, and both are relu(h) itself.
    """

    unstable: NDArray[np.bool_]  # l < 0 < u
    chord: Array  # its slope, in [0, 1]
    share: Array  # the slope of the line below that is taken by default: 1 where u is −l nearly or more, else 0
    drop: Array  # how far the chord is above relu(h) at most, or the other way round; 0 where it is linear
    reach: Array  # relu(u) + max(|l|, |u|) + 2^-700; 0 where it is linear
    crossed: NDArray[np.bool_]  # (D, 1): somewhere l > u

    @classmethod
    def of(cls, low: Array, high: Array) -> Triangles:
        """Compute them from bounds of h."""
        unstable = (low < 0.0) & (high > 0.0)
        active = (low >= 0.0).astype(np.float64)
        chord = np.where(unstable, high, 0.0) / np.where(unstable, high - low, 1.0)
        drop = np.maximum(chord * -low, (1.0 - chord) * high)
        return cls(
            unstable,
            np.where(unstable, chord, active),
            np.where(unstable, high >= -low * NEARLY, active),
            np.where(unstable, drop, 0.0),
            np.where(unstable, high + np.maximum(-low, high) + UNDERFLOW, 0.0),
            crossed(low, high),
        )

    def at(self, place: int) -> Triangles:
        """Return those of one sub-domain."""
        some = slice(place, place + 1)
        if len(self.unstable) == 1:
            return self
        lines = (self.chord[some], self.share[some], self.drop[some], self.reach[some])
        return Triangles(self.unstable[some], *lines, self.crossed[some])


@dataclass
class Ranges:
    """What is known of every node's values on each of some sub-domains: (D, n) each, or (1, n) where all share it.

    Where there is one, all forms are bounded on it; else the first form on the first, and so on.
    """

    lower: list[Array]  # by node
    upper: list[Array]
    watch: Watch | None = None
    ball: Ball | None = None  # that cuts the box of the input
    whole: Ranges | None = None  # where these are one sub-domain of others: those, and which it is
    place: int = 0
    _sums: dict[int, Array] = field(default_factory=dict)
    _triangles: dict[int, Triangles] = field(default_factory=dict)
    _planes: dict[int, Planes] = field(default_factory=dict)

    def part(self, place: int) -> Ranges:
        """Return what is known of one sub-domain."""

        def of(side: list[Array]) -> list[Array]:
            return [known if len(known) == 1 else known[place : place + 1] for known in side]

        return Ranges(of(self.lower), of(self.upper), self.watch, self.ball, self, place)

    @property
    def known(self) -> int:
        """Return how many nodes were bounded so far: these are the first."""
        return next((node for node, part in enumerate(self.lower) if not part.shape[1]), len(self.lower))

    def magnitude(self, node: int) -> Array:
        """Return Z_v: no |v_i(x)| is larger on the sub-domain."""
        return np.maximum(np.abs(self.lower[node]), np.abs(self.upper[node]))

    def sums(self, network: Network, node: int) -> Array:
        """Return |W| Z_w + |b| of an affine node, computed once: ranges that get tighter later keep it large enough.

        With 2^-700 on top, so that no underflow in it is lost when a large coefficient multiplies it.
        """
        if self.whole is not None:
            sums = self.whole.sums(network, node)
            return sums if len(sums) == 1 else sums[self.place : self.place + 1]
        if node not in self._sums:
            op = network.nodes[node].op
            assert isinstance(op, Affine)
            sizes = [self.magnitude(w) for w in network.nodes[node].inputs]
            most = max(len(part) for part in sizes)  # an input that is divided has a row for each part, others one
            total = op.magnitude([np.broadcast_to(part, (most, part.shape[1])) for part in sizes])
            self._sums[node] = (total if op.bias_magnitude is None else total + op.bias_magnitude) + UNDERFLOW
        return self._sums[node]

    def triangles(self, node: int) -> Triangles:
        """Return the lines about the ReLUs that read a node, computed once: they stay true when ranges get tighter."""
        if self.whole is not None:
            return self.whole.triangles(node).at(self.place)
        if node not in self._triangles:
            self._triangles[node] = Triangles.of(self.lower[node], self.upper[node])
        return self._triangles[node]

    def planes(self, network: Network, node: int) -> Planes:
        """Return the planes that another nonlinear operator lies between, computed once, too."""
        if self.whole is not None:
            return self.whole.planes(network, node).at(self.place)
        if node not in self._planes:
            op, inputs = network.nodes[node].op, network.nodes[node].inputs
            assert isinstance(op, Nonlinear)
            self._planes[node] = op.planes([self.lower[w] for w in inputs], [self.upper[w] for w in inputs])
        return self._planes[node]


def dot(a: Array, sizes: Array) -> Array:
    """Return (B,): the sum of coefficients a (B, n) times sizes (D, n) of each form's sub-domain."""
    return np.asarray(a @ sizes[0] if len(sizes) == 1 else np.einsum("ij,ij->i", a, sizes))


def crossed(low: Array, high: Array) -> NDArray[np.bool_]:
    """Say on which sub-domains some l > u, (D, 1)."""
    return np.asarray((low > high).any(1, keepdims=True), dtype=np.bool_)


def charge_rate(network: Network) -> float:
    """Return g of the module's text."""
    return 4.0 * (network.terms + 64) * UNIT


@dataclass
class Form:
    """c + Σ ⟨A_v, v(x)⟩ − E of (*), for a batch of B sub-domains."""

    constant: Array  # (B,): c
    error: Array  # (B,): E
    coefficients: dict[int, Array]  # by node v: A_v (B, n)
    weights: Array | None = None  # (B, row): λ, of a form that is a sum of rows

    @classmethod
    def of_rows(cls, rows: Rows, weights: Array, output: int, ranges: Ranges) -> Form:
        """Return Σ_j λ_j r_j for weights λ (B, row): fl(λᵀC), fl(λᵀa) and −fl(λᵀd).

        The R numbers of C, a and d are nearest to the specification's, and each sum is one of R products: off by
        (R + 2)·u of the sum of magnitudes, of which twice as much and more is charged.
        """
        rate = 8.0 * (len(rows.right) + 2) * UNIT
        error = dot(weights @ np.abs(rows.outputs), ranges.magnitude(output)) + weights @ np.abs(rows.right)
        form = cls(-(weights @ rows.right), rate * error, {output: weights @ rows.outputs}, weights)
        if rows.inputs is not None:
            form.error += rate * dot(weights @ np.abs(rows.inputs), ranges.magnitude(0))
            form.add(0, weights @ rows.inputs, ranges, rate)  # the output may be the input itself
        return form

    @classmethod
    def of_neurons(cls, node: int, size: int, neurons: NDArray[np.int64], sign: float | Array) -> Form:
        """Return the forms h_i, or −h_i where the sign is −1, of neurons of one node: exact."""
        seed = np.zeros((len(neurons), size))
        seed[np.arange(len(neurons)), neurons] = sign
        return cls(np.zeros(len(neurons)), np.zeros(len(neurons)), {node: seed})

    def add(self, node: int, more: Array, ranges: Ranges, rate: float) -> None:
        """Add ⟨more, v(x)⟩. Where the node has a coefficient already, their sum is rounded: charge g ⟨|A|, Z⟩."""
        before = self.coefficients.get(node)
        if before is None:
            self.coefficients[node] = more
            return
        total = before + more
        self.coefficients[node] = total
        self.error += rate * dot(np.abs(total), ranges.magnitude(node))


def lower_bound(network: Network, form: Form, ranges: Ranges, slopes: Slopes) -> Array:
    """Carry a form back to the input: (B,), below its least value on each sub-domain; inf where that is empty.

    Empty is a sub-domain where some l > u: both were proved of all of its points, so it has none. A form that is
    not a number, or beyond all values, is bounded by −inf.
    """
    trace = None if ranges.watch is None else ranges.watch.begin(form, ranges)
    empty = carry_back(network, form, ranges, slopes, trace)
    empty |= crossed(ranges.lower[0], ranges.upper[0])[:, 0]
    bounds = np.where(empty, np.inf, _over_the_box(form, ranges, charge_rate(network)))
    if trace is not None:
        trace.found(bounds)
    return bounds


def carry_back(
    network: Network, form: Form, ranges: Ranges, slopes: Slopes, trace: Trace | None = None
) -> NDArray[np.bool_]:
    """Carry a form back until only the input is left in it; say which sub-domains are empty (B,)."""
    rate = charge_rate(network)
    empty = np.zeros(len(form.constant), dtype=bool)
    for node in range(max(form.coefficients, default=0), 0, -1):
        coefficient = form.coefficients.pop(node, None)
        if coefficient is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        p = None
        if isinstance(op, Relu):
            p, nowhere = _through_relu(inputs[0], coefficient, form, ranges, slopes, rate)
            empty |= nowhere
        elif isinstance(op, Nonlinear):
            empty |= _through_planes(network, node, coefficient, form, ranges, rate, trace)
        else:
            assert isinstance(op, Affine)
            _through_affine(network, node, coefficient, form, ranges, rate)
        if trace is not None:
            trace.replaced(node, coefficient, p)
    return empty


def _through_affine(network: Network, node: int, coefficient: Array, form: Form, ranges: Ranges, rate: float) -> None:
    """Replace v = W·w + b.

    B = fl(Wᵀ A) is off by γ |Wᵀ||A| in each entry, so ⟨B, w⟩ by γ ⟨|A|, |W| Z_w⟩; c gains fl(⟨A, b⟩), off by
    γ ⟨|A|, |b|⟩, and the sum with c is rounded once. Charge g (⟨|A|, |W| Z_w + |b|⟩ + |c|).
    """
    op = network.nodes[node].op
    assert isinstance(op, Affine)
    if op.bias is not None:
        form.constant = form.constant + coefficient @ op.bias
    form.error += rate * (dot(np.abs(coefficient), ranges.sums(network, node)) + np.abs(form.constant))
    for w, part in zip(network.nodes[node].inputs, op.adjoint(coefficient), strict=True):
        form.add(w, part, ranges, rate)


def _through_relu(
    before: int, coefficient: Array, form: Form, ranges: Ranges, slopes: Slopes, rate: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Replace z = relu(h) by the lemma; return p (B, n), and where h has no value at all (B,).

    *By lines.* Where h has one sign, p = a to the right of 0 and p = 0 to the left: then k is 0, without any rounding.
    Elsewhere l < 0 < u, and k = min( −p·l, (a − p)·u, 0 ). Where a >= 0, p = fl(a·s) with a share 0 <= s <= 1, so
    0 <= p <= a and k is 0 again. Where a < 0, p = fl(a·c) with the chord's slope 0 <= c <= 1, and
    k >= −|a|·max( c·|l|, (1 − c)·u ) up to a few roundings of |a|·max(|l|, u): c is one number, whatever it is. So the
    sum of k is a sum of products ⟨min(a, 0), drop⟩. Charge g (Σ |a|·(relu(u) + max(|l|, |u|) + 2^-700) + |c|).

    *Chosen.* Elsewhere p is any number, and k has three roundings. Charge g (Σ |a|·relu(u) + |p|·max(|l|, |u|)), since
    relu(l) <= relu(u), and |l| and |u| are within the second term.
    """
    lines, share = ranges.triangles(before), slopes.shares(before)
    if share is not None:
        share = np.where(lines.unstable & ~np.isnan(share), np.clip(share, 0.0, 1.0), lines.share)
    below = np.minimum(coefficient, 0.0)
    above = coefficient - below  # one of them is 0, and the other is a
    p = above * (lines.share if share is None else share) + below * lines.chord
    sizes = dot(above - below, lines.reach)
    columns = slopes.columns(before)
    if len(columns):
        below[:, columns] = 0.0
        a, low, high = coefficient[:, columns], ranges.lower[before][:, columns], ranges.upper[before][:, columns]
        chosen = p[:, columns] = slopes.choose(before, p[:, columns], columns)
        right = np.maximum(high, 0.0)
        k = np.minimum(a * np.maximum(low, 0.0) - chosen * low, a * right - chosen * high)
        k = np.where((low < 0.0) & (high > 0.0), np.minimum(k, 0.0), k)
        form.constant = form.constant + k.sum(1)
        sizes += (np.abs(a) * right + np.abs(chosen) * np.maximum(np.abs(low), np.abs(high))).sum(1)
    form.constant = form.constant + dot(below, lines.drop)
    form.error += rate * (sizes + np.abs(form.constant))
    form.add(before, p, ranges, rate)
    return p, lines.crossed[:, 0]


def _through_planes(
    network: Network, node: int, coefficient: Array, form: Form, ranges: Ranges, rate: float, trace: Trace | None
) -> NDArray[np.bool_]:
    """Replace z = g(h, …) by one of its planes Σ s·h + c: the lower one where a >= 0, else the upper one.

    p = fl(a·s) is off by u·|p|, so ⟨p, h⟩ by u·⟨|p|, Z_h⟩; each a·c is rounded, and added up. Charge
    g (Σ ⟨|p|, Z_h⟩ + Σ|a·c| + |c|). Return where an operand has no value at all (B,).
    """
    plane = ranges.planes(network, node).facing(coefficient)
    k = np.where(coefficient == 0.0, 0.0, coefficient * plane.constant)  # a constant may be infinite
    p = [coefficient * slope for slope in plane.slopes]
    form.constant = form.constant + k.sum(1)
    form.error += rate * (np.abs(k).sum(1) + np.abs(form.constant))
    empty = np.zeros(len(coefficient), dtype=bool)
    for w, part in zip(network.nodes[node].inputs, p, strict=True):
        form.error += rate * dot(np.abs(part), ranges.magnitude(w))
        form.add(w, part, ranges, rate)
        empty |= crossed(ranges.lower[w], ranges.upper[w])[:, 0]
    if trace is not None:
        trace.bent(node, p, plane)
    return empty


def _over_the_box(form: Form, ranges: Ranges, rate: float) -> Array:
    """Take the least value on the box of the input: Σ min(A_i l_i, A_i u_i). Charge g (⟨|A|, Z_0⟩ + |c|).

    Where there is a ball, `ball` has both. What is left is c − 2E − 2^-700, rounded down: the subtractions are off by
    2u of what they give and of what they take away, which is in the charge for c and in the doubling of E; one more
    step down keeps it below.
    """
    a = form.coefficients.get(0)
    if a is not None and ranges.ball is not None:
        value, sizes = ranges.ball.least(a, ranges.lower[0], ranges.upper[0])
        form.constant = form.constant + value
        form.error += rate * (np.abs(form.constant) + sizes)
    elif a is not None:
        form.constant = form.constant + np.minimum(a * ranges.lower[0], a * ranges.upper[0]).sum(1)
        form.error += rate * (dot(np.abs(a), ranges.magnitude(0)) + np.abs(form.constant))
    value = np.nextafter(form.constant - 2.0 * form.error - UNDERFLOW, -np.inf)
    return np.where(np.abs(value) <= LARGEST, value, -np.inf)
