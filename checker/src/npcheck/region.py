"""What a certificate proves of one region: bounds of its neurons, then a tree for each disjunct on it.

    region = bounds tree*                              one tree for each disjunct, in the specification's order
    bounds = for each node that a ReLU reads, but the input, in the order of the network, with n entries:
             packed (bits, n)   which of its neurons may be split or given slopes, from here on
             codes (u8, n)      how its neurons are bounded: low four bits h from below, high four bits from above
             claims             a float32 for each side of code 3, those from below first: h >= claim, or −h >= claim
             slopes             for each side of code 2, in the same order: 4 bits for each packed neuron of the nodes
                                before, as shares v / 15; the sides' bytes are not shared
             trees              for each side of code 3, in the same order, over the packed neurons of the nodes before

    code = 0 by intervals | 1 by a pass back with default slopes | 2 with slopes | 3 by a tree

Intervals are always known, and the better bound of a side counts. A node is bounded when those before it are.
Whatever slopes say is sound; a claim is shown on each leaf of its tree before anything rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npcheck.bound import Form, Ranges, Watch
from npcheck.clip import clipped
from npcheck.errors import Invalid
from npcheck.network import Network
from npcheck.ranges import ENTRIES as FORMS
from npcheck.ranges import ROWS, by_default, interval, meet, neuron_bounds, start
from npcheck.statement import Array, Region, Rows
from npcheck.stream import Stream
from npcheck.ties import bounds_with_ties
from npcheck.tree import ENTRIES, Batch, FormOf, Packed, Part, Walk, bounds_of, most_at_once, packed_signs
from npcheck.work import Jobs

INTERVAL, DEFAULT, SLOPES, TREE = range(4)


def check_region(network: Network, region: Region, stream: Stream, jobs: Jobs, watch: Watch | None = None) -> int:
    """Check all that is said of a region; return the number of leaves of its disjuncts' trees."""
    ranges, packed = read_bounds(network, region, stream, jobs, watch)
    jobs.know(ranges)
    leaves = 0
    for target, rows in zip(region.targets, region.rows, strict=True):
        if watch is not None:
            watch.disjunct(target)

        def clip(part: Part, rows=rows) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
            signs = packed_signs(network, packed, part.signs[None])
            again = by_default(network, part.lower[None], part.upper[None], signs, ranges)
            lower, upper = clipped(network, rows, again)
            return lower[0], upper[0]

        piece = partial(_bounds_of_leaves, packed, rows, len(network.nodes) - 1)
        walk = Walk(
            stream, packed, len(rows.right), (region.lower, region.upper), most_at_once(network, len(rows.right)), clip
        )
        leaves += _check_tree(walk, (f"disjunct {target}", piece, 0.0), jobs)
    jobs.wait()
    return leaves


def read_bounds(
    network: Network, region: Region, stream: Stream, jobs: Jobs, watch: Watch | None = None
) -> tuple[Ranges, Packed]:
    """Read and check the bounds of a region's neurons."""
    ranges = start(network, region.lower[None], region.upper[None], watch, region.ball)
    packed = Packed((), ())
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if node in network.hidden:
            packed = _check_node(network, node, region, ranges, packed, stream, jobs)
        if network.cuts(node, ranges.lower[node], ranges.upper[node]):
            raise Invalid(f"{network.nodes[node].name}: a value may be beyond a float32, where the model clips it")
    return ranges, packed


