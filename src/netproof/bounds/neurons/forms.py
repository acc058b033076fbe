"""Bounds of single neurons: forms climbed and confirmed, each on what is known of the neurons before it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, ascend
from netproof.bounds.domains import Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.net import Net


@torch.no_grad()
def bound_forms(
    nets: tuple[Net, Net],
    forms: tuple[Tensor, Tensor],
    known: Known,
    start: tuple[Tensor, Tensor | None],
    climb: Climb,
) -> tuple[Tensor, DualPoint]:
    """Return confirmed lower bounds (n,) of forms, and the θ that gave them.

    nets: to search with and to prove with. forms: (n, columns), float64, and their errors (n,). start: slopes and
    multipliers (n, U). climb: its threshold (n,) is float32.
    """
    search, proof = nets
    theta = DualPoint(*start, torch.ones(len(forms[0]), 1, device=climb.threshold.device))
    if climb.schedule.steps > 0:
        _, theta = ascend(Dual.of_forms(search, *forms, known), theta, climb)
    theta = replace(theta, slopes=theta.slopes.half().float())  # as a root keeps them
    return Dual.of_forms(proof, *forms, known).at(theta).value, theta
