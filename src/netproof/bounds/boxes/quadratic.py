"""Rows that are quadratic at the end: products of values that are nearly linear on a box, as one quadratic form.

Planes under each product alone forget what all of them depend on. With d = d₀ + A·x̃ + e and s = s₀ + B·x̃ + f, where x̃
is the distance from the centre of the box, |x̃| <= r, |e| <= ε and |f| <= φ:

    d·s = d₀s + s₀d − d₀s₀ + (d − d₀)(s − s₀),        (d − d₀)(s − s₀) = (A·x̃)(B·x̃) + (A·x̃)f + (B·x̃)e + e·f

The first three terms are a plane, carried back as any other. Of all products of a row together what is left is one
quadratic form x̃ᵀMx̃, in which terms cancel, and errors of at most |A|r·φ + |B|r·ε + ε·φ each. The form is bounded from
below by its entries' sizes; and by M = QΛQᵀ + E with any Q and Λ (eigenvectors, nearly): where λ < 0 by −|λ|·‖q‖₁², and
where λ > 0 by a tangent, so that rows which are convex on a box are bounded as such.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.linear.region import BoxRegion
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.model.nonlinear import Product
from netproof.numerics import enlarged, lowered, rounding, vanishing

SWEEPS = 4  # over the coordinates, for the point where a row is least
MANY = 16  # inputs, beyond which a form by pairs of them is no longer cheap


def last_products(graph: Graph) -> tuple[int, ...]:
    """Return the products that no other nonlinear node depends on, where inputs are few."""
    if graph.input.size > MANY:
        return ()
    before = {j for i in graph.nonlinear for j in graph.ancestors[i] if j != i}
    return tuple(i for i in graph.nonlinear if isinstance(graph.nodes[i].op, Product) and i not in before)


@dataclass(frozen=True, eq=False)
class Operands:
    """Both operands of products on boxes, (box, 2, product, ·): slope·x̃ + middle + e with |e| <= off."""

    slope: Tensor  # (box, 2, product, input)
    middle: Tensor  # (box, 2, product)
    off: Tensor

    @staticmethod
    def of(h: Interval, region: BoxRegion, pairs: tuple[Tensor, Tensor], forms: tuple[Tensor, Tensor]) -> Operands:
        """Join the lower and upper forms of slots into one line each.

        h: (box, slot). pairs: box and slot of each pair. forms: coef (2, pair, input) and const (2, pair) of lower
        bounds of h and of −h. A slot without a pair is no more than its bounds.
        """
        box, slot = pairs
        (low, negated), const = forms[0], forms[1]
        slope = low / 2 - negated / 2
        centre, radius = region.centre[box], region.radius[box]
        # h − slope·x̃ lies between these, each form taken at the centre and its slope's distance from ours charged.
        ends = []
        for coef, offset in ((low, const[0]), (-negated, -const[1])):
            value, apart = (coef * centre).sum(1) + offset, ((coef - slope).abs() * radius).sum(1)
            size = (coef.abs() * (centre.abs() + 2 * radius)).sum(1) + offset.abs() + slope.abs().mul(radius).sum(1)
            ends.append((value, enlarged(apart) + rounding(size, coef.shape[1] + 16) + vanishing(size)))
        (least, below), (most, above) = ends
        floor, ceiling = least - below, most + above
        middle = floor / 2 + ceiling / 2
        half = enlarged(torch.maximum(ceiling - middle, middle - floor)) + rounding(middle.abs(), 4)
        wide, count = h.lower.shape
        centre_h = h.lower / 2 + h.upper / 2
        off_h = enlarged(torch.maximum(h.upper - centre_h, centre_h - h.lower)).clamp(min=0) + rounding(h.magnitude, 4)
        at = box * count + slot
        slopes = slope.new_zeros(wide * count, slope.shape[1]).index_copy(0, at, slope)
        middles, offs = centre_h.flatten().index_copy(0, at, middle), off_h.flatten().index_copy(0, at, half)
        # Within the bounds, as what rounding is charged by takes it to be.
        inside = middles.view(wide, count).maximum(h.lower).minimum(h.upper)
        offs = offs + enlarged((middles - inside.flatten()).abs())
        shape = (wide, 2, count // 2)
        return Operands(slopes.view(*shape, -1), inside.view(shape), offs.view(shape))

    def select(self, box: Tensor) -> Operands:
        return Operands(self.slope[box], self.middle[box], self.off[box])

    @property
    def lines(self) -> Tensor:
        """Return the plane through the middles as both lines, by slots: (box, 4, slot)."""
        slope = self.middle.flip(1).flatten(1)
        intercept = -self.middle.prod(1)
        offset = torch.cat([intercept, torch.zeros_like(intercept)], 1)
        return torch.stack([slope, slope, offset, offset], 1)


@dataclass(frozen=True, eq=False)
class Remainder:
    """What rows of boxes have beyond the planes through the middles of their products."""

    form: Tensor  # (box, row, input, input): M in units of the radius
    size: Tensor  # (box, row): Σ |c|·|A|r·|B|r, at least the sizes of all terms of M
    error: Tensor  # (box, row): what is no quadratic form, rounding included
    share: Tensor  # (box, input): by coordinate, what widths contribute

    @staticmethod
    def of(coef: Tensor, operands: Operands, radius: Tensor) -> Remainder:
        """Take the coefficients c (box, row, product) of products, their operands and radii (box, input)."""
        scaled = operands.slope * radius[:, None, None]
        (a, b), (e, f) = scaled.unbind(1), operands.off.unbind(1)
        wide_a, wide_b = a.abs().sum(2), b.abs().sum(2)
        each = torch.stack([wide_a * f + wide_b * e + e * f, wide_a * wide_b, operands.middle.prod(1).abs()], 1)
        error, size, planes = (coef.abs() @ each.mT).unbind(2)
        form = (coef[..., None] * a[:, None]).mT @ b[:, None]
        form = form / 2 + form.mT / 2
        weight = coef.abs().sum(1)
        share = (weight[:, None] @ (a.abs() * (wide_b + f)[..., None] + b.abs() * (wide_a + e)[..., None]))[:, 0]
        unit = rounding(1.0, coef.shape[2] + 4 * radius.shape[1] + 32)
        return Remainder(form, size, enlarged(error) + unit * (size + planes) + vanishing(size), share)

    def plus(self, more: Remainder) -> Remainder:
        """Return that of the products of two nodes."""
        return Remainder(self.form + more.form, self.size + more.size, self.error + more.error, self.share + more.share)

    def joined_to(self, planes: LinearForm, region: BoxRegion) -> tuple[LinearForm, Tensor]:
        """Return the rows' forms (box, row) with a bound of this added, and what that costs them (box, row)."""
        centre, radius = region.centre[:, None], region.radius[:, None]
        tilt, loss = self.below(planes.coef * radius)
        more = torch.where(radius > 0, tilt / radius, 0.0)  # where there is no width there is no slope either
        # The sums with it, here and where the form is bounded over the box.
        size = (more.abs() * (centre.abs() + radius)).sum(-1)
        lost = loss + rounding(size, more.shape[-1] + 16) + vanishing(size)
        const = lowered(planes.const - (more * centre).sum(-1), enlarged(lost))
        coef = planes.coef + more
        reach = (coef.abs() + planes.coef.abs()) * (centre.abs() + radius)
        return LinearForm(coef, lowered(const, rounding(reach.sum(-1), more.shape[-1] + 16))), loss

    def below(self, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Bound it from below by w·u − loss for |u| <= 1: w (box, row, input), loss (box, row).

        slope (box, row, input): that of the rows' planes per radius; their sum with this is to be large at its least.
        """
        flat = self.form.abs().sum((-2, -1)) - self.form.diagonal(dim1=-2, dim2=-1).clamp(min=0).sum(-1)
        tilt, bent = _by_eigenvectors(self.form, slope)
        better = (slope + tilt).abs().sum(-1) + bent < slope.abs().sum(-1) + flat
        loss = enlarged(torch.where(better, bent, flat).clamp(min=0))
        unit = rounding(1.0, 4 * self.form.shape[-1] + 32)
        return tilt.masked_fill(~better[..., None], 0.0), loss + unit * self.size + self.error


def _by_eigenvectors(form: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Bound uᵀMu from below by w·u − loss for |u| <= 1, M (*lead, n, n): by M = QΛQᵀ + E, whatever Q and Λ are.

    Where λ > 0, (q·u)² >= 2v(q·u) − v² for any v; that of the point where slope·u + uᵀMu is least is the best.
    """
    fine = form.isfinite().flatten(-2).all(-1) & slope.isfinite().all(-1)
    slope = torch.where(fine[..., None], slope, 0.0)
    values, vectors = torch.linalg.eigh(torch.where(fine[..., None, None], form, 0.0))
    sizes, rising = vectors.abs(), values.clamp(min=0)
    at = (_least_at((vectors * rising.unsqueeze(-2)) @ vectors.mT, slope).unsqueeze(-2) @ vectors).squeeze(-2)
    weights = 2 * rising * at
    tilt = (vectors @ weights.unsqueeze(-1)).squeeze(-1)
    rest = form - (vectors * values.unsqueeze(-2)) @ vectors.mT
    reach = (sizes * values.abs().unsqueeze(-2)) @ sizes.mT + form.abs()
    unit = rounding(1.0, form.shape[-1] + 16)
    rest = rest.abs() + unit * reach
    lost = (-values.clamp(max=0) * sizes.sum(-2).square() + rising * at.square()).sum(-1) + rest.sum((-2, -1))
    lost = lost + unit * (sizes @ weights.abs().unsqueeze(-1)).sum((-2, -1))
    return tilt, torch.where(fine, lost, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _least_at(form: Tensor, slope: Tensor) -> Tensor:
    """Return a point u, |u| <= 1, where slope·u + uᵀPu is nearly least, coordinate by coordinate; P is not negative."""
    point = torch.zeros_like(slope)
    steep = 2 * form.diagonal(dim1=-2, dim2=-1).clamp(min=1e-300)
    for _ in range(SWEEPS):
        for j in range(slope.shape[-1]):
            rest = slope[..., j] + 2 * (form[..., j, :] * point).sum(-1)
            point[..., j] = (point[..., j] - rest / steep[..., j]).clamp(-1.0, 1.0)
    return point.nan_to_num()
