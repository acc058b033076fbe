"""One dual function: a dual point of each sub-domain, and the certified lower bound that it gives.

Climbing, confirming, trying a split and bounding a neuron again are all this: choose θ, evaluate D(θ).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from netproof.bounds.domains import Domains, Known
from netproof.bounds.linear.region import BoxRegion
from netproof.bounds.net import Net, Pulled, RelaxedNet
from netproof.bounds.packed import Lagrangian, Packed, some
from netproof.bounds.planes.planes import Above
from netproof.bounds.scope import Scope
from netproof.core.deadline import Deadline
from netproof.numerics import lowered
from netproof.relax import Lines

LEAST_WEIGHT = 0.02  # that a row starts with: from next to nothing it would take many steps to come back,
LEAST_OF_ALL = 0.1  # and all rows together, so that many do not hide the few that count


@dataclass(frozen=True, eq=False)
class DualPoint:
    """θ of a batch of sub-domains. Any is sound once `Dual` has taken it into its range."""

    slopes: Tensor  # (domain, U) in [0, 1]: the parameters of the packed neurons' lines
    multipliers: Tensor | None  # (domain, U): β of each split; None where nothing is split
    weights: Tensor  # (domain, row): λ of the rows
    # By layer (domain, 2, K or 1, U'): parameters for the lower and upper bounds of neurons that are bounded again.
    neurons: Mapping[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, domains: Domains) -> DualPoint:
        """Return what sub-domains keep, to start from."""
        return cls(domains.slopes, domains.multipliers, domains.weights)


class Evaluated(NamedTuple):
    """What D is at a point; in a proof, `value` has every rounding taken off."""

    value: Tensor  # (domain,)
    pulled: Pulled
    weights: Tensor  # (domain, row)

    def select(self, index: Tensor) -> Evaluated:
        """Return that of some sub-domains."""
        return Evaluated(self.value[index], self.pulled.select(index), self.weights[index])


@dataclass(frozen=True, eq=False)
class Dual:
    """D of a batch of sub-domains on given bounds of their neurons: the bound of Σ_j λ_j r_j, rows r_j of each."""

    net: RelaxedNet
    forms: Tensor  # (domain, row, columns), or (1, row, columns) where all share them; one row: λ is 1
    error: Tensor  # (domain, row): what the forms may be off by
    valid: Tensor  # (domain, row) bool: the others are padding
    packed: Packed
    region: BoxRegion | None = None  # the boxes that sub-domains lie in; None: the whole input set
    above: Above | None = None  # planes of the first layer's neurons; None: there are none

    @classmethod
    def of(cls, scope: Scope, domains: Domains, *, proof: bool) -> Dual:
        """Return the dual function of sub-domains of a scope, to search with or to prove with."""
        return cls.on(scope.net64 if proof else scope.net32, scope.valid, domains)

    @classmethod
    def on(cls, net: RelaxedNet, valid: Tensor, domains: Domains) -> Dual:
        """Return that of sub-domains of a network; valid (target, row): which of its rows are no padding."""
        target, known = domains.target, domains.known.to(net.dtype)
        packed, region = Packed.of(net.layers, known, proof=net.proof), net.over(known.inside)
        shared = net.rows.shape[0] == 1 < net.rows.shape[1]  # many rows for each sub-domain would take much memory
        rows = net.rows if shared else net.rows[target]
        above = None if net.planes is None else net.planes.of(target)
        return cls(net, rows, net.error[target], valid[target], packed, region, above)

    @classmethod
    def of_forms(cls, net: Net, forms: Tensor, error: Tensor, known: Known) -> Dual:
        """Return that of forms (n, columns) with errors (n,), each where something is known of the neurons."""
        one = torch.ones(len(forms), 1, dtype=torch.bool, device=forms.device)
        packed = Packed.of(net.layers, known.to(net.dtype), proof=net.proof)
        rows, off = forms.to(net.dtype)[:, None], error.to(net.dtype)[:, None]
        return cls(net, rows, off, one, packed, net.over(known.inside))

    @property
    def both_ways(self) -> Net:
        """Return the network where it has a pass forward too: any but one to prove with in float32."""
        assert isinstance(self.net, Net)
        return self.net

    @property
    def free(self) -> bool:
        """Say whether there are weights to choose."""
        return self.forms.shape[1] > 1

    def select(self, index: Tensor) -> Dual:
        """Return the function of some sub-domains."""
        forms, error, valid = some(self.forms, index), self.error[index], self.valid[index]
        above = None if self.above is None else self.above.select(index)
        return Dual(self.net, forms, error, valid, self.packed.select(index), self.boxes(index), above)

    def boxes(self, index: Tensor) -> BoxRegion | None:
        """Return the boxes that the sub-domains at `index` lie in; None: all of the input set."""
        return None if self.region is None else self.region.select(index)

    def mix(self, weights: Tensor) -> Tensor:
        """Return Σ_j λ_j r_j as forms (domain, columns)."""
        if not self.free:
            return self.forms[:, 0]
        if len(self.forms) == 1:
            return weights @ self.forms[0]
        return torch.bmm(weights[:, None], self.forms)[:, 0]

    def rows_at(self, values: Tensor) -> Tensor:
        """Return what the rows are where the columns have these values (domain, columns): (domain, row)."""
        if len(self.forms) == 1:
            return values @ self.forms[0].mT
        return torch.bmm(self.forms, values[:, :, None])[:, :, 0]

    def at(self, theta: DualPoint) -> Evaluated:
        """Evaluate D at any point: parameters are taken into their range first."""
        dtype = self.net.dtype
        weights = simplex(theta.weights.to(dtype), self.valid)
        slopes, beta = theta.slopes.to(dtype).clamp(0.0, 1.0), theta.multipliers
        beta = None if beta is None else self.packed.project_(beta.to(dtype, copy=True))
        pulled = self._pull(slopes, beta, weights)
        return Evaluated(self.less(pulled.value, weights) if self.net.proof else pulled.value, pulled, weights)

    def with_lines(self, theta: DualPoint, origin: Tensor, lines: Lines) -> Tensor:
        """Return D (n,) of the sub-domains at `origin` (n,) at their points, with other lines (n, U) of the neurons."""
        seed = self.mix(theta.weights)[origin]
        beta = None if theta.multipliers is None else theta.multipliers[origin]
        lift = None if self.above is None else self.above.select(origin).lift(theta.slopes[origin], lines)
        relaxed = self.packed.splits(origin).lagrangian(lines, beta, self.boxes(origin), lift)
        return self.net.backward(seed, relaxed).value

    def _pull(self, slopes: Tensor, beta: Tensor | None, weights: Tensor) -> Pulled:
        lines = self.packed.at(slopes)
        lift = None if self.above is None else self.above.lift(slopes, lines)
        return self.net.backward(self.mix(weights), self.packed.lagrangian(lines, beta, self.region, lift))

    def less(self, value: Tensor, weights: Tensor) -> Tensor:
        """Return a proof's value (domain,) less what the rows may be off by, and the rounding of their mix."""
        off = (weights * self.error).sum(1)
        if self.free:
            charge, lost = self.net.mixing(self.forms.shape[1])
            off = off + (weights * (self.forms.abs() @ charge)).sum(1) + lost
        return lowered(value, off)

    # --- as the objective of an ascent ---

    def start(self, theta: DualPoint) -> list[Tensor]:
        """Return slopes and multipliers as one tensor (domain, 1 or 2, U), and the rows' logits where they are free."""
        beta = theta.multipliers
        moving = torch.stack([theta.slopes] if beta is None else [theta.slopes, beta], 1)
        moving[:, 0].clamp_(0.0, 1.0)
        return [moving, first_logits(theta.weights)] if self.free else [moving]

    def point(self, moving: Sequence[Tensor]) -> DualPoint:
        """Return the point that these parameters are."""
        beta = moving[0][:, 1] if moving[0].shape[1] > 1 else None
        return DualPoint(moving[0][:, 0], beta, self._weights(moving))

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Evaluated:
        """Evaluate D in the search."""
        weights = self._weights(moving)
        beta = moving[0][:, 1] if moving[0].shape[1] > 1 else None
        pulled = self._pull(moving[0][:, 0], beta, weights)
        return Evaluated(pulled.value, pulled, weights)

    def gradient(self, moving: Sequence[Tensor], seen: Evaluated) -> list[Tensor]:
        """Return the gradient, from one pass forward at the minimiser."""
        there = self.both_ways.forward(seen.pulled)
        h, values, _ = there
        slope = torch.empty_like(moving[0])
        self.packed.gradient(moving[0][:, 0], seen.pulled.after, h, slope[:, 0])
        seen.pulled.add_gain_(there, slope[:, 0])
        if slope.shape[1] > 1:
            self.packed.multiplier_gradient(moving[0][:, 1], h, slope[:, 1])
        if not self.free:
            return [slope]
        each = self.rows_at(values)  # ∂D/∂λ_j = r_j at the minimiser
        return [slope, seen.weights * (each - (seen.weights * each).sum(1, keepdim=True))]

    def project_(self, moving: Sequence[Tensor]) -> None:
        """Take parameters into their range, in place."""
        moving[0][:, 0].clamp_(0.0, 1.0)
        if moving[0].shape[1] > 1:
            self.packed.project_(moving[0][:, 1])

    def _weights(self, moving: Sequence[Tensor]) -> Tensor:
        return by_logits(moving[1], self.valid) if self.free else self._ones

    @cached_property
    def _ones(self) -> Tensor:
        return torch.ones_like(self.error)


