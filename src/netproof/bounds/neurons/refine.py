"""One node of a root: the bounds of its neurons, each rung only for what the one before leaves open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule, keep_up
from netproof.bounds.linear.copies import first_copies
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.neurons import worth
from netproof.bounds.neurons.each import Beside, LayerNeurons, unstable_in
from netproof.bounds.record import NOTHING, Recorder, Sides, Source
from netproof.bounds.windows.plan import walked
from netproof.bounds.zonotope.forward import Forward
from netproof.core.deadline import Deadline, Pace
from netproof.core.forms import Interval
from netproof.model.ops import Affine, Nonlinear

if TYPE_CHECKING:
    from netproof.bounds.neurons.root import Root


@dataclass(frozen=True, eq=False)
class Refined:
    """A node whose neurons were bounded: what gave each bound, and the slopes of those that slopes gave."""

    sources: Tensor  # (2, size of the node) int8
    places: Tensor | None = None  # (n,) in the flattened node; None: nothing was bounded by slopes
    slopes: Tensor | None = None  # (2, n, U') of the lower and upper bounds
    first: Tensor | None = None  # see `first_copies`: of those places alone there are slopes


def refine(
    root: Root,
    pre: int,
    forward: Forward | None,
    schedule: Schedule,
    deadline: Deadline,
    earlier: Sequence[Intervals],
    beside: Beside,
) -> Refined:
    """Tighten the interval of node `pre` by forms carried forward, then by backward bounds of its unstable neurons."""
    intervals = root.intervals
    found = intervals.of[pre]
    sources = torch.zeros(2, found.lower.numel(), dtype=torch.int8, device=root.device)
    if earlier:
        found = tighten_by(intervals, pre, earlier[0].of[pre], Source.EARLIER, sources)
    unstable = unstable_in(root, pre, found).nonzero()[:, 0]
    if len(unstable) == 0 or _intervals_are_tight(root, pre):
        return Refined(sources)
    if forward is not None and _forward_pays(root, pre, forward, len(unstable)):
        found = tighten_by(intervals, pre, forward.bounds(pre, deadline), Source.FORWARD, sources)
        unstable = unstable_in(root, pre, found).nonzero()[:, 0]
        if len(unstable) == 0:
            return Refined(sources)
    bounder = LayerNeurons(root, pre, schedule, deadline, beside.deepen)
    first = first_copies(root.problem.graph, pre)
    first = None if first is None else first.to(root.device)
    each = unstable if first is None else first[unstable].unique()
    lower, upper = found.lower.flatten().clone(), found.upper.flatten().clone()
    kept: list[Tensor] = []
    for places in in_time(each, bounder.chunk, deadline):
        value, by, slopes = bounder.bound(places)
        gained = torch.stack([value.lower > lower[places], value.upper < upper[places]])
        sources[:, places] = torch.where(gained, by, sources[:, places])
        if beside.recorder is not NOTHING and bounder.optimised:
            _tell(beside.recorder, root, pre, places, (value, gained & (by == Source.SLOPES), slopes))
        lower[places] = lower[places].fmax(value.lower)
        upper[places] = upper[places].fmin(value.upper)
        kept += [slopes.view(2, len(places), -1).half()] if bounder.optimised else []
    if first is not None:
        sources = torch.where(torch.stack([lower[first] > lower, upper[first] < upper]), sources[:, first], sources)
        lower, upper = lower.maximum(lower[first]), upper.minimum(upper[first])
    intervals.tighten(pre, Interval(lower.view_as(found.lower), upper.view_as(found.upper)))
    # Slopes that were not optimised are those to start from, for all neurons: they need not be kept.
    return Refined(sources) if deadline.expired or not kept else Refined(sources, each, torch.cat(kept, 1), first)


def _tell(recorder: Recorder, root: Root, pre: int, places: Tensor, found: tuple[Interval, Tensor, Tensor]) -> None:
    """Tell of neurons at places (n,): their bounds, which of these count (2, n), the slopes (2n, U') of both sides."""
    value, told, slopes = found
    bounds = torch.cat([value.lower, -value.upper]).where(told.flatten(), -torch.inf)
    above = torch.arange(2, device=places.device).repeat_interleave(len(places)) > 0
    recorder.sloped(Sides(root, pre, places.repeat(2), above), bounds, slopes)


def in_time(places: Tensor, chunk: int, deadline: Deadline) -> Iterator[Tensor]:
    """Yield places (n,) chunk by chunk until the deadline; chunks that would last beyond it are smaller."""
    pace, done = Pace(deadline), 0
    while done < len(places) and not deadline.expired:
        began, some = time.monotonic(), places[done : done + pace.fit(chunk)]
        yield some
        keep_up(places.device, deadline)
        pace.took(len(some), time.monotonic() - began)
        done += len(some)


def _forward_pays(root: Root, pre: int, forward: Forward, unstable: int) -> bool:
    """Say whether affine forms, which bound a layer at once, take less work than backward passes for its neurons."""
    backward = 2 * unstable * walked(root.graph64.graph, pre)
    enough = worth.FORWARD_WORTH[root.device.type]
    return not forward.given_up and backward > enough and forward.cost(pre) < backward


def tighten_by(intervals: Intervals, pre: int, better: Interval | None, by: Source, sources: Tensor) -> Interval:
    """Tighten the interval of node `pre` by other bounds of it, if any; note in `sources` (2, n) what gained by it."""
    found = intervals.of[pre]
    if better is None:
        return found
    gained = torch.stack([(better.lower > found.lower).flatten(), (better.upper < found.upper).flatten()])
    sources[gained] = by
    found = Interval(found.lower.fmax(better.lower), found.upper.fmin(better.upper))
    intervals.tighten(pre, found)
    return found


def _intervals_are_tight(root: Root, pre: int) -> bool:
    """Say whether `pre` is at most one mixing affine op away from the input, so that intervals lose nothing.

    Of a box, that is. A ball's intervals are not by boxes up to the first nonlinear node.
    """
    graph = root.graph64.graph
    if root.graph64.region.ball is not None:
        return root.intervals.linear_on_a_ball(pre)
    ops = [graph.nodes[i].op for i in graph.ancestors[pre]]
    mixing = sum(isinstance(op, Affine) and op.fan > 1 for op in ops)
    return mixing <= 1 and not any(isinstance(op, Nonlinear) for op in ops)
