"""Kernels applied to windows (n, height, width, C), one for each form: channels last, so that each is a matrix product.

Where a kernel is `summed`, as all are in float64, these are direct sums, as those of `model.conv` are.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from netproof.bounds.windows.frame import Pair, reach
from netproof.model.conv import Kernel, in_chunks


def transposed(kernel: Kernel, windows: Tensor) -> Tensor:
    """Map windows (n, kh, kw, D) of the result to those (n, mh, mw, C) of the image that they are read from."""
    if kernel.summed:
        return in_chunks(lambda some: _put(kernel, some), windows, _unfolded(kernel, windows))
    images = windows.permute(0, 3, 1, 2)
    done = F.conv_transpose2d(images, kernel.weight, None, _pair(kernel.stride), 0, 0, kernel.groups, kernel.dilation)
    return done.permute(0, 2, 3, 1)


def correlate(kernel: Kernel, windows: Tensor) -> Tensor:
    """Map windows (n, mh, mw, C) of the image to the results (n, kh, kw, D) that lie wholly in them."""
    if kernel.summed:
        _, height, width, channels = windows.shape
        entries = entries_read(kernel, (height, width), channels)
        return in_chunks(lambda some: _read(kernel, some), windows, entries)
    images = windows.permute(0, 3, 1, 2)
    done = F.conv2d(images, kernel.weight, None, _pair(kernel.stride), 0, kernel.dilation, kernel.groups)
    return done.permute(0, 2, 3, 1)


def _pair(of: tuple[int, ...]) -> Pair:
    return of[0], of[1]


def entries_read(kernel: Kernel, sides: Pair, channels: int) -> int:
    """Count the numbers that taps read of one window of these sides, each with its own."""
    taps, apart = kernel.window[0] * kernel.window[1], kernel.stride[0] * kernel.stride[1]
    return taps * sides[0] * sides[1] * channels // apart


def _unfolded(kernel: Kernel, windows: Tensor) -> int:
    """Count the numbers that one window becomes when every tap has its own."""
    taps = kernel.window[0] * kernel.window[1]
    return taps * windows.shape[1] * windows.shape[2] * kernel.image[0]


def _taps(kernel: Kernel) -> Tensor:
    """Return the weight as (groups, D/groups, taps, C/groups)."""
    weight = kernel.weight.reshape(kernel.groups, -1, *kernel.weight.shape[1:])
    return weight.permute(0, 1, 3, 4, 2).flatten(2, 3)


def _put(kernel: Kernel, windows: Tensor) -> Tensor:
    """Multiply by every tap, and add up what the taps put to each entry."""
    n, height, width, _ = windows.shape
    taps, groups = _taps(kernel), kernel.groups
    if groups == 1:
        each = windows.reshape(-1, windows.shape[3]) @ taps[0].flatten(1)
    else:
        parts = windows.reshape(n * height * width, groups, -1).transpose(0, 1) @ taps.flatten(2)
        each = parts.unflatten(2, taps.shape[2:]).permute(1, 2, 0, 3)
    (sy, sx), (dy, dx), (ky, kx) = kernel.stride, kernel.dilation, kernel.window
    each = each.reshape(n, height, width, ky, kx, -1)
    spans = reach(kernel)
    whole = windows.new_zeros(n, sy * (height - 1) + spans[0], sx * (width - 1) + spans[1], each.shape[-1])
    for i in range(ky):
        rows = slice(i * dy, i * dy + sy * (height - 1) + 1, sy)
        for j in range(kx):
            whole[:, rows, j * dx : j * dx + sx * (width - 1) + 1 : sx] += each[:, :, :, i, j]
    return whole


def _read(kernel: Kernel, windows: Tensor) -> Tensor:
    """Lay out what every tap reads, and multiply."""
    n, height, width, channels = windows.shape
    (sy, sx), (dy, dx), (ky, kx) = kernel.stride, kernel.dilation, kernel.window
    spans = reach(kernel)
    high, wide = (height - spans[0]) // sy + 1, (width - spans[1]) // sx + 1
    split = windows.unflatten(3, (kernel.groups, -1))
    by_n, by_row, by_column, by_group, by_channel = split.stride()
    laid: Tensor = split.as_strided(  # one copy for all taps, as launches are what counts on a GPU
        (n, high, wide, kernel.groups, ky, kx, channels // kernel.groups),
        (by_n, sy * by_row, sx * by_column, by_group, dy * by_row, dx * by_column, by_channel),
    )
    taps = _taps(kernel).flatten(2)  # (groups, D/groups, taps·C/groups)
    if kernel.groups == 1:
        return (laid.reshape(n * high * wide, -1) @ taps[0].mT).reshape(n, high, wide, -1)
    parts = laid.reshape(n * high * wide, kernel.groups, -1).transpose(0, 1) @ taps.mT
    return parts.transpose(0, 1).reshape(n, high, wide, -1)
