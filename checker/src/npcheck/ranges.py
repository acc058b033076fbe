"""What is known of every neuron on a sub-domain: intervals carried forward, and bounds by the pass back.

All of it is derived here. A certificate only says which neurons are worth a pass back, and may choose its slopes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npcheck.ball import Ball
from npcheck.bound import LARGEST, UNDERFLOW, Form, Places, Ranges, Watch, charge_rate, lower_bound
from npcheck.network import Affine, Network, Nonlinear, Relu, Sum, Take
from npcheck.statement import Array

Signs = NDArray[np.int8]
ROWS = 256  # forms carried back at once: more need memory and are no faster
NEIGHBOURS = 32  # the same, of an image: they read a small part of it
ENTRIES = 1 << 24  # of one node in all of these forms, at most
NOWHERE = np.zeros(0, dtype=np.int64)


def interval(network: Network, node: int, ranges: Ranges) -> tuple[Array, Array]:
    """Return bounds of a node's values from those of its inputs.

    With mid and rad any floats such that [l, u] lies within mid ± rad, W·w + b is within W·mid + b ± |W|·rad. All
    roundings together are at most g (|W|(|mid| + rad) + |b|) / 4, by the argument in `bound`: sums of the operator's
    terms, a factor in front of it for each. The result is moved outward by one unit for the last addition. Bounds that
    are not numbers, or beyond all values, are infinite.

    Three things need no arithmetic. Entries that are only picked keep their bounds. A sum of zeros is 0. And where the
    network says that a sum is max(a, b) or min(a, b), it has the larger or the smaller of their ends on each side,
    whatever b + relu(a − b) has by its parts, which forget that both hold b.
    """
    op, inputs = network.nodes[node].op, network.nodes[node].inputs
    if isinstance(op, Relu):
        (before,) = inputs
        return np.maximum(ranges.lower[before], 0.0), np.maximum(ranges.upper[before], 0.0)
    if isinstance(op, Nonlinear):
        return _tame(*op.interval([ranges.lower[w] for w in inputs], [ranges.upper[w] for w in inputs]))
    assert isinstance(op, Affine)
    if isinstance(op, Take) and op.bias is None:
        lower, upper = op.forward([ranges.lower[w] for w in inputs]), op.forward([ranges.upper[w] for w in inputs])
        return lower, upper
    rate = charge_rate(network)
    mids, rads = [], []
    for w in inputs:
        low, high = ranges.lower[w], ranges.upper[w]
        mid = 0.5 * low + 0.5 * high
        mids.append(mid)
        rads.append(np.nextafter(np.maximum(high - mid, mid - low), np.inf))
    centre, spread = op.forward(mids), op.magnitude(rads)
    sizes = op.magnitude([np.abs(mid) + rad for mid, rad in zip(mids, rads, strict=True)])
    if op.bias is not None and op.bias_magnitude is not None:
        centre = centre + op.bias
        sizes = sizes + op.bias_magnitude
    away = spread + (rate * sizes + UNDERFLOW)
    low, high = _tame(np.nextafter(centre - away, -np.inf), np.nextafter(centre + away, np.inf))
    if isinstance(op, Sum) and op.bias is None:
        zeros = np.logical_and.reduce([(ranges.lower[w] == 0.0) & (ranges.upper[w] == 0.0) for w in inputs])
        low, high = np.where(zeros, 0.0, low), np.where(zeros, 0.0, high)
    if node in network.extremes:
        largest, a, b = network.extremes[node]
        pick = np.maximum if largest else np.minimum
        low = np.maximum(low, pick(ranges.lower[a], ranges.lower[b]))
        high = np.minimum(high, pick(ranges.upper[a], ranges.upper[b]))
    return low, high


def _tame(low: Array, high: Array) -> tuple[Array, Array]:
    return np.where(np.abs(low) <= LARGEST, low, -np.inf), np.where(np.abs(high) <= LARGEST, high, np.inf)


def start(network: Network, lower: Array, upper: Array, watch: Watch | None = None, ball: Ball | None = None) -> Ranges:
    """Return the ranges of boxes (B, n) of the input, before anything is known of the nodes behind it."""
    nothing = [np.zeros((1, 0))] * (len(network.nodes) - 1)
    return Ranges([lower, *nothing], [upper, *nothing], watch, ball)


@dataclass(frozen=True)
class Lines:
    """p by lines alone."""

    slopes: dict[int, Array]  # of lower lines, by node (B, n), NaN for the default

    def shares(self, node: int) -> Array | None:
        """Return the slopes of a node's lower lines."""
        return self.slopes.get(node)

    def columns(self, node: int) -> Places:
        """Choose nothing else."""
        return NOWHERE

    def choose(self, node: int, p: Array, columns: Places) -> Array:
        """Take the lines."""
        return p


