"""Affine forms of a graph's nodes, node after node, as far as they are asked for and memory allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial

import torch
from torch import Tensor

from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.memory import attempted, holds_for_a_while, release
from netproof.bounds.windows.frame import Frame
from netproof.bounds.windows.moves import image_sides, united
from netproof.bounds.windows.onward import onward
from netproof.bounds.zonotope.accurate import COPIES, weight_of
from netproof.bounds.zonotope.merge import LARGER, merged
from netproof.bounds.zonotope.steps import (
    carried_numbers,
    lines_between,
    narrowed,
    new_numbers,
    through_affine,
    through_nonlinear,
)
from netproof.bounds.zonotope.zonotope import Zonotope, generators_at
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.forms import Interval
from netproof.model.graph import Node
from netproof.model.ops import Affine, Input, Nonlinear
from netproof.numerics import up

# What is held at once, in forms of the node that is being computed: a block's beginning and the branch so far, both of
# smaller windows, and what is made of a slice on the way.
LIVE = 2.5

COPIED = 1.5  # times what is held in float64, with all of it in float32 too


class Forward:
    """Forms of the nodes that later ones read, over the input set of `intervals` and by its bounds of neurons."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals, self._graph = intervals, intervals.graph
        self._device = intervals.region.centre.device
        self._forms: dict[int, Zonotope] = {}
        self._next = 0
        self._kept = torch.float64  # what generators are kept in
        self._last = {i: node.index for node in self._graph.nodes for i in node.inputs}  # by node, who reads it last
        self.given_up = False

    @torch.no_grad()
    def bounds(self, index: int, deadline: Deadline) -> Interval | None:
        """Return bounds of a node by its forms, (*node); None where there are none any more, or not in time."""
        while self._next <= index and not self.given_up:
            try:
                if attempted(lambda: self._step(deadline), self._device) is None:
                    self._with_less()
            except DeadlineExpired:  # the step may be taken again
                return None
        return attempted(self._forms[index].bounds, self._device) if index in self._forms else None

    def fits(self, index: int, new: int = 0, kept: torch.dtype = torch.float32) -> bool:
        """Say whether the forms of a node, and of those that are held with it, leave memory for the rest.

        By a first guess, whatever is known of them. new: numbers of the generators that begin at it. kept: what
        generators are kept in; float32 if need be.
        """
        before = [self._forms[i] for i in self._graph.nodes[index].inputs if i in self._forms]
        count = max([self._varying, *(forms.count for forms in before)])
        return self._holds(int(LIVE * count * self._sizes[index] + new), kept, self._graph.nodes[index])

    def _holds(self, numbers: int, kept: torch.dtype, node: Node) -> bool:
        """Say whether so many numbers of generators may be held, with what a node's op takes besides."""
        weight = weight_of(node.op) if isinstance(node.op, Affine) else None
        more = 0 if weight is None else COPIES * weight.numel() * weight.element_size()
        return holds_for_a_while(numbers * kept.itemsize + more, self._device, self._held)

    @property
    def _held(self) -> int:
        """Return the bytes of all generators."""
        values = {id(g.values): g.values for forms in self._forms.values() for g in forms.generators.values()}
        return sum(one.numel() * one.element_size() for one in values.values())

    def _step(self, deadline: Deadline) -> bool:
        """Make the forms of the next node, or none any more; DeadlineExpired where there is no time for it."""
        deadline.check()
        node = self._graph.nodes[self._next]
        spent, lines = [self._is_spent(i, node) for i in node.inputs], None
        if isinstance(node.op, Nonlinear) and node.op.arity == 1:
            lines = lines_between(node, self._intervals.of[node.inputs[0]])
        if not self._has_room(node, spent, 0 if lines is None else new_numbers(node, lines)):
            self._give_up()
            return True
        inputs = [self._forms[i] for i in node.inputs]
        if isinstance(node.op, Input):
            made = self._input()
        elif isinstance(node.op, Affine):
            made = through_affine(node, inputs, deadline, spent=spent)
        elif lines is not None:
            made = through_nonlinear(node, inputs[0], lines, deadline, spent=spent[0])
        else:
            made = _box(self._intervals.of[node.index])
        self._forms[node.index] = made if self._kept == torch.float64 else narrowed(made, {})
        self._next += 1
        for index in [i for i in self._forms if self._last.get(i, math.inf) < self._next]:
            del self._forms[index]
        if len(self._forms) == 1 and isinstance(node.op, Nonlinear):
            only = self._forms[node.index]
            if self._holds(int((1 + LARGER) * only.numbers), self._kept, node):  # both are held for a moment
                self._forms = {node.index: attempted(partial(merged, only), self._device) or only}
        return True

    def _has_room(self, node: Node, spent: Sequence[bool], new: int) -> bool:
        """Say whether a node's forms fit as generators are kept, or in float32, which they are from then on.

        spent: which of its inputs may be written to. new: numbers of the generators that begin at it.
        """
        if self.fits(node.index, new, self._kept):
            return True
        inputs = [self._forms[i] for i in node.inputs]
        if isinstance(node.op, Affine):
            new = carried_numbers(node, inputs, spent)
        elif isinstance(node.op, Input):
            new = self._varying * self._sizes[0]
        elif isinstance(node.op, Nonlinear) and node.op.arity == 1 and not spent[0]:
            new += inputs[0].numbers
        numbers = new + self._held // self._kept.itemsize
        # In float64 as long as a copy in float32 would fit beside it: else it would be too late for that.
        fits = self._holds(numbers if self._kept == torch.float32 else int(COPIED * numbers), self._kept, node)
        if not fits and self._kept == torch.float64 and self._holds(numbers, torch.float32, node):
            self._narrow()
            fits = True
        release(self._device)  # little is left, so what is large must not lie in a part of what was larger
        return fits

    def _with_less(self) -> None:
        """Take the step that memory ran out for once more in float32, or give up: bounds can be had without forms.

        Only where it has written to no form: a sum may be half made in place, and so may a function of every entry.
        """
        node = self._graph.nodes[self._next]
        again = isinstance(node.op, Affine) and len(node.inputs) == 1 and self._kept == torch.float64
        if not again or attempted(self._narrow, self._device) is None:
            self._give_up()

    def _narrow(self) -> bool:
        """Keep all generators in float32 from now on."""
        self._kept, done = torch.float32, dict[int, Tensor]()
        for index in list(self._forms):
            self._forms[index] = narrowed(self._forms[index], done)
            release(self._device)
        return True

    def _is_spent(self, index: int, reader: Node) -> bool:
        """Say whether a node's forms are of no use after their reader: no other reads them, or the same numbers."""
        if self._last[index] > reader.index:
            return False
        mine = {some.values.untyped_storage().data_ptr() for some in self._forms[index].generators.values()}
        others = [forms for i, forms in self._forms.items() if i != index]
        return not any(g.values.untyped_storage().data_ptr() in mine for f in others for g in f.generators.values())

    def _give_up(self) -> None:
        self.given_up = True
        self._forms.clear()

    def cost(self, index: int) -> int:
        """Return how many numbers it takes to carry the forms on to a node: a first guess, without a look at any."""
        began = sum(forms.count for forms in self._forms.values())
        count = max(self._varying, began // max(1, len(self._forms)))
        return count * sum(self._sizes[i] for i in range(self._next, index + 1))

    @cached_property
    def _varying(self) -> int:
        """Return how many inputs vary."""
        return int((self._intervals.region.radius > 0).sum())

    @cached_property
    def _sizes(self) -> list[int]:
        """Return by node how many numbers a generator has that begins at an entry of the input."""
        frames: list[Frame | None] = []
        for node in self._graph.nodes:
            before = [frames[i] for i in node.inputs]
            if isinstance(node.op, Input):
                sides = image_sides(node.shape)
                frames.append(None if sides is None else Frame(sides))
            elif isinstance(node.op, Affine):
                widths = [self._graph.nodes[i].shape for i in node.inputs]
                found = [
                    None if frame is None else onward(node, place, frame, shape[1])
                    for place, (frame, shape) in enumerate(zip(before, widths, strict=True))
                ]
                frames.append(united([None if move is None else move.frame for move in found]))
            else:
                frames.append(before[0])
        nodes = self._graph.nodes
        return [n.size if f is None else f.area * n.shape[1] for n, f in zip(nodes, frames, strict=True)]

    def _input(self) -> Zonotope:
        """Return the box that the input set lies in: a generator for each input that varies."""
        region = self._intervals.region
        places = (region.radius.flatten() > 0).nonzero()[:, 0]
        zero = torch.zeros_like(region.centre)
        if len(places) == 0:
            return Zonotope.of(region.centre, zero, None, {})
        some = generators_at(places, region.radius.flatten()[places], zero.shape)
        return Zonotope.of(region.centre, zero, None, {0: some})


def _box(bounds: Interval) -> Zonotope:
    """Return forms that say of a node no more than its bounds."""
    middle = bounds.lower / 2 + bounds.upper / 2
    radius = torch.maximum(bounds.upper - middle, middle - bounds.lower)
    return Zonotope.of(middle, up(radius, 2), None, {})
