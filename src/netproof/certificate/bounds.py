"""The bounds section of a certificate: which neurons are worth a pass back, and which are left unstable."""

from __future__ import annotations

import numpy as np
from npcheck.bound import Ranges
from npcheck.network import Network
from npcheck.ranges import interval, meet, neuron_bounds, start
from npcheck.region import DEFAULT, INTERVAL
from npcheck.statement import Array, Region
from npcheck.tree import Packed

from netproof.certificate.body import Body
from netproof.core.deadline import Deadline, DeadlineExpired


def write_bounds(body: Body, network: Network, region: Region, deadline: Deadline) -> tuple[Ranges, Packed]:
    """Bound the neurons of a region as the checker will, and write how; return what it will know."""
    ranges = start(network, region.lower[None], region.upper[None])
    packed = Packed((), ())
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if node in network.hidden:
            codes = _tighten(network, node, ranges)
            unstable = ((ranges.lower[node] < 0.0) & (ranges.upper[node] > 0.0))[0]
            packed = Packed((*packed.nodes, node), (*packed.neurons, unstable.nonzero()[0]))
            body.levels(1, unstable.astype(np.uint8))
            body.put((codes[0] | codes[1] << 4).astype(np.uint8).tobytes())
        if deadline.expired:
            raise DeadlineExpired
    return ranges, packed


def _tighten(network: Network, node: int, ranges: Ranges) -> tuple[Array, Array]:
    """Bound unstable neurons by a pass back; return the codes of the sides from below and from above."""
    low, high = ranges.lower[node].copy(), ranges.upper[node].copy()
    neurons = ((low < 0.0) & (high > 0.0))[0].nonzero()[0]
    codes = tuple(np.full(network.nodes[node].size, INTERVAL, dtype=np.uint8) for _ in range(2))
    if node not in network.behind or len(neurons) == 0:
        return codes
    below = neuron_bounds(network, ranges, node, neurons, 1.0, {})
    above = -neuron_bounds(network, ranges, node, neurons, -1.0, {})
    codes[0][neurons[below > low[0, neurons]]] = DEFAULT
    codes[1][neurons[above < high[0, neurons]]] = DEFAULT
    low[0, neurons], high[0, neurons] = np.maximum(low[0, neurons], below), np.minimum(high[0, neurons], above)
    meet(ranges, node, low, high)
    return codes
