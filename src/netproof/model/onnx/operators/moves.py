"""Converters of the operators that move numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from netproof.model.moves import Concat, Index, Pad, Reshape, Transpose
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import broadcast, expand
from netproof.model.origin.constant import Constant, loose, slack, widths


def reshape(c: Context, x: Ref, shape: Sequence[int]) -> Ref:
    if math.prod(shape) != math.prod(x.shape):
        c.refuse(f"shape {x.shape} cannot become {tuple(shape)}")
    return x if x.shape == tuple(shape) else c.emit(Reshape(x.shape, tuple(shape)), x)


def select(c: Context, x: Ref, axis: int, index: np.ndarray) -> Ref:
    """Select the entries `index` along `axis`; the identity selection adds no node."""
    size = x.shape[axis]
    if index.size == 0:
        c.refuse("it selects nothing", "zero-size tensors cannot be verified")
    if index.min() < -size or index.max() >= size:
        c.refuse(f"an index is out of range for an axis of {size}")
    index = np.where(index < 0, index + size, index).astype(np.int64)
    if index.size == size and np.array_equal(index, np.arange(size)):
        return x
    return c.emit(Index(axis, torch.from_numpy(index), size), x)


def turned_last(c: Context, x: Ref, axis: int, change: Callable[[Ref], Ref]) -> Ref:
    """Return `change` of x with one of its axes last, and the axis back in its place."""
    rank = len(x.shape)
    if axis == rank - 1:
        return change(x)
    there = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(int(i) for i in np.argsort(there))
    return c.emit(Transpose(back), change(c.emit(Transpose(there), x)))


@converts("Identity")
def _identity(c: Context) -> Value:
    """Pass the value on."""
    return c.value(0)


@converts("Dropout")
def _dropout(c: Context) -> Value:
    """Pass the value on, as it is outside training; refuse training mode."""
    mode = c.optional_constant(2)
    if mode is not None and mode.value.any():
        c.refuse("it is in training mode", "export the model in eval mode")
    if len(c.proto.output) > 1 and c.proto.output[1]:
        c.refuse("its mask is used", "export the model in eval mode")
    return c.value(0)


@converts("Reshape")
def _reshape(c: Context) -> Value:
    """Give the same entries another shape, exactly."""
    x = c.node(0)
    target = c.attr("shape") if c.input(1) is None else c.integers(1)
    shape = [int(size) for size in target or []]
    if not c.attr("allowzero", 0):
        if any(size == 0 and axis >= len(x.shape) for axis, size in enumerate(shape)):
            c.refuse(f"shape {shape} copies an axis that the input {x.shape} does not have")
        shape = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    if -1 in shape:
        known = math.prod(size for size in shape if size != -1)
        shape[shape.index(-1)] = math.prod(x.shape) // max(known, 1)
    return reshape(c, x, shape)


@converts("Flatten")
def _flatten(c: Context) -> Value:
    """Give the same entries two axes, exactly."""
    x = c.node(0)
    axis = int(c.attr("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    return reshape(c, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@converts("Squeeze")
def _squeeze(c: Context) -> Value:
    """Drop axes of size 1, exactly."""
    x = c.node(0)
    axes = c.attr_or_input("axes", 1)
    if axes is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
    drop = {c.axis(axis, len(x.shape)) for axis in axes}
    return reshape(c, x, [size for axis, size in enumerate(x.shape) if axis not in drop])


@converts("Unsqueeze")
def _unsqueeze(c: Context) -> Value:
    """Add axes of size 1, exactly."""
    x = c.node(0)
    axes = c.attr_or_input("axes", 1) or []
    rank = len(x.shape) + len(axes)
    new = {c.axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        c.refuse(f"axes {axes} repeat")
    sizes = iter(x.shape)
    return reshape(c, x, [1 if axis in new else next(sizes) for axis in range(rank)])


@converts("Transpose")
def _transpose(c: Context) -> Value:
    """Reorder axes, exactly."""
    x = c.node(0)
    perm = tuple(int(axis) for axis in c.attr("perm") or reversed(range(len(x.shape))))
    if sorted(perm) != list(range(len(x.shape))):
        c.refuse(f"perm {list(perm)} does not fit {len(x.shape)} axes")
    return c.emit(Transpose(perm), x)


@converts("Expand")
def _expand(c: Context) -> Value:
    """Repeat entries along axes, exactly."""
    x = c.node(0)
    return expand(c, x, broadcast(c, x.shape, tuple(c.integers(1) or [])))


@converts("Slice")
def _slice(c: Context) -> Value:
    """Select entries along axes, exactly."""
    x = c.node(0)
    starts, ends = c.attr_or_input("starts", 1) or [], c.attr_or_input("ends", 2) or []
    axes = c.attr_or_input("axes", 3) or list(range(len(starts)))
    steps = c.integers(4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        c.refuse("its starts, ends, axes and steps do not fit each other")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = c.axis(axis, len(x.shape))
        entries = np.arange(x.shape[axis])[_python_slice(start, end, step, x.shape[axis])]
        x = select(c, x, axis, entries)
    return x


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    """Translate a slice: ONNX counts from the end as Python does, but an end below -size is before the first entry."""
    if step > 0 or end >= -size:
        return slice(start, end, step)
    return slice(start, None, step)


@converts("Gather")
def _gather(c: Context) -> Value:
    """Select entries along an axis by constant indices, exactly."""
    x = c.node(0)
    index = c.constant(1).value
    axis = c.axis(int(c.attr("axis", 0)), len(x.shape))
    y = select(c, x, axis, index.reshape(-1))
    return reshape(c, y, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@converts("Split")
def _split(c: Context) -> list[Value]:
    """Divide an axis, exactly."""
    x = c.node(0)
    axis = c.axis(int(c.attr("axis", 0)), len(x.shape))
    parts = len(c.proto.output)
    if int(c.attr("num_outputs", parts)) != parts:
        c.refuse(f"num_outputs does not say {parts}, as many as its outputs are", "check it with onnx.checker")
    sizes = c.attr_or_input("split", 1)
    if sizes is None:
        chunk = -(-x.shape[axis] // parts)
        sizes = [min(chunk, x.shape[axis] - chunk * i) for i in range(parts)]
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        c.refuse(f"parts of {sizes} do not add up to {x.shape[axis]}")
    stops = np.cumsum(sizes)
    wanted = zip(c.proto.output, stops, sizes, strict=False)
    parts_of: list[Value] = []
    for name, stop, size in wanted:
        if name and size == 0:
            empty = np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]))
            parts_of.append(Constant(empty))
        else:
            parts_of.append(select(c, x, axis, np.arange(stop - size, stop)) if name else x)
    return parts_of


def pad_by_constant(c: Context) -> Value:
    """Add the frame of a constant that a Pad node asks for."""
    x = c.node(0)
    pads = c.attr_or_input("pads", 1) or []
    fill = c.optional_constant(2)
    if fill is not None and (fill.value.size > 1 or fill.radius is not None):
        c.refuse("its fill value is not one exact number")
    value = float(c.attr("value", 0.0)) if fill is None or fill.value.size == 0 else float(fill.value.item())
    if not np.isfinite(value):
        c.refuse("its fill value is not an exact finite number")
    rank = len(x.shape)
    axes = c.integers(3) or list(range(rank))
    if len(pads) != 2 * len(axes):
        c.refuse(f"{len(pads)} pads do not fit {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        before[c.axis(axis, rank)] = pads[position]
        after[c.axis(axis, rank)] = pads[position + len(axes)]
    width = 0.0 if fill is None or fill.slack is None else float(fill.slack.max())
    return pad(c, x, before, after, value, width)


def pad(c: Context, x: Ref, before: Sequence[int], after: Sequence[int], value: float = 0.0, width: float = 0.0) -> Ref:
    """Add a frame of `value`; a runtime's own value may be up to `width` away from it."""
    if not any(before) and not any(after):
        return x
    if any(size + b + a <= 0 for size, b, a in zip(x.shape, before, after, strict=True)):
        c.refuse("it crops everything", "zero-size tensors cannot be verified")
    c.fits(*before, *after, what="its pads")

    def filled(number: float) -> Pad:
        fill = torch.tensor(number, dtype=torch.float64) if number else None
        return Pad(x.shape, tuple(before), tuple(after), fill)

    return c.emit(filled(value), x, slack=filled(width) if width else None)