def _check_node(
    network: Network, node: int, region: Region, ranges: Ranges, before: Packed, stream: Stream, jobs: Jobs
) -> Packed:
    """Bound the neurons of a node as the certificate says; return the packed neurons with its own."""
    size = network.nodes[node].size
    own = stream.bits(size).nonzero()[0]
    codes = np.frombuffer(stream.take(size), dtype=np.uint8)
    sides = [(codes & 15, 1.0), (codes >> 4, -1.0)]
    if any((code > TREE).any() for code, _ in sides):
        raise Invalid(f"a code of a neuron of node {network.nodes[node].name} is not known")
    low, high = ranges.lower[node].copy(), ranges.upper[node].copy()
    jobs.know(ranges)
    claims = [stream.numbers("<f4", int((code == TREE).sum())) for code, _ in sides]
    for code, sign in sides:
        for kind in (DEFAULT, SLOPES):
            neurons = (code == kind).nonzero()[0]
            wide = max(1, sum(network.nodes[h].size for h in before.nodes))
            most = len(neurons) if kind == DEFAULT else min(ROWS, ENTRIES // max(1, before.count), FORMS // wide)
            most = max(1, most)  # no more slopes are held than for so many sides
            for begin in range(0, len(neurons), most):
                some = neurons[begin : begin + most]
                given = _slopes(network, stream, before, len(some)) if kind == SLOPES else {}
                piece = partial(_bounds_of_neurons, node, some, sign, given)
                jobs.do(piece, partial(_take, low if sign > 0 else high, some, sign))
                jobs.tell(network.nodes[node].name, 0)
    for (code, sign), claim in zip(sides, claims, strict=True):
        for neuron, least in zip((code == TREE).nonzero()[0].tolist(), claim.tolist(), strict=True):
            _check_claim(network, node, neuron, sign, least, region, before, stream, jobs)
            _take(low if sign > 0 else high, np.array([neuron]), sign, np.array([least]))
    jobs.wait()
    meet(ranges, node, low, high)
    return Packed((*before.nodes, node), (*before.neurons, own))


def _take(side: Array, neurons: NDArray[np.int64], sign: float, bounds: Array) -> None:
    """Put in what is better: bounds of h from below, or of −h, at some neurons of a side (1, n)."""
    better = np.maximum if sign > 0 else np.minimum
    side[0, neurons] = better(side[0, neurons], sign * bounds)


def _slopes(network: Network, stream: Stream, before: Packed, sides: int) -> dict[int, Array]:
    """Read the slopes of sides of code 2: by node (side, n), NaN where the default is meant."""
    values = np.stack([stream.fractions(4, before.count) for _ in range(sides)])
    return before.spread(values, network, lambda node: np.full((1, 1), np.nan))


def _bounds_of_neurons(
    node: int, neurons: NDArray[np.int64], sign: float, slopes: dict[int, Array], network: Network, known: Ranges
) -> Array:
    return neuron_bounds(network, known, node, neurons, sign, slopes)


def _check_claim(
    network: Network,
    node: int,
    neuron: int,
    sign: float,
    least: float,
    region: Region,
    before: Packed,
    stream: Stream,
    jobs: Jobs,
) -> None:
    """Check the tree that shows h >= least, or −h >= least, of one neuron."""
    piece = partial(_bounds_of_claim, before, partial(_of_neuron, node, network.nodes[node].size, neuron, sign))
    name = f"neuron {neuron} of node {network.nodes[node].name} from {'below' if sign > 0 else 'above'}"
    walk = Walk(stream, before, 1, (region.lower, region.upper), most_at_once(network))
    _check_tree(walk, (name, piece, least), jobs)


def _check_tree(walk: Walk, goal: tuple[str, Callable[[Batch, Network, Ranges], Array], float], jobs: Jobs) -> int:
    """Check that bounds of every leaf are above a number; return how many leaves there are."""
    name, bounds_of_batch, least = goal
    for batch in walk.batches():
        numbers = range(walk.leaves - len(batch.leaves), walk.leaves)
        jobs.do(partial(bounds_of_batch, batch), partial(_demand, jobs, name, numbers, least))
    return walk.leaves


def _demand(jobs: Jobs, name: str, leaves: range, least: float, bounds: Array) -> None:
    """Demand that the bound of each of these leaves is above a number."""
    for leaf, bound in zip(leaves, bounds.tolist(), strict=True):
        if not bound > least:
            raise Invalid(f"{name}: leaf {leaf} is not shown: {bound:.6g} is not above {least:g}")
    jobs.tell(name, len(leaves))


def _bounds_of_leaves(packed: Packed, rows: Rows, output: int, batch: Batch, network: Network, known: Ranges) -> Array:
    return bounds_with_ties(network, packed, batch, known, rows, partial(_of_rows, rows, output))


def _bounds_of_claim(packed: Packed, form_of: FormOf, batch: Batch, network: Network, known: Ranges) -> Array:
    return bounds_of(network, packed, batch, known, form_of)


def _of_rows(rows: Rows, output: int, weights: Array, known: Ranges) -> Form:
    return Form.of_rows(rows, weights, output, known)


def _of_neuron(node: int, size: int, neuron: int, sign: float, weights: Array, known: Ranges) -> Form:
    return Form.of_neurons(node, size, np.full(len(weights), neuron), sign)
