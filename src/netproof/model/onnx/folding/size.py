"""The size of the result of folding a node, found from its inputs before it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from netproof.core.limits import entries
from netproof.model.onnx.context import Context

Arrays = Sequence[np.ndarray]
ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "And", "Or", "Where", "Max", "Min", "Clip", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual",
}  # fmt: skip


def result_entries(c: Context, arrays: Arrays) -> int:
    """Return at least as many entries as the results have; arrays: the node's inputs, without those left out.

    What is wrong here fails when the node is evaluated.
    """
    if c.op in ELEMENTWISE:
        return _broadcast([array.shape for array in arrays])
    if c.op in GROWING:
        return GROWING[c.op](c, arrays)
    return sum(entries(array.shape) for array in arrays)


def _broadcast(shapes: Sequence[Sequence[int]]) -> int:
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [[1] * (rank - len(shape)) + [int(size) for size in shape] for shape in shapes]
    return entries(max(sizes) for sizes in zip(*padded, strict=True))


def _expand(c: Context, arrays: Arrays) -> int:
    return _broadcast([arrays[0].shape, c.integers(1) or []])


def _tile(c: Context, arrays: Arrays) -> int:
    return entries(arrays[0].shape) * entries(c.integers(1) or [])


def _pad(c: Context, arrays: Arrays) -> int:
    shape, pads = list(arrays[0].shape), c.attr_or_input("pads", 1) or []
    axes = c.integers(3) or list(range(len(shape)))
    for position, axis in enumerate(axes):
        shape[axis] += abs(pads[position]) + abs(pads[position + len(axes)])
    return entries(shape)


def _range(c: Context, arrays: Arrays) -> int:
    start, limit, delta = (int(array.reshape(-1)[0]) if array.size else 0 for array in arrays)
    return abs(limit - start) // abs(delta) + 1 if delta else 1


def _gather(c: Context, arrays: Arrays) -> int:
    """Bound the entries: each index picks one slice along the axis, or at most all of the data."""
    rank = arrays[0].ndim
    axis = c.attr("axis", 0)
    along = arrays[0].shape[axis] if c.op == "Gather" and -rank <= axis < rank else 1
    return entries(arrays[1].shape) * (entries(arrays[0].shape) // max(1, along))


def _non_zero(c: Context, arrays: Arrays) -> int:
    """Count one index per axis for every number."""
    return entries(arrays[0].shape) * max(1, arrays[0].ndim)


def _center_crop_pad(c: Context, arrays: Arrays) -> int:
    return entries(c.integers(1) or []) * entries(arrays[0].shape)


def _one_hot(c: Context, arrays: Arrays) -> int:
    return entries(arrays[0].shape) * entries(c.integers(1) or [])


def _max_unpool(c: Context, arrays: Arrays) -> int:
    """Bound the entries: a result of a given shape, or as many windows as entries."""
    wanted = entries(c.integers(2) or [])
    reach = [abs(k) + abs(s) for k, s in zip(c.attr("kernel_shape", []), c.attr("strides") or [1] * 8, strict=False)]
    return max(wanted, entries(arrays[0].shape) * entries(reach))


GROWING: dict[str, Callable[[Context, Arrays], int]] = {
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "Range": _range,
    "Gather": _gather,
    "GatherND": _gather,
    "NonZero": _non_zero,
    "CenterCropPad": _center_crop_pad,
    "OneHot": _one_hot,
    "MaxUnpool": _max_unpool,
}