@converts("Concat")
def _concat(c: Context) -> Value:
    """Join values along an axis, constants among them, exactly."""
    values = [c.value(i) for i in range(len(c.inputs))]
    return joined(c, values, c.axis(int(c.attr("axis", 1)), len(values[0].shape)))


def stacked(c: Context, *values: Value) -> Ref:
    """Return the operands of a function of several, broadcast and one after the other: (operand, *shape)."""
    shape = broadcast(c, *(v.shape for v in values))

    def one(v: Value) -> Value:
        if isinstance(v, Constant):
            return v.moved(lambda entries: np.broadcast_to(entries, shape)[None])
        wide = expand(c, v, shape)
        return c.emit(Reshape(shape, (1, *shape)), wide)

    return joined(c, [one(v) for v in values], 0)


def joined(c: Context, values: Sequence[Value], axis: int) -> Ref:
    """Return values joined along an axis, constants among them."""
    if any(isinstance(v, Constant) and v.radius is not None for v in values):
        c.refuse("the rounding of its folded constants cannot be carried", "fold constants when exporting")
    values = [v for v in values if len(v.shape) <= axis or v.shape[axis]]
    rests = {(len(v.shape), v.shape[:axis] + v.shape[axis + 1 :]) for v in values}
    if len(rests) != 1:
        c.refuse(f"shapes {', '.join(str(v.shape) for v in values)} cannot be joined along axis {axis}")
    branches = [v for v in values if isinstance(v, Ref)]
    parts = tuple(v.tensor() if isinstance(v, Constant) else None for v in values)
    if len(branches) == 1 and len(parts) == 1:
        return branches[0]
    op = Concat(axis, tuple(v.shape[axis] for v in values), parts)
    if not loose(slack, *(v for v in values if isinstance(v, Constant))):
        return c.emit(op, *branches)
    near = tuple(None if isinstance(v, Ref) else torch.from_numpy(widths(slack, v)) for v in values)
    return c.emit(op, *branches, slack=replace(op, parts=near))
