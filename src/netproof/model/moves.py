"""Ops that move numbers, and the two that a broadcast needs: expand, and sum over axes.

Axes are the node's own, counted from 0 without the axis of evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.affine import magnitude, moved
from netproof.model.ops import Affine

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reshape(Affine):
    in_shape: Shape
    out_shape: Shape

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.reshape(x.shape[0], *self.out_shape)

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef.reshape(coef.shape[0], *self.in_shape),)


@dataclass(frozen=True, eq=False)
class Transpose(Affine):
    perm: Shape

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.permute(0, *(axis + 1 for axis in self.perm))

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        inverse = sorted(range(len(self.perm)), key=self.perm.__getitem__)
        return (coef.permute(0, *(axis + 1 for axis in inverse)),)


@dataclass(frozen=True, eq=False)
class Expand(Affine):
    """Broadcast to `out_shape`; both shapes have the same number of axes."""

    in_shape: Shape
    out_shape: Shape

    @cached_property
    def axes(self) -> Shape:
        pairs = zip(self.in_shape, self.out_shape, strict=True)
        return tuple(axis for axis, (a, b) in enumerate(pairs) if a != b)

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.expand(x.shape[0], *self.out_shape)

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef.sum(dim=[axis + 1 for axis in self.axes], keepdim=True) if self.axes else coef,)

    @property
    def fan(self) -> int:
        return math.prod(self.out_shape[axis] for axis in self.axes) if self.axes else 0


@dataclass(frozen=True, eq=False)
class SumAxes(Affine):
    """The sum over `axes`, which stay with size 1: the adjoint of Expand."""

    in_shape: Shape
    axes: Shape

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x.sum(dim=[axis + 1 for axis in self.axes], keepdim=True) if self.axes else x

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef.expand(coef.shape[0], *self.in_shape),)

    @property
    def fan(self) -> int:
        return math.prod(self.in_shape[axis] for axis in self.axes) if self.axes else 0


@dataclass(frozen=True, eq=False)
class Index(Affine):
    """Entries `index` along `axis`, in that order, repeats allowed."""

    axis: int
    index: Tensor  # (n,) int64, non-negative
    size: int  # of the axis before

    def __post_init__(self) -> None:
        _ = self.progression, self._repeats  # read the index now: later it may lie on a device that is busy

    @cached_property
    def progression(self) -> tuple[int, int] | None:
        """Return (start, step) when the entries are equally spaced and rise; else None."""
        index = self.index.tolist()
        step = index[1] - index[0] if len(index) > 1 else 1
        evenly = step > 0 and index == list(range(index[0], index[0] + step * len(index), step))
        return (index[0], step) if evenly else None

    @cached_property
    def _run(self) -> tuple[int, int] | None:
        """Return (start, length) when the entries are consecutive, so that no index or copy is needed; else None."""
        if self.progression is None or self.progression[1] != 1:
            return None
        return self.progression[0], len(self.index)

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        if self._run is not None:
            return x.narrow(self.axis + 1, *self._run)
        return x.index_select(self.axis + 1, self.index)

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        dim = self.axis + 1
        if self._run is not None:
            start, length = self._run
            after = [0, 0] * (coef.ndim - 1 - dim)
            return (F.pad(coef, [*after, start, self.size - start - length]),)
        shape = [*coef.shape[:dim], self.size, *coef.shape[dim + 1 :]]
        return (coef.new_zeros(shape).index_add(dim, self.index, coef),)

    @cached_property
    def _repeats(self) -> int:
        return int(self.index.bincount().max())

    @property
    def fan(self) -> int:
        return self._repeats if self._repeats > 1 else 0

    def to(self, device: torch.device, dtype: torch.dtype) -> Index:
        return replace(self, index=self.index.to(device))


@dataclass(frozen=True, eq=False)
class Pad(Affine):
    """A frame of `value` around the node; a negative pad crops."""

    in_shape: Shape
    before: Shape
    after: Shape
    value: Tensor | None = None  # a scalar; None is zero

    @cached_property
    def _pads(self) -> list[int]:
        """Return the pads in torch's order: the last axis first."""
        pairs = zip(reversed(self.before), reversed(self.after), strict=True)
        return [pad for pair in pairs for pad in pair]

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return F.pad(x, self._pads, value=0.0 if self.value is None else float(self.value))

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (F.pad(coef, [-pad for pad in self._pads]),)

    def offset(self) -> Tensor | None:
        if self.value is None:
            return None
        return F.pad(self.value.new_zeros(self.in_shape), self._pads, value=float(self.value))

    def absolute(self) -> Pad:
        return replace(self, value=magnitude(self.value))

    def linear(self) -> Pad:
        return replace(self, value=None)

    def to(self, device: torch.device, dtype: torch.dtype) -> Pad:
        return replace(self, value=moved(self.value, device, dtype))


@dataclass(frozen=True, eq=False)
class Concat(Affine):
    """Branches and constants joined along `axis`; a part that is None is the next branch."""

    axis: int
    sizes: Shape  # of each part along the axis
    parts: tuple[Tensor | None, ...]  # a constant has the node's shape, less along the axis

    def forward(self, *xs: Tensor) -> Tensor:
        branches = iter(xs)
        batch = xs[0].shape[0]
        pieces = [next(branches) if p is None else p.expand(batch, *p.shape) for p in self.parts]
        return torch.cat(pieces, dim=self.axis + 1)

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        pieces = torch.split(coef, list(self.sizes), dim=self.axis + 1)
        return tuple(piece for piece, part in zip(pieces, self.parts, strict=True) if part is None)

    def offset(self) -> Tensor | None:
        some = next((part for part in self.parts if part is not None), None)
        if some is None:
            return None
        rest = list(some.shape)
        pieces = []
        for size, part in zip(self.sizes, self.parts, strict=True):
            rest[self.axis] = size
            pieces.append(some.new_zeros(rest) if part is None else part)
        return torch.cat(pieces, dim=self.axis)

    def absolute(self) -> Concat:
        return replace(self, parts=tuple(magnitude(part) for part in self.parts))

    def linear(self) -> Concat:
        zeros = tuple(None if part is None else torch.zeros_like(part) for part in self.parts)
        return replace(self, parts=zeros)

    def to(self, device: torch.device, dtype: torch.dtype) -> Concat:
        return replace(self, parts=tuple(moved(part, device, dtype) for part in self.parts))
