"""Convolutions. A transposed convolution is the same kernel with forward and adjoint exchanged.

In float64, the arithmetic of proofs, both directions are matrix products with unfold and fold: direct sums,
for which the error bound γ_n holds. (Libraries are free to run a convolution by Winograd or FFT, for which it
does not.) In float32, the arithmetic of the search, they are whatever is fastest, unless a proof asks for such sums
there too (`summed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.core.batch import in_slices
from netproof.core.machine.allowance import allowance
from netproof.model.affine import magnitude, moved
from netproof.model.ops import Affine
from netproof.model.phases import Phases

Shape = tuple[int, ...]

# Entries of an unfolded chunk: 512 MiB in float64, and on a CPU what its caches hold, which halves the time.
UNFOLD_LIMIT = {"cpu": 1 << 20, "cuda": 1 << 26}
UNFOLD_SHARE = 16  # of the memory that a run may take, a chunk takes one part in so many at most


def in_chunks(apply: Callable[[Tensor], Tensor], x: Tensor, entries: int) -> Tensor:
    """Apply a function to slices of a batch x whose unfolded form, of so many entries for each, is of bounded size."""
    given, on_cpu = allowance(), x.device.type == "cpu"
    cap = given.caps.host if on_cpu else given.caps.gpu
    limit = UNFOLD_LIMIT["cpu" if on_cpu else "cuda"]
    limit = limit if cap is None else min(limit, cap // (UNFOLD_SHARE * x.element_size()))
    size = max(1, int(limit * given.share) // max(1, entries))
    return in_slices(lambda part: apply(x[part]), x.shape[0], size)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A correlation from images (C, *sides) to images (D, *sides'), without bias; two sides, or three of a volume."""

    weight: Tensor  # (D, C/groups, *window)
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    image: Shape  # (C, *sides)
    direct: bool = False  # add up products in float32 too, as in float64

    @property
    def summed(self) -> bool:
        """Say whether both directions are sums of products, for which γ_n holds."""
        return self.direct or self.weight.dtype == torch.float64

    @cached_property
    def window(self) -> Shape:
        return tuple(int(size) for size in self.weight.shape[2:])

    @cached_property
    def result(self) -> Shape:
        """Return the shape of the result, (D, *sides')."""
        zipped = zip(self.image[1:], self.padding, self.dilation, self.window, self.stride, strict=True)
        sides = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in zipped]
        return (int(self.weight.shape[0]), *sides)

    @cached_property
    def fan_in(self) -> int:
        return math.prod(self.weight.shape[1:])

    @cached_property
    def fan_out(self) -> int:
        return int(self.weight.shape[0]) // self.groups * math.prod(self.window)

    def correlate(self, x: Tensor) -> Tensor:
        """Map images (n, C, *sides) to (n, D, *sides')."""
        if self.summed:
            return self._chunked(self._unfold, x, self.result)
        convolution = F.conv2d if len(self.window) == 2 else F.conv3d
        return convolution(x, self.weight, None, self.stride, self.padding, self.dilation, self.groups)

    def transposed(self, y: Tensor) -> Tensor:
        """Map (n, D, *sides') to (n, C, *sides): the adjoint of `correlate`."""
        if self.summed:
            return self._chunked(self._fold, y, self.image)
        if self.phases is not None:
            return self.phases(y)
        transposed = F.conv_transpose2d if len(self.window) == 2 else F.conv_transpose3d
        return transposed(y, self.weight, None, self.stride, self.padding, self._rest(), self.groups, self.dilation)

    def _rest(self) -> list[int]:
        """Count the rows and columns of the image that no window reaches, because the stride steps over them."""
        zipped = zip(
            self.image[1:],
            self.result[1:],
            self.padding,
            self.dilation,
            self.window,
            self.stride,
            strict=True,
        )
        return [size - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for size, out, p, d, k, s in zipped]

    @cached_property
    def phases(self) -> Phases | None:
        """Return the transposed direction as a plain convolution; None where it cannot be, or is cheaper as it is."""
        if len(self.window) > 2 or self.groups > 1 or self.dilation != (1, 1):
            return None
        if not all(pair[0] == pair[1] for pair in (self.stride, self.padding, self.window, self.result[1:])):
            return None
        if self.stride[0] == 1 and self.weight.device.type == "cpu":
            return None
        return Phases.of(self.weight, self.stride[0], self.padding[0], (self.image[1], self.image[2]), self.result[1])

    def _grouped(self) -> Tensor:
        """Return the weight as matrices, (groups, D/groups, C/groups·taps)."""
        return self.weight.reshape(self.groups, -1, self.fan_in)

    def _unfold(self, x: Tensor) -> Tensor:
        columns = self._columns(x)
        columns = columns.reshape(x.shape[0], self.groups, self.fan_in, -1)
        return (self._grouped() @ columns).reshape(x.shape[0], *self.result)

    def _fold(self, y: Tensor) -> Tensor:
        rows = y.reshape(y.shape[0], self.groups, self.weight.shape[0] // self.groups, -1)
        columns = self._grouped().mT @ rows
        columns = columns.reshape(y.shape[0], -1, columns.shape[-1])
        return self._summed(columns)

    def _columns(self, x: Tensor) -> Tensor:
        """Return the entries of every window, (n, C·taps, windows); a GPU's own unfold takes a batch one by one."""
        if any(self.padding):
            x = F.pad(x, [size for size in reversed(self.padding) for _ in (0, 1)])
        by_n, by_channel, *by_side = x.stride()
        taps = [by * apart for by, apart in zip(by_side, self.dilation, strict=True)]
        steps = [by * step for by, step in zip(by_side, self.stride, strict=True)]
        shape = (*x.shape[:2], *self.window, *self.result[1:])
        laid: Tensor = x.as_strided(shape, (by_n, by_channel, *taps, *steps))
        return laid.reshape(x.shape[0], x.shape[1] * math.prod(self.window), -1)

    def _summed(self, columns: Tensor) -> Tensor:
        """Add up the entries of every window (n, C·taps, windows) where they stand: the adjoint of `_columns`."""
        if len(self.window) == 2:
            return F.fold(columns, self.image[1:], self.window, self.dilation, self.padding, self.stride)
        n, (channels, depth, *plane) = columns.shape[0], self.image
        windows = self.result[1]
        columns = (
            columns.reshape(n, columns.shape[1], windows, -1).transpose(1, 2).reshape(n * windows, columns.shape[1], -1)
        )
        planes = F.fold(columns, tuple(plane), self.window[1:], self.dilation[1:], self.padding[1:], self.stride[1:])
        slices = planes.reshape(n, windows, channels, self.window[0], *plane).permute(0, 2, 3, 1, 4, 5)
        whole = columns.new_zeros(n, channels, depth + 2 * self.padding[0], *plane)
        index = self._slices.to(columns.device).reshape(-1)
        whole.index_add_(2, index, slices.reshape(n, channels, -1, *plane))
        return whole[:, :, self.padding[0] : self.padding[0] + depth]

    @property
    def _slices(self) -> Tensor:
        """Return which slice of the padded volume each tap of each window along the depth reads: (taps, windows)."""
        taps = torch.arange(self.window[0]) * self.dilation[0]
        return taps[:, None] + torch.arange(self.result[1]) * self.stride[0]

    def _chunked(self, apply: Callable[[Tensor], Tensor], x: Tensor, out: Shape) -> Tensor:
        """Apply a function to slices of the batch whose unfolded form is of bounded size."""
        if x.shape[0] == 0:
            return x.new_zeros(0, *out)
        entries = self.groups * self.fan_in * math.prod(self.result[1:])
        return in_chunks(apply, x, entries)

    def absolute(self) -> Kernel:
        return replace(self, weight=self.weight.abs())

    def to(self, device: torch.device, dtype: torch.dtype) -> Kernel:
        weight = self.weight.to(device, dtype)
        if weight.device.type == "cpu" and dtype == torch.float32 and weight.ndim == 4:
            # On CPUs the transposed convolution runs two to three times as fast in this layout.
            weight = weight.contiguous(memory_format=torch.channels_last)
        return replace(self, weight=weight)


@dataclass(frozen=True, eq=False)
class _Convolution(Affine):
    """What both directions share. Shapes are the nodes': (N, C, length), (N, C, height, width) or with a depth."""

    kernel: Kernel
    bias: Tensor | None  # (channels out,)
    in_shape: Shape
    out_shape: Shape
    radius: Affine | None = None

    def _image(self, x: Tensor, channels: Shape) -> Tensor:
        return x.reshape(-1, *channels) if x.shape[0] else x.new_zeros(0, *channels)

    def _with_bias(self, y: Tensor, batch: int) -> Tensor:
        if self.bias is not None:
            y = y + self.bias.reshape(-1, *(1 for _ in self.kernel.window))
        return y.reshape(batch, *self.out_shape)

    def offset(self) -> Tensor | None:
        if self.bias is None:
            return None
        return self.bias.reshape(-1, *(1 for _ in self.out_shape[2:]))

    def absolute(self) -> _Convolution:
        return replace(self, kernel=self.kernel.absolute(), bias=magnitude(self.bias), radius=None)

    def linear(self) -> _Convolution:
        return replace(self, bias=None, radius=None)

    def summed(self) -> _Convolution:
        return replace(self, kernel=replace(self.kernel, direct=True))

    @property
    def fan(self) -> int:
        return max(self.kernel.fan_in, self.kernel.fan_out) + (self.bias is not None)

    def to(self, device: torch.device, dtype: torch.dtype) -> _Convolution:
        radius = None if self.radius is None else self.radius.to(device, dtype)
        return replace(self, kernel=self.kernel.to(device, dtype), bias=moved(self.bias, device, dtype), radius=radius)


@dataclass(frozen=True, eq=False)
class Conv(_Convolution):
    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return self._with_bias(self.kernel.correlate(self._image(x, self.kernel.image)), x.shape[0])

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        image = self.kernel.transposed(self._image(coef, self.kernel.result))
        return (image.reshape(coef.shape[0], *self.in_shape),)


@dataclass(frozen=True, eq=False)
class ConvTranspose(_Convolution):
    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return self._with_bias(self.kernel.transposed(self._image(x, self.kernel.result)), x.shape[0])

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        image = self.kernel.correlate(self._image(coef, self.kernel.image))
        return (image.reshape(coef.shape[0], *self.in_shape),)
