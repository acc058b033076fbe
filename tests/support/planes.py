"""Planes above a first layer: small networks that have some, and what a bound with them is in rational arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.base import root_domains
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.condensed.single import Single
from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.net import Pulled
from netproof.bounds.neurons.root import Root
from netproof.bounds.packed import Lagrangian
from netproof.bounds.planes.planes import Lift, Planes
from netproof.bounds.planes.reads import Reads
from netproof.relax import Lines
from support.awkward import GraphBuilder
from support.condensed import HAIR, lines_of, plain_root
from support.problems import box_problem
from support.rational import Exact, exact

DOUBLE = torch.float64


def beside(weight: np.ndarray, bias: np.ndarray | None = None, lower: float = -HAIR, upper: float = 1.0) -> Root:
    """Return the root of relu(weight·x + bias) with x itself beside it, so that forms are over x and these neurons."""
    build = GraphBuilder(1, weight.shape[1])
    node = build.concat(build.relu(build.linear(0, weight, bias)), 0)
    build.linear(node, np.ones((1, build.nodes[node].size)))
    root = plain_root(box_problem(build.finish(), lower, upper))
    assert root.count == len(weight)
    assert root.condensed64.trunk.node == 0
    return root


def reads_by_hand(root: Root) -> Reads:
    """Return what the first layer reads, dense."""
    reads = root.reads
    assert reads is not None
    assert reads.places is None
    return reads


def planes_by_hand(
    reads: Reads, slope: np.ndarray, height: np.ndarray | float = 0.0, *, single: bool = False
) -> Planes:
    """Return planes of given heights, above neurons or not: slope (n, J, K), height broadcastable to (n, J)."""
    flat = torch.from_numpy(np.broadcast_to(np.asarray(height, np.float64), slope.shape[:2]).copy())
    at = reads.about_centre if single else reads
    return Planes(at, torch.from_numpy(slope).to(torch.float32 if single else DOUBLE), flat)


def bare(net: Condensed) -> Condensed:
    """Return the same without what is charged where there are no planes."""
    charges = net.charges
    assert charges is not None
    assert charges.trunk.charge is not None
    gone = {name: torch.zeros_like(getattr(charges, name)) for name in ("before", "after", "seed", "lost")}
    parts = charges.trunk.charge.weight, charges.trunk.charge.magnitude
    free = Backward(charges.trunk.graph, Charge(*([torch.zeros_like(t) for t in part] for part in parts)))
    return replace(net, charges=replace(charges, **gone, trunk=free))


class Bounded:
    """Forms over x and a first layer's neurons, bounded with planes: (domain, 1 + input + J)."""

    def __init__(self, root: Root, planes: Planes, seed: Tensor, shares: Tensor | None = None) -> None:
        self.net, self.planes, self.seed = root.condensed64, planes, seed
        each = torch.zeros(len(seed), dtype=torch.int64)
        packed = lines_of(self.net, root_domains(root).select(each))
        t = torch.ones(len(seed), root.count, dtype=DOUBLE) if shares is None else shares
        self.lines: Lines = packed.at(t)
        row = each if len(planes.slope) == 1 else torch.arange(len(seed))
        self.lift: Lift = planes.of(row[: len(seed)]).lift(t, self.lines)

    def by(self, net: Condensed) -> Pulled:
        return net.backward(self.seed, Lagrangian(self.lines, lift=self.lift))

    def by_single(self, net: Single) -> Tensor:
        """Return the bounds (domain,) of a proof in float32."""
        counted = net.with_rows(self.seed[:, None], torch.zeros(len(self.seed), 1, dtype=DOUBLE))
        return self._narrow(net).value - counted.error[:, 0]

    def carried_back(self, net: Single) -> Tensor:
        """Return the coefficients of h (domain, J) of a proof in float32."""
        return self._narrow(net).before.double()

    def _narrow(self, net: Single) -> Pulled:
        counted = net.with_rows(self.seed[:, None], torch.zeros(len(self.seed), 1, dtype=DOUBLE))
        return net.backward(counted.rows[:, 0], Lagrangian(self.lines, lift=self.lift))

    def exactly(self, at: int, *, narrow: bool = False) -> Fraction:
        """Return what `by` stands for, of one form, without rounding anything; narrow: with shares of float32."""
        net, base = self.net, self.net.base
        lift = self.lift.narrow() if narrow else self.lift
        after = self.seed[:, base:].float() if narrow else self.seed[:, base:]
        a, q = exact(after[at]), exact(lift.carried(after)[at])
        low, high, up = (exact(t.expand(len(after), -1)[at]) for t in self.lines[:3] if t is not None)
        before = np.where(a < 0, (a - q) * high, a * low)
        lost = (np.minimum(a, 0) - q) @ up + q @ exact(lift.above.height[at])
        matrix = exact(net.matrix[:, :base]).reshape(-1, base)
        form = exact(self.seed[at])[:base] + before @ matrix
        slope = exact(self.planes.slope[lift.above.row[at]]).reshape(self.planes.slope.shape[1:])
        over: Exact = form[1:] + q @ slope
        ends = np.minimum(over * exact(net.region.lower), over * exact(net.region.upper))
        # In float32 heights are where x is at the centre.
        counted = q @ slope @ exact(net.region.centre) if narrow else Fraction(0)
        return Fraction(form[0] + lost + ends.sum() - counted)

    def above(self, found: Tensor, *, narrow: bool = False) -> int:
        """Count the bounds (domain,) that lie above the exact ones."""
        sure = (self.exactly(i, narrow=narrow) for i in range(len(found)))
        return sum(Fraction(float(v)) > e for v, e in zip(found, sure, strict=True))
