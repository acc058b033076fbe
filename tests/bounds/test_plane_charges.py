"""Every part of what rounding costs a bound with planes, where no other part can stand in for it.

Heights are given by hand, so planes need not be above anything here: what a proof says of them is compared with the
same in rational arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from netproof.bounds.planes.reads import Reads
from support.condensed import HAIR
from support.planes import DOUBLE, Bounded, bare, beside, planes_by_hand, reads_by_hand
from support.rational import exact
from support.single import only, single_of

NEAR_1 = {"lower": 1 - HAIR, "upper": 1 + HAIR}
ONES = 32  # as many as a product of matrices may add up side by side


def worst(count: int, unit: float) -> np.ndarray:
    """Return numbers that are lost each time one is added: ones, then what is nothing beside each of them."""
    return np.concatenate([np.ones(ONES), np.full(count - ONES, 0.9 * unit)])


def seeds(own: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return forms (n, columns) of what stands before x and z, without a constant."""
    return torch.cat([own.new_zeros(len(own), 1), own, after], 1)


# --- in float64 ---


def test_the_sum_of_planes_over_neurons_is_charged() -> None:
    """What x has of its own cancels the sum of all planes, as it was rounded."""
    count = 2048
    root = beside(np.ones((count, 1)), -np.ones(count), **NEAR_1)
    planes = planes_by_hand(reads_by_hand(root), worst(count, 2.0**-53)[None, :, None])
    after = -torch.ones(1, count, dtype=DOUBLE)
    own = -Bounded(root, planes, seeds(after[:, :1], after)).lift.above.over_input(after)
    bounded = Bounded(root, planes, seeds(own, after))
    assert bounded.above(bounded.by(bare(root.condensed64)).value) == 0


def test_the_least_of_planes_over_the_box_is_charged() -> None:
    """One neuron and many inputs, where x is 1: the sum of what stands before each of them."""
    count = 2048
    root = beside(np.full((1, count), 2.0**-20), np.array([-count * 2.0**-20]), **NEAR_1)
    planes = planes_by_hand(reads_by_hand(root), worst(count, 2.0**-53)[None, None])
    bounded = Bounded(root, planes, seeds(torch.zeros(1, count, dtype=DOUBLE), -torch.ones(1, 1, dtype=DOUBLE)))
    assert bounded.above(bounded.by(bare(root.condensed64)).value) == 0


def test_the_sum_of_heights_is_charged() -> None:
    """Heights that cancel, of flat planes."""
    rng = np.random.default_rng(0)
    root = beside(np.ones((8, 1)), -np.ones(8), **NEAR_1)
    height = rng.normal(size=(32, 8))
    height[:, -1] = -height[:, :-1].sum(1)
    planes = planes_by_hand(reads_by_hand(root), np.zeros((32, 8, 1)), height)
    bounded = Bounded(root, planes, torch.cat([torch.zeros(32, 2), -torch.ones(32, 8)], 1).double())
    found = bounded.by(bare(root.condensed64)).value
    assert bounded.above(found) == 0
    bare_sums = (bounded.lift.carried(bounded.seed[:, 2:]) * bounded.lift.above.height).sum(1)
    assert bounded.above(bare_sums) > 0  # so it is the charge that keeps them below


def test_what_stays_with_a_chord_is_charged() -> None:
    """A little goes to flat planes; what is left is a difference of rounded products, which x cancels."""
    rng = np.random.default_rng(1)
    root = beside(np.ones((1, 1)))
    planes = planes_by_hand(reads_by_hand(root), np.zeros((1, 1, 1)))
    after, shares = (
        -torch.from_numpy(rng.uniform(0.5, 1, (24, 1))),
        torch.from_numpy(rng.uniform(0.004, 0.008, (24, 1))),
    )
    first = Bounded(root, planes, seeds(torch.zeros(24, 1, dtype=DOUBLE), after), shares)
    own = -first.by(root.condensed64).before
    bounded = Bounded(root, planes, seeds(own, after), shares)
    assert bounded.above(bounded.by(bare(root.condensed64)).value) == 0


def test_planes_added_to_what_x_has_already_are_charged() -> None:
    """x_0 − x_1 near 1, and planes that are nothing beside it."""
    root = beside(np.eye(2), -np.ones(2), **NEAR_1)
    planes = planes_by_hand(reads_by_hand(root), 0.4 * 2.0**-53 * np.eye(2)[None])
    bounded = Bounded(root, planes, torch.tensor([[0.0, 1.0, -1.0, -1.0, -1.0]], dtype=DOUBLE))
    assert bounded.above(bounded.by(bare(root.condensed64)).value) == 0


