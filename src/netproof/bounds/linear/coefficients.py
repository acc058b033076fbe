"""Coefficients of linear forms at one node of a graph: walks know no more of them than what is here.

`Dense` keeps a number for every entry of the node; `bounds/windows` keeps the window of a layer that a neuron reads.
`LinedGraph` says which kind its walks begin with; on the way it may become another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.ops import Affine
from netproof.relax import Lines


class Coefficients(ABC):
    """The coefficients of a batch of forms, (*lead) in shape, at one node."""

    @abstractmethod
    def zero(self) -> Tensor:
        """Return 0 for each form, (*lead)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """Return all of them, (*lead, *node)."""

    @abstractmethod
    def take(self, index: Tensor) -> Tensor:
        """Return those at entries (k,) of the flattened node: (*lead, k)."""

    def entries(self) -> tuple[Tensor | None, Tensor]:
        """Return of n forms all that may not be 0: places (n, k) in the flattened node, and the numbers there (n, k).

        No places: k are all entries of the node, in their order. What lies nowhere is 0, at any place.
        """
        return None, self.dense().flatten(1)

    @abstractmethod
    def dot(self, weight: Tensor) -> Tensor:
        """Return <coef, weight> for weight (*node): (*lead)."""

    @abstractmethod
    def size(self, weight: Tensor) -> Tensor:
        """Return <|coef|, weight> for weight (*node): (*lead)."""

    @abstractmethod
    def adjoint(self, op: Affine) -> Sequence[Coefficients]:
        """Carry them through an affine op: the coefficients of each node that it reads."""

    @abstractmethod
    def relaxed(self, lines: Lines, taken: Tensor | None, arity: int) -> tuple[Coefficients, list[Tensor]]:
        """Carry them through a nonlinear op by its lines: the coefficients of h, and terms (*lead) of the constant.

        lines broadcast to (*lead, *node); taken (*lead, *h): what is taken off the coefficients of h. Where `arity` is
        more than 1, h and the slopes have the operands first, (*lead, arity, *node).
        """

    @abstractmethod
    def plus(self, more: Coefficients) -> Coefficients:
        """Return the sum of both, which may be of different kinds."""


@dataclass(frozen=True, eq=False)
class Dense(Coefficients):
    """A number for every entry of the node."""

    values: Tensor  # (*lead, *node)
    rank: int  # the number of axes of the node

    @property
    def lead(self) -> torch.Size:
        return self.values.shape[: self.values.dim() - self.rank]

    def zero(self) -> Tensor:
        return self.values.new_zeros(self.lead)

    def dense(self) -> Tensor:
        return self.values

    def take(self, index: Tensor) -> Tensor:
        return self.values.flatten(len(self.lead))[..., index]

    def dot(self, weight: Tensor) -> Tensor:
        return _dot(self.values, weight, self.lead)

    def size(self, weight: Tensor) -> Tensor:
        return _dot(self.values.abs(), weight, self.lead)

    def adjoint(self, op: Affine) -> list[Dense]:
        lead = self.lead
        flat = op.adjoint(self.values.reshape(math.prod(lead), *self.values.shape[len(lead) :]))
        return [Dense(f.reshape(*lead, *f.shape[1:]), f.dim() - 1) for f in flat]

    def relaxed(self, lines: Lines, taken: Tensor | None, arity: int) -> tuple[Dense, list[Tensor]]:
        here, lead = self.values, len(self.lead)
        terms = [(here.clamp(max=0) * lines.upper_intercept).flatten(lead).sum(-1)]
        if lines.lower_intercept is not None:
            terms.append((here.clamp(min=0) * lines.lower_intercept).flatten(lead).sum(-1))
        here = here if arity == 1 else here.unsqueeze(lead)
        back = here * torch.where(here < 0, lines.upper_slope, lines.lower_slope)
        return Dense(back if taken is None else back - taken, self.rank + (arity > 1)), terms

    def plus(self, more: Coefficients) -> Dense:
        return Dense(self.values + more.dense(), self.rank)


def _dot(coef: Tensor, weight: Tensor, lead: torch.Size) -> Tensor:
    """Return <coef, weight> over the node's axes: (*lead, *node), (*node) -> (*lead)."""
    return (coef.reshape(math.prod(lead), weight.numel()) @ weight.reshape(-1)).reshape(lead)
