"""What becomes of windows as an affine op carries them forward: where they lie then, and the numbers in them.

`windows/moves.py` has the rules of the way back.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from netproof.bounds.windows.frame import Frame, Places, correlated, transposed
from netproof.bounds.windows.moves import (
    HEIGHT,
    WIDTH,
    Move,
    channels_among,
    correlated_values,
    image_sides,
    negated,
    same,
    scaled,
    transposed_values,
)
from netproof.model.affine import Scale, Sum
from netproof.model.conv import Conv, ConvTranspose
from netproof.model.graph import Node
from netproof.model.moves import Concat, Index, Pad, Reshape


def onward(node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    """Return what becomes of windows of the op's input number `place`; None where they would save nothing."""
    move = _rule(node, place, frame, channels) if image_sides(node.shape) is not None else None
    return None if move is None or move.frame.covers else move


def _rule(node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    op = node.op
    if isinstance(op, Conv) and len(op.kernel.window) == 2:
        where = correlated(frame, op.kernel)
        return None if where is None else Move(where.frame, partial(correlated_values, op.kernel, where), cut=True)
    if isinstance(op, ConvTranspose) and len(op.kernel.window) == 2:
        return Move(transposed(frame, op.kernel), partial(transposed_values, op.kernel), cut=True)
    if isinstance(op, Sum):
        return Move(frame, same if op.signs[place] > 0 else negated)
    if isinstance(op, Scale):
        return Move(frame, partial(scaled, op.mult))
    if isinstance(op, Reshape) and op.in_shape == op.out_shape:
        return Move(frame, same)
    if isinstance(op, Index) and op.axis == 1:
        return Move(frame, partial(_some_channels, op.index))
    if isinstance(op, Pad) and not any((*op.before[:HEIGHT], *op.after[:HEIGHT])):
        by = (op.before[HEIGHT], op.before[WIDTH])
        return Move(frame.moved(by, (node.shape[HEIGHT], node.shape[WIDTH])), same, cut=True)
    if isinstance(op, Concat):
        return _joined(op, node, place, frame, channels)
    return None


def _joined(op: Concat, node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    branches = [i for i, part in enumerate(op.parts) if part is None]
    start = sum(op.sizes[: branches[place]])
    if op.axis == 1:
        return Move(frame, partial(channels_among, start, node.shape[1] - start - channels))
    if op.axis not in (HEIGHT, WIDTH):
        return None
    by = (start, 0) if op.axis == HEIGHT else (0, start)
    return Move(frame.moved(by, (node.shape[HEIGHT], node.shape[WIDTH])), same)


def _some_channels(index: Tensor, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return values[..., index]
