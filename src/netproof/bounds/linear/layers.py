"""The packed neurons: those that are unstable at the root, layer after layer, in topological order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.relax import Lines, Relaxation
from netproof.relax.slots import in_all_slots, in_first_slots


@dataclass(frozen=True, eq=False)
class Layer:
    """The neurons of one nonlinear node that are unstable at the root.

    Where the node's function has several operands, each of them counts as a neuron here (`relax.slots`): all first
    operands come first, and the neurons themselves are known by these.
    """

    node: int  # the nonlinear node
    pre: int  # the node it reads: h
    index: Tensor  # (U_k,) their places in the flattened node `pre`
    start: int  # their place among all packed neurons
    relaxation: Relaxation

    @cached_property
    def arity(self) -> int:
        return self.relaxation.arity

    @cached_property
    def outputs(self) -> Tensor:
        """Return the places of the neurons in the flattened node, (U_k / arity,)."""
        return self.index[: self.count // self.arity]

    def in_first_slots(self, values: Tensor) -> Tensor:
        """Put what neurons have (*lead, U_k / arity) into their first slots, with 0 in the others: (*lead, U_k)."""
        return in_first_slots(self.arity, values)

    def in_all_slots(self, values: Tensor) -> Tensor:
        """Put what neurons have (*lead, U_k / arity) into all of their slots: (*lead, U_k)."""
        return in_all_slots(self.arity, values)

    @cached_property
    def count(self) -> int:
        return self.index.shape[0]

    @cached_property
    def packed(self) -> slice:
        return slice(self.start, self.start + self.count)


def settled_at(kink: float | None, sign: Tensor) -> Tensor:
    """Return the bound of sign·h past which a g with this kink is linear, inf without one; sign (n,): ±1."""
    return torch.full_like(sign, torch.inf) if kink is None else sign * kink


def alike(layers: Sequence[Layer]) -> list[tuple[Relaxation, slice]]:
    """Return runs of neurons with the same nonlinearity, and where they are packed."""
    runs: list[tuple[Relaxation, slice]] = []
    for layer in layers:
        if runs and layer.arity == 1 and runs[-1][0] == layer.relaxation:
            runs[-1] = (layer.relaxation, slice(runs[-1][1].start, layer.packed.stop))
        else:
            runs.append((layer.relaxation, layer.packed))
    return runs


def splittable(layers: Sequence[Layer], lower: Tensor, upper: Tensor) -> Tensor:
    """Say which neurons a split may help, for bounds (domain, U) of h: (domain, U) bool."""
    parts = [r.splittable(Interval(lower[:, packed], upper[:, packed])) for r, packed in alike(layers)]
    return parts[0] if len(parts) == 1 else torch.cat([lower[:, :0] > 0, *parts], 1)


def split_points(layers: Sequence[Layer], lower: Tensor, upper: Tensor, neurons: Tensor) -> Tensor | None:
    """Return where neurons (domain, k) are split, for bounds (domain, U) of h; None where that is 0 for all.

    Of a neuron of one operand it is asked for itself alone: finding the point may take a while.
    """
    if split_at_zero(layers):
        return None
    at = neurons.clamp(min=0)
    here = Interval(lower.gather(1, at), upper.gather(1, at))
    found = torch.zeros_like(here.lower)
    for relaxation, packed in alike(layers):
        if relaxation.arity == 1:
            point = relaxation.split_point(here)
        else:
            every = relaxation.split_point(Interval(lower[:, packed], upper[:, packed]))
            point = every.gather(1, (at - packed.start).clamp(0, every.shape[1] - 1))
        found = torch.where((at >= packed.start) & (at < packed.stop), point, found)
    return found


def split_at_zero(layers: Sequence[Layer]) -> bool:
    """Say whether 0 is where every neuron is split."""
    return all(layer.relaxation.kink == 0.0 for layer in layers)


def initial_slopes(layers: Sequence[Layer], lower: Tensor, upper: Tensor, *, parallel: bool = False) -> Tensor:
    """Return the parameters (domain, U) to start from, for bounds (domain, U) of h: CROWN's, or parallel lines."""
    parts = []
    for relaxation, packed in alike(layers):
        h = Interval(lower[:, packed], upper[:, packed])
        parts.append(relaxation.parallel(h) if parallel else relaxation.initial(h))
    return parts[0] if len(parts) == 1 else torch.cat([lower[:, :0], *parts], 1)


def lost(layers: Sequence[Layer], coef: Tensor, h: Interval, lines: Lines) -> Tensor:
    """Return what the lines of neurons take from bounds with coefficients (domain, U), roughly: (domain, U)."""
    parts = []
    for relaxation, packed in alike(layers):
        here = Interval(h.lower[:, packed], h.upper[:, packed])
        own = Lines(*(None if t is None else t[:, packed] for t in lines))  # type: ignore[arg-type]
        parts.append(relaxation.lost(coef[:, packed], here, own, free=True))
    return parts[0] if len(parts) == 1 else torch.cat([coef[:, :0], *parts], 1)
