"""Convolutions. A transposed convolution is the same kernel with forward and adjoint exchanged.

In float64, the arithmetic of proofs, both directions are matrix products with unfold and fold: direct sums,
for which the error bound γ_n holds. (Libraries are free to run a convolution by Winograd or FFT, for which it
does not.) In float32, the arithmetic of the search, they are whatever is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.affine import magnitude, moved
from netproof.model.ops import Affine
from netproof.model.phases import Phases

Pair = tuple[int, int]
Shape = tuple[int, ...]

UNFOLD_LIMIT = 1 << 26  # entries of an unfolded chunk: 512 MiB in float64


@dataclass(frozen=True, eq=False)
class Kernel:
    """A 2-D correlation from images (C, H, W) to images (D, H', W'), without bias."""

    weight: Tensor  # (D, C/groups, kh, kw)
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    image: tuple[int, int, int]  # (C, H, W)

    @property
    def window(self) -> Pair:
        return (int(self.weight.shape[2]), int(self.weight.shape[3]))

    @property
    def result(self) -> tuple[int, int, int]:
        """Return the shape of the result, (D, H', W')."""
        _, height, width = self.image
        sides = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, p, d, k, s in zip(
                (height, width), self.padding, self.dilation, self.window, self.stride, strict=True
            )
        ]
        return (int(self.weight.shape[0]), sides[0], sides[1])

    @property
    def fan_in(self) -> int:
        return math.prod(self.weight.shape[1:])

    @property
    def fan_out(self) -> int:
        return int(self.weight.shape[0]) // self.groups * math.prod(self.window)

    def correlate(self, x: Tensor) -> Tensor:
        """Map images (n, C, H, W) to (n, D, H', W')."""
        if self.weight.dtype == torch.float64:
            return self._chunked(self._unfold, x, self.result)
        return F.conv2d(x, self.weight, None, self.stride, self.padding, self.dilation, self.groups)

    def transposed(self, y: Tensor) -> Tensor:
        """Map (n, D, H', W') to (n, C, H, W): the adjoint of `correlate`."""
        if self.weight.dtype == torch.float64:
            return self._chunked(self._fold, y, self.image)
        if self.phases is not None:
            return self.phases(y)
        return F.conv_transpose2d(
            y, self.weight, None, self.stride, self.padding, self._rest(), self.groups, self.dilation
        )

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
        same = all(pair[0] == pair[1] for pair in (self.stride, self.padding, self.window, self.result[1:]))
        if not same or self.groups > 1 or self.dilation != (1, 1):
            return None
        if self.stride[0] == 1 and self.weight.device.type == "cpu":
            return None
        return Phases.of(self.weight, self.stride[0], self.padding[0], self.image[1:], self.result[1])

    def _grouped(self) -> Tensor:
        """Return the weight as matrices, (groups, D/groups, C/groups·kh·kw)."""
        return self.weight.reshape(self.groups, -1, self.fan_in)

    def _unfold(self, x: Tensor) -> Tensor:
        columns = F.unfold(x, self.window, self.dilation, self.padding, self.stride)
        columns = columns.reshape(x.shape[0], self.groups, self.fan_in, -1)
        return (self._grouped() @ columns).reshape(x.shape[0], *self.result)

    def _fold(self, y: Tensor) -> Tensor:
        rows = y.reshape(y.shape[0], self.groups, self.weight.shape[0] // self.groups, -1)
        columns = self._grouped().mT @ rows
        columns = columns.reshape(y.shape[0], -1, columns.shape[-1])
        return F.fold(columns, self.image[1:], self.window, self.dilation, self.padding, self.stride)

    def _chunked(self, apply: Callable[[Tensor], Tensor], x: Tensor, out: Shape) -> Tensor:
        """Apply a function to slices of the batch whose unfolded form is of bounded size."""
        if x.shape[0] == 0:
            return x.new_zeros(0, *out)
        entries = self.groups * self.fan_in * self.result[1] * self.result[2]
        pieces = [apply(chunk) for chunk in torch.split(x, max(1, UNFOLD_LIMIT // max(1, entries)))]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def absolute(self) -> Kernel:
        return replace(self, weight=self.weight.abs())

    def to(self, device: torch.device, dtype: torch.dtype) -> Kernel:
        weight = self.weight.to(device, dtype)
        if weight.device.type == "cpu" and dtype == torch.float32:
            # On CPUs the transposed convolution runs two to three times as fast in this layout.
            weight = weight.contiguous(memory_format=torch.channels_last)
        return replace(self, weight=weight)


@dataclass(frozen=True, eq=False)
class _Convolution(Affine):
    """What both directions share. Shapes are the nodes', (N, C, length) or (N, C, height, width)."""

    kernel: Kernel
    bias: Tensor | None  # (channels out,)
    in_shape: Shape
    out_shape: Shape
    radius: Affine | None = None

    def _image(self, x: Tensor, channels: tuple[int, int, int]) -> Tensor:
        return x.reshape(-1, *channels) if x.shape[0] else x.new_zeros(0, *channels)

    def _with_bias(self, y: Tensor, batch: int) -> Tensor:
        if self.bias is not None:
            y = y + self.bias[:, None, None]
        return y.reshape(batch, *self.out_shape)

    def offset(self) -> Tensor | None:
        if self.bias is None:
            return None
        return self.bias.reshape(-1, *(1 for _ in self.out_shape[2:]))

    def absolute(self) -> _Convolution:
        return replace(self, kernel=self.kernel.absolute(), bias=magnitude(self.bias), radius=None)

    def linear(self) -> _Convolution:
        return replace(self, bias=None, radius=None)

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
