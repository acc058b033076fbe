"""Which coordinates of a box are to blame for what relaxation costs its bound."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.graph import Node
from netproof.relax import Lines, relaxation_of
from netproof.relax.slots import in_all_slots


@dataclass(frozen=True, eq=False)
class Share:
    """Whose width makes the width of the neurons of one node that are unstable."""

    box: Tensor  # (pair,)
    neuron: Tensor  # (pair,)
    part: Tensor  # (pair, input), non-negative, summing to 1


def blamed(node: Node, coef: Tensor, h: Interval, line: Tensor, share: Share, box: Tensor | None) -> Tensor:
    """Return (target, input): the cost of each unstable neuron, divided by the shares in its width.

    coef (target, row, m): the rows' coefficients at a nonlinear node; h (box, m), line (box, 3 or 4, m) and the shares
    are those of the boxes, and box (target,) says which is whose (None: one target a box).
    """
    relaxation, dense = relaxation_of(node.op), coef.new_zeros(h.lower.numel(), share.part.shape[1])
    coef = in_all_slots(relaxation.arity, coef)
    lower, upper, line = ((t if box is None else t[box])[:, None] for t in (*h, line))
    cost = relaxation.lost(coef, Interval(lower, upper), Lines(*line.unbind(2)), free=False).sum(1)
    size = h.lower.shape[1]
    dense[share.box * size + share.neuron] = share.part  # a dense sum: its order, and so its rounding, is fixed
    dense = dense.view(-1, size, dense.shape[1])
    return (cost[:, None] @ (dense if box is None else dense[box]))[:, 0]
