"""The lemma, and the pass back that rests on it: a lower bound of a linear form of the network on a sub-domain.

**The lemma.** Let l <= h <= u. For any numbers a and p

    a·relu(h) >= p·h + k,   k = min( a·relu(l) − p·l,  a·relu(u) − p·u,  and 0 where l < 0 < u ).

Proof. a·relu(h) − p·h is linear in h on [l, 0] and on [0, u], so its least value on [l, u] is at l, at u or at 0,
and at 0 it is 0. ∎

Nothing else is known of a ReLU here. A slope, a multiplier of a split, a dual point of an LP or a ray only choose p;
whatever a certificate says of p, the bound holds. A split only moves l or u to 0.

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
rounding of E itself: its sums have positive terms, and are off by a factor below 2 by far. Underflow is paid for once,
by 2^-700: there are less than 2^100 operations. An overflow makes c or E infinite or NaN, and then nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npcheck.network import Affine, Network, Relu
from npcheck.statement import Array, Rows

UNIT = 2.0**-53
UNDERFLOW = 2.0**-700

# From the node h that a ReLU reads, coefficients a (B, n) of relu(h), and bounds l, u of h: p (B, n), any numbers.
Slopes = Callable[[int, Array, Array, Array], Array]


@dataclass(frozen=True)
class Ranges:
    """What is known of every node's values on each of some sub-domains: (B, n) each, or (1, n) where all share it."""

    lower: list[Array]  # by node
    upper: list[Array]

    def magnitude(self, node: int) -> Array:
        """Return Z_v: no |v_i(x)| is larger on the sub-domain."""
        return np.maximum(np.abs(self.lower[node]), np.abs(self.upper[node]))


def charge_rate(network: Network) -> float:
    """Return g of the module's text."""
    return 4.0 * (network.terms + 64) * UNIT


@dataclass
class Form:
    """c + Σ ⟨A_v, v(x)⟩ − E of (*), for a batch of B sub-domains."""

    constant: Array  # (B,): c
    error: Array  # (B,): E
    coefficients: dict[int, Array]  # by node v: A_v (B, n)

    @classmethod
    def of_rows(cls, rows: Rows, weights: Array, output: int, ranges: Ranges) -> Form:
        """Return Σ_j λ_j r_j for weights λ (B, row): fl(λᵀC), fl(λᵀa) and −fl(λᵀd).

        The R numbers of C, a and d are nearest to the specification's, and each sum is one of R products: off by
        (R + 2)·u of the sum of magnitudes, of which twice as much and more is charged.
        """
        rate = 8.0 * (len(rows.right) + 2) * UNIT
        coefficients = {output: weights @ rows.outputs}
        error = _dot(weights @ np.abs(rows.outputs), ranges.magnitude(output)) + weights @ np.abs(rows.right)
        if rows.inputs is not None:
            coefficients[0] = weights @ rows.inputs
            error = error + _dot(weights @ np.abs(rows.inputs), ranges.magnitude(0))
        return cls(-(weights @ rows.right), rate * error, coefficients)

    @classmethod
    def of_neurons(cls, node: int, size: int, neurons: NDArray[np.int64], sign: float) -> Form:
        """Return the forms h_i, or −h_i where sign is −1, of neurons of one node: exact."""
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
        self.error += rate * _dot(np.abs(total), ranges.magnitude(node))


def lower_bound(network: Network, form: Form, ranges: Ranges, slopes: Slopes) -> Array:
    """Carry a form back to the input: (B,), below its least value on each sub-domain; inf where that is empty.

    Empty is a sub-domain where some l > u: both were proved of all of its points, so it has none. A form that is
    not a number is bounded by −inf.
    """
    rate = charge_rate(network)
    empty = np.zeros(len(form.constant), dtype=bool)
    for node in range(max(form.coefficients), 0, -1):
        coefficient = form.coefficients.pop(node, None)
        if coefficient is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        if isinstance(op, Relu):
            empty |= _through_relu(inputs[0], coefficient, form, ranges, slopes, rate)
        else:
            assert isinstance(op, Affine)
            _through_affine(op, inputs, coefficient, form, ranges, rate)
    value = _over_the_box(form, ranges, rate)
    return np.where(empty, np.inf, value)


def _through_affine(
    op: Affine, inputs: tuple[int, ...], coefficient: Array, form: Form, ranges: Ranges, rate: float
) -> None:
    """Replace v = W·w + b.

    B = fl(Wᵀ A) is off by γ |Wᵀ||A| in each entry, so ⟨B, w⟩ by γ ⟨|A|, |W| Z_w⟩; c gains fl(⟨A, b⟩), off by
    γ ⟨|A|, |b|⟩, and the sum with c is rounded once. Charge g (⟨|A|, |W| Z_w + |b|⟩ + |c|).
    """
    sizes = op.magnitude([ranges.magnitude(w) for w in inputs])
    if op.bias is not None:
        form.constant = form.constant + coefficient @ op.bias
        sizes = sizes + op.bias_magnitude
    form.error += rate * (_dot(np.abs(coefficient), sizes) + np.abs(form.constant))
    for w, part in zip(inputs, op.adjoint(coefficient), strict=True):
        form.add(w, part, ranges, rate)


def _through_relu(
    before: int, coefficient: Array, form: Form, ranges: Ranges, slopes: Slopes, rate: float
) -> NDArray[np.bool_]:
    """Replace z = relu(h) by the lemma; say where h has no value at all.

    The entries of k have three roundings each and are added up: charge g (Σ |a|·relu(u) + |p|·max(|l|, |u|) + |c|),
    where relu(l) <= relu(u) and both products of p are within the second term.
    """
    low, high = ranges.lower[before], ranges.upper[before]
    a, p = coefficient, slopes(before, coefficient, low, high)
    at_low = a * np.maximum(low, 0.0) - p * low
    at_high = a * np.maximum(high, 0.0) - p * high
    k = np.minimum(at_low, at_high)
    k = np.where((low < 0.0) & (high > 0.0), np.minimum(k, 0.0), k)
    form.constant = form.constant + k.sum(1)
    sizes = np.abs(a) * np.maximum(high, 0.0) + np.abs(p) * ranges.magnitude(before)
    form.error += rate * (sizes.sum(1) + np.abs(form.constant))
    form.add(before, p, ranges, rate)
    return np.asarray((low > high).any(1))


def _over_the_box(form: Form, ranges: Ranges, rate: float) -> Array:
    """Take the least value on the box of the input: Σ min(A_i l_i, A_i u_i). Charge g (⟨|A|, Z_0⟩ + |c|).

    What is left is c − 2E − 2^-700, rounded down: the subtractions are off by 2u of what they give and of what they
    take away, which is in the charge for c and in the doubling of E; one more step down keeps it below.
    """
    a = form.coefficients.get(0)
    if a is not None:
        low, high = ranges.lower[0], ranges.upper[0]
        form.constant = form.constant + np.minimum(a * low, a * high).sum(1)
        form.error += rate * (_dot(np.abs(a), ranges.magnitude(0)) + np.abs(form.constant))
    value = np.nextafter(form.constant - 2.0 * form.error - UNDERFLOW, -np.inf)
    return np.where(np.isfinite(value), value, -np.inf)


def _dot(a: Array, b: Array) -> Array:
    """Return (B,): the sum over the last axis of a (B, n) times b (B, n) or (1, n)."""
    return np.asarray(a @ b[0] if len(b) == 1 else np.einsum("ij,ij->i", a, b))
