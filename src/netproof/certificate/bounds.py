"""The bounds section of a certificate: which neurons are worth a pass back, by which slopes, and what is unstable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netproof.certificate.body import Body
from netproof.certificate.climb import NeuronsGoal, Point, climb
from netproof.certificate.spool import LEVELS
from netproof.core.deadline import Deadline, DeadlineExpired
from npcheck.bound import Places, Ranges
from npcheck.network import Network
from npcheck.ranges import ROWS, interval, meet, neuron_bounds, start
from npcheck.region import DEFAULT, INTERVAL, SLOPES
from npcheck.statement import Array, Region
from npcheck.tree import Packed

STEPS = 20
GAIN = 0.01  # share of a neuron's width that slopes of its own must gain to be stored

Codes = NDArray[np.uint8]


@dataclass
class Section:
    """How the neurons of one node are bounded."""

    size: int
    codes: tuple[Codes, Codes]  # from below and from above
    slopes: tuple[Array, Array]  # of the sides of code SLOPES (side, packed before), in [0, 1]
    unstable: NDArray[np.bool_]  # neurons that may be split


@dataclass
class NeuronBounds:
    """What the checker will know of a region's neurons, and what it is told for that."""

    ranges: Ranges
    packed: Packed
    sections: list[Section]

    def write(self, body: Body) -> None:
        """Write the section."""
        for section in self.sections:
            body.levels(1, section.unstable.astype(np.uint8))
            body.put((section.codes[0] | section.codes[1] << 4).astype(np.uint8).tobytes())
            for slopes in section.slopes:
                for side in slopes:
                    body.levels(4, np.rint(side * LEVELS).astype(np.uint8))


def neuron_bounds_of(network: Network, region: Region, deadline: Deadline, *, climbed: bool) -> NeuronBounds:
    """Bound the neurons of a region as the checker will; climbed: with slopes of their own where that gains."""
    ranges = start(network, region.lower[None], region.upper[None], ball=region.ball)
    packed, sections = Packed((), ()), []
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if node in network.hidden:
            section = _by_default(network, node, ranges, packed)
            if climbed and packed.count:
                _climb(network, node, ranges, packed, section, deadline)
            if node in network.hinged:
                section.unstable = ((ranges.lower[node] < 0.0) & (ranges.upper[node] > 0.0))[0]
            packed = Packed((*packed.nodes, node), (*packed.neurons, section.unstable.nonzero()[0]))
            sections.append(section)
        if deadline.expired:
            raise DeadlineExpired
    return NeuronBounds(ranges, packed, sections)


def _by_default(network: Network, node: int, ranges: Ranges, before: Packed) -> Section:
    """Bound doubtful neurons by a pass back: first the side that is nearer to 0, which alone may show the sign."""
    size, nothing = network.nodes[node].size, np.zeros((0, before.count))
    codes = np.full(size, INTERVAL, dtype=np.uint8), np.full(size, INTERVAL, dtype=np.uint8)
    low, high = ranges.lower[node].copy(), ranges.upper[node].copy()
    neurons = network.doubtful(node, low, high)[0].nonzero()[0]
    if (node in network.behind or ranges.ball is not None) and len(neurons):
        signs = np.where(-low[0, neurons] < high[0, neurons], 1.0, -1.0)
        _bound(network, node, ranges, neurons, signs, codes, (low, high))
        doubtful = network.doubtful(node, low, high)[0, neurons]
        _bound(network, node, ranges, neurons[doubtful], -signs[doubtful], codes, (low, high))
        meet(ranges, node, low, high)
    return Section(size, codes, (nothing, nothing), np.zeros(size, dtype=np.bool_))


def _bound(
    network: Network,
    node: int,
    ranges: Ranges,
    neurons: Places,
    signs: Array,
    codes: tuple[Codes, Codes],
    sides: tuple[Array, Array],
) -> None:
    """Bound one side of each neuron: from below where the sign is 1, and from above where it is −1."""
    bounds = neuron_bounds(network, ranges, node, neurons, signs, {})
    for sign, code, side in zip((1.0, -1.0), codes, sides, strict=True):
        better = (signs == sign) & (bounds > sign * side[0, neurons])
        code[neurons[better]] = DEFAULT
        side[0, neurons[better]] = sign * bounds[better]


def _climb(network: Network, node: int, ranges: Ranges, before: Packed, section: Section, deadline: Deadline) -> None:
    """Give slopes of their own to the sides of doubtful neurons that gain by them."""
    low, high = ranges.lower[node].copy(), ranges.upper[node].copy()
    neurons = network.doubtful(node, low, high)[0].nonzero()[0]
    if len(neurons) == 0:
        return
    slopes = []
    for place, (sign, side, better) in enumerate(((1.0, low, np.maximum), (-1.0, high, np.minimum))):
        shares = np.concatenate(
            [_climbed(network, node, ranges, before, neurons[i : i + ROWS], sign) for i in range(0, len(neurons), ROWS)]
        )
        if deadline.expired:
            raise DeadlineExpired
        spread = before.spread(shares, network, lambda node: np.full((1, 1), np.nan))
        fresh = sign * neuron_bounds(network, ranges, node, neurons, sign, spread)
        gain = sign * (fresh - side[0, neurons]) > GAIN * (high - low)[0, neurons]
        section.codes[place][neurons[gain]] = SLOPES
        side[0, neurons[gain]] = better(side[0, neurons[gain]], fresh[gain])
        slopes.append(shares[gain])
    section.slopes = slopes[0], slopes[1]
    meet(ranges, node, low, high)


def _climbed(
    network: Network, node: int, ranges: Ranges, before: Packed, neurons: NDArray[np.int64], sign: float
) -> Array:
    """Return the best slopes found for the bounds of some neurons (neuron, packed before), as they are stored."""
    seeds = np.zeros((len(neurons), network.nodes[node].size))
    seeds[np.arange(len(neurons)), neurons] = sign
    first = {
        h: np.repeat(np.where(ranges.upper[h] >= -ranges.lower[h], 1.0, 0.0), len(neurons), 0)
        for h in network.hidden
        if h < node
    }
    start = Point(first, {}, np.ones((len(neurons), 1)))
    climbed = climb(network, ranges, NeuronsGoal(node, seeds), {}, start, STEPS).point
    each = [climbed.slopes[h][:, places] for h, places in zip(before.nodes, before.neurons, strict=True)]
    return np.rint(np.concatenate(each, 1) * LEVELS) / LEVELS
