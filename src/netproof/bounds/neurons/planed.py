"""A root with planes above its first layer, chosen for the targets that are open."""

from __future__ import annotations

import torch

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.memory import holds
from netproof.bounds.neurons.root import Root
from netproof.bounds.planes.climb import chord_slopes, raise_planes, raises_that_fit
from netproof.bounds.planes.rows import RowPlanes
from netproof.core.deadline import Deadline


def planed(root: Root, wanted: Domains, schedule: Schedule, deadline: Deadline) -> Root | None:
    """Return a root with planes for some targets; None where there is no time or no memory for them.

    wanted: the whole sets of these targets, with the slopes to climb from. Other targets have chords for planes.
    """
    reads = root.reads
    assert reads is not None
    chords = chord_slopes(reads)
    size = (torch.float32.itemsize + torch.float64.itemsize) * chords.numel()
    if len(wanted) == 0 or not holds(4 * size * (1 + len(wanted)), root.device):
        return None
    found, slopes = [chords], root_domains(root).slopes
    for some in torch.arange(len(wanted), device=root.device).split(raises_that_fit(reads)):
        if deadline.expired:
            return None
        part = wanted.select(some)
        past = torch.full((len(part),), torch.inf, device=root.device)
        dual, climb = Dual.of(root, part, proof=False), Climb(schedule, past, deadline)
        theta, slope = raise_planes(dual, reads.to_search, DualPoint.of(part), climb)
        slopes[part.target] = theta.slopes
        found.append(slope)
    row = torch.zeros(len(slopes), dtype=torch.int64, device=root.device)
    row[wanted.target] = 1 + torch.arange(len(wanted), device=root.device)
    return root.with_planes(RowPlanes(reads, torch.cat(found), row), slopes)
