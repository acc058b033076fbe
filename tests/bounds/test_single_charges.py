"""What a proof in float32 takes off beside the roundings of its passes: what float64 does, and where it refuses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import root_domains
from netproof.bounds.condensed import single
from netproof.bounds.condensed.single import Single, single_copy
from netproof.bounds.linear.region import BoxRegion
from netproof.bounds.neurons.root import Root
from netproof.bounds.packed import Lagrangian
from netproof.model.moves import Reshape
from netproof.numerics import UNIT, gamma
from recipe.product import Product
from support.awkward import GraphBuilder
from support.condensed import lines_of, lopsided, plain_root, random_forms
from support.problems import box_problem
from support.rational import exact
from support.single import only, pull, single_of

DOUBLE = torch.float64
FORMS = 24


def cancelling(weights: Tensor, seed: int) -> Tensor:
    """Return (FORMS, n) float32 numbers whose products with weights (n,) of both signs all but cancel, as float64."""
    factors = random_forms(seed, FORMS, len(weights)).float().double()
    falls = weights < 0
    down, rise = -(factors * weights)[:, falls].sum(1), (factors * weights)[:, ~falls].sum(1)
    factors[:, falls] = (factors[:, falls] * (rise / down)[:, None]).float().double()
    first = int(falls.nonzero()[0])
    factors[:, first] -= (factors @ weights) / weights[first]
    return factors.float().double()


def above_what_it_adds_up(net: Single, seed: Tensor, relaxed: Lagrangian) -> int:
    """Count the bounds above the exact sum of what a pass found, whatever rounding did to that."""
    done = net.backward(seed, relaxed)
    lift, count = done.line.intercept.expand_as(done.after), 0
    region = relaxed.region
    for i in range(len(seed)):
        after, before, at_input = (exact(t[i].flatten()) for t in (done.after, done.before, done.at_input))
        sure = Fraction(float(seed[i, 0])) + sum(before * exact(net.constant))
        sure += sum(after * (exact(lift[i]) - exact(net.middle[1 + net.trunk.count :])))
        sure += 0 if relaxed.offset is None else sum(exact(relaxed.offset[i]))
        if region is None:
            sure -= sum(abs(at_input) * exact(net.region.radius.flatten()))
        else:
            sure += sum(at_input * exact(region.centre[i])) - sum(abs(at_input) * exact(region.radius[i]))
        count += Fraction(float(done.value[i])) > sure
    return count


@pytest.fixture(scope="module")
def root() -> Root:
    rng = np.random.default_rng(0)
    return plain_root(lopsided(rng.uniform(0.1, 1, (8, 1)).astype(np.float32).astype(np.float64), lower=-0.2))


@pytest.fixture(scope="module")
def deep() -> Root:
    rng = np.random.default_rng(1)
    return plain_root(lopsided(rng.uniform(0.1, 1, (6, 3)), rng.uniform(0.1, 1, (4, 6)), -0.5))


# --- sums in float64 ---


def test_what_lines_and_middles_add_is_charged(root: Root) -> None:
    """Splits take off all of the coefficients of h, so that nothing else is left."""
    net = only(single_of(root))
    chosen = lines_of(root.condensed64, root_domains(root)).at(torch.ones(1, root.count, dtype=DOUBLE))
    sign = torch.tensor([1.0, -1.0] * (root.count // 2), dtype=DOUBLE)
    lift = torch.where(sign < 0, chosen.upper_intercept[0], 0.0) - net.middle[1 + net.trunk.count :]
    after = sign * cancelling(sign * lift, 0)
    signed = after.float() * torch.where(after < 0, chosen.upper_slope, chosen.lower_slope).float()
    seed = torch.cat([torch.zeros(FORMS, 1 + net.trunk.count, dtype=DOUBLE), after], 1)
    assert above_what_it_adds_up(net, seed, Lagrangian(chosen, signed.double())) == 0


def test_what_splits_add_is_charged(root: Root) -> None:
    net = only(single_of(root))
    chosen = lines_of(root.condensed64, root_domains(root)).at(torch.ones(1, root.count, dtype=DOUBLE))
    weights = torch.from_numpy(np.random.default_rng(2).normal(size=root.count))
    seed = torch.zeros(FORMS, len(net.middle), dtype=DOUBLE)
    assert above_what_it_adds_up(net, seed, Lagrangian(chosen, offset=cancelling(weights, 1) * weights)) == 0


def test_the_last_sum_is_charged(root: Root) -> None:
    """A constant, and what a split adds: less than a rounding of it, and more than half."""
    net = only(single_of(root))
    chosen = lines_of(root.condensed64, root_domains(root)).at(torch.ones(1, root.count, dtype=DOUBLE))
    seed = torch.zeros(1, len(net.middle), dtype=DOUBLE)
    seed[:, 0] = 1.0
    offset = torch.zeros(1, root.count, dtype=DOUBLE)
    offset[:, 0] = 1.5 * UNIT[DOUBLE]
    assert above_what_it_adds_up(net, seed, Lagrangian(chosen, offset=offset)) == 0


def test_the_least_over_the_input_is_charged() -> None:
    """Thin boxes, on which what coordinates say all but cancels; y is the input itself."""
    build = GraphBuilder(1, 8)
    build.relu(0)
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    net = only(single_of(root), "input")
    assert not any(net.trunk.pull(torch.eye(8)).flatten(1).sum(1) - 1)
    centre = torch.from_numpy(np.random.default_rng(3).uniform(-0.9, 0.9, 8))
    seed = torch.cat([torch.zeros(FORMS, 1, dtype=DOUBLE), cancelling(centre, 2), torch.zeros(FORMS, 8)], 1)
    boxes = BoxRegion(centre.expand(FORMS, -1), torch.full((FORMS, 8), 2.0**-60, dtype=DOUBLE))
    chosen = lines_of(root.condensed64, root_domains(root)).at(torch.ones(1, 8, dtype=DOUBLE))
    assert above_what_it_adds_up(net, seed, Lagrangian(chosen, region=boxes)) == 0


def test_a_charge_added_up_in_float32_is_no_smaller_than_it_is(deep: Root) -> None:
    net = only(single_of(deep), "before", "seed")
    for seed in range(FORMS):
        before, start = (random_forms(seed, 1, n).float() for n in (deep.count, len(net.middle) - 1))
        none = torch.zeros(1, deep.count)
        found = net._charge(start, none, before, torch.zeros(1, net.trunk.count), None)
        sure = sum(exact(before[0]) * exact(net.charges.before)) + sum(exact(start[0]) * exact(net.charges.seed))
        assert Fraction(float(found)) >= sure


# --- what is charged for, and for how much ---


def with_more(root: Root, **more: float) -> Single:
    """Return the network to prove with in float32, of one in float64 that charges so much more."""
    proof = root.condensed64
    assert proof.charges is not None
    charges = replace(proof.charges, **{name: getattr(proof.charges, name) + size for name, size in more.items()})
    found = single_copy(replace(proof, charges=charges), root.condensed32)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["before", "after", "seed", "lost", "read"])
def test_what_float64_charges_is_charged_in_float32_too(name: str, deep: Root) -> None:
    """Errors of neurons' forms, lines that are rounded, ...; and roundings of slopes on as much as h may be."""
    size = 2.0**20 if name == "read" else 1.0
    domains = root_domains(deep).select(torch.zeros(FORMS, dtype=torch.int64))
    lines, slopes = lines_of(deep.condensed64, domains), torch.ones(FORMS, deep.count, dtype=DOUBLE)
    forms = random_forms(0, FORMS, deep.condensed64.base + deep.count)
    fallen = pull(single_of(deep), forms, lines, slopes) - pull(with_more(deep, **{name: size}), forms, lines, slopes)
    done = single_of(deep).backward(forms, Lagrangian(lines.at(slopes)))
    weighed = {
        "before": done.before.abs().sum(1),
        "after": done.after.abs().sum(1),
        "seed": forms[:, 1:].abs().sum(1),
        "lost": torch.ones(FORMS),
        "read": 3 * UNIT[torch.float32] * size * done.before.abs().sum(1),  # of the slope, its product, a difference
    }
    assert bool((fallen >= 0.99 * weighed[name]).all())


