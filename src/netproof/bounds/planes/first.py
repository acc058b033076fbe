"""What the first layer of a network reads of the input, from above."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.memory import holds, places_that_fit
from netproof.bounds.planes.reads import Reads
from netproof.bounds.windows.plan import widest
from netproof.relax.hinge import HingeRelaxation


@torch.no_grad()
def reads_of(proof: LinedGraph) -> Reads | None:
    """Return what the first layer reads, of a network to prove with; None where there are no planes above it.

    They need a box, a function that is the larger of two lines and falls nowhere, and room.
    """
    if not proof.layers or proof.region.ball is not None:
        return None
    first, relaxation = proof.layers[0], proof.layers[0].relaxation
    if not isinstance(relaxation, HingeRelaxation) or relaxation.leak < 0:
        return None
    graph, region = proof.graph, proof.region
    entries = len(first.index) * widest(graph, first.pre)  # of the weights, of places, and of copies that are made
    if not holds(8 * torch.float64.itemsize * entries, first.index.device):
        return None
    lines = {n: proof.linear_part(n) for n in graph.nonlinear if n in graph.ancestors[first.pre]}
    parts, named = [], list[Tensor]()
    for some in first.index.split(places_that_fit(graph, first.pre, first.index.device, torch.float64)):
        sign = torch.full(some.shape, -1.0, dtype=torch.float64, device=some.device)
        done = proof.back.walk(first.pre, proof.begin_at(first.pre, some, sign, narrow=True), lines, 0)
        if done.at is None:  # it reads nothing of the input
            return None
        at, below = done.at.entries()
        named += [] if at is None else [at]
        parts.append((-below, -done.lowered_const()))  # −h is never below what was carried back
    weight, bias = (torch.cat(each) for each in zip(*parts, strict=True))
    places = torch.cat(named) if named else None
    centre, radius = (side.flatten() for side in (region.centre, region.radius))
    wide = (centre[None], radius[None]) if places is None else (centre[places], radius[places])
    return Reads(weight, bias, *wide, places=places, inputs=len(centre), leak=relaxation.leak)
