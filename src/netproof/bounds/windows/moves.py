"""What becomes of windows as an affine op carries them back: where they lie then, and the numbers in them.

The rules are asked for the frames alone too, before there is any number, to know how much memory a walk takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.bounds.windows import kernels
from netproof.bounds.windows.frame import Correlated, Frame, Pair, Places, correlated, transposed
from netproof.model.affine import Scale, Sum
from netproof.model.conv import Conv, ConvTranspose, Kernel, in_chunks
from netproof.model.moves import Concat, Index, Pad, Reshape
from netproof.model.ops import Affine

HEIGHT, WIDTH = 2, 3  # axes of a node (1, C, H, W)


@dataclass(frozen=True)
class Move:
    """Windows of one of the nodes that an op reads: where they are, and what is in them.

    apply: from values (n, kh, kw, C) and the forms' places. cut: whether entries outside the image may not be 0.
    """

    frame: Frame
    apply: Callable[[Tensor, Places, Frame], Tensor]  # the frame is the one before
    cut: bool = False


def image_sides(shape: tuple[int, ...]) -> Pair | None:
    """Return the sides of a node that is one image, (1, C, H, W); None of any other."""
    return (shape[HEIGHT], shape[WIDTH]) if len(shape) == 4 and shape[0] == 1 else None


def moves(op: Affine, frame: Frame) -> list[Move] | None:
    """Return what becomes of windows of an op's result, for each node that it reads; None: they are no windows."""
    if isinstance(op, Conv) and _flat(op.kernel) and image_sides(op.in_shape):
        return [Move(transposed(frame, op.kernel), partial(transposed_values, op.kernel), cut=True)]
    if isinstance(op, ConvTranspose) and _flat(op.kernel) and image_sides(op.in_shape):
        where = correlated(frame, op.kernel)
        return None if where is None else [Move(where.frame, partial(correlated_values, op.kernel, where), cut=True)]
    if isinstance(op, Sum):
        return [Move(frame, same if sign > 0 else negated) for sign in op.signs]
    if isinstance(op, Scale):
        return [Move(frame, partial(scaled, op.mult))]
    if isinstance(op, Reshape) and op.in_shape == op.out_shape:
        return [Move(frame, same)]
    if isinstance(op, Concat):
        return _parts(op, frame)
    if isinstance(op, Index):
        return _indexed(op, frame)
    if isinstance(op, Pad) and not any((*op.before[:HEIGHT], *op.after[:HEIGHT])) and image_sides(op.in_shape):
        by = (-op.before[HEIGHT], -op.before[WIDTH])
        return [Move(frame.moved(by, (op.in_shape[HEIGHT], op.in_shape[WIDTH])), same, cut=True)]
    return None


def _flat(kernel: Kernel) -> bool:
    return len(kernel.window) == 2


def _parts(op: Concat, frame: Frame) -> list[Move] | None:
    """Return those of the branches that are joined along the channels, the height or the width."""
    found, start = [], 0
    for size, part in zip(op.sizes, op.parts, strict=True):
        if part is None and op.axis == 1:
            found.append(Move(frame, partial(_channels, slice(start, start + size))))
        elif part is None and op.axis in (HEIGHT, WIDTH):
            along = op.axis == HEIGHT
            by, sides = ((-start, 0), (size, frame.sides[1])) if along else ((0, -start), (frame.sides[0], size))
            found.append(Move(frame.moved(by, sides), same, cut=True))
        elif part is None:
            return None
        start += size
    return found


def _indexed(op: Index, frame: Frame) -> list[Move] | None:
    """Return that of what entries are taken from: any of the channels, equally spaced ones of a side."""
    if op.axis == 1:
        return [Move(frame, partial(_among_channels, op.index, op.size))]
    if op.axis not in (HEIGHT, WIDTH) or op.progression is None:
        return None
    first, step = op.progression
    if op.axis == HEIGHT:
        after = frame.stretched((step, 1), (first, 0), (1, 1), (op.size, frame.sides[1]))
        return [Move(after, partial(_spaced, (step, 1)))]
    after = frame.stretched((1, step), (0, first), (1, 1), (frame.sides[0], op.size))
    return [Move(after, partial(_spaced, (1, step)))]


# --- the numbers, (n, kh, kw, C) ---


def same(values: Tensor, places: Places, frame: Frame) -> Tensor:
    return values


def negated(values: Tensor, places: Places, frame: Frame) -> Tensor:
    return -values


