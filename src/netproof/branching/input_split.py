"""Which coordinates of a box to split.

The relaxation of each unstable neuron costs the bound something, and the neuron is unstable because the coordinates
are wide: its cost is divided among them by their shares in its width (`BoxBounds.blame`). Halving the coordinate with
the most blame takes most of the loss away. Where nothing is lost to relaxation the rows are linear on the box; then
the coordinate that moves them most is split, so that one row after the other decides.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netproof.bounds.boxes import BoxBounds

LINEAR = 0.01  # the weight of the rows' own slopes beside the blame
FAIR = 1e-4  # and of a coordinate's width, relative to the whole set's, so that none starves


def scores(bounds: BoxBounds, width: Tensor, whole: Tensor) -> Tensor:
    """(box, input): what splitting a coordinate is worth; width (box, input), whole (box, input) of the whole set."""
    slope = bounds.form.coef.abs().sum(1) * width
    gain = bounds.blame + LINEAR * slope
    relative = width / torch.where(whole > 0, whole, 1.0)
    # A score falls with the width of its coordinate, which clipping and splitting change: it is kept per unit of width.
    fair = FAIR * gain.sum(1, keepdim=True).clamp(min=1e-30) * relative
    return torch.where(width > 0, (gain + fair) / torch.where(width > 0, width, 1.0), 0.0)


def split(lower: Tensor, upper: Tensor, score: Tensor, times: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each box (box, input) halved `times` times, always where score · width is largest: 2^times children.

    score: (box, input), per unit of width. Returns lower, upper (child, input) and the parent (child,). The halves
    share their common face, so together they are the box.
    """
    parent = torch.arange(len(lower), device=lower.device)
    for _ in range(times):
        worth = (upper - lower) * score[parent]
        axis = worth.argmax(1, keepdim=True)
        low, high = lower.gather(1, axis), upper.gather(1, axis)
        middle = (low / 2 + high / 2).maximum(low).minimum(high)
        lower, upper = (
            torch.cat([lower, lower.scatter(1, axis, middle)]),
            torch.cat([upper.scatter(1, axis, middle), upper]),
        )
        parent = parent.repeat(2)
    return lower, upper, parent
