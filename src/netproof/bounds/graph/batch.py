"""The bound of a batch of sub-domains: intermediate bounds refreshed and the output bounded, as one function.

One function serves the search and the proof. In float32, under autograd, it is what the slopes are optimised
through, jointly with the intermediate bounds (section 3.1 of the paper). In float64 with rounding charged, without
gradients, its values are confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.core.forms import LinearForm
from netproof.numerics import gamma
from netproof.problem.problem import Rows


@dataclass(frozen=True, eq=False)
class Batch:
    """What a bound is asked of: sub-domains with the bounds they inherit, and which neurons to bound again."""

    target: Tensor  # (domain,)
    lower: list[Tensor]  # per layer (domain, U_k)
    upper: list[Tensor]
    refresh: list[Tensor | None]  # per layer (domain, K): neurons of the layer, U_k where there is none

    def select(self, index: Tensor) -> Batch:
        return Batch(
            self.target[index],
            [t[index] for t in self.lower],
            [t[index] for t in self.upper],
            [None if r is None else r[index] for r in self.refresh],
        )

    def to(self, dtype: torch.dtype) -> Batch:
        return Batch(self.target, [t.to(dtype) for t in self.lower], [t.to(dtype) for t in self.upper], self.refresh)


@dataclass(frozen=True, eq=False)
class Bounded:
    bound: Tensor  # (domain,)
    lower: list[Tensor]  # per layer (domain, U_k)
    upper: list[Tensor]
    form: LinearForm  # coef (domain, 1, *input)


def bound_batch(
    relaxed: LinedGraph,
    rows: Rows,
    batch: Batch,
    slopes: Tensor,
    neuron_slopes: Mapping[int, Tensor],
    weights: Tensor,
    keep: dict[int, Tensor] | None = None,
) -> Bounded:
    """slopes: (domain, U) for the output. neuron_slopes: by refreshed layer (domain, 2, K or 1, U') for its neurons.

    weights: (domain, row), non-negative.
    """
    lower, upper = list(batch.lower), list(batch.upper)
    for k, chosen in enumerate(batch.refresh):
        if chosen is None:
            continue
        layer = relaxed.layers[k]
        places = torch.cat([layer.index, layer.index[:1]])[chosen]  # the filler reads a real neuron, then is dropped
        fresh = relaxed.neurons(layer, places, lower, upper, neuron_slopes[k])
        lower[k] = _merge(lower[k], chosen, fresh.lower, torch.fmax)
        upper[k] = _merge(upper[k], chosen, fresh.upper, torch.fmin)
    coef, const = _objective(relaxed, rows, batch.target, weights)
    form = relaxed.output(coef, lower, upper, slopes[:, None], keep)
    least = relaxed.least(form)[:, 0]
    bound = least + const
    if relaxed.charge is not None:
        bound = bound - (least.abs() + const.abs()) * gamma(4)
    return Bounded(bound, lower, upper, form)


def _merge(known: Tensor, chosen: Tensor, fresh: Tensor, better: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The better of what is known (domain, U_k) and what is fresh (domain, K) at the chosen neurons; never a NaN."""
    padded = torch.nn.functional.pad(known, (0, 1))
    merged = better(padded.gather(1, chosen), fresh)
    return padded.scatter(1, chosen, merged)[:, :-1]


def _objective(relaxed: LinedGraph, rows: Rows, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Σ λ_j r_j as (coef (domain, 1, *output), const (domain,)); in a proof const has the rounding taken off."""
    matrix = rows.coef[target].to(relaxed.dtype)  # (domain, row, output)
    weights = weights.to(relaxed.dtype)
    offset = rows.offset[target].to(relaxed.dtype)
    coef = torch.einsum("dr,dro->do", weights, matrix)
    const = -(weights * offset).sum(1)
    if relaxed.charge is not None:
        # The products above, and one rounding of the coefficients as they were read.
        slack = gamma(matrix.shape[1] + 8)
        magnitude = relaxed.charge.magnitude[-1].flatten()
        size = torch.einsum("dr,dro->do", weights, matrix.abs()) @ magnitude + (weights * offset.abs()).sum(1)
        const = const - slack * size
    return coef.view(len(target), 1, *relaxed.graph.output.shape), const
