"""Affine forms of a graph's nodes, node after node, as far as they are asked for and memory allows."""

from __future__ import annotations

import math
from functools import cached_property

import torch

from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.memory import attempted, holds_for_a_while
from netproof.bounds.windows.frame import Frame
from netproof.bounds.windows.moves import image_sides, united
from netproof.bounds.windows.onward import onward
from netproof.bounds.zonotope.merge import merged
from netproof.bounds.zonotope.steps import new_numbers, through_affine, through_nonlinear
from netproof.bounds.zonotope.zonotope import Zonotope, generators_at
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.core.forms import Interval
from netproof.model.graph import Node
from netproof.model.ops import Affine, Input, Nonlinear
from netproof.numerics import up

# What is held at once, in forms of the node that is being computed: a block's beginning and the branch so far, both of
# smaller windows, and what is made of a slice on the way.
LIVE = 2.5


class Forward:
    """Forms of the nodes that later ones read, over the input set of `intervals` and by its bounds of neurons."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals, self._graph = intervals, intervals.graph
        self._forms: dict[int, Zonotope] = {}
        self._next = 0
        self._last = {i: node.index for node in self._graph.nodes for i in node.inputs}  # by node, who reads it last
        self.given_up = False

    @torch.no_grad()
    def bounds(self, index: int, deadline: Deadline) -> Interval | None:
        """Return bounds of a node by its forms, (*node); None where there are none any more, or not in time."""
        device = self._intervals.region.centre.device
        while self._next <= index and not self.given_up:
            try:
                if attempted(lambda: self._step(deadline), device) is None:  # bounds can be had without forms
                    self._give_up()
            except DeadlineExpired:  # nothing has changed since the step began
                return None
        return attempted(self._forms[index].bounds, device) if index in self._forms else None

    def fits(self, index: int, new: int = 0) -> bool:
        """Say whether the forms of a node, and of those that are held with it, leave memory for the rest.

        new: numbers of the generators that begin at it.
        """
        before = [self._forms[i] for i in self._graph.nodes[index].inputs if i in self._forms]
        count = max([self._varying, *(sum(len(g.values) for g in forms.generators.values()) for forms in before)])
        size = int(LIVE * count * self._sizes[index] + new) * torch.float64.itemsize
        values = [some.values for forms in self._forms.values() for some in forms.generators.values()]
        held = sum(one.numel() * one.element_size() for one in values)
        return holds_for_a_while(size, self._intervals.region.centre.device, held)

    def _step(self, deadline: Deadline) -> bool:
        """Make the forms of the next node, or none any more; DeadlineExpired where there is no time for it."""
        deadline.check()
        node = self._graph.nodes[self._next]
        if not self.fits(node.index):
            self._give_up()
            return True
        if isinstance(node.op, Input):
            made = self._input()
        elif isinstance(node.op, Affine):
            spent = [self._is_spent(i, node) for i in node.inputs]
            made = through_affine(node, [self._forms[i] for i in node.inputs], deadline, spent=spent)
        elif isinstance(node.op, Nonlinear) and node.op.arity == 1:
            (pre,) = node.inputs
            if not self.fits(node.index, new_numbers(node, self._intervals.of[pre])):
                self._give_up()
                return True
            one = self._is_spent(pre, node)
            made = through_nonlinear(node, self._forms[pre], self._intervals.of[pre], deadline, spent=one)
        else:
            made = _box(self._intervals.of[node.index])
        self._forms[node.index] = made
        self._next += 1
        for index in [i for i in self._forms if self._last.get(i, math.inf) < self._next]:
            del self._forms[index]
        if len(self._forms) == 1 and isinstance(node.op, Nonlinear):
            self._forms = {node.index: merged(made)}
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
        began = sum(some.values.shape[0] for forms in self._forms.values() for some in forms.generators.values())
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
