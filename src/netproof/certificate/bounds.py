"""The bounds section of a certificate: which neurons are worth a pass back, by which slopes, and what is unstable.

There are rungs: default slopes alone; slopes of their own, those of the search or climbed; trees too. A certificate has
the lowest on which the search's sub-domains hold, or most of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from netproof.certificate.body import Body
from netproof.certificate.claims import Claim, Known, Wish, claims
from netproof.certificate.climb import NeuronsGoal, Point, climb
from netproof.certificate.leaves import places_by_name
from netproof.certificate.spool import LEVELS, Sides
from netproof.core.deadline import Deadline, DeadlineExpired
from npcheck.bound import Places, Ranges
from npcheck.network import Network
from npcheck.ranges import ROWS, interval, meet, neuron_bounds, start
from npcheck.region import DEFAULT, INTERVAL, SLOPES, TREE
from npcheck.statement import Array, Region
from npcheck.tree import Packed

STEPS = 20
GAIN = 0.002  # share of a neuron's width that slopes of its own must gain to be stored
TREE_GAIN = 0.003  # that a tree must gain
SLACK = 0.002  # that a tree may tell less than the search's
TREE_SLACK = 0.01  # that slopes may tell less before a tree is made for a side that the search had none for

Codes = NDArray[np.uint8]


class Rung(IntEnum):
    """How neurons are bounded."""

    PLAIN = 0  # by default slopes
    SLOPED = 1  # by slopes of their own too
    BRANCHED = 2  # by trees too


@dataclass
class Section:
    """How the neurons of one node are bounded: each pair is from below and from above."""

    size: int
    codes: tuple[Codes, Codes]
    slopes: tuple[dict[int, Array], dict[int, Array]]  # by neuron of code SLOPES: (packed before,) in [0, 1]
    claims: tuple[dict[int, Claim], dict[int, Claim]]  # by neuron of code TREE
    unstable: NDArray[np.bool_]  # neurons that may be split

    def write(self, body: Body) -> None:
        """Write the section."""
        body.levels(1, self.unstable.astype(np.uint8))
        body.put((self.codes[0] | self.codes[1] << 4).astype(np.uint8).tobytes())
        for of_side in self.claims:
            body.numbers("<f4", np.array([of_side[neuron].least for neuron in sorted(of_side)]))
        for slopes in self.slopes:
            for neuron in sorted(slopes):
                body.levels(4, np.rint(slopes[neuron] * LEVELS).astype(np.uint8))
        for of_side in self.claims:
            for neuron in sorted(of_side):
                body.put(of_side[neuron].tree)


@dataclass
class NeuronBounds:
    """What the checker will know of a region's neurons, and what it is told for that."""

    ranges: Ranges
    packed: Packed
    sections: list[Section]

    def write(self, body: Body) -> None:
        """Write all sections."""
        for section in self.sections:
            section.write(body)


def neuron_bounds_of(network: Network, region: Region, deadline: Deadline, rung: Rung, told: Sides) -> NeuronBounds:
    """Bound the neurons of a region as the checker will."""
    ranges = start(network, region.lower[None], region.upper[None], ball=region.ball)
    packed, sections, begin = Packed((), ()), [], 0
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if node in network.hidden:
            bounder = _Bounder(Known(network, packed, ranges, region, deadline), node, begin, told)
            section = bounder.section(rung)
            packed = Packed((*packed.nodes, node), (*packed.neurons, section.unstable.nonzero()[0]))
            sections.append(section)
            begin += section.size
        if deadline.expired:
            raise DeadlineExpired
    return NeuronBounds(ranges, packed, sections)


