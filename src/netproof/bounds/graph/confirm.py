"""The proof: a bound and every intermediate bound it rests on, in float64 with rounding charged.

Every sub-domain passes through here, proved or not, so no number in the frontier is a float32 guess: what a child
inherits from its parent is confirmed already, and an infeasible sub-domain (lower > upper) is empty for certain.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import Domains, concatenate
from netproof.bounds.graph.batch import Batch, bound_batch
from netproof.bounds.graph.slopes import Slopes
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.numerics import float32_down, float32_up


def confirm(root: Root, batch: Batch, domains: Domains, slopes: Slopes, weights: Tensor, deadline: Deadline) -> Bounds:
    """Bound and neurons of each sub-domain; past the deadline it keeps what it has, which is its parent's."""
    widest = max((1 if r is None else 2 * r.shape[1] for r in batch.refresh), default=1)
    fit = rows_that_fit(root.graph64.graph, root.graph64.graph.output.index, root.device, torch.float64, grad=False)
    chunks = torch.arange(len(domains), device=root.device).split(max(1, fit // widest))
    parts = [
        _keep(root, domains.select(index))
        if deadline.expired
        else _confirm(root, batch.select(index), domains.select(index), slopes.select(index), weights[index])
        for index in chunks
    ]
    if len(parts) == 1:
        return parts[0]
    return Bounds(
        concatenate([p.domains for p in parts]),
        *(torch.cat([getattr(p, name) for p in parts]) for name in ("empty", "coef", "point")),
    )


def _keep(root: Root, domains: Domains) -> Bounds:
    """Nothing new: neither proved nor empty, so still open."""
    count, device = len(domains), root.device
    point = root.graph32.region.centre.expand(count, *root.graph32.region.centre.shape)
    nowhere = torch.zeros(count, dtype=torch.bool, device=device)
    return Bounds(domains, nowhere, torch.zeros(count, root.count, device=device), point)


@torch.no_grad()
def _confirm(root: Root, batch: Batch, domains: Domains, slopes: Slopes, weights: Tensor) -> Bounds:
    keep: dict[int, Tensor] = {}
    proof = root.graph64
    exact = slopes.double()
    done = bound_batch(proof, root.rows, batch.to(torch.float64), exact.output, exact.neurons, weights.double(), keep)
    lower = torch.cat(done.lower, 1) if done.lower else domains.lower.double()
    upper = torch.cat(done.upper, 1) if done.upper else domains.upper.double()
    empty = (lower > upper).any(1)
    bound = domains.bound.fmax(done.bound)  # what held for the parent holds here; a NaN never wins
    packed = domains.lower.new_zeros(len(domains), root.count)
    for layer in proof.layers:
        if layer.node in keep:  # a layer that the output does not depend on has no coefficient
            packed[:, layer.packed] = keep[layer.node].flatten(1)[:, layer.index].float()
    return Bounds(
        replace(
            domains,
            lower=float32_down(lower),
            upper=float32_up(upper),
            slopes=slopes.output.half(),
            weights=weights.float(),
            bound=torch.where(empty, torch.inf, bound),
            settled=domains.depth,
        ),
        empty,
        packed,
        proof.region.minimiser(done.form.coef[:, 0]).float(),
    )
