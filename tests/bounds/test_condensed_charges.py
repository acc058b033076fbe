"""Every part of a proof on the condensed network, against rational arithmetic, where no other part can stand in for it.

The forms that are bounded cancel: of terms of size 1 nothing is left but what their rounding lost, so that a bound that
is not charged for it lies above the exact one.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.confirm import confirm
from netproof.bounds.domains import split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.net import Pulled
from netproof.bounds.neurons.root import Root
from netproof.bounds.packed import Lagrangian, Packed
from netproof.core.deadline import Deadline
from netproof.paper.rivals.bdd import Bdd
from netproof.paper.rivals.decomposition import Hull, prove
from netproof.problem.problem import Problem
from netproof.relax import Lines
from support.awkward import GraphBuilder
from support.condensed import exact_pull, exact_trunk, lines_of, lopsided, plain_root, random_forms
from support.problems import box_problem, folded_neurons, packed_values, random_points, random_relus, targets_of
from support.rational import exact, exact_values


def pull(net: Condensed, seed: Tensor, lines: Packed, slopes: Tensor) -> Pulled:
    return net.backward(seed, Lagrangian(lines.at(slopes)))


def only(net: Condensed, *names: str, trunk: bool = False) -> Condensed:
    """Return the same with all charges gone but these."""
    charges = net.charges
    assert charges is not None
    gone = {n: torch.zeros_like(getattr(charges, n)) for n in ("before", "after", "seed", "lost") if n not in names}
    assert charges.trunk.charge is not None
    parts = charges.trunk.charge.weight, charges.trunk.charge.magnitude
    free = Backward(charges.trunk.graph, Charge(*([torch.zeros_like(t) for t in part] for part in parts)))
    return replace(net, charges=replace(charges, **gone, trunk=charges.trunk if trunk else free))


def cancelled(net: Condensed, after: Tensor, lines: Packed, slopes: Tensor) -> Tensor:
    """Return seeds with these coefficients of z, whose coefficients of 1 and y come out as nothing, or next to it."""
    base = torch.zeros(len(after), net.base, dtype=torch.float64)
    before = pull(net, torch.cat([base, after], 1), lines, slopes).before
    return torch.cat([-(before @ net.matrix[:, : net.base]), after], 1)


def assert_below(net: Condensed, seed: Tensor, lines: Packed, slopes: Tensor) -> None:
    found = pull(net, seed, lines, slopes).value
    for at in range(len(seed)):
        assert Fraction(float(found[at])) <= exact_pull(net, seed, lines, slopes, at)


@pytest.mark.parametrize("seed", range(8))
def test_a_bound_that_cancels_is_below_the_exact_one(seed: int) -> None:
    """All charges together; half of the forms take the upper lines."""
    rng = np.random.default_rng(seed)
    root = plain_root(lopsided(rng.uniform(0.1, 1, (4, 2)), rng.uniform(0.1, 1, (3, 4))))
    net, domains = root.condensed64, root_domains(root).select(torch.zeros(12, dtype=torch.int64))
    assert net.count == 7
    lines, slopes = lines_of(net, domains), torch.ones(12, 7, dtype=torch.float64)
    after = random_forms(seed, 12, 7) * torch.tensor([[1.0], [-1.0]], dtype=torch.float64).repeat(6, 1)
    form = cancelled(net, after, lines, slopes)
    assert_below(net, form, lines, slopes)
    bare = pull(only(net), form, lines, slopes).value
    above = [Fraction(float(v)) > exact_pull(net, form, lines, slopes, i) for i, v in enumerate(bare)]
    assert any(above)  # so it is the charge that keeps them below


def test_the_sum_of_the_parts_is_charged() -> None:
    """1 − 2^-55 is 1 in floats."""
    root = plain_root(lopsided(np.eye(1)))
    net, domains = only(root.condensed64), root_domains(root)
    form = torch.tensor([[1.0, -(2.0**-55), 0.0]], dtype=torch.float64)
    assert_below(net, form, lines_of(net, domains), torch.ones(1, 1, dtype=torch.float64))


def test_the_form_that_a_pass_starts_from_is_charged() -> None:
    """a = 1 + m is rounded, and a product of m is nothing beside it."""
    rng = np.random.default_rng(0)
    tiny = (2 * rng.integers(1, 512, (1, 8)) + 1) * 2.0**-62
    root = plain_root(lopsided(np.eye(8), tiny))
    net, domains = only(root.condensed64, "seed"), root_domains(root)
    assert net.count == 9
    lines, slopes = lines_of(net, domains), torch.ones(1, 9, dtype=torch.float64)
    after = torch.ones(1, 9, dtype=torch.float64)
    after[:, :8] += torch.from_numpy(rng.integers(0, 99, 8)) * 2.0**-52
    assert_below(net, cancelled(net, after, lines, slopes), lines, slopes)


def test_coefficients_times_lines_are_charged() -> None:
    """a·α with all else exact."""
    root = plain_root(lopsided(np.eye(6)))
    net, domains = only(root.condensed64, "after"), root_domains(root).select(torch.zeros(10, dtype=torch.int64))
    lines, slopes = lines_of(net, domains), random_forms(1, 10, 6)
    assert_below(net, cancelled(net, random_forms(2, 10, 6), lines, slopes), lines, slopes)


def without_form_errors(root: Root) -> Condensed:
    """Return its condensed network with forms taken to be exact, as they are where nothing is folded."""
    root.condenser.catch_up()
    root.condenser._errors = [torch.zeros_like(e) for e in root.condenser._errors]
    return root.condensed64


def test_products_with_the_forms_are_charged() -> None:
    """h = v·z_1 − w·z_2 is small, its products are not, and those of different neurons cancel."""
    v = np.append(np.random.default_rng(0).uniform(0.5, 1, 5), -3.0)
    root = plain_root(lopsided(np.ones((2, 1)), np.stack([v, -v * (1 + 2.0**-25)], 1)))
    whole = root_domains(root).select(torch.zeros(20, dtype=torch.int64))
    net = only(without_form_errors(root), "before")
    assert net.count == 8
    lines, slopes = lines_of(net, whole), torch.ones(20, 8, dtype=torch.float64)
    after = torch.cat([torch.zeros(20, 2, dtype=torch.float64), random_forms(1, 20, 6)], 1)
    after[:, 7] = after[:, 2:7] @ torch.from_numpy(v[:5]) / 3.0
    assert_below(net, cancelled(net, after, lines, slopes), lines, slopes)


def test_the_way_from_the_trunk_to_the_input_is_charged() -> None:
    """Rows of the trunk that add up to nothing: W^T c is all rounding."""
    above = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        weight = rng.normal(size=(5, 3))
        root = plain_root(lopsided(weight, lower=-1.0))
        net = only(root.condensed64, trunk=True)
        order = net.trunk.index[: net.trunk.count].numpy()
        null = np.linalg.svd(weight[order].T)[2][-1]
        form = torch.from_numpy(np.concatenate([[0.0], null, np.zeros(net.count)]))[None]
        lines, slopes = lines_of(net, root_domains(root)), torch.ones(1, net.count, dtype=torch.float64)
        assert_below(net, form, lines, slopes)
        bare = pull(only(root.condensed64), form, lines, slopes).value
        above += Fraction(float(bare)) > exact_pull(net, form, lines, slopes, 0)
    assert above > 0


@pytest.mark.parametrize(("slope", "beside"), [(1.5, -1.5), (-0.5, 0.5)])
def test_slopes_outside_the_sound_range_are_clamped(slope: float, beside: float) -> None:
    """relu(x) + c·x on [−1, 1] reaches −1/2; a line of slope −c below the ReLU would leave nothing of it."""
    build = GraphBuilder(1, 1)
    build.sum(build.relu(0), build.linear(0, np.array([[beside]])))
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    theta = DualPoint(torch.full((1, 1), slope), None, torch.ones(1, 1))
    assert float(confirm(root, root_domains(root), theta).domains.bound) <= -0.5


def test_what_splits_away_from_zero_give_is_charged() -> None:
    """Terms of both signs that nearly cancel, with every other charge gone."""
    root = plain_root(lopsided(np.ones((40, 1))))
    net, above = only(root.condensed64), 0
    none = torch.zeros(1, net.base + net.count, dtype=torch.float64)
    zero = torch.zeros(1, net.count, dtype=torch.float64)
    for seed in range(20):
        offset = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (1, net.count)))
        offset[0, -1] -= offset.sum()
        relaxed = Lagrangian(Lines(zero, zero, zero), None, offset)
        found = net.proved(none, none[:, : net.base], torch.zeros(1, dtype=torch.float64), zero, zero, relaxed)
        assert Fraction(float(found.value)) <= sum(exact(offset))
        above += Fraction(float(offset.sum())) > sum(exact(offset))
    assert above > 0


def test_a_chord_is_lifted_in_a_proof() -> None:
    """Above the ReLU at both ends in exact arithmetic, which the nearest floats are not."""
    rng = np.random.default_rng(0)
    root = plain_root(lopsided(rng.uniform(0.1, 1, (40, 1)), lower=-0.7))
    domains, net = root_domains(root), root.condensed64
    lines = lines_of(net, domains)
    lower, upper = exact(domains.lower), exact(domains.upper)
    chosen = lines.at(domains.slopes.double())
    slope, lift = exact(chosen.upper_slope), exact(chosen.upper_intercept)
    assert all(slope * lower + lift >= 0)
    assert all(slope * upper + lift >= upper)


# --- what the forms may be off by: against the network itself ---


def folded_rows(seed: int) -> Problem:
    """y = Σ s_i z_i with active z_i of size 10, two layers from the input: they cancel, but for rounding."""
    rng = np.random.default_rng(seed)
    x, weight, bias = rng.uniform(0.5, 1.0, 3), rng.normal(size=(8, 3)), 20 + rng.random(8)
    null = np.linalg.svd(np.hstack([weight, bias[:, None]]).T)[2][-1]  # Σ null_i (w_i·x + b_i) = 0 for any x
    build = GraphBuilder(1, 3)
    first = build.relu(build.linear(0, np.eye(3), np.full(3, 3.0)))
    build.linear(build.relu(build.linear(first, weight, bias)), np.stack([null, -null]))
    return box_problem(build.finish(), x, x, targets_of([[[1.0, 0.0]], [[0.0, 1.0]]]))


def beta_bound(problem: Problem) -> Tensor:
    never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64)
    return Beta().whole(plain_root(problem), never, Deadline(None), Clock()).domains.bound


@pytest.mark.parametrize("seed", range(12))
def test_the_rows_own_errors_are_taken_off(seed: int) -> None:
    problem = folded_rows(seed)
    bound = beta_bound(problem)
    value = exact_values(problem.graph, exact(problem.input_set.lower))[-1]
    assert all(exact(bound) <= value)


@pytest.mark.parametrize("seed", range(5))
def test_the_errors_of_the_forms_on_the_way_are_charged(seed: int) -> None:
    """A bound of relu(h), whose h is nothing but the rounding of what was folded into it."""
    root = plain_root(folded_neurons(seed))
    net, domains, layer = root.condensed64, root_domains(root), root.graph64.layers[1]
    form = torch.zeros(layer.count, net.base + net.count, dtype=torch.float64)
    form[:, net.base + layer.start :].fill_diagonal_(1.0)
    value = pull(net, form, lines_of(net, domains), torch.ones(layer.count, net.count, dtype=torch.float64)).value
    corner = exact_values(root.problem.graph, exact(root.problem.input_set.upper))
    assert all(exact(value) <= corner[layer.node][layer.index.numpy()])


# --- what a bound is worth ---


def test_the_mix_of_the_rows_is_charged() -> None:
    """λ_1 r_1 + λ_2 r_2 is all but 0, the rows are not; taken to be exact, nothing else is charged."""
    above = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        root = plain_root(lopsided(np.eye(3), lower=1.0))
        net, weights = only(root.condensed64, "seed"), torch.tensor([[0.3, 0.7]], dtype=torch.float64)
        forms = torch.zeros(1, 2, 4, dtype=torch.float64)
        forms[0, 0, 1:] = torch.from_numpy(rng.uniform(1, 2, 3))
        forms[0, 1] = -forms[0, 0] * (weights[0, 0] / weights[0, 1])
        valid, lines = torch.ones(1, 2, dtype=torch.bool), lines_of(net, root_domains(root))
        dual = Dual(net, forms, torch.zeros(1, 2, dtype=torch.float64), valid, lines)
        found = dual.at(DualPoint(torch.ones(1, 0), None, weights))
        y = exact_trunk(net)[0].sum(1)  # at x = 1
        mixed = (exact(found.weights) @ exact(forms[0]).reshape(2, 4))[1:]
        assert Fraction(float(found.value)) <= mixed @ y
        above += Fraction(float(found.pulled.value)) > mixed @ y
    assert above > 0


@pytest.mark.parametrize("weights", [(1.0, 0.0), (3.0, 0.0), (3.0, -2.0), (0.5, 0.5)])
def test_weights_are_taken_onto_the_simplex(weights: tuple[float, float]) -> None:
    """relu(x) + 1 and relu(x) − 4: of the greater one, the least is 1."""
    rows = targets_of([[[1.0], [1.0]]], [[-1.0, 4.0]])
    root = plain_root(replace(lopsided(np.eye(1)), rows=rows))
    theta = DualPoint(torch.zeros(1, 1), None, torch.tensor([weights]))
    assert float(confirm(root, root_domains(root), theta).domains.bound) <= 1.0


def test_taking_the_errors_off_is_charged() -> None:
    """1 − 2^-55 is 1 in floats."""
    root = plain_root(lopsided(np.eye(1)))
    net, known = root.condensed64, root_domains(root).known
    dual = Dual.of_forms(net, net.rows[0], torch.full((1,), 2.0**-55), known)
    found = dual.less(torch.ones(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    assert Fraction(float(found)) <= 1 - Fraction(2.0**-55)


def test_what_is_not_a_number_decides_nothing() -> None:
    root = plain_root(lopsided(np.eye(2)))
    domains = replace(root_domains(root), bound=torch.full((1,), -3.0, dtype=torch.float64))
    theta = DualPoint(torch.full((1, 2), torch.nan), None, torch.ones(1, 1))
    assert confirm(root, domains, theta).domains.bound.tolist() == [-3.0]


def test_multipliers_never_fall_below_zero() -> None:
    """A multiplier below 0 would lift a bound over the values of its own sub-domain."""
    inside = 0
    for seed in range(4):
        root = plain_root(box_problem(random_relus(seed, (6, 5), 1), -1.0, 1.0))
        domains = split(root_domains(root), torch.arange(3)[None])
        never = torch.full((len(domains),), torch.inf, dtype=torch.float64)
        found = Beta(steps=40, child_rate=0.5).bound(root, domains, never, Deadline(None), Clock())
        points = random_points(root.problem, 2000, seed)
        h, value = packed_values(root, points), root.problem.graph.forward(points)[:, 0, 0]
        assert bool((found.domains.multipliers >= 0).all())
        for bound, splits in zip(found.domains.bound, domains.splits, strict=True):
            here = (h * splits.sign() >= 0).all(1)
            assert bool((bound <= value[here] + 1e-9).all())
            inside += int(here.sum())
    assert inside > 4000


@pytest.mark.parametrize("bounder", [Beta(), Bdd(steps=4)], ids=["beta", "bdd"])
def test_a_sub_domain_whose_bounds_meet_is_not_empty(bounder: Beta | Bdd) -> None:
    """relu(x) on [−hair, 1] with x <= 0 and x >= 0 both decided: the point 0 is left."""
    root = plain_root(lopsided(np.eye(1)))
    whole = root_domains(root)
    point = replace(whole, lower=torch.zeros(1, 1), upper=torch.zeros(1, 1))
    never = torch.full((1,), torch.inf, dtype=torch.float64)
    found = bounder.bound(root, point, never, Deadline(None), Clock())
    assert not bool(found.empty.any())
    assert float(found.domains.bound) <= 0.0


# --- prices ---


def test_the_terms_of_the_neurons_are_charged() -> None:
    """a·u − ρ·u with ρ just above a: hardly below 0, and its products are of size 1."""
    above = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        root = plain_root(lopsided(rng.uniform(0.5, 1.0, (1, 1))))
        net, domains = only(root.condensed64), root_domains(root)
        a = float(rng.uniform(0.5, 1.0))
        rho = float(np.nextafter(a, 2.0))
        form = torch.tensor([[0.0, -rho, a]], dtype=torch.float64)
        hull = Hull.of(net, domains.lower.double(), domains.upper.double())
        found = prove(hull, form, torch.tensor([[rho]], dtype=torch.float64)).value
        u = Fraction(float(domains.upper[0, 0]))
        assert Fraction(float(found)) <= (Fraction(a) - Fraction(rho)) * u
        above += Fraction(a * float(u) - rho * float(u)) > (Fraction(a) - Fraction(rho)) * u
    assert above > 0