def scaled(mult: Tensor | None, values: Tensor, places: Places, frame: Frame) -> Tensor:
    if mult is None:
        return values
    return values * around(mult.expand(1, values.shape[-1], *frame.sides), frame, places)


def channels_among(before: int, after: int, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return F.pad(values, [before, after])


def _channels(which: slice, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return values[..., which]


def _among_channels(index: Tensor, size: int, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return values.new_zeros(*values.shape[:3], size).index_add_(3, index, values)


def _spaced(step: Pair, values: Tensor, places: Places, frame: Frame) -> Tensor:
    n, height, width, channels = values.shape
    wide = values.new_zeros(n, step[0] * (height - 1) + 1, step[1] * (width - 1) + 1, channels)
    wide[:, :: step[0], :: step[1]] = values
    return wide


def transposed_values(kernel: Kernel, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return kernels.transposed(kernel, values)


def correlated_values(kernel: Kernel, where: Correlated, values: Tensor, places: Places, frame: Frame) -> Tensor:
    """Correlate windows put among zeros, some at a time: all of them laid out would be larger than what is made."""

    def read(some: Tensor, down: int = 0, right: int = 0) -> Tensor:
        return kernels.correlate(kernel, _laid(some, (where.lead[0] + down, where.lead[1] + right), where.laid))

    entries = kernels.entries_read(kernel, where.laid, values.shape[-1])
    if where.divisor == (1, 1) or len(values) == 0:
        return in_chunks(read, values, entries)
    parts = [
        (index, in_chunks(partial(read, down=down, right=right), values[index], entries))
        for (down, right), index in places.remainders(where.frame.path)
    ]
    whole = values.new_empty(len(values), *parts[0][1].shape[1:])
    for index, part in parts:
        whole[index] = part
    return whole


def _laid(values: Tensor, lead: Pair, size: Pair) -> Tensor:
    """Put windows among zeros, from `lead` on, as parts of larger ones; what lies outside those is not read."""
    laid = values.new_zeros(len(values), *size, values.shape[-1])
    first = [max(0, at) for at in lead]
    count = [max(0, min(size[a], lead[a] + values.shape[a + 1]) - first[a]) for a in (0, 1)]
    rows, columns = (slice(first[a], first[a] + count[a]) for a in (0, 1))
    down, right = (slice(first[a] - lead[a], first[a] - lead[a] + count[a]) for a in (0, 1))
    laid[:, rows, columns] = values[:, down, right]
    return laid


def around(values: Tensor, frame: Frame, places: Places) -> Tensor:
    """Return what a node has, (1, C, H, W) or one for each form before it, in windows: broadcastable to (n, kh, kw, C).

    Outside the image it may be anything finite, as the coefficients there are 0.
    """
    height, width = frame.size
    if values.stride()[-2:] == (0, 0):  # one number a channel
        return values[..., 0, 0].reshape(-1, 1, 1, values.shape[-3])
    if values.dim() == 5 and len(values) > 1:
        return _each_around(values[:, 0], frame, places)
    image = F.pad(values.reshape(values.shape[-3:]).permute(1, 2, 0), [0, 0, width, width, height, height])
    image = image.contiguous()
    rows, columns, channels = image.shape
    down, right, _ = image.stride()
    every = image.as_strided(
        (rows - height + 1, columns - width + 1, height, width, channels), (down, right, down, right, 1)
    )
    return every[places.corners(frame)]


def _each_around(values: Tensor, frame: Frame, places: Places) -> Tensor:
    """Return windows of images (n, C, H, W), one of each: (n, kh, kw, C)."""
    rows, columns = places.entries(frame)
    rows, columns = rows.clamp(0, frame.sides[0] - 1), columns.clamp(0, frame.sides[1] - 1)
    form = torch.arange(len(values), device=values.device)[:, None, None]
    return values.permute(0, 2, 3, 1)[form, rows[:, :, None], columns[:, None, :]]


def inside(frame: Frame, places: Places) -> Tensor:
    """Say which entries of windows lie in the image: (n, kh, kw) bool."""
    rows, columns = places.entries(frame)
    tall, wide = (rows >= 0) & (rows < frame.sides[0]), (columns >= 0) & (columns < frame.sides[1])
    return tall[:, :, None] & wide[:, None, :]


def united(frames: Sequence[Frame | None]) -> Frame | None:
    """Return windows that hold those of all; None where one is dense, none hold all, or they would save nothing."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = None if whole is None or frame is None else whole.union(frame)
    return None if whole is None or whole.covers else whole