def test_products_of_planes_that_vanish_are_charged() -> None:
    """2^-600 times 2^-476 is 0 in float64, and x is large."""
    root = beside(np.full((1, 1), 2.0**-600), np.array([-(2.0**-481)]), 0.0, 2.0**120)
    planes = planes_by_hand(reads_by_hand(root), np.full((1, 1, 1), 2.0**-476))
    bounded = Bounded(root, planes, torch.tensor([[0.0, 0.0, -(2.0**-600)]], dtype=DOUBLE))
    net = bare(root.condensed64)
    assert net.charges is not None
    net = replace(net, charges=replace(net.charges, read=torch.zeros_like(net.charges.read)))
    assert bounded.above(bounded.by(net).value) == 0


# --- in float32 ---


def test_the_sum_of_planes_over_neurons_is_charged_in_float32() -> None:
    count = 512
    root = beside(np.full((count, 1), 2.0**-20), lower=-1.0)
    planes = planes_by_hand(reads_by_hand(root), worst(count, 2.0**-24)[None, :, None], single=True)
    after = -torch.ones(1, count)
    own = -Bounded(root, planes, seeds(after[:, :1].double(), after.double())).lift.above.over_input(after).double()
    bounded = Bounded(root, planes, seeds(own, after.double()))
    assert bounded.above(bounded.by_single(only(single_of(root))), narrow=True) == 0


def test_what_stays_with_a_chord_is_charged_in_float32() -> None:
    rng = np.random.default_rng(1)
    root = beside(np.ones((1, 1)))
    planes = planes_by_hand(reads_by_hand(root), np.zeros((1, 1, 1)), single=True)
    after = -torch.from_numpy(rng.uniform(0.5, 1, (24, 1))).float().double()
    shares = torch.from_numpy(rng.uniform(0.004, 0.008, (24, 1))).float().double()
    first = Bounded(root, planes, seeds(torch.zeros(24, 1, dtype=DOUBLE), after), shares)
    single = single_of(root)
    before = first.carried_back(single)
    bounded = Bounded(root, planes, seeds(-before, after), shares)
    assert bounded.above(bounded.by_single(only(single)), narrow=True) == 0


def test_planes_added_to_what_x_has_already_are_charged_in_float32() -> None:
    root = beside(np.full((1, 1), 2.0**-20), lower=-1.0)
    planes = planes_by_hand(reads_by_hand(root), np.full((1, 1, 1), -0.4 * 2.0**-24), single=True)
    bounded = Bounded(root, planes, torch.tensor([[0.0, 1.0, -1.0]], dtype=DOUBLE))
    assert bounded.above(bounded.by_single(only(single_of(root))), narrow=True) == 0


# --- heights and what is read ---


def reads_of_one(weight: float, bias: float, centre: float, radius: float) -> Reads:
    sides = (torch.full((1, 1), side, dtype=DOUBLE) for side in (centre, radius))
    return Reads(torch.full((1, 1), weight, dtype=DOUBLE), torch.tensor([bias], dtype=DOUBLE), *sides, None, 1, 0.0)


def random_reads(seed: int, leak: float = 0.0) -> Reads:
    """Return what 16 neurons read of 6 inputs, whose sums cancel at the centre."""
    rng = np.random.default_rng(seed)
    weight, centre = torch.from_numpy(rng.normal(size=(16, 6))), torch.from_numpy(rng.normal(size=(1, 6)))
    radius = torch.from_numpy(rng.random((1, 6)))
    return Reads(weight, -(weight * centre).sum(1), centre, radius, None, 6, leak)


@pytest.mark.parametrize("leak", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_height_is_not_below_the_most_over_the_box(seed: int, leak: float) -> None:
    reads = random_reads(seed, leak)
    slope = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 16, 6)))
    weight, given = (exact(t).reshape(16, 6) for t in (reads.weight, slope))
    sides = []
    for side in (Fraction(1), Fraction(leak)):
        over = side * weight - given
        sides.append(side * exact(reads.bias) + over @ exact(reads.centre) + abs(over) @ exact(reads.radius))
    most, found = np.maximum(*sides), exact(reads.height(slope))
    assert bool((found >= most).all())
    assert max(found - most) < 1e-13


def test_products_that_vanish_in_a_height_are_charged() -> None:
    reads = reads_of_one(2.0**-600, 0.0, 0.0, 2.0**-500)
    assert float(reads.height(torch.zeros(1, 1, 1, dtype=DOUBLE))) > 0.0


def test_products_that_vanish_as_x_is_counted_from_the_centre_are_charged() -> None:
    assert float(reads_of_one(2.0**-600, 0.0, 2.0**-500, 0.0).about_centre.bias) > 0.0


@pytest.mark.parametrize("seed", range(4))
def test_counted_from_the_centre_a_neuron_is_not_above_what_it_reads(seed: int) -> None:
    """w·c + b is a sum that cancels."""
    reads = random_reads(seed)
    at = exact(reads.weight).reshape(16, 6) @ exact(reads.centre) + exact(reads.bias)
    assert bool((exact(reads.about_centre.bias) >= at).all())
    assert bool((exact((reads.weight * reads.centre).sum(1) + reads.bias) < at).any())  # so it is the charge
