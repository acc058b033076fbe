"""Many boxes at once, and the least value of linear forms over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import LinearForm
from netproof.numerics import lowered, up


@dataclass(frozen=True, eq=False)
class BoxRegion:
    """Each box as a centre and a radius that contain it, float64."""

    centre: Tensor  # (box, input) with the input flattened
    radius: Tensor  # (box, input)

    @classmethod
    def of(cls, lower: Tensor, upper: Tensor) -> BoxRegion:
        """lower, upper: (box, *input)."""
        lower, upper = lower.flatten(1), upper.flatten(1)
        centre = lower / 2 + upper / 2
        return cls(centre, up(torch.maximum(upper - centre, centre - lower), 2))

    def select(self, index: Tensor) -> BoxRegion:
        return BoxRegion(self.centre[index], self.radius[index])

    def least(self, form: LinearForm) -> Tensor:
        """min of coef·x + const over each form's own box, rounded down: coef (box, *row, *input), const (box, *row).

        The dot products' rounding is charged at the input node of the pass that made the form.
        """
        flat = form.coef.reshape(*form.const.shape, -1)
        ones = (1,) * (form.const.dim() - 1)
        centre, radius = (t.view(len(t), *ones, -1) for t in (self.centre, self.radius))
        value = form.const + ((flat * centre).sum(-1) - (flat.abs() * radius).sum(-1))
        return lowered(value)
