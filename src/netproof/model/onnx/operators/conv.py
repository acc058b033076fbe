"""Converters of convolutions and average pooling."""

from __future__ import annotations

import numpy as np
import torch

from netproof.core.limits import entries
from netproof.model.conv import Conv, ConvTranspose, Kernel
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import reciprocal, scale
from netproof.model.onnx.operators.moves import pad
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


class Window:
    """Strides, dilations and pads of a node over the spatial axes of x: (N, C, *spatial)."""

    def __init__(self, c: Context, x: Ref, sizes: tuple[int, ...]) -> None:
        rank = len(x.shape) - 2
        if rank not in (1, 2, 3):
            c.refuse(f"{rank}-D", "convolutions and average pools have one to three axes")
        if len(sizes) != rank:
            c.refuse(f"its window has {len(sizes)} axes, its input {rank}")
        self.spatial = x.shape[2:]
        self.sizes = sizes
        self.strides = [int(v) for v in c.attr("strides") or [1] * rank]
        self.dilations = [int(v) for v in c.attr("dilations") or [1] * rank]
        pads = [int(v) for v in c.attr("pads") or [0] * (2 * rank)]
        c.fits(*sizes, *self.strides, *self.dilations, *pads, what="its window, strides, dilations or pads")
        if min(*self.strides, *self.dilations, *sizes) < 1 or not (len(self.strides) == len(self.dilations) == rank):
            c.refuse("its strides, dilations or window are not positive, one for each axis")
        self.reach = [d * (k - 1) + 1 for d, k in zip(self.dilations, sizes, strict=True)]
        self.auto = c.attr("auto_pad", "NOTSET")
        if len(pads) != 2 * rank:
            c.refuse(f"{len(pads)} pads do not fit {rank} axes")
        self.before, self.after = pads[:rank], pads[rank:]
        if self.auto == "VALID":
            self.before, self.after = [0] * rank, [0] * rank
        elif self.auto not in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
            c.refuse(f"auto_pad {self.auto!r}")

    def share(self, totals: list[int]) -> None:
        """Divide the pads that SAME_UPPER or SAME_LOWER asks for between the two ends."""
        totals = [max(0, total) for total in totals]  # below 0 are entries at the end that no window reaches
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        self.before, self.after = (less, more) if self.auto == "SAME_UPPER" else (more, less)

    def pad_input(self) -> list[int]:
        """Set the pads of a convolution or pool under SAME: as many windows as strides fit. Return them by axis."""
        if not self.auto.startswith("SAME"):
            return []
        zipped = zip(self.spatial, self.strides, self.reach, strict=True)
        totals = [(-(-size // s) - 1) * s + r - size for size, s, r in zipped]
        self.share(totals)
        return totals

    def reach_to_the_end(self) -> None:
        """Lengthen the pads as ceil_mode does, so that a last window covers the end; one that begins beyond is none."""
        zipped = zip(self.spatial, self.before, self.after, self.reach, self.strides, strict=True)
        for axis, (size, before, after, reach, s) in enumerate(zipped):
            windows = -(-(size + before + after - reach) // s) + 1
            windows -= (windows - 1) * s >= size + before
            self.after[axis] = (windows - 1) * s + reach - size - before

    @property
    def symmetric(self) -> bool:
        return self.before == self.after and min(self.before) >= 0


def axes(values: list[int] | tuple[int, ...], fill: int) -> tuple[int, ...]:
    """Write the sizes of one axis as two: 1-D is 2-D of height 1."""
    return (fill, int(values[0])) if len(values) == 1 else tuple(int(value) for value in values)


def weight_of_image(weight: np.ndarray) -> torch.Tensor:
    image = weight[:, :, None, :] if weight.ndim == 3 else weight
    return torch.from_numpy(np.array(image, dtype=np.float64, order="C"))


def kernel_of(weight: np.ndarray, window: Window, padding: list[int], groups: int, shape: tuple[int, ...]) -> Kernel:
    """Make the kernel. `shape` is that of the node (N, C, *spatial) that the correlation maps from."""
    return Kernel(
        weight_of_image(weight),
        stride=axes(window.strides, 1),
        padding=axes(padding, 0),
        dilation=axes(window.dilations, 1),
        groups=groups,
        image=(shape[1], *axes(shape[2:], 1)),
    )


def _unfolded(c: Context, weight: tuple[int, ...], windows: tuple[int, ...], groups: int) -> None:
    """Refuse a convolution whose unfolded windows, which proofs compute with, would be too large."""
    c.fits(groups * entries(weight[1:]) * entries(windows), what="the entries of all its windows")


def convolve(c: Context, x: Ref, weight: Constant, bias: Constant | None, window: Window, groups: int) -> Ref:
    """Add a correlation of x with a kernel (D, C/groups, *sizes); uneven pads become a Pad of their own."""
    padding = window.before
    if not window.symmetric:
        x = pad(c, x, [0, 0, *window.before], [0, 0, *window.after])
        padding = [0] * len(padding)
    kernel = kernel_of(weight.value, window, padding, groups, x.shape)
    if min(kernel.result) < 1:
        c.refuse(f"its window does not fit an input of shape {x.shape}")
    _unfolded(c, weight.shape, kernel.result[1:], groups)
    spatial = kernel.result[2:] if len(x.shape) == 3 else kernel.result[1:]
    out_shape = (x.shape[0], kernel.result[0], *spatial)

    def around(bound: constant.Bound) -> Conv | None:
        if not constant.loose(bound, weight, bias):
            return None
        widths = kernel_of(constant.widths(bound, weight), window, padding, groups, x.shape)
        return Conv(widths, constant.bound_tensor(bound, bias), x.shape, out_shape)

    op = Conv(kernel, None if bias is None else bias.tensor(), x.shape, out_shape, around(constant.radius))
    return c.emit(op, x, slack=around(constant.slack))


def _groups(c: Context, x: Ref, channels: int, filters: int) -> int:
    groups = int(c.attr("group", 1))
    if groups < 1 or channels != x.shape[1] or filters % groups or x.shape[1] % groups:
        c.refuse(f"{filters} filters in {groups} groups do not fit {x.shape[1]} channels")
    return groups


def _bias(c: Context, filters: int) -> Constant | None:
    bias = c.optional_constant(2)
    if bias is not None and bias.shape != (filters,):
        c.refuse(f"its bias {bias.shape} does not fit {filters} filters")
    return bias


@converts("Conv")
def _conv(c: Context) -> Value:
    """Keep a convolution over one to three axes with a constant kernel, exactly."""
    x, weight = c.node(0), c.constant(1)
    window = Window(c, x, weight.shape[2:])
    if window.pad_input() and max(window.dilations) > 1:
        c.give_runtime(pads=[*window.before, *window.after], auto_pad="NOTSET")  # it refuses to work them out itself
    groups = _groups(c, x, weight.shape[1] * int(c.attr("group", 1)), weight.shape[0])
    return convolve(c, x, weight, _bias(c, weight.shape[0]), window, groups)


@converts("ConvTranspose")
def _conv_transpose(c: Context) -> Value:
    """Keep a transposed convolution over one to three axes with a constant kernel, exactly."""
    x, weight = c.node(0), c.constant(1)
    window = Window(c, x, weight.shape[2:])
    groups = _groups(c, x, weight.shape[0], weight.shape[0])
    rank = len(window.sizes)
    extra = [int(v) for v in c.attr("output_padding") or [0] * rank]
    wanted = c.attr("output_shape")
    if len(extra) != rank or (wanted and len(wanted) < rank):
        c.refuse("its output_padding or output_shape does not fit its axes")
    full = [
        (size - 1) * s + r + e
        for size, s, r, e in zip(window.spatial, window.strides, window.reach, extra, strict=True)
    ]
    if wanted or window.auto.startswith("SAME"):
        same = [size * s for size, s in zip(window.spatial, window.strides, strict=True)]
        totals = [f - int(v) for f, v in zip(full, wanted[-rank:] if wanted else same, strict=True)]
        if not wanted and min(totals) < 0:
            c.refuse("runtimes differ on automatic pads where windows leave gaps", "export with explicit pads")
        window.share(totals)
        extra = [e - min(0, t) for e, t in zip(extra, totals, strict=True)]  # what windows do not reach is at the end
        full = [f - min(0, t) for f, t in zip(full, totals, strict=True)]
    if any(not 0 <= e < s for e, s in zip(extra, window.strides, strict=True)):
        c.refuse(f"output_padding {extra} is negative or not smaller than the stride")
    bias = _bias(c, weight.shape[1] * groups)
    return _transposed(c, x, weight, bias, window, groups, full)


def _transposed(
    c: Context, x: Ref, weight: Constant, bias: Constant | None, window: Window, groups: int, full: list[int]
) -> Ref:
    """Add the transposed convolution onto the `full` image, less the pads; uneven pads are cropped afterwards."""
    padding = window.before if window.symmetric else [0] * len(full)
    sides = [size - 2 * p for size, p in zip(full, padding, strict=True)]
    if min(sides) < 1:
        c.refuse("its pads leave nothing of the output")
    out_shape = (x.shape[0], weight.shape[1] * groups, *sides)
    c.fits(entries(out_shape), what="the entries of its result")
    _unfolded(c, weight.shape, x.shape[2:], groups)
    kernel = kernel_of(weight.value, window, padding, groups, out_shape)

    def around(bound: constant.Bound) -> ConvTranspose | None:
        if not constant.loose(bound, weight, bias):
            return None
        widths = kernel_of(constant.widths(bound, weight), window, padding, groups, out_shape)
        return ConvTranspose(widths, constant.bound_tensor(bound, bias), x.shape, out_shape)

    op = ConvTranspose(kernel, None if bias is None else bias.tensor(), x.shape, out_shape, around(constant.radius))
    y = c.emit(op, x, slack=around(constant.slack))
    if window.symmetric:
        return y
    return pad(c, y, [0, 0, *(-b for b in window.before)], [0, 0, *(-a for a in window.after)])


@converts("AveragePool")
def _average_pool(c: Context) -> Value:
    """Sum over windows, which is exact in its weights, and divide each by its count."""
    x = c.node(0)
    window = Window(c, x, tuple(int(v) for v in c.attr("kernel_shape", [])))
    totals = window.pad_input()
    if totals and (min(totals) < -1 or max(window.dilations) > 1):
        c.refuse("runtimes differ on automatic pads where a window dilates or skips entries", "export explicit pads")
    declared = list(window.after)
    if c.attr("ceil_mode", 0):
        window.reach_to_the_end()
    c.claim((x.shape[1], *window.sizes))
    ones = constant.constant(np.ones((x.shape[1], 1, *window.sizes)))
    y = convolve(c, x, ones, None, window, groups=x.shape[1])
    counts = constant.constant(_counts(window, declared, pads=bool(c.attr("count_include_pad", 0))))
    return scale(c, y, reciprocal(c, counts))


def _counts(window: Window, declared: list[int], *, pads: bool) -> np.ndarray:
    """Count the entries of each window inside the image, or with its declared pads: (*spatial out).

    It is one number if all are equal. What the last window of ceil_mode reaches beyond the pads never counts.
    """
    counts = np.ones(())
    sides = zip(window.spatial, window.before, window.after, declared, strict=True)
    steps = zip(window.strides, window.dilations, window.sizes, strict=True)
    for (size, before, after, last), (s, d, k) in zip(sides, steps, strict=True):
        low, high = (-before, size + last) if pads else (0, size)
        start = np.arange(0, before + size + after - d * (k - 1), s) - before  # of each window, in the image's count
        entries_of = start[:, None] + d * np.arange(k)
        along = ((entries_of >= low) & (entries_of < high)).sum(1).astype(np.float64)
        counts = counts[..., None] * along
    return counts if (counts != counts.flat[0]).any() else counts.reshape(-1)[0]
