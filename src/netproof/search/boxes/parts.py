"""A batch of boxes of the input: what the search over boxes knows of each."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from netproof.bounds.domains import Batch


@dataclass(frozen=True, eq=False)
class Boxes(Batch):
    """Parts of the input sets that are boxes, each with the target that is open on it."""

    target: Tensor  # (box,) int64
    lower: Tensor  # (box, input) float64
    upper: Tensor  # (box, input) float64
    bound: Tensor  # (box,) float64: proved of the target's best row
    score: Tensor  # (box, input) float64: what splitting a coordinate is worth, per unit of its width
    signs: Tensor  # (box, N) int8: the neurons whose sign is known
    level: Tensor  # (box,) int64
