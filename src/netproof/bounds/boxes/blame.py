"""Which coordinates of a box are to blame for what relaxation costs its bound."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.graph import Node
from netproof.relax import Lines, relaxation_of


@dataclass(frozen=True, eq=False)
class Share:
    """Whose width makes the width of the neurons of one node that are unstable."""

    box: Tensor  # (pair,)
    neuron: Tensor  # (pair,)
    part: Tensor  # (pair, input), non-negative, summing to 1


def blamed(node: Node, coef: Tensor, h: Interval, line: Tensor, share: Share, box: Tensor | None) -> Tensor:
    """(target, input): the cost of each unstable neuron, divided by the shares in its width.

    coef (target, row, m): the rows' coefficients at a nonlinear node; h (box, m), line (box, 3 or 4, m) and the shares
    are those of the boxes, and box (target,) says which is whose (None: one target a box).
    """
    gap = relaxation_of(node.op).gap(h, Lines(*line.unbind(1)))
    cost = _cost(coef, *(t if box is None else t[box] for t in (line[:, 2], gap)))
    (boxes, size), inputs = h.lower.shape, share.part.shape[1]
    dense = coef.new_zeros(boxes * size, inputs)  # a dense sum: its order, and so its rounding, is fixed
    dense[share.box * size + share.neuron] = share.part
    dense = dense.view(boxes, size, inputs)
    return (cost[:, None] @ (dense if box is None else dense[box]))[:, 0]


def _cost(coef: Tensor, lift: Tensor, gap: Tensor) -> Tensor:
    """(target, m): what the lines take from the rows: the upper one where a coefficient is negative, or the lower."""
    negative = coef.clamp(max=0)
    return ((coef - negative) * gap[:, None] - negative * lift[:, None]).sum(1)
