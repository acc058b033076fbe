"""Bounds of single neurons: forms climbed and confirmed, each on what is known of the neurons before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, ascend
from netproof.bounds.domains import Known
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.net import Net
from netproof.bounds.packed import Packed
from netproof.bounds.planes.climb import raise_planes
from netproof.bounds.planes.planes import Planes
from netproof.bounds.planes.reads import Reads
from netproof.numerics import lowered
from netproof.relax import Lines


@torch.no_grad()
def bound_places(net: GraphNet, places: Tensor, signs: Tensor, lines: Mapping[int, Lines]) -> Tensor:
    """Return confirmed lower bounds (n,) of sign·h at places (n,) of the node before which `net` ends.

    signs (n,): ±1. lines: as `fixed_lines` gives them.
    """
    return lowered(net.least_at(places, signs, lines))


@torch.no_grad()
def fixed_lines(net: GraphNet, known: Known, slopes: Tensor) -> dict[int, Lines]:
    """Return by node the lines that slopes (1, U) give the neurons of a network to prove with, as a root keeps them."""
    packed = Packed.of(net.layers, known.to(net.dtype), proof=net.proof)
    return net.spread(packed.at(slopes.half().float().to(net.dtype).clamp(0.0, 1.0)))


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


@torch.no_grad()
def raise_forms(
    nets: tuple[Net, Net], reads: Reads, forms: tuple[Tensor, Tensor], known: Known, slopes: Tensor, climb: Climb
) -> tuple[Tensor, Tensor, Tensor]:
    """Return confirmed lower bounds (n,) of forms with planes, the slopes (n, U) that gave them, and those of planes.

    As `bound_forms`, from slopes (n, U); of planes (n, J, K).
    """
    theta = DualPoint(slopes, None, torch.ones(len(slopes), 1, device=slopes.device))
    theta, planes = raise_planes(Dual.of_forms(nets[0], *forms, known), reads.to_search, theta, climb)
    each = torch.arange(len(slopes), device=slopes.device)
    proof = replace(Dual.of_forms(nets[1], *forms, known), above=Planes.on(reads, planes.double()).of(each))
    return proof.at(theta).value, theta.slopes, planes