class _Bounder:
    """Bounds the neurons of one node."""

    def __init__(self, before: Known, node: int, begin: int, told: Sides) -> None:
        self._all, self._node, self._begin, self._told = before, node, begin, told
        self._network, self._ranges, self._before = before.network, before.ranges, before.packed
        size = self._network.nodes[node].size
        codes = np.full(size, INTERVAL, dtype=np.uint8), np.full(size, INTERVAL, dtype=np.uint8)
        self._section = Section(size, codes, ({}, {}), ({}, {}), np.zeros(size, dtype=np.bool_))

    def section(self, rung: Rung) -> Section:
        """Bound them up to a rung."""
        if self._node in self._network.behind or self._ranges.ball is not None:
            self._by_default()
            if rung >= Rung.SLOPED and self._before.count:
                self._by_slopes()
            if rung >= Rung.BRANCHED and self._before.count:
                self._by_trees()
        if self._node in self._network.hinged:
            low, high = self._known
            self._section.unstable = ((low < 0.0) & (high > 0.0))[0]
        return self._section

    @property
    def _known(self) -> tuple[Array, Array]:
        return self._ranges.lower[self._node], self._ranges.upper[self._node]

    def _doubtful(self) -> Places:
        return np.flatnonzero(self._network.doubtful(self._node, *self._known)[0])

    def _by_default(self) -> None:
        """Bound doubtful neurons by a pass back: first the side that is nearer to 0, which alone may show the sign."""
        low, high = (side.copy() for side in self._known)
        neurons = self._doubtful()
        signs = np.where(-low[0, neurons] < high[0, neurons], 1.0, -1.0)
        self._bound(neurons, signs, (low, high))
        left = self._network.doubtful(self._node, low, high)[0, neurons]
        self._bound(neurons[left], -signs[left], (low, high))
        meet(self._ranges, self._node, low, high)

    def _bound(self, neurons: Places, signs: Array, sides: tuple[Array, Array]) -> None:
        """Bound one side of each neuron: from below where the sign is 1, and from above where it is −1."""
        bounds = neuron_bounds(self._network, self._ranges, self._node, neurons, signs, {})
        for sign, code, side in zip((1.0, -1.0), self._section.codes, sides, strict=True):
            better = (signs == sign) & (bounds > sign * side[0, neurons])
            code[neurons[better]] = DEFAULT
            side[0, neurons[better]] = sign * bounds[better]

    def _by_slopes(self) -> None:
        """Give slopes of their own to the sides of doubtful neurons that gain by them."""
        low, high = (side.copy() for side in self._known)
        doubtful, width = self._doubtful(), (high - low)[0]
        for place, (sign, side, better) in enumerate(((1.0, low, np.maximum), (-1.0, high, np.minimum))):
            neurons, shares = self._shares(doubtful, sign)
            if not len(neurons):
                continue
            spread = self._before.spread(shares, self._network, lambda node: np.full((1, 1), np.nan))
            fresh = sign * neuron_bounds(self._network, self._ranges, self._node, neurons, sign, spread)
            gain = sign * (fresh - side[0, neurons]) > GAIN * width[neurons]
            self._section.codes[place][neurons[gain]] = SLOPES
            side[0, neurons[gain]] = better(side[0, neurons[gain]], fresh[gain])
            own = zip(neurons[gain].tolist(), shares[gain], strict=True)
            self._section.slopes[place].update(own)
        meet(self._ranges, self._node, low, high)

    def _shares(self, doubtful: Places, sign: float) -> tuple[Places, Array]:
        """Return which doubtful neurons have slopes for one side, and these (neuron, packed before)."""
        names = doubtful + self._begin
        tried = np.array([name in self._told.tried for name in names.tolist()], dtype=bool)
        given = [name for name in names[tried].tolist() if (name, sign < 0) in self._told.sloped]
        by_name = places_by_name(self._network, self._before)
        shares = np.full((len(given), self._before.count), np.nan)
        for row, name in enumerate(given):
            hint = self._told.sloped[name, sign < 0].read()
            at = by_name[hint.names]
            shares[row, at[at >= 0]] = hint.levels[at >= 0] / float(LEVELS)
        low, high = (
            np.concatenate([side[h][0, at] for h, at in zip(self._before.nodes, self._before.neurons, strict=True)])
            for side in (self._ranges.lower, self._ranges.upper)
        )
        shares = np.where(np.isnan(shares), np.where(high >= -low, 1.0, 0.0), shares)
        rest = doubtful[~tried]
        climbed = [self._climbed(rest[i : i + ROWS], sign) for i in range(0, len(rest), ROWS)]
        neurons = np.concatenate([np.array(given, dtype=np.int64) - self._begin, rest])
        order = neurons.argsort(kind="stable")
        return neurons[order], np.concatenate([shares, *climbed])[order]

    def _climbed(self, neurons: Places, sign: float) -> Array:
        """Return the best slopes found for the bounds of some neurons (neuron, packed before), as they are stored."""
        if self._all.deadline.expired:
            raise DeadlineExpired
        ranges, node = self._ranges, self._node
        seeds = np.zeros((len(neurons), self._network.nodes[node].size))
        seeds[np.arange(len(neurons)), neurons] = sign
        first = {
            h: np.repeat(np.where(ranges.upper[h] >= -ranges.lower[h], 1.0, 0.0), len(neurons), 0)
            for h in self._before.nodes
        }
        start = Point(first, {}, np.ones((len(neurons), 1)))
        climbed = climb(self._network, ranges, NeuronsGoal(node, seeds), {}, start, STEPS).point
        pairs = zip(self._before.nodes, self._before.neurons, strict=True)
        shares: Array = np.concatenate([climbed.slopes[h][:, places] for h, places in pairs], 1)
        return np.asarray(np.rint(shares * LEVELS) / LEVELS)

    def _by_trees(self) -> None:
        """Bound by trees what is doubtful even so, as the search did, where that gains."""
        low, high = (side.copy() for side in self._known)
        for wish, claim in claims(self._all, self._node, self._wishes(low[0], high[0])):
            neuron, place = wish.neuron, int(wish.above)
            now = -high[0, neuron] if wish.above else low[0, neuron]
            if claim.least - now <= TREE_GAIN * (high[0, neuron] - low[0, neuron]) and claim.least < 0.0:
                continue
            self._section.codes[place][neuron] = TREE
            self._section.slopes[place].pop(neuron, None)
            self._section.claims[place][neuron] = claim
            if wish.above:
                high[0, neuron] = -claim.least
            else:
                low[0, neuron] = claim.least
        meet(self._ranges, self._node, low, high)

    def _wishes(self, low: Array, high: Array) -> Iterator[Wish]:
        """Ask for what the search knew and slopes do not tell: of a neuron whose sign it knew, for this alone."""
        for neuron in self._doubtful().tolist():
            sides = [(neuron + self._begin, above) for above in (False, True)]
            told = [self._told.least(side) for side in sides]
            width = high[neuron] - low[neuron]
            for side, least, now in zip(sides, told, (low[neuron], -high[neuron]), strict=True):
                slack = width * (SLACK if side in self._told.branched else TREE_SLACK)
                if least >= 0.0 if max(told) >= 0.0 else least - slack > now:
                    yield Wish(neuron, side[1], 0.0 if least >= 0.0 else least - slack, self._told.leaves(side))
