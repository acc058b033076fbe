"""Converters of convolutions and average pooling."""

from __future__ import annotations

import math

import numpy as np
import torch

from netproof.core.limits import entries
from netproof.model.conv import Conv, ConvTranspose, Kernel, Pair
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import reciprocal, scale
from netproof.model.onnx.operators.moves import pad
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


class Window:
    """Strides, dilations and pads of a node over the spatial axes of x: (N, C, *spatial)."""

    def __init__(self, c: Context, x: Ref, sizes: tuple[int, ...]) -> None:
        rank = len(x.shape) - 2
        if rank not in (1, 2):
            c.refuse(f"{rank}-D", "only 1-D and 2-D convolutions and pools are supported")
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

    def share(self, c: Context, totals: list[int]) -> None:
        """Divide the pads that SAME_UPPER or SAME_LOWER asks for between the two ends."""
        if min(totals) < -1 or max(self.dilations) > 1:  # runtimes differ on these
            c.refuse("automatic pads where the window dilates or skips entries", "export with explicit pads")
        totals = [max(0, total) for total in totals]  # -1 is one entry at the end that no window reaches
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        self.before, self.after = (less, more) if self.auto == "SAME_UPPER" else (more, less)

    def pad_input(self, c: Context) -> None:
        """Set the pads of a convolution or pool under SAME: as many windows as strides fit."""
        if self.auto.startswith("SAME"):
            zipped = zip(self.spatial, self.strides, self.reach, strict=True)
            self.share(c, [(-(-size // s) - 1) * s + r - size for size, s, r in zipped])

    @property
    def symmetric(self) -> bool:
        return self.before == self.after and min(self.before) >= 0

    @property
    def divides(self) -> bool:
        """Say whether the windows end where the padded image ends."""
        zipped = zip(self.spatial, self.before, self.after, self.reach, self.strides, strict=True)
        return all((size + b + a - r) % s == 0 for size, b, a, r, s in zipped)


def two(values: list[int] | tuple[int, ...], fill: int) -> Pair:
    """Write the sizes of one or two axes as two: 1-D is 2-D of height 1."""
    return (int(values[-2]) if len(values) == 2 else fill, int(values[-1]))


def weight_4d(weight: np.ndarray) -> torch.Tensor:
    image = weight if weight.ndim == 4 else weight[:, :, None, :]
    return torch.from_numpy(np.array(image, dtype=np.float64, order="C"))


def kernel_of(weight: np.ndarray, window: Window, padding: list[int], groups: int, shape: tuple[int, ...]) -> Kernel:
    """Make the kernel. `shape` is that of the node (N, C, *spatial) that the correlation maps from."""
    return Kernel(
        weight_4d(weight),
        stride=two(window.strides, 1),
        padding=two(padding, 0),
        dilation=two(window.dilations, 1),
        groups=groups,
        image=(shape[1], *two(shape[2:], 1)),
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
    spatial = kernel.result[1:] if len(x.shape) == 4 else kernel.result[2:]
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
    x, weight = c.node(0), c.constant(1)
    window = Window(c, x, weight.shape[2:])
    window.pad_input(c)
    groups = _groups(c, x, weight.shape[1] * int(c.attr("group", 1)), weight.shape[0])
    return convolve(c, x, weight, _bias(c, weight.shape[0]), window, groups)


@converts("ConvTranspose")
def _conv_transpose(c: Context) -> Value:
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
    if wanted:
        window.share(c, [f - int(v) for f, v in zip(full, wanted[-rank:], strict=True)])
    elif window.auto.startswith("SAME"):
        window.share(c, [f - size * s for f, size, s in zip(full, window.spatial, window.strides, strict=True)])
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
    """Add a sum over windows, which is exact in its weights, and then one division per window."""
    x = c.node(0)
    window = Window(c, x, tuple(int(v) for v in c.attr("kernel_shape", [])))
    window.pad_input(c)
    if c.attr("ceil_mode", 0) and not window.divides:
        c.refuse("ceil_mode adds a window that reaches beyond the image", "export with ceil_mode=False")
    c.claim((x.shape[1], *window.sizes))
    ones = constant.constant(np.ones((x.shape[1], 1, *window.sizes)))
    y = convolve(c, x, ones, None, window, groups=x.shape[1])
    if c.attr("count_include_pad", 0):
        counts = constant.constant(float(math.prod(window.sizes)))
    else:
        counts = constant.constant(_counts(window))
    return scale(c, y, reciprocal(c, counts))


def _counts(window: Window) -> np.ndarray:
    """Count the entries of each window that lie inside the image: (*spatial out), or one number if all are equal."""
    counts = np.ones(())
    for size, before, after, s, d, k in zip(
        window.spatial,
        window.before,
        window.after,
        window.strides,
        window.dilations,
        window.sizes,
        strict=True,
    ):
        start = np.arange(0, before + size + after - d * (k - 1), s) - before  # of each window, in the image's count
        first = np.maximum(0, -(start // d))  # the first and the last entry of the window that lie in the image
        last = np.minimum(k - 1, (size - 1 - start) // d)
        along = np.maximum(0, last - first + 1).astype(np.float64)
        counts = counts[..., None] * along
    return counts if (counts != counts.flat[0]).any() else counts.reshape(-1)[0]
