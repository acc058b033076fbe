"""Bounds of the neurons of one node: by the graph with fixed slopes, by the condensed network with optimised ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains, Known
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.layers import initial_slopes, settled_at
from netproof.bounds.linear.memory import places_that_fit, rows_that_fit
from netproof.bounds.neurons import worth
from netproof.bounds.neurons.forms import bound_forms, bound_places, fixed_lines
from netproof.bounds.neurons.raised import Raising
from netproof.bounds.planes.first import reads_of
from netproof.bounds.planes.reads import Reads
from netproof.bounds.planes.rows import RowPlanes
from netproof.bounds.record import NOTHING, Recorder, Sides, Source
from netproof.bounds.scope import LayerScope
from netproof.bounds.windows.moves import image_sides
from netproof.bounds.windows.plan import walked
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.relax import Lines, relaxation_of

if TYPE_CHECKING:
    from netproof.bounds.neurons.root import Root

# Better bounds of a layer's neurons, given them as targets of sub-domains of what comes before.
Deepen = Callable[[LayerScope, Domains], Tensor]


@dataclass(frozen=True)
class Beside:
    """What comes beside slopes when neurons are bounded: a search that goes deeper, and who hears of the bounds."""

    deepen: Deepen | None = None
    recorder: Recorder = NOTHING


ALONE = Beside()


def slopes_to_start(root: Root, count: int) -> Tensor:
    """Return the starting slopes (U',) of the first `count` packed neurons."""
    known = root.layers[: len(root.lower)]  # the bounds of the last layer may not be there yet
    lower, upper = root.packed_bounds
    return initial_slopes(known, lower[None], upper[None], parallel=root.parallel)[0, :count]


class Start(NamedTuple):
    """Where branching on neurons begins: slopes of their bounds, and planes where there are any."""

    slopes: Tensor  # (2n, U')
    planes: RowPlanes | None
    places: Tensor | None = None  # (k,): which bounds have planes, in order


class LayerNeurons:
    """Bounds a node's neurons: by the graph with fixed slopes, by the condensed network with optimised ones."""

    def __init__(self, root: Root, pre: int, schedule: Schedule, deadline: Deadline, deepen: Deepen | None) -> None:
        self._root, self._pre, self._schedule, self._deadline = root, pre, schedule, deadline
        self._deepen = deepen
        self._readers = readers_of(root, pre)
        self.optimised = schedule.steps > 0 and root.graph32.count > 0
        self._before = root.nets_before(pre, by_graph=not self.optimised)
        graph, proof = root.graph64.graph, self._before.proof
        if self.optimised or not isinstance(proof, GraphNet):
            rows = rows_that_fit(graph, pre, root.device, torch.float64, grad=False)
            rows = min(rows, self._before.search.climbs_that_fit())
        else:
            rows = places_that_fit(graph, pre, root.device, torch.float64)
        self._reads = self._to_raise()
        self.chunk = max(1, rows // 2)

    def _to_raise(self) -> Reads | None:
        """Return what planes are above, where there are to be any: below the first layer."""
        wanted = self._schedule.planes and self.optimised and isinstance(self._before.search, Condensed)
        return reads_of(self._root.graph64) if wanted and self._root.own is None else None

    def bound(self, places: Tensor) -> tuple[Interval, Tensor, Tensor]:
        """Bound h at `places` (n,), confirmed; also what gave each side (2, n), and the slopes (2n, U') of both."""
        if not self.optimised:
            return self._fixed(places)
        root, nets = self._root, (self._before.search, self._before.proof)
        forms, error = self._before.forms(places)
        forms, error = torch.cat([forms, -forms]), torch.cat([error, error])
        lower, upper = (side[None] for side in root.packed_bounds)
        known = Known(lower, upper, torch.zeros_like(lower), None)
        start, settled = slopes_to_start(root, root.count).repeat(len(forms), 1), self._settled(len(places))
        climb = Climb(self._schedule, settled, self._deadline)
        value, found = bound_forms(nets, (forms, error), known, (start, None), climb)
        slopes, by = found.slopes.expand(len(forms), -1), torch.full_like(value, Source.SLOPES, dtype=torch.int8)
        begin = Start(slopes, None)
        if self._reads is not None:
            higher, begin = self._raised(places, (forms, error), known, (value, slopes))
            by[higher > value] = Source.PLANES
            value = value.fmax(higher)
        if self._deepen is not None:
            deeper = self._branched(places, (forms, error), begin, value)
            by[deeper > value] = Source.BRANCHES
            value = value.fmax(deeper)
        return Interval(value[: len(places)], -value[len(places) :]), by.view(2, -1), slopes

    def _fixed(self, places: Tensor) -> tuple[Interval, Tensor, Tensor]:
        """Bound h at `places` with the slopes to start from, the same for all; return what `bound` does."""
        proof = self._before.proof
        assert isinstance(proof, GraphNet)
        count, kink = len(places), self._kink
        by = torch.full((2, count), Source.SLOPES, dtype=torch.int8, device=places.device)
        slopes = self._slopes.expand(2 * count, -1)
        ones = torch.ones(count, dtype=torch.float64, device=places.device)
        numbers = 2 * count * walked(self._root.graph64.graph, self._pre)
        if kink is None or numbers < worth.ONE_SIDE_WORTH[places.device.type]:
            value = bound_places(proof, places.repeat(2), torch.cat([ones, -ones]), self._fixed_lines)
            return Interval(value[:count], -value[count:]), by, slopes
        # The side that may tell where g is linear goes first; most neurons need no other.
        known = self._root.intervals.of[self._pre].flat
        known = Interval(known.lower[places], known.upper[places])
        signs = torch.where(known.lower + known.upper > 2 * kink, ones, -ones)
        value = bound_places(proof, places, signs, self._fixed_lines)
        lower, upper = value.where(signs > 0, -torch.inf), -value.where(signs < 0, -torch.inf)
        now = Interval(known.lower.fmax(lower), known.upper.fmin(upper))
        rest = unstable_in(self._root, self._pre, now).nonzero()[:, 0]
        if len(rest):
            other = bound_places(proof, places[rest], -signs[rest], self._fixed_lines)
            lower[rest] = torch.where(signs[rest] < 0, other, lower[rest])
            upper[rest] = torch.where(signs[rest] > 0, -other, upper[rest])
        return Interval(lower, upper), by, slopes

    @cached_property
    def _slopes(self) -> Tensor:
        """Return the slopes to start from, (1, U')."""
        return slopes_to_start(self._root, self._root.count)[None]

    @cached_property
    def _fixed_lines(self) -> dict[int, Lines]:
        """Return by node the lines that these give."""
        proof = self._before.proof
        assert isinstance(proof, GraphNet)
        lower, upper = (side[None] for side in self._root.packed_bounds)
        return fixed_lines(proof, Known(lower, upper, torch.zeros_like(lower), None), self._slopes)

    def _unknown(self, value: Tensor) -> Tensor:
        """Return which bounds (2n,) of h and −h of n neurons leave open where g is linear: neither side tells."""
        half = len(value) // 2
        unsettled = value <= self._settled(half)
        return (unsettled & unsettled.roll(half)).nonzero()[:, 0]

    def _raised(
        self, places: Tensor, forms: tuple[Tensor, Tensor], known: Known, found: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Start]:
        """Return the same bounds with planes above the first layer, where the sign of the neuron is not known yet.

        found: the bounds (2n,) of h and −h at places (n,), and the slopes (2n, U') that gave them.
        """
        value, slopes = found
        open_ = self._unknown(value)
        assert self._reads is not None
        nets, schedule = (self._before.search, self._before.proof), replace(self._schedule, steps=self._schedule.planes)
        raising = Raising(nets, self._reads, known, schedule, self._deadline)
        sides = image_sides(self._root.graph64.graph.nodes[self._pre].shape)
        pixel = places if sides is None else places % (sides[0] * sides[1])  # neurons of one pixel read the same
        order = pixel.repeat(2)[open_].argsort(stable=True)
        settled, part = self._settled(len(places))[open_], (forms[0][open_], forms[1][open_])
        risen = raising(part, order, (value[open_], slopes[open_]), settled, keep=self._deepen is not None)
        start = Start(slopes.index_copy(0, open_, risen.slopes), risen.planes, open_)
        return value.index_copy(0, open_, risen.value), start

    def _branched(self, places: Tensor, forms: tuple[Tensor, Tensor], start: Start, value: Tensor) -> Tensor:
        """Return the same bounds (2n,) of neurons at places (n,) by branch and bound, where the sign is not known."""
        assert self._deepen is not None
        root, device = self._root, self._root.device
        open_ = self._unknown(value)
        if len(open_) == 0 or self._deadline.expired:
            return value
        settled, count = self._settled(len(places))[open_].double(), len(places)
        nets, (form, error) = (self._before.search, self._before.proof), forms
        part = LayerScope.of(root, *nets, form[open_], error[open_], settled)
        if start.planes is not None and start.places is not None:
            part = part.with_planes(start.planes.some(torch.searchsorted(start.places, open_)))
        part = replace(part, sides=Sides(root, self._pre, places[open_ % count], open_ >= count))
        target = torch.arange(len(open_), device=device)
        domains = Domains.unsplit(target, *root.packed_bounds, root.points, start.slopes[open_], part.valid)
        domains = replace(domains, bound=value[open_])
        return value.index_copy(0, open_, self._deepen(part, domains))

    def _settled(self, count: int) -> Tensor:
        """Return the bounds of h and then of −h, of `count` neurons each, past which g is known to be linear."""
        one = torch.ones(count, device=self._root.device)
        return settled_at(self._kink, torch.cat([one, -one]))

    @cached_property
    def _kink(self) -> float | None:
        """Return the kink of all functions that read h; None where there is none, or not one for all."""
        kinks = {relaxation_of(self._root.graph64.graph.nodes[i].op).kink for i in self._readers}
        return kinks.pop() if len(kinks) == 1 else None


def readers_of(root: Root, pre: int) -> list[int]:
    """Return the nonlinear nodes that read node `pre`."""
    graph = root.graph64.graph
    return [i for i in graph.nonlinear if graph.nodes[i].inputs == (pre,)]


def unstable_in(root: Root, pre: int, bounds: Interval) -> Tensor:
    """Say which entries of the flattened node `pre` some nonlinear node is not linear on."""
    nodes = root.graph64.graph.nodes
    found = [relaxation_of(nodes[i].op).unstable(bounds.flat) for i in readers_of(root, pre)]
    return torch.stack(found).any(0)
