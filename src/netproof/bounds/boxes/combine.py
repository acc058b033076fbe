"""The best convex combination of two rows of a conjunction, by their linear forms.

A box is proved when some Σ λ_j r_j is positive on it. For two rows the least value over the box of
λ f_j + (1 − λ) f_k is concave and piecewise linear in λ, with a kink where a coordinate's coefficient changes sign; so
the best λ is at one of those kinks, or at an end, which is a single row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.core.forms import LinearForm
from netproof.numerics import enlarged_rounding, lowered, vanishing

PAIRS = 28  # at most so many pairs of rows: those of the best rows


def combine(form: LinearForm, least: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return λ (box, row), 0 but for two rows, for forms coef (box, row, input), const (box, row) on boxes.

    least (box, row): the forms' least values, at least two rows of them.
    """
    rows = least.shape[1]
    few = next(k for k in range(rows, 1, -1) if k * (k - 1) // 2 <= PAIRS)
    best = least.topk(few, dim=1).indices  # (box, few)
    first, second = torch.triu_indices(few, few, 1, device=least.device)
    j, k = best[:, first], best[:, second]  # (box, pair)
    a, b = (form.coef.gather(1, i[..., None].expand(-1, -1, form.coef.shape[2])) for i in (j, k))
    c, d = form.const.gather(1, j), form.const.gather(1, k)
    share = (b / (b - a)).nan_to_num(nan=1.0, posinf=1.0, neginf=1.0).clamp(0, 1)  # (box, pair, kink)
    mixed = share[..., None] * a[:, :, None] + (1 - share[..., None]) * b[:, :, None]  # (box, pair, kink, input)
    centre, radius = ((lower + upper) / 2)[:, None, None], ((upper - lower) / 2)[:, None, None]
    value = (mixed * centre).sum(3) - (mixed.abs() * radius).sum(3)
    value = value + share * c[..., None] + (1 - share) * d[..., None]
    at = value.nan_to_num(nan=-torch.inf).flatten(1).argmax(1, keepdim=True)  # (box, 1)
    pair = at // share.shape[2]
    rest = 1 - share.flatten(1).gather(1, at)
    weights = torch.zeros_like(least).scatter(1, j.gather(1, pair), 1 - rest)  # so the two add up to 1 exactly
    return weights.scatter_add(1, k.gather(1, pair), rest)


def combined(form: LinearForm, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[LinearForm, Tensor]:
    """Return the form Σ λ_j f_j, coef (box, 1, input), const (box, 1), rounded down; and its least value (box,)."""
    const = torch.where(weights > 0, form.const, 0.0)  # padding has −inf
    coef = (weights[:, None] @ form.coef)[:, 0]
    reach = torch.maximum(lower.abs(), upper.abs())
    size = (weights[:, None] @ form.coef.abs())[:, 0]
    size = (size * reach).sum(1) + (weights * const.abs()).sum(1)
    error = enlarged_rounding(size, form.coef.shape[1] + form.coef.shape[2] + 8) + vanishing(reach.sum(1))
    total = (weights * const).sum(1) - error
    least = total + torch.where(coef > 0, coef * lower, coef * upper).sum(1) - error
    return LinearForm(coef[:, None], total[:, None]), lowered(least)