def test_the_sum_that_a_constant_is_is_charged() -> None:
    """Of many columns that are far from 0 and hardly move, of which few neurons read all."""
    build = GraphBuilder(1, 40)
    sides = np.array([[1.0, -1.0] * 20])
    passed = build.linear(0, sides)
    build.relu(build.sum(passed, build.relu(build.linear(0, -sides))))
    root = plain_root(box_problem(build.finish(), 1.0, 1.0 + 2.0**-40))
    proof = root.condensed64
    assert proof.charges is not None
    least = gamma(root.count + 16) * (proof.matrix.abs() @ proof.charges.values)  # of forms that are exact
    net = single_copy(replace(proof, charges=replace(proof.charges, before=least)), root.condensed32)
    assert net is not None
    assert len(net.middle) > 2 * (root.count + 16)
    own = gamma(len(net.middle)) * (proof.matrix.abs() @ net.middle.abs())
    assert bool((net.charges.before >= least + own).all())


def test_products_with_large_constants_are_charged(deep: Root) -> None:
    """They are one sum in float64, whatever columns are counted from."""
    net = with_more(deep, middle=2.0**40)
    assert float(net.constant.abs().max()) > 2.0**36
    assert bool((net.charges.before >= gamma(deep.count) * net.constant.abs()).all())


# --- where it refuses ---


def test_functions_of_several_operands_are_left_to_float64() -> None:
    build = GraphBuilder(1, 2)
    operands = build.linear(0, np.array([[1.0, 0.5], [0.5, -1.0], [1.0, 1.0], [-1.0, 0.3]]))
    build.add(Product(), build.add(Reshape((4,), (2, 2)), operands, shape=(2, 2)), shape=(1, 2))
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    assert [layer.arity for layer in root.condensed64.layers] == [2]
    assert single_copy(root.condensed64, root.condensed32) is None


def test_sums_of_too_many_terms_are_left_to_float64(deep: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the start of a network, and of its columns."""
    net, one_layer = single_of(deep), plain_root(lopsided(np.ones((1, 30))))
    columns, fewer = len(net.middle), len(single_of(one_layer).middle)
    monkeypatch.setattr(single, "MOST_TERMS", columns + 1)
    assert single_copy(deep.condensed64, deep.condensed32) is not None
    monkeypatch.setattr(single, "MOST_TERMS", columns)
    assert single_copy(deep.condensed64, deep.condensed32) is None
    assert fewer < columns < 30  # whose sums have 30 products each
    assert single_copy(one_layer.condensed64, one_layer.condensed32) is None
