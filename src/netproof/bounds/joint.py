"""The dual function with bounds of neurons that are functions of the same θ (section 3.1 of the paper).

The bounds of some neurons are evaluated first, layer by layer, and the lines that the output's bound rests on are
drawn on them. In the search the gradient runs through both: each bound's own gradient comes from `Net.forward`, and
the chain rule joins them by way of the lines. In float64 with rounding charged, the same function is the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.bounds.domains import Domains, Known
from netproof.bounds.dual import Dual, DualPoint, by_logits, differentiable, first_logits
from netproof.bounds.linear.region import BoxRegion
from netproof.bounds.net import Net
from netproof.bounds.packed import Packed, families, lines_at
from netproof.bounds.scope import Scope
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.numerics import float32_outward, lowered
from netproof.relax import Lines

HIDDEN = 1e-5  # of its size: more than float32 tells of a bound


class Bounded(NamedTuple):
    """The bounds of the neurons (domain, U), and what D is on them (domain,)."""

    lower: Tensor
    upper: Tensor
    value: Tensor


@dataclass(frozen=True, eq=False)
class Joint:
    """D of a batch of sub-domains with the bounds of some of their neurons as functions of θ."""

    dual: Dual  # on the bounds that the sub-domains have
    known: Known
    rebound: Mapping[int, Tensor]  # by layer (domain, K): its neurons that are bounded again, U_k where there is none
    deadline: Deadline | None = None  # past which an evaluation gives up, by DeadlineExpired
    fresh: bool = False  # whether lines of hinges rest on the bounds found last, not on the best that is known

    @classmethod
    def of(
        cls,
        scope: Scope,
        domains: Domains,
        rebound: Mapping[int, Tensor],
        *,
        proof: bool,
        deadline: Deadline | None = None,
        fresh: bool = False,
    ) -> Joint:
        """Return the joint dual function, to search with or to prove with."""
        dual = Dual.of(scope, domains, proof=proof)
        return cls(dual, domains.known.to(dual.net.dtype), rebound, deadline, fresh)

    def at(self, theta: DualPoint) -> Bounded:
        """Evaluate at any point: the bounds of the neurons, and the output's bound on them."""
        lower, upper = self.neurons(theta)
        net, dual = self.dual.both_ways, self.dual
        if self.rebound:
            known = self.known._replace(lower=lower, upper=upper)
            dual = replace(dual, packed=Packed.of(net.layers, known, proof=net.proof))
        if net.proof:
            return Bounded(lower, upper, dual.at(theta).value)
        seed, lines = dual.mix(theta.weights), dual.packed.at(theta.slopes)
        return Bounded(lower, upper, differentiable(net, seed, lines, dual.region))

    def neurons(self, theta: DualPoint) -> tuple[Tensor, Tensor]:
        """Return the bounds (domain, U) of all neurons, those of some evaluated at this point."""
        lower, upper = self.known.lower, self.known.upper
        for depth, which in self.rebound.items():
            layer = self.dual.net.layers[depth]
            stretch = layer.relaxation.stretch if self.fresh else None
            sides = self._neurons(depth, lower, upper, theta)
            if stretch is not None and self.dual.net.proof:  # no further than rounding is charged for
                sides = torch.maximum(sides, -stretch * _sizes(self.known, layer.packed, which)[:, None])
            higher, lesser = (torch.fmax, torch.fmin) if stretch is None else (_latest, _latest)
            # A bound that is known already as well, but for its rounding, must not hide the gradient of a fresh one.
            hidden = HIDDEN if stretch is None and not self.dual.net.proof else 0.0
            lower = _merged(lower, layer.packed, which, sides[:, 0], higher, -hidden)
            upper = _merged(upper, layer.packed, which, -sides[:, 1], lesser, hidden)
            if self.dual.net.proof:  # what comes after rests on what is kept
                lower, upper = (side.to(lower.dtype) for side in float32_outward(lower, upper))
        if self.fresh and self.dual.net.proof:
            lower, upper = torch.fmax(lower, self.known.lower), torch.fmin(upper, self.known.upper)
        return lower, upper

    def _neurons(self, depth: int, lower: Tensor, upper: Tensor, theta: DualPoint) -> Tensor:
        """Return lower bounds of h and of −h of a layer's neurons that are bounded again: (domain, 2, K)."""
        net, start = self._parts[depth], self.dual.net.layers[depth].start
        forms, error = self._forms[depth]  # (domain, 2, K, columns), (domain, 1, K)
        own = theta.neurons.get(depth, theta.slopes[:, None, None, :start]).to(net.dtype).clamp(0.0, 1.0)
        before = Interval(lower[:, None, None, :start], upper[:, None, None, :start])
        lines = lines_at(families(net.layers, before, proof=net.proof), own)
        lead = forms.shape[:3]
        flat = Lines(*(None if t is None else t.expand(*lead, start).reshape(-1, start) for t in lines))  # type: ignore[arg-type]
        value = self._carried(net, forms.flatten(0, 2), flat, self._boxes[depth]).view(lead)
        return lowered(value, error) if net.proof else value

    def _carried(self, net: Net, forms: Tensor, lines: Lines, boxes: BoxRegion | None) -> Tensor:
        """Carry forms (n, columns) back; on a CPU some at a time, as many take longer than a deadline can wait."""
        most = len(forms) if forms.is_cuda else net.climbs_that_fit()
        if len(forms) <= most:
            return differentiable(net, forms, lines, boxes, self.deadline)
        found = []
        for some in torch.arange(len(forms), device=forms.device).split(most):
            mine = Lines(*(None if t is None else t[some] for t in lines))  # type: ignore[arg-type]
            region = None if boxes is None else boxes.select(some)
            found.append(differentiable(net, forms[some], mine, region, self.deadline))
        return torch.cat(found)

    @cached_property
    def _parts(self) -> dict[int, Net]:
        return {depth: self.dual.both_ways.upto(depth) for depth in self.rebound}

    @cached_property
    def _boxes(self) -> dict[int, BoxRegion | None]:
        """Return by layer, the boxes that the bounds of its neurons are over, one for each form."""
        every = torch.arange(len(self.known.lower), device=self.known.lower.device)
        counts = {depth: 2 * which.shape[1] for depth, which in self.rebound.items()}
        return {depth: self.dual.boxes(every.repeat_interleave(count)) for depth, count in counts.items()}

    @cached_property
    def _forms(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Return by layer h and −h of its neurons as forms (domain, 2, K, columns), and errors (domain, 1, K)."""
        found = {}
        for depth, which in self.rebound.items():
            real = which.clamp(max=self.dual.net.layers[depth].count - 1)  # a filler reads a real one, then is dropped
            forms, error = self.dual.both_ways.neurons(depth, real)
            found[depth] = torch.stack([forms, -forms], 1), error[:, None]
        return found

    # --- as the objective of an ascent ---

    def select(self, index: Tensor) -> Self:
        """Return the function of some sub-domains."""
        known = Known(*(None if t is None else t[index] for t in self.known))  # type: ignore[arg-type]
        rebound = {k: which[index] for k, which in self.rebound.items()}
        return replace(self, dual=self.dual.select(index), known=known, rebound=rebound)

    def start(self, theta: DualPoint) -> list[Tensor]:
        """Return the slopes of the output, those of the neurons by layer, and the rows' logits."""
        return [theta.slopes, *(theta.neurons[k] for k in sorted(theta.neurons)), first_logits(theta.weights)]

    def point(self, moving: Sequence[Tensor]) -> DualPoint:
        """Return the point that these parameters are; each layer that is bounded again has its own, or none has."""
        slopes, *neurons, logits = moving
        own = dict(zip(sorted(self.rebound), neurons, strict=True)) if neurons else {}
        return DualPoint(slopes, None, by_logits(logits, self.dual.valid), own)

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Recorded:
        """Evaluate D in the search, so that it can be differentiated."""
        leaves = [t.detach().requires_grad_(not last) for t in moving]
        with torch.set_grad_enabled(not last):
            bounded = self.at(self.point(leaves))
        return Recorded(bounded.value.detach(), bounded, leaves, None)

    def gradient(self, moving: Sequence[Tensor], seen: Recorded) -> list[Tensor]:
        """Return the gradient through the bounds of the neurons."""
        total, index = seen.bounded.value, seen.left
        found = torch.autograd.grad((total if index is None else total[index]).sum(), seen.leaves, allow_unused=True)
        full = [torch.zeros_like(t) if g is None else g for t, g in zip(seen.leaves, found, strict=True)]
        return full if index is None else [g[index] for g in full]

    def project_(self, moving: Sequence[Tensor]) -> None:
        """Take slopes into their range, in place."""
        for t in moving[:-1]:
            t.clamp_(0.0, 1.0)


class Recorded(NamedTuple):
    """A value with the tape that it was computed on."""

    value: Tensor  # (domain,)
    bounded: Bounded
    leaves: list[Tensor]
    left: Tensor | None  # the sub-domains on the tape that are still asked for; None: all

    def select(self, index: Tensor) -> Recorded:
        """Return that of some sub-domains."""
        return self._replace(value=self.value[index], left=index if self.left is None else self.left[index])


def _sizes(known: Known, column: slice, which: Tensor) -> Tensor:
    """Return the largest |h| of a layer's neurons (domain, K), by what is known."""
    largest = torch.maximum(known.lower[:, column].abs(), known.upper[:, column].abs())
    return F.pad(largest, (0, 1)).gather(1, which)


def _latest(old: Tensor, fresh: Tensor) -> Tensor:
    return torch.where(fresh.isnan(), old, fresh)


def _merged(
    known: Tensor,
    column: slice,
    which: Tensor,
    fresh: Tensor,
    better: Callable[[Tensor, Tensor], Tensor],
    hidden: float,
) -> Tensor:
    """Return the better of what is known (domain, U) and fresh (domain, K) at a layer's neurons; never a NaN.

    hidden: the share of its size by which what is known is moved first.
    """
    padded = F.pad(known[:, column], (0, 1))
    old = padded.gather(1, which)
    merged = padded.scatter(1, which, better(old + hidden * (1.0 + old.abs()) if hidden else old, fresh))[:, :-1]
    return torch.cat([known[:, : column.start], merged, known[:, column.stop :]], 1)
