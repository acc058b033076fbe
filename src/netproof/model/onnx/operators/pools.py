"""Converters of maxima over windows and axes: trees of pairwise maxima, exact by ReLUs.

A maximum over a window is one along each axis in turn. Along one axis, of windows of a few entries, the first ones of
all windows are one image, the second ones another, and images are compared. The entries of longer windows are laid out
on an axis of their own, which is then halved, pair by pair: each halving is one ReLU layer, so k entries are log₂ k
layers. Padding never wins a maximum, so windows at the border are made of their entries inside alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.hinges import Pick, maximum, minimum
from netproof.model.onnx.operators.moves import joined, reshape, select

FEW = 3  # entries of a window of which images are compared: as many ReLU layers as if they were laid out


def along(c: Context, x: Ref, axis: int, pick: Pick) -> Ref:
    """Return the extreme along an axis, which is dropped.

    Neighbours are compared first: what they read overlaps, so their difference has the narrower bounds.
    """
    while (size := x.shape[axis]) > 1:
        pairs, rest = size // 2, x.shape[axis + 1 :]
        even = select(c, x, axis, np.arange(2 * pairs))
        even = reshape(c, even, (*x.shape[:axis], pairs, 2, *rest))
        left, right = (select(c, even, axis + 1, np.array([side])) for side in (0, 1))
        best = pick(c, left, right)
        assert isinstance(best, Ref)
        best = reshape(c, best, (*x.shape[:axis], pairs, *rest))
        odd = [select(c, x, axis, np.arange(2 * pairs, size))] if size % 2 else []
        x = joined(c, [best, *odd], axis)
    return reshape(c, x, (*x.shape[:axis], *x.shape[axis + 1 :]))


# --- over whole axes ---------------------------------------------------------------------------------------


@converts("ReduceMax", "ReduceMin")
def _reduce_extreme(c: Context) -> Value:
    """Write the extreme over axes as a tree of pairwise ones, exact by ReLUs."""
    x = c.node(0)
    rank = len(x.shape)
    axes = c.attr_or_input("axes", 1)
    if not axes:
        if c.attr("noop_with_empty_axes", 0) == 1:
            return x
        axes = list(range(rank))
    over = sorted({c.axis(axis, rank) for axis in axes})
    return over_axes(c, x, over, maximum if c.op == "ReduceMax" else minimum, keep=bool(c.attr("keepdims", 1)))


@converts("GlobalMaxPool")
def _global_max_pool(c: Context) -> Value:
    """Write the maximum over all of an image as a tree of pairwise ones, exact by ReLUs."""
    x = c.node(0)
    return over_axes(c, x, list(range(2, len(x.shape))), maximum, keep=True)


def over_axes(c: Context, x: Ref, axes: list[int], pick: Pick, *, keep: bool) -> Ref:
    """Return the extreme over axes, which are sorted; kept, they have size 1."""
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    for axis in reversed(axes):
        x = along(c, x, axis, pick)
    return reshape(c, x, kept) if keep else x


# --- over windows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """The windows along one axis of an image."""

    size: int
    window: int
    stride: int
    dilation: int
    before: int
    after: int
    ceil: bool

    @property
    def count(self) -> int:
        """Count the windows. One more where `ceil` adds a part of one, unless that starts in the padding at the end."""
        room = self.size + self.before + self.after - self.dilation * (self.window - 1) - 1
        if room < 0:
            return 0
        if not self.ceil:
            return room // self.stride + 1
        found = -(-room // self.stride) + 1
        return found - 1 if (found - 1) * self.stride >= self.size + self.before else found

    def entries(self) -> list[list[int]]:
        """List for every window which entries of the axis lie in it."""
        starts = (i * self.stride - self.before for i in range(self.count))
        reach = [self.dilation * i for i in range(self.window)]
        return [[start + i for i in reach if 0 <= start + i < self.size] for start in starts]


@converts("MaxPool")
def _max_pool(c: Context) -> Value:
    """Write the maximum over windows as a tree of pairwise ones along each axis, exact by ReLUs."""
    x = c.node(0)
    _refuse_indices(c)
    for axis, windows in enumerate(_axes(c, x), start=2):
        entries = windows.entries()
        if not entries:
            c.refuse(f"its window does not fit an input of shape {x.shape}")
        if not all(entries):
            c.refuse("a window lies in the padding altogether", "export with smaller pads")
        c.fits(sum(map(len, entries)) * (max(x.shape) if x.shape else 1), what="the entries of all its windows")
        parts: list[Value] = []
        for width, group in groupby(entries, key=len):  # windows at the border have fewer entries
            index = np.array(list(group))
            parts.append(_of_few(c, x, axis, index) if width <= FEW else _of_many(c, x, axis, index))
        x = joined(c, parts, axis)
    return x


def _of_few(c: Context, x: Ref, axis: int, index: np.ndarray) -> Value:
    """Return the maxima along an axis over windows, index (count, width), by images: neurons keep windows of these."""
    best: Value = select(c, x, axis, index[:, 0])
    for k in range(1, index.shape[1]):
        best = maximum(c, best, select(c, x, axis, index[:, k]))
    return best


def _of_many(c: Context, x: Ref, axis: int, index: np.ndarray) -> Ref:
    """Return the same by halvings of an axis that the entries of each window are laid out on."""
    laid = select(c, x, axis, index.reshape(-1))
    laid = reshape(c, laid, (*x.shape[:axis], len(index), index.shape[1], *x.shape[axis + 1 :]))
    return along(c, laid, axis + 1, maximum)


def _refuse_indices(c: Context) -> None:
    """Refuse the second output, which says where each maximum was found, if anything reads it."""
    name = c.proto.output[1] if len(c.proto.output) > 1 else ""
    graph = c.file.model.graph
    read = {i for node in graph.node for i in node.input} | {output.name for output in graph.output}
    if name and name in read:
        c.refuse("its second output, the indices of the maxima, is used", "export without return_indices")


def _axes(c: Context, x: Ref) -> list[Axis]:
    """Read the windows along each spatial axis of x: (N, C, *spatial)."""
    spatial = x.shape[2:]
    rank = len(spatial)
    window = [int(v) for v in c.attr("kernel_shape", [])]
    strides = [int(v) for v in c.attr("strides") or [1] * rank]
    dilations = [int(v) for v in c.attr("dilations") or [1] * rank]
    pads = [int(v) for v in c.attr("pads") or [0] * (2 * rank)]
    c.fits(*window, *strides, *dilations, *pads, what="its window, strides, dilations or pads")
    if not rank or not (len(window) == len(strides) == len(dilations) == rank) or len(pads) != 2 * rank:
        c.refuse(f"its window, strides, dilations or pads do not fit {rank} axes", "check it with onnx.checker")
    if min(*window, *strides, *dilations) < 1 or min(pads) < 0:
        c.refuse("its window, strides or dilations are not positive, or a pad is negative")
    auto, ceil = c.attr("auto_pad", "NOTSET"), bool(c.attr("ceil_mode", 0))
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        c.refuse(f"auto_pad {auto!r}")
    found = []
    for i, (size, k, s, d) in enumerate(zip(spatial, window, strides, dilations, strict=True)):
        before, after = pads[i], pads[i + rank]
        if auto != "NOTSET":
            before, after = _automatic(auto, size, s, k)
        if (auto.startswith("SAME") and d > 1) or (auto == "VALID" and ceil and (size - d * (k - 1) - 1) % s):
            c.refuse(f"auto_pad {auto} here, which runtimes take differently", "export with explicit pads")
        found.append(Axis(size, k, s, d, before, after, ceil and auto == "NOTSET"))
    return found


def _automatic(auto: str, size: int, stride: int, window: int) -> tuple[int, int]:
    """Return the pads before and after: none for VALID, else so many that there is a window for every stride."""
    total = (-(-size // stride) - 1) * stride + window - size
    if auto == "VALID" or total <= 0:
        return 0, 0
    less, more = total // 2, total - total // 2
    return (less, more) if auto == "SAME_UPPER" else (more, less)
