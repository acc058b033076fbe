"""Which coordinates of a box are to blame for what relaxation costs its bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.graph import Node


@dataclass(frozen=True, eq=False)
class Share:
    """Whose width makes the width of the neurons of one node that are unstable."""

    box: Tensor  # (pair,)
    neuron: Tensor  # (pair,)
    part: Tensor  # (pair, input), non-negative, summing to 1


def blamed(node: Node, coef: Tensor, h: Interval, line: Tensor, share: Share, box: Tensor | None) -> Tensor:
    """(target, input): the cost of each unstable neuron, divided by the shares in its width.

    coef (target, row, m): the rows' coefficients at the nonlinear node; h (box, m), line (box, 3, m) and the shares are
    those of the boxes, and box (target,) says which is whose (None: one target a box).
    """
    cost = _cost(coef, *(t if box is None else t[box] for t in (line[:, 2], _gap(node, h, line))))
    (boxes, size), inputs = h.lower.shape, share.part.shape[1]
    dense = coef.new_zeros(boxes * size, inputs)  # a dense sum: its order, and so its rounding, is fixed
    dense[share.box * size + share.neuron] = share.part
    dense = dense.view(boxes, size, inputs)
    return (cost[:, None] @ (dense if box is None else dense[box]))[:, 0]


def _cost(coef: Tensor, lift: Tensor, gap: Tensor) -> Tensor:
    """(target, m): what the lines take from the rows: the upper one where a coefficient is negative, or the lower."""
    negative = coef.clamp(max=0)
    return ((coef - negative) * gap[:, None] - negative * lift[:, None]).sum(1)


def _gap(node: Node, h: Interval, line: Tensor) -> Tensor:
    """(box, m): the largest distance of the lower line from the function, which is at an end of a convex one."""
    low = node.op.forward(h.lower) - line[:, 0] * h.lower
    high = node.op.forward(h.upper) - line[:, 0] * h.upper
    return torch.maximum(low, high).clamp(min=0)
