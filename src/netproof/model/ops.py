"""What a node of a network may be.

Every tensor here has one leading axis for the batch of evaluation and then the node's own shape, which is
the tensor's shape in the model file, literally: a batch axis that the file fixes at 1 or leaves symbolic
stays there as an axis of size 1. So no operator needs to know which of its axes was "the batch".

An affine op gives its forward map, its adjoint, and what bounds on its rounding need. A nonlinear op gives its
forward map, its derivative and its rounding; its relaxation lives in `netproof.relax`.

Weights are kept in float64, which holds every float16, float32 and float64 weight exactly. `to` makes the
copies that compute: float32 for the search, float64 for proofs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Op(ABC):
    """One operator. Subclasses are frozen dataclasses; tensors in them are never written to."""

    @abstractmethod
    def forward(self, *xs: Tensor) -> Tensor:
        """Evaluate the op: (batch, *in_shape) for each input -> (batch, *out_shape)."""

    def to(self, device: torch.device, dtype: torch.dtype) -> Op:
        """Return the same op with its tensors on `device` as `dtype`."""
        return self


class Affine(Op):
    """y = sum_i W_i x_i + b."""

    @abstractmethod
    def adjoint(self, coef: Tensor) -> tuple[Tensor, ...]:
        """Return W^T coef: (batch, *out_shape) -> one (batch, *in_shape) for each input."""

    def offset(self) -> Tensor | None:
        """Return b, broadcastable to out_shape; None when it is zero."""
        return None

    def absolute(self) -> Affine:
        """Return the op with |W| and |b|. (W of a data movement is 0/1, so it is its own absolute.)"""
        return self

    def linear(self) -> Affine:
        """Return the op without b; it has no radius of its own."""
        return self

    def summed(self) -> Affine:
        """Return the op with every result a plain sum of products in any precision, for which γ_n holds."""
        return self

    @property
    def fan(self) -> int:
        """Return the length of the longest sum of products in forward or adjoint; 0 when nothing is rounded."""
        return 0

    @property
    def radius(self) -> Affine | None:
        """Return an op with non-negative weights: |exact op − this op|(x) ≤ radius.forward(|x|).

        None when the stored weights are exactly the file's; folded constants (batch norm) need one.
        """
        return None

    def to(self, device: torch.device, dtype: torch.dtype) -> Affine:
        return self


class Nonlinear(Op):
    """A function of every entry of one input; of several operands, where `arity` is more than 1.

    Then the input holds them one after the other: (arity, *out_shape).
    """

    arity: int = 1

    @abstractmethod
    def pull_back(self, coef: Tensor, x: Tensor) -> Tensor:
        """Return coef · f'(x), (batch, *in_shape), elementwise; at a kink, with the derivative on its left."""

    @abstractmethod
    def error(self, x: Tensor, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Bound how far f, computed in `dtype` from a value within e of x, may be from the exact f(x)."""


class Input(Op):
    """The network's input; node 0 of every graph."""

    def forward(self, *xs: Tensor) -> Tensor:
        (x,) = xs
        return x
