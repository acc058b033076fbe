"""What the optimum of a sub-domain's LP says of each neuron: values before and after the ReLU, and its lines' prices.

The triangle of a neuron h with bounds l < 0 < u is z >= 0, z >= h, z <= s h + s|l|, s = u / (u + |l|). In the condensed
program h = p − w and z = p, so that the second line is w >= 0, whose price is the reduced cost of w, and the third is
the chord's row, there divided by the larger of u and |l| and here by u + |l|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netproof.programs.check import reduced_cost
from netproof.programs.condensed import Places
from netproof.programs.highs import Answer
from netproof.programs.model import Floats, LinearProgram


@dataclass(frozen=True, eq=False)
class Optimum:
    """Of one sub-domain; float32."""

    x: Tensor  # (input,)
    before: Tensor  # (U,) h
    after: Tensor  # (U,) z
    identity: Tensor  # (U,) price of z >= h, not negative
    chord: Tensor  # (U,) price of z <= s h + s|l|, not negative

    @classmethod
    def of(cls, program: LinearProgram, places: Places, answer: Answer, duals: Floats) -> Optimum | None:
        """Read it off a solver's answer, given its duals with the signs they may have; None where there is no point."""
        if answer.point is None:
            return None
        at = answer.point
        cost, _ = reduced_cost(program, duals)
        low, high = program.upper[places.negative], program.upper[places.positive]
        scale = (low + high) / np.maximum(np.maximum(low, high), np.finfo(float).tiny)
        parts = (
            at[places.x],
            at[places.positive] - at[places.negative],
            at[places.positive],
            cost[places.negative].clip(min=0),
            (-duals[places.chord]).clip(min=0) * scale,
        )
        return cls(*(torch.from_numpy(np.asarray(part, np.float32)) for part in parts))
