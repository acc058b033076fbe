"""Proofs in float32: the condensed network counted from its middle, so that little is left for rounding to take.

float32 is 2^29 times as coarse as float64, so what is rounded is made small first. Columns are counted from the middle
of what they may be: y' = y − y(centre), which is as small as the input set, and z' = z − the middle of its bounds. What
the middles give is a constant of each form, and constants are added up in float64: one number for each neuron, where
float32 has a row of them. In these columns the network is the same,

    h_k = c_k + M_k · v',   v' = (y', z'_1, …, z'_{k−1}),

and M_k rounded to float32 is taken as exact, with |M_k − rounded| · |v'| as one more error of h_k. A pass in float32
then loses γ_n · |v'| for each of its sums of n products, whatever their order, and a few roundings for each slope.

No number of a pass may be larger than `LIMIT`; beyond, nothing is said (NaN). So nothing overflows, and what products
lose below the normal numbers, on devices that flush them to zero too, is less than `LOST` for each coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed, Trunk
from netproof.bounds.condensed.start import Start
from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.region import BoxRegion, Region
from netproof.bounds.net import Net, Pulled, RelaxedNet
from netproof.bounds.packed import Lagrangian
from netproof.bounds.planes.planes import Planes
from netproof.numerics import (
    SINGLE_LIMIT,
    SINGLE_LOST,
    down,
    enlarged,
    enlarged_rounding,
    few_roundings,
    float32_up,
    raised,
    rounding,
    up,
)

SINGLE = torch.float32
MOST_TERMS = 1 << 20  # of a sum, for `SINGLE_LOST` to hold
ROWS = 256  # of a matrix whose sizes are added up at once

# The devices on which float32 is asked first. A GPU may have float64 units for one in 64 of its float32 ones. A CPU has
# half as many at worst, and what is saved there goes into the copy and its charges: a run took 1.01 times as long
# (docs/performance.md, Confirmation).
FIRST_ON = ("cuda",)


@dataclass(frozen=True, eq=False)
class SingleCharges:
    """The weights of |number| in what float32 may lose, float32 and rounded up; of constants, in float64."""

    before: Tensor  # (U,) of the coefficient of h
    after: Tensor  # (U,) of the coefficient of z
    split: Tensor  # (U,) of what a split takes off the coefficient of h
    seed: Tensor  # (Y + U,) of the form that a bound starts from
    trunk: Tensor  # (Y,) of the coefficient of y
    input: Tensor  # (*input) float64, of the coefficient of x
    columns: Tensor  # (1 + Y + U,) float64: the largest |value| of each column
    read: Tensor  # (U,) float64: the largest |h|
    lost: Tensor  # () float64: what underflow may cost


@dataclass(frozen=True, eq=False)
class Single(RelaxedNet):
    """A condensed network in float32, to prove with. Columns of every form: 1, then y', then z'; forms are float64."""

    trunk: Trunk  # in float32, every sum a plain one
    region: Region  # float64
    layers: list[Layer]
    matrix: Tensor  # (U, Y + U) float32
    constant: Tensor  # (U,) float64: h where all columns are 0
    middle: Tensor  # (1 + Y + U,) float64: what columns are counted from, 1 for the first
    rows: Tensor  # (target, row, 1 + Y + U) float64
    error: Tensor
    direct: int
    charges: SingleCharges
    origin: Tensor  # (*input) float64
    planes: Planes | None = None  # slopes float32, heights and charges float64

    @property
    def proof(self) -> bool:
        return True

    @cached_property
    def _sizes(self) -> list[int]:
        return [layer.count for layer in self.layers]

    @cached_property
    def _onto(self) -> list[Tensor]:
        """Return by layer (later neurons, U_k): how the neurons after it read it."""
        y = self.trunk.count
        ends = [(layer.packed.start, layer.packed.stop) for layer in self.layers]
        return [self.matrix[stop:, y + start : y + stop] for start, stop in ends]

    def over(self, inside: Tensor | None) -> BoxRegion | None:
        """Return the boxes counted from the centre, each side rounded outward."""
        if inside is None:
            return None
        lower, upper = (inside.double() - self.origin.flatten()).unbind(1)
        return BoxRegion.of(down(lower), up(upper))

    def with_rows(self, rows: Tensor, error: Tensor) -> Single:
        """Return the same with other forms, given over the columns of the condensed network, as are their errors."""
        counted = torch.cat([(rows @ self.middle)[..., None], rows[..., 1:]], -1)
        off = enlarged_rounding(rows.abs() @ self.middle.abs(), rows.shape[-1] + 8)
        return replace(self, rows=counted, error=enlarged(error + off), planes=None)

    def with_planes(self, planes: Planes) -> Single | None:
        """Return the same with planes of each target, counted from the centre; None where slopes are too large."""
        return replace(self, planes=planes) if _are_within(planes.slope) else None

    def mixing(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the weight of |form| in the rounding of a mix of forms, and what underflow may cost."""
        return enlarged_rounding(self.charges.columns, count + 8), self.charges.lost

    def backward(self, seed: Tensor, relaxed: Lagrangian) -> Pulled:
        """Bound each form of seed (domain, 1 + Y + U) from below, every rounding taken off; NaN beyond the limit."""
        (lines, signed, offset, region, _), y = relaxed, self.trunk.count
        lift = None if relaxed.lift is None else relaxed.lift.narrow()
        upper, lower = lines.upper_slope.to(SINGLE), lines.lower_slope.to(SINGLE)
        less = None if signed is None else signed.to(SINGLE)
        start = seed[:, 1:].to(SINGLE)
        after, before = self._pass(start, upper, lower, less)
        carried = None if lift is None else lift.carried(after)
        if lift is not None and carried is not None:
            lift.reads.add_(before, -carried * lift.reads.of(upper))
        at_y = self._at_y(start, before)
        at_input, over = self.trunk.pull(at_y), region or self._about_centre
        charge = self._charge(start, after, before, at_y, less)
        below = 0.0 if lines.lower_intercept is None else lines.lower_intercept
        taken = after.double() * (torch.where(after < 0, lines.upper_intercept, below) - self.middle[1 + y :])
        parts = [seed[:, 0], before.double() @ self.constant]
        if lift is not None and carried is not None:
            charge = charge + lift.charged(after, before, carried, self.charges.read)
            charge = charge + few_roundings(
                at_input.double().abs().flatten(1) @ self.region.radius.flatten(), 4, SINGLE
            )
            at_input = at_input + lift.above.over_input(carried).view_as(at_input)
            lift.reads.add_(taken, -carried.double() * lift.reads.of(lines.upper_intercept))
            parts.append((carried.double() * lift.above.height).sum(1))
        parts += [taken.sum(1), over.least_of(at_input.double())]
        charge = charge + at_input.double().abs().flatten(1) @ self.charges.input.flatten()
        charge = charge + rounding(taken.abs().sum(1), self.count + 8)
        if offset is not None:
            parts.append(offset.sum(1))
            charge = charge + rounding(offset.abs().sum(1), self.count + 16)
        value = torch.stack(parts).sum(0)
        charge = enlarged(charge) + rounding(torch.stack(parts).abs().sum(0) + charge, len(parts) + 8)
        within = [after, before, at_y, upper, lower, start] + ([] if less is None else [less])
        largest = [t.abs().amax(1) if t.shape[1] else t.new_zeros(len(t)) for t in within]
        most = torch.stack([t.expand(len(seed)) for t in largest]).amax(0)  # lines may be the same for all
        value = torch.where(most <= SINGLE_LIMIT, value - charge, torch.nan)
        # Counted from 0 again, since whoever asks where a bound is attained means the input itself.
        where = self.region if region is None else BoxRegion(region.centre + self.origin.flatten(), region.radius)
        return Pulled(value, after, before, at_input, where, lines, charge, lift)

    def _pass(self, start: Tensor, upper: Tensor, lower: Tensor, less: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the coefficients of z and of h, (domain, U) float32 each."""
        after = start[:, self.trunk.count :].clone()
        before = torch.empty_like(after)
        a, p = after.split(self._sizes, 1), before.split(self._sizes, 1)
        above, below = upper.split(self._sizes, 1), lower.split(self._sizes, 1)
        for k in reversed(range(len(self.layers))):
            if self._onto[k].shape[0]:
                a[k].addmm_(before[:, self.layers[k].packed.stop :], self._onto[k])
            torch.mul(a[k], torch.where(a[k] < 0, above[k], below[k]), out=p[k])
            if less is not None:
                p[k].sub_(less[:, self.layers[k].packed])
        return after, before

    def _at_y(self, start: Tensor, before: Tensor) -> Tensor:
        """Return the coefficients of y', (domain, Y)."""
        y, first = self.trunk.count, self.direct
        at_y = torch.addmm(start[:, :y], before[:, first:], self.matrix[first:, :y])
        at_y[:, :first] += before[:, :first]
        return at_y

    def _charge(self, start: Tensor, after: Tensor, before: Tensor, at_y: Tensor, less: Tensor | None) -> Tensor:
        """Return what rounding in float32 may have cost each form, (domain,) float64."""
        charges = self.charges
        found = before.abs() @ charges.before + after.abs() @ charges.after + start.abs() @ charges.seed
        found = found + at_y.abs() @ charges.trunk
        if less is not None:
            found = found + less.abs() @ charges.split
        return raised(found, self.matrix.shape[1] + 16, SINGLE).double() + charges.lost

    @cached_property
    def _about_centre(self) -> Region:
        return self.region.about_centre()


def single_first(proof: Net, search: Net) -> Single | None:
    """Return the network to prove with in float32 before float64 is asked; None where that gains nothing."""
    return single_copy(proof, search) if proof.rows.device.type in FIRST_ON else None


def single_copy(proof: Net, search: Net) -> Single | None:
    """Return a network to prove with in float32, of one to prove with in float64 and its copy to search with.

    None where it would say nothing: of a graph, of functions of several operands, of numbers that are too large.
    """
    if not isinstance(proof, Condensed) or not isinstance(search, Condensed) or proof.charges is None:
        return None
    if any(layer.arity > 1 for layer in proof.layers):
        return None
    start = Start.of(proof)
    middle = torch.cat([start.centre.new_ones(1), start.centre, proof.charges.middle])
    if start.roundings >= MOST_TERMS or len(middle) >= MOST_TERMS:
        return None
    constant = proof.matrix @ middle
    charges = _charges(proof, search.matrix, start, middle, constant)
    weights = charges.before, charges.after, charges.split, charges.seed, charges.trunk
    if not _are_within(search.matrix, start.growth, *weights):
        return None
    found = Single(
        trunk=replace(proof.trunk, graph=start.graph, centre=start.centre),
        region=proof.region,
        layers=proof.layers,
        matrix=search.matrix[:, 1:],
        constant=constant,
        middle=middle,
        rows=proof.rows,
        error=proof.error,
        direct=proof.direct,
        charges=charges,
        origin=proof.region.centre,
    )
    return found.with_rows(proof.rows, proof.error)


def _are_within(*numbers: Tensor) -> bool:
    """Say whether all numbers are within the limit; one that is no number is not. One look at the device for all."""
    ends = [end for some in numbers if some.numel() for end in some.aminmax()]
    return not ends or bool((torch.stack(ends).abs() <= SINGLE_LIMIT).all())


def _charges(net: Condensed, matrix: Tensor, start: Start, middle: Tensor, constant: Tensor) -> SingleCharges:
    """Weigh what a pass may lose: what it would in float64 is paid too, whatever it is for.

    matrix (U, 1 + Y + U): that of the network in float32. constant (U,): h where all columns are at their middles.
    """
    double, count = net.charges, net.count
    assert double is not None
    away = torch.cat([start.away, double.away])
    # γ of each column's own sum: as many products as neurons read it, the form's own number, what is added last, and
    # one rounding of every coefficient as it became float32.
    units = [rounding(1.0, count - layer.packed.stop + 6, SINGLE) for layer in net.layers]
    parts = [away.new_full((layer.count,), unit) for layer, unit in zip(net.layers, units, strict=True)]
    first = away.new_full((net.trunk.count,), rounding(1.0, count - net.direct + 6, SINGLE))
    sums = torch.cat([first, *parts]) * away
    # What h loses in all of its sums; in float32 too, and raised for that.
    weight = float32_up(torch.cat([sums.new_zeros(1), sums]))
    summed = torch.cat([some.abs() @ weight for some in matrix.split(ROWS)])  # some at a time: a copy takes longer
    summed = raised(summed, len(middle) + 8, SINGLE).double() + SINGLE_LOST
    # All that float64 charges is in here, twice, so nowhere else; and as often again as the constant of h, one sum in
    # float64 of so many products, is longer than one of as many as neurons.
    constants = double.before * (2 + len(middle) / (count + 1)) + rounding(constant.abs(), count + 8)
    slope = few_roundings(double.read, 6, SINGLE)
    weights = (
        summed + constants + slope,
        double.after,
        slope,
        double.seed[1:] + sums + few_roundings(away, 2, SINGLE),
        start.error,
    )
    every = float32_up(enlarged(torch.cat(weights)))  # as one: it is the number of operations that counts
    before, after, split, seed, trunk = every.split([len(weight) for weight in weights])
    reach = away.sum() + double.read.sum() + start.reach
    lost = double.lost + SINGLE_LOST * (1.0 + reach)
    at_input = enlarged(net.region.about_centre().charge())
    columns = torch.cat([middle[:1], away])
    return SingleCharges(before, after, split, seed, trunk, at_input, columns, double.read, lost)
