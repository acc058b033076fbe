"""Cutting off the parts of boxes where the rows' linear bounds exclude a violation."""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.core.forms import LinearForm
from netproof.numerics import enlarged_rounding, up, with_vanishing


def clip(lower: Tensor, upper: Tensor, form: LinearForm, threshold: Tensor, sweeps: int) -> tuple[Tensor, Tensor]:
    """Return the boxes (box, input) less what no violation lies in; lower > upper where nothing is left.

    form: coef (box, row, input), const (box, row), with coef·x + const <= r_j(x) on the box. At a violation every row
    is at most threshold (box,), so with the other coordinates at their best
    a_i x_i <= threshold − const − Σ_{k≠i} min(a_k x_k), rounded outward. All rows are taken at once, `sweeps` times.
    """
    coef = form.coef
    room = (threshold[:, None] - form.const)[..., None]  # its rounding is charged below
    known = threshold.abs()[:, None] + form.const.abs()
    positive, negative = coef > 0, coef < 0
    divisor = torch.where(coef == 0, 1.0, coef)
    for _ in range(sweeps):
        least = torch.where(positive, coef * lower[:, None], coef * upper[:, None])  # (box, row, input)
        error = with_vanishing(enlarged_rounding(least.abs().sum(2) + known, coef.shape[2] + 8))[..., None]
        # A coordinate's own term is left out by subtraction; the error of that is in `error` too.
        most = room - (least.sum(2, keepdim=True) - least) + error
        end = most / divisor
        inside = torch.where(positive, up(end), torch.inf).amin(1)
        outside = torch.where(negative, -up(-end), -torch.inf).amax(1)
        lower, upper = lower.fmax(outside), upper.fmin(inside)
    return lower, upper