def differentiable(
    net: Net, seed: Tensor, lines: Lines, region: BoxRegion | None, deadline: Deadline | None = None
) -> Tensor:
    """Carry forms (n, columns) back by lines (n, U): their bounds (n,), differentiable in forms and lines.

    Past the deadline DeadlineExpired is raised, here and by the derivative.
    """
    if deadline is not None:
        deadline.check()
    value: Tensor = _Carry.apply(net, region, deadline, seed, *lines)  # type: ignore[no-untyped-call]
    return value


class _Carry(torch.autograd.Function):
    """`Net.backward` with `Net.forward` as its derivative, so that no tape of the passes is kept."""

    @staticmethod
    def forward(ctx: Any, net: Net, region: Any, deadline: Any, seed: Tensor, *lines: Any) -> Tensor:
        pulled = net.backward(seed, Lagrangian(Lines(*lines), region=region))
        ctx.deadline = deadline
        ctx.net, ctx.pulled = net, pulled._replace(value=pulled.value.detach())  # not itself: that would be a cycle
        return pulled.value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.deadline is not None:
            ctx.deadline.check()
        h, values, _ = ctx.net.forward(ctx.pulled)
        after, grad = ctx.pulled.after, grad[:, None]
        rises, falls = after.clamp(min=0) * grad, after.clamp(max=0) * grad
        drop = None if ctx.pulled.lines.lower_intercept is None else rises
        return None, None, None, values * grad, rises * h, falls * h, falls, drop


def first_logits(weights: Tensor) -> Tensor:
    """Return where the rows' weights (domain, row) are climbed from."""
    return weights.clamp(min=min(LEAST_WEIGHT, LEAST_OF_ALL / weights.shape[1])).log()


def by_logits(logits: Tensor, valid: Tensor) -> Tensor:
    """Return λ (domain, row) on the simplex of the valid rows."""
    return torch.where(valid, logits, -torch.inf).softmax(1)


def simplex(weights: Tensor, valid: Tensor) -> Tensor:
    """Return the weights (domain, row), not negative, as λ on the simplex of the valid rows."""
    kept = torch.where(valid, weights.clamp(min=0.0), 0.0)
    return kept / kept.sum(1, keepdim=True)