def neuron_bounds(
    network: Network, ranges: Ranges, node: int, neurons: Places, signs: float | Array, shares: dict[int, Array]
) -> Array:
    """Return lower bounds of h_i, or of −h_i where the sign is −1, of neurons of one node on ranges of one part.

    shares: the slopes of each of these neurons' bounds, as in `Lines`.
    """
    bounds = np.empty(len(neurons))
    order = np.argsort(neurons % network.pixels[node], kind="stable")  # neighbours read the same part of an image
    most = ROWS if network.pixels[node] == 1 else NEIGHBOURS
    most = max(1, min(most, ENTRIES // max(node.size for node in network.nodes)))
    for begin in range(0, len(neurons), most):
        some = order[begin : begin + most]
        sign = signs if isinstance(signs, float) else signs[some]
        form = Form.of_neurons(node, network.nodes[node].size, neurons[some], sign)
        lines = Lines({key: part[some] for key, part in shares.items()})
        bounds[some] = lower_bound(network, form, ranges, lines)
    return bounds


def meet(ranges: Ranges, node: int, low: Array, high: Array) -> None:
    """Take over bounds of a node (B, n) where they are tighter than what is known."""
    ranges.lower[node] = np.maximum(ranges.lower[node], low)
    ranges.upper[node] = np.minimum(ranges.upper[node], high)


def by_default(network: Network, lower: Array, upper: Array, signs: dict[int, Signs], inherited: Ranges) -> Ranges:
    """Return ranges of boxes (B, n) with splits, by one pass for each neuron that intervals leave doubtful.

    signs: by hidden node (B, n), +1 where a split took it as >= 0, −1 where as <= 0. inherited: what holds
    on all of these sub-domains already. It may end at some node: so does what is returned.
    """
    ranges = start(network, lower, upper, inherited.watch, inherited.ball)
    for node in range(1, inherited.known):
        low, high = interval(network, node, ranges)
        ranges.lower[node], ranges.upper[node] = low, high
        meet(ranges, node, inherited.lower[node], inherited.upper[node])
        if node in network.hidden:
            restrict(ranges, node, signs.get(node))
            if node in network.behind or ranges.ball is not None:
                _tighten(network, ranges, node)
    return ranges


def restrict(ranges: Ranges, node: int, signs: Signs | None) -> None:
    """Move bounds of a node to 0 where a split says so."""
    if signs is None:
        return
    ranges.lower[node] = np.where(signs > 0, np.maximum(ranges.lower[node], 0.0), ranges.lower[node])
    ranges.upper[node] = np.where(signs < 0, np.minimum(ranges.upper[node], 0.0), ranges.upper[node])


def _tighten(network: Network, ranges: Ranges, node: int) -> None:
    """Bound by a pass back what intervals leave doubtful, on one sub-domain of the batch after the other."""
    low, high = ranges.lower[node], ranges.upper[node]
    for place, doubtful in enumerate(network.doubtful(node, low, high)):
        (neurons,) = doubtful.nonzero()
        part, signs = ranges.part(place), np.repeat((1.0, -1.0), len(neurons))
        bounds = neuron_bounds(network, part, node, np.tile(neurons, 2), signs, {})
        below, above = np.split(bounds, 2)
        low[place, neurons] = np.maximum(low[place, neurons], below)
        high[place, neurons] = np.minimum(high[place, neurons], -above)
