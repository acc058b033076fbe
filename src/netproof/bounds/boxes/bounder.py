"""Bounds of many boxes at once, each with intermediate bounds of its own.

Everything is float64 with rounding charged, so every number is a proof and none is confirmed again. Layer by layer:
intervals from the layer before; then a backward pass for the neurons that these leave unstable, one row per pair of
box and neuron, so that the work follows what is unstable and not the size of the batch. What the relaxation costs
the bound, and which coordinate of the input is to blame, comes out on the way and tells where to split.

Rounding is charged by weights from the intervals of a hull of all boxes: no value on a box is larger.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.boxes.blame import Share, blamed
from netproof.bounds.boxes.blocks import BlockNet, fits
from netproof.bounds.boxes.combine import combine, combined
from netproof.bounds.boxes.net import BoxNet, WalkedNet
from netproof.bounds.boxes.quadratic import Operands, Remainder, last_products
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.memory import budget, rows_that_fit
from netproof.bounds.linear.region import BoxRegion, Region
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Rows
from netproof.relax import Relaxation, relaxation_of

CACHE = 1 << 19  # bytes: on a CPU a part of the pairs whose coefficients stay in the cache is twice as fast
LEAST_ROWS = 64  # and one of fewer rows is all overhead
FEW_INPUTS = 256  # beyond so many, nobody asks which coordinate to split
WIDE = {"cpu": 8, "cuda": 256}  # and no more boxes are bounded at once: one takes long, and half a pass proves nothing


@dataclass(frozen=True, eq=False)
class BoxBounds:
    """What bounding a batch of boxes gave; all but `blame` is confirmed.

    Where the targets have several rows, the best combination of two of them follows as one more row.
    """

    form: LinearForm  # coef (box, row, input), const (box, row): at most r_j(x) at every x of the box
    least: Tensor  # (box, row): at most r_j on the box, −inf on padding
    signs: Tensor  # (box, N) int8: +1 where a neuron is known to be right of its kink, −1 where left of it
    blame: Tensor  # (box, input): what relaxation costs the rows, by coordinate; 0 if not asked

    @property
    def bound(self) -> Tensor:
        """Return (box,): what the best row gives."""
        return self.least.amax(1)

    def select(self, index: Tensor) -> BoxBounds:
        form = LinearForm(self.form.coef[index], self.form.const[index])
        return BoxBounds(form, self.least[index], self.signs[index], self.blame[index])


@dataclass(frozen=True, eq=False)
class _Layers:
    """The nonlinear nodes of a batch of boxes, bounded."""

    h: dict[int, Interval]  # by the node that is read: (box, m)
    lines: dict[int, Tensor]  # by nonlinear node: (box, 3, m)
    shares: dict[int, Share] | None  # by the node that is read; None: nobody asks
    operands: dict[int, Operands]  # by nonlinear node, of the last products


class BoxBounder:
    """A network (float64, on the CPU) and rows, prepared on a device for boxes inside `hull`."""

    def __init__(self, graph: Graph, rows: Rows, hull: InputSet, device: torch.device) -> None:
        self.graph, self.device = graph, device
        self.rows = rows.to(device)
        if fits(graph, rows):
            intervals = interval_bounds(graph, Region.of(hull, torch.device("cpu"), torch.float64))
            self._net: BoxNet = BlockNet(graph, rows.to(torch.device("cpu")), intervals, device)
        else:
            there = graph.to(device, torch.float64)
            intervals = interval_bounds(there, Region.of(hull, device, torch.float64))
            self._net = WalkedNet(there, self.rows, intervals)
        self._read = tuple(dict.fromkeys(graph.nodes[i].inputs[0] for i in graph.nonlinear))
        self._hull = {i: Interval(*(side.to(device) for side in intervals.of[i].flat)) for i in self._read}
        sizes = [graph.nodes[i].size for i in self._read]
        self._place = {pre: slice(sum(sizes[:k]), sum(sizes[: k + 1])) for k, pre in enumerate(self._read)}
        self.neurons = sum(sizes)  # N
        self._readers = {
            pre: [relaxation_of(graph.nodes[i].op) for i in graph.nonlinear if graph.nodes[i].inputs == (pre,)]
            for pre in self._read
        }
        kinks = {pre: {relaxation.kink for relaxation in readers} for pre, readers in self._readers.items()}
        self._kink = {pre: next(iter(found)) if len(found) == 1 else None for pre, found in kinks.items()}
        self._pairs_at_once = {pre: self._pairs_that_fit(pre) for pre in self._read}
        self._last = {graph.nodes[i].inputs[0]: i for i in last_products(graph)}  # by what they read

    def unknown(self, count: int) -> Tensor:
        """Return `signs` of boxes of which nothing is known."""
        return torch.zeros(count, self.neurons, dtype=torch.int8, device=self.device)

    def boxes_that_fit(self) -> int:
        """Return how many boxes may be bounded at once; their pairs are bounded in parts that fit in any case."""
        widest = max(node.size for node in self.graph.nodes)
        entries = 8 * self.graph.entries + 8 * self.rows.valid.shape[1] * widest
        if self.graph.input.size <= FEW_INPUTS:
            entries += 2 * self.graph.input.size * self.neurons
        if self._last:
            entries += 8 * self.rows.valid.shape[1] * self.graph.input.size**2
        fit = max(1, budget(self.device) // (8 * entries))
        return fit if self.graph.input.size <= FEW_INPUTS else min(fit, WIDE[self.device.type])

    def _pairs_that_fit(self, pre: int) -> int:
        fit = rows_that_fit(self.graph, pre, self.device, torch.float64, grad=False) // 4  # both sides, and their lines
        if self.device.type == "cpu":
            widest = max(self.graph.nodes[i].size for i in self.graph.ancestors[pre])
            fit = min(fit, max(LEAST_ROWS, CACHE // (16 * widest)))
        return max(1, fit)

    def shrink(self) -> None:
        """Take fewer pairs at a time, after running out of memory."""
        self._pairs_at_once = {pre: max(1, count // 2) for pre, count in self._pairs_at_once.items()}

    @torch.no_grad()
    def bound(
        self,
        lower: Tensor,
        upper: Tensor,
        target: Tensor,
        signs: Tensor,
        deadline: Deadline,
        *,
        box: Tensor | None = None,
        blame: bool = True,
    ) -> BoxBounds:
        """Bound boxes, lower and upper (box, input) inside the hull; signs (box, N): what is known of an ancestor.

        box: (target,) the box of each target where several share one; everything returned then has an entry a target.
        Raises DeadlineExpired: from half a pass nothing may be concluded.
        """
        region = BoxRegion.of(lower, upper)
        blame = blame and self.graph.input.size <= FEW_INPUTS
        layers = self._layers(Interval(lower, upper), region, signs, deadline, blame=blame)
        deadline.check()
        lines, found = (
            layers.lines,
            torch.cat([self._sides(i, layers.h[i]) for i in self._read], 1) if self._read else signs,
        )
        if box is not None:
            lower, upper, region, found = lower[box], upper[box], region.select(box), found[box]
            lines = {index: line[box] for index, line in lines.items()}
        keep: dict[int, Tensor] = {}
        form, least = self._rows(target, region, lines, keep)
        total = torch.zeros_like(lower)
        if layers.operands:
            form, least, total = self._quadratic((target, region, lines, box), (form, least), keep, layers.operands)
        if blame:
            for index, coef in keep.items():
                node = self.graph.nodes[index]
                assert layers.shares is not None
                share = layers.shares.get(node.inputs[0])
                if share is not None and index not in layers.operands:
                    total = total + blamed(node, coef, layers.h[node.inputs[0]], layers.lines[index], share, box)
        if least.shape[1] > 1:
            mixed, value = combined(form, combine(form, least, lower, upper), lower, upper)
            form = LinearForm(torch.cat([form.coef, mixed.coef], 1), torch.cat([form.const, mixed.const], 1))
            least = torch.cat([least, value[:, None]], 1)
        return BoxBounds(form, least, found, total)

    @torch.no_grad()
    def of_neurons(self, lower: Tensor, upper: Tensor, signs: Tensor, deadline: Deadline) -> dict[int, Interval]:
        """Bound the neurons of boxes (box, input): by the node that a nonlinear one reads, (box, m), flattened."""
        return self._layers(Interval(lower, upper), BoxRegion.of(lower, upper), signs, deadline).h

    # --- layers ---

    def _layers(
        self, inputs: Interval, region: BoxRegion, signs: Tensor, deadline: Deadline, *, blame: bool = False
    ) -> _Layers:
        """Bound the neurons of boxes; with `blame`, also whose width makes theirs: large where inputs are many."""
        layers = _Layers({}, {}, {} if blame else None, {})
        known = {0: inputs}
        for index in self.graph.nonlinear:
            node = self.graph.nodes[index]
            (pre,) = node.inputs
            if pre not in layers.h:
                start = self._start(pre, self._net.interval(pre, known), signs)
                layers.h[pre] = self._refine(pre, start, region, layers, deadline)
            relaxation = relaxation_of(node.op)
            layers.lines[index] = _lines(relaxation, layers.h[pre])
            known[index] = relaxation.range(layers.h[pre])
        return layers

    def _start(self, pre: int, h: Interval, signs: Tensor) -> Interval:
        """Return intervals (box, m), no wider than the hull's and with the signs that an ancestor knew."""
        sign, kink = signs[:, self._place[pre]], self._kink[pre]
        lower, upper = h.lower.maximum(self._hull[pre].lower), h.upper.minimum(self._hull[pre].upper)
        if kink is None:
            return Interval(lower, upper)
        lower = torch.where(sign > 0, lower.clamp(min=kink), lower)
        return Interval(lower, torch.where(sign < 0, upper.clamp(max=kink), upper))

    def _unstable(self, pre: int, h: Interval) -> Tensor:
        """Say where some nonlinear node that reads `pre` is not linear: (box, m)."""
        every = [relaxation.unstable(h) for relaxation in self._readers[pre]]
        return every[0] if len(every) == 1 else torch.stack(every).any(0)

    def _sides(self, pre: int, h: Interval) -> Tensor:
        """Return `signs` of the neurons of node `pre`: 0 where they have no kink, as splitting never ends there."""
        kink = self._kink[pre]
        if kink is None:
            return torch.zeros_like(h.lower, dtype=torch.int8)
        return (h.lower >= kink).to(torch.int8) - ((h.upper <= kink) & (h.lower < kink)).to(torch.int8)

    def _refine(self, pre: int, h: Interval, region: BoxRegion, layers: _Layers, deadline: Deadline) -> Interval:
        """Backward bounds of the neurons that are unstable still; whose width makes theirs is left in `layers`."""
        box, neuron = self._unstable(pre, h).nonzero(as_tuple=True)
        if len(box) == 0:
            return h
        parts: list[tuple[Tensor, Tensor, Tensor, LinearForm]] = []
        step = self._pairs_at_once[pre]
        for some, these in zip(box.split(step), neuron.split(step), strict=True):
            deadline.check()
            parts.append(self._pairs(pre, some, these, region, layers))
        below, above, share = (torch.cat([part[k] for part in parts]) for k in range(3))  # type: ignore[misc]
        if pre in self._last:
            coef, const = (torch.cat([part[3][k].unflatten(0, (2, -1)) for part in parts], 1) for k in range(2))
            layers.operands[self._last[pre]] = Operands.of(h, region, (box, neuron), (coef, const))
        if layers.shares is not None:
            layers.shares[pre] = Share(box, neuron, share)
        flat = box * h.lower.shape[1] + neuron
        lower, upper = h.lower.flatten(), h.upper.flatten()
        lower = lower.scatter(0, flat, below.fmax(lower[flat])).view_as(h.lower)
        upper = upper.scatter(0, flat, above.fmin(upper[flat])).view_as(h.upper)
        return Interval(lower, upper)

    def _pairs(
        self, pre: int, box: Tensor, neuron: Tensor, region: BoxRegion, layers: _Layers
    ) -> tuple[Tensor, Tensor, Tensor, LinearForm]:
        """Return bounds (pair,) of h, each coordinate's share in its width (pair, input or 0), and the forms."""
        here = region.select(box.repeat(2))
        form = self._net.neurons(pre, neuron, box, layers.lines)
        least = here.least(form)
        if layers.shares is None:
            return least[: len(box)], -least[len(box) :], least.new_zeros(len(box), 0), form
        width = (form.coef.abs() * here.radius).view(2, len(box), -1).sum(0)
        share = width / width.sum(1, keepdim=True).clamp(min=1e-300)
        return least[: len(box)], -least[len(box) :], share, form

    # --- rows ---

    def _rows(
        self, target: Tensor, region: BoxRegion, lines: Mapping[int, Tensor], keep: dict[int, Tensor]
    ) -> tuple[LinearForm, Tensor]:
        """Return the lower forms of each box's rows and their least values; padding says nothing."""
        form = self._net.of_rows(target, lines, keep)
        padding = ~self.rows.valid[target]
        form = LinearForm(form.coef.masked_fill(padding[..., None], 0.0), form.const.masked_fill(padding, -torch.inf))
        return form, region.least(form).nan_to_num(nan=-torch.inf)

    def _quadratic(
        self,
        asked: tuple[Tensor, BoxRegion, Mapping[int, Tensor], Tensor | None],
        planes: tuple[LinearForm, Tensor],
        keep: Mapping[int, Tensor],
        operands: Mapping[int, Operands],
    ) -> tuple[LinearForm, Tensor, Tensor]:
        """Return the better of the rows' forms by planes and those by one quadratic form, and what either costs.

        asked: targets, boxes, lines, and which box is whose. The cost is divided among coordinates: (target, input).
        """
        target, region, lines, box = asked
        mine = {i: one if box is None else one.select(box) for i, one in operands.items()}
        by_middle = {**lines, **{i: one.lines for i, one in mine.items()}}
        form, least = planes
        parts = [Remainder.of(keep[i], one, region.radius) for i, one in mine.items()]
        remainder = functools.reduce(Remainder.plus, parts)
        other, _ = self._rows(target, region, by_middle, {})
        other, loss = remainder.joined_to(other, region)
        value = region.least(other).nan_to_num(nan=-torch.inf)
        better = value > least
        form = LinearForm(
            torch.where(better[..., None], other.coef, form.coef), torch.where(better, other.const, form.const)
        )
        cost = torch.where(better, loss, remainder.size + remainder.error).sum(1, keepdim=True)
        share = remainder.share / remainder.share.sum(1, keepdim=True).clamp(min=1e-300)
        return form, torch.where(better, value, least), cost * share


def _lines(relaxation: Relaxation, h: Interval) -> Tensor:
    """Return the lines of each box, with the parameters to start from: (box, 3, m), 4 with lower intercepts."""
    lines = relaxation.family(h, proof=True).at(relaxation.initial(h))
    return torch.stack([line for line in lines if line is not None], 1)
