"""Bounds of neurons with planes above the first layer, as many at a time as read much the same of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.domains import Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.memory import holds
from netproof.bounds.net import Net
from netproof.bounds.neurons.forms import raise_forms
from netproof.bounds.planes.climb import chord_slopes, raises_that_fit
from netproof.bounds.planes.reads import Reads
from netproof.bounds.planes.rows import RowPlanes
from netproof.core.deadline import Deadline

AT_ONCE = {"cpu": 32, "cuda": 1 << 20}  # bounds: neighbours on a CPU, so that few neurons matter to all of them
MATTERS = 0.7  # of all neurons that may matter for the others to be left out
WORTH = 0.02  # of the bounds that planes must gain in a first part for the rest to have them


class Risen(NamedTuple):
    """Bounds of forms with planes."""

    value: Tensor  # (n,), confirmed
    slopes: Tensor  # (n, U')
    planes: RowPlanes | None  # one row for each form; None: they are not kept, or gain too little


@dataclass(frozen=True, eq=False)
class Raising:
    """What bounds of a layer's neurons with planes rest on."""

    nets: tuple[Net, Net]  # before the layer, to search and to prove with
    reads: Reads
    known: Known
    schedule: Schedule
    deadline: Deadline

    def __call__(
        self, forms: tuple[Tensor, Tensor], order: Tensor, start: tuple[Tensor, Tensor], settled: Tensor, *, keep: bool
    ) -> Risen:
        """Raise bounds of forms (n, columns), with errors (n,), in an order (n,) in which neighbours are alike.

        start: what was proved of them (n,), and the slopes (n, U') that gave it. settled (n,): past which no more is
        wanted. keep: whether planes are asked for.
        """
        value, slopes = (t.clone() for t in start)
        falls, planes, gained = self._falls(forms, slopes), self._chords(len(value)) if keep else None, torch.inf
        for some in order.split(min(AT_ONCE[value.device.type], raises_that_fit(self.reads))):
            which = falls[some].any(0).nonzero()[:, 0]
            if self.deadline.expired or gained < WORTH or len(which) == 0:
                continue
            reads = self.reads if len(which) > MATTERS * self.reads.count else self.reads.some(which)
            part, climb = (forms[0][some], forms[1][some]), Climb(self.schedule, settled[some], self.deadline)
            higher, slopes[some], slope = raise_forms(self.nets, reads, part, self.known, slopes[some], climb)
            better = value[some].fmax(higher)
            if gained == torch.inf:
                gained = float((better - value[some]).sum() / value[some].abs().sum())
            value[some] = better
            if planes is not None:
                at = torch.arange(self.reads.count, device=some.device) if reads.neurons is None else which
                planes[some[:, None], at] = slope
        rows = None if planes is None or gained < WORTH else RowPlanes(self.reads, planes)
        return Risen(value, slopes if rows is not None else start[1], rows)

    def _chords(self, count: int) -> Tensor | None:
        """Return slopes (count, J, K) of planes that are chords; None where they would not fit."""
        chords = chord_slopes(self.reads)
        each = torch.float32.itemsize + torch.float64.itemsize
        return chords.repeat(count, 1, 1) if holds(2 * each * count * chords.numel(), chords.device) else None

    def _falls(self, forms: tuple[Tensor, Tensor], slopes: Tensor) -> Tensor:
        """Say in which forms the coefficients of the first layer's neurons fall, at slopes (n, U'): (n, J) bool."""
        found, size = [], max(1, self.nets[0].climbs_that_fit())
        for some in torch.arange(len(slopes), device=slopes.device).split(size):
            dual = Dual.of_forms(self.nets[0], forms[0][some], forms[1][some], self.known)
            theta = DualPoint(slopes[some], None, torch.ones(len(some), 1, device=slopes.device))
            found.append(self.reads.of(dual.at(theta).pulled.after) < 0)
        return torch.cat(found) if found else torch.zeros(0, self.reads.count, dtype=torch.bool, device=slopes.device)
