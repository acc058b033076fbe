"""Affine ops with weights: matrix products, elementwise scaling, sums of branches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.ops import Affine


def moved(tensor: Tensor | None, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(device, dtype)


def magnitude(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.abs()


@dataclass(frozen=True, eq=False)
class Linear(Affine):
    """y = x W^T + b along the last axis, whatever stands before it."""

    weight: Tensor  # (out, in)
    bias: Tensor | None = None  # (out,)
    radius: Affine | None = None

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return F.linear(x, self.weight, self.bias)

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef @ self.weight,)

    def offset(self) -> Tensor | None:
        return self.bias

    def absolute(self) -> Linear:
        return Linear(self.weight.abs(), magnitude(self.bias))

    def linear(self) -> Linear:
        return Linear(self.weight)

    @property
    def fan(self) -> int:
        rows, columns = self.weight.shape
        return max(rows, columns + (self.bias is not None))

    def to(self, device: torch.device, dtype: torch.dtype) -> Linear:
        radius = None if self.radius is None else self.radius.to(device, dtype)
        return Linear(self.weight.to(device, dtype), moved(self.bias, device, dtype), radius)


@dataclass(frozen=True, eq=False)
class Matrices(Affine):
    """y = x W for each matrix of a batch: (*batch, n, in) by (*batch, in, out); W broadcasts to x's batch."""

    weight: Tensor  # (*batch, in, out), of the axes of the batch some or all
    radius: Affine | None = None

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x @ self.weight

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef @ self.weight.mT,)

    def absolute(self) -> Matrices:
        return Matrices(self.weight.abs())

    def linear(self) -> Matrices:
        return Matrices(self.weight)

    @property
    def fan(self) -> int:
        return max(self.weight.shape[-2:])

    def to(self, device: torch.device, dtype: torch.dtype) -> Matrices:
        radius = None if self.radius is None else self.radius.to(device, dtype)
        return Matrices(self.weight.to(device, dtype), radius)


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """y = mult · x + add, elementwise; both broadcast to x's shape, never beyond it."""

    mult: Tensor | None = None
    add: Tensor | None = None
    radius: Affine | None = None

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        if self.mult is not None:
            x = x * self.mult
        return x if self.add is None else x + self.add

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return (coef if self.mult is None else coef * self.mult,)

    def offset(self) -> Tensor | None:
        return self.add

    def absolute(self) -> Scale:
        return Scale(magnitude(self.mult), magnitude(self.add))

    def linear(self) -> Scale:
        return Scale(self.mult)

    @property
    def fan(self) -> int:
        return (self.mult is not None) + (self.add is not None)

    def to(self, device: torch.device, dtype: torch.dtype) -> Scale:
        radius = None if self.radius is None else self.radius.to(device, dtype)
        return Scale(moved(self.mult, device, dtype), moved(self.add, device, dtype), radius)


@dataclass(frozen=True, eq=False)
class Sum(Affine):
    """y = Σ sign_i · x_i over branches of one shape; each sign is +1 or −1."""

    signs: tuple[int, ...]

    def forward(self, *xs: Tensor) -> Tensor:
        total = xs[0] if self.signs[0] > 0 else -xs[0]
        for sign, x in zip(self.signs[1:], xs[1:], strict=True):
            total = total + x if sign > 0 else total - x
        return total

    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        return tuple(coef if sign > 0 else -coef for sign in self.signs)

    def absolute(self) -> Sum:
        return replace(self, signs=tuple(abs(sign) for sign in self.signs))

    @property
    def fan(self) -> int:
        return len(self.signs)
