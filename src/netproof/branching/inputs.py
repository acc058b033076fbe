"""Which coordinates of a box to split.

The relaxation of each unstable neuron costs the bound something, and the neuron is unstable because the coordinates
are wide: its cost is divided among them by their shares in its width (`BoxBounds.blame`). Halving the coordinate with
the most blame takes most of the loss away. Where nothing is lost to relaxation the rows are linear on the box; then
the coordinate that moves them most is split, so that one row after the other decides.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.boxes.bounder import BoxBounds

LINEAR = 0.01  # the weight of the rows' own slopes beside the blame
FAIR = 1e-4  # the weight of a coordinate's relative width beside the blame, so that each is split at some time
THIN = 2.0**-40  # a coordinate narrower than this share of the whole set's width is not split again
ULPS = 2.0**-48  # a coordinate narrower than this share of its largest value is not split again: floats run out


def too_thin(lower: Tensor, upper: Tensor, whole: Tensor) -> Tensor:
    """Say which coordinates (box, input) are too narrow to split; whole (box, input): the whole set's width."""
    size = lower.abs().maximum(upper.abs())
    return upper - lower <= (THIN * whole).maximum(ULPS * size)


def scores(bounds: BoxBounds, lower: Tensor, upper: Tensor, whole: Tensor) -> Tensor:
    """Return (box, input) what splitting a coordinate is worth per unit of width: clipping changes its width later."""
    width = upper - lower
    slope = bounds.form.coef.abs().sum(1) * width
    gain = (bounds.blame + LINEAR * slope).nan_to_num()
    relative = width / torch.where(whole > 0, whole, 1.0)
    fair = FAIR * gain.sum(1, keepdim=True).clamp(min=1e-30) * relative
    worth = (gain + fair) / torch.where(width > 0, width, 1.0)
    return torch.where(too_thin(lower, upper, whole), 0.0, worth)


def split(lower: Tensor, upper: Tensor, score: Tensor, times: int) -> tuple[Tensor, Tensor, Tensor]:
    """Halve each box (box, input) `times` times, always where score · width is largest: 2^times children.

    Returns lower, upper (child, input) and the parent (child,). Halves share a face, so together they are the box.
    """
    parent = torch.arange(len(lower), device=lower.device)
    for _ in range(times):
        axis = ((upper - lower) * score[parent]).argmax(1, keepdim=True)
        low, high = lower.gather(1, axis), upper.gather(1, axis)
        middle = (low / 2 + high / 2).maximum(low).minimum(high)
        lower, upper = (
            torch.cat([lower, lower.scatter(1, axis, middle)]),
            torch.cat([upper.scatter(1, axis, middle), upper]),
        )
        parent = parent.repeat(2)
    return lower, upper, parent
