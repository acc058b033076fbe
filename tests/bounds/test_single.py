"""Proofs in float32, against rational arithmetic, and where no other part of what is charged can stand in for one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import root_domains
from netproof.bounds.condensed.single import Single, single_copy
from netproof.bounds.confirm import confirm, confirm_past
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.model.affine import Linear
from netproof.model.conv import Conv, Kernel
from netproof.numerics import SINGLE_LIMIT
from netproof.problem.problem import Problem
from support.awkward import GraphBuilder
from support.condensed import exact_pull, lines_of, lopsided, plain_root, random_forms
from support.problems import box_problem, random_relus
from support.rational import exact
from support.single import float32_first, only, pull, single_of

DOUBLE = torch.float64


@pytest.fixture(params=[False, True], ids=["subnormal", "flushed"])
def flushed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute with numbers below the normal ones, and with these flushed to zero, where the processor can do that."""
    torch.set_flush_denormal(request.param)
    yield
    torch.set_flush_denormal(False)


def above(net: Single, root: Root, seed: Tensor, signed: Tensor | None = None) -> int:
    """Count the forms whose bound lies above the exact one, with slopes of 1."""
    domains = root_domains(root).select(torch.zeros(len(seed), dtype=torch.int64))
    lines, slopes = lines_of(root.condensed64, domains), torch.ones(len(seed), root.count, dtype=DOUBLE)
    found = pull(net, seed, lines, slopes, signed)
    sure = [exact_pull(root.condensed64, seed, lines, slopes, i, signed) for i in range(len(seed))]
    return sum(Fraction(float(v)) > e for v, e in zip(found, sure, strict=True))


def over_z(root: Root, after: Tensor) -> Tensor:
    """Return forms (n, columns) of z alone."""
    return torch.cat([torch.zeros(len(after), root.condensed64.base, dtype=DOUBLE), after], 1)


def two_layers(seed: int, lower: float = -0.5) -> Problem:
    rng = np.random.default_rng(seed)
    return lopsided(rng.uniform(0.1, 1, (6, 3)), rng.uniform(0.1, 1, (4, 6)), lower)


# --- all of it together ---


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_in_float32_is_below_the_exact_one(seed: int, flushed: None) -> None:
    root = plain_root(two_layers(seed))
    after = random_forms(seed, 12, root.count) * torch.tensor([[1.0], [-1.0]], dtype=DOUBLE).repeat(6, 1)
    forms = over_z(root, after)
    assert above(single_of(root), root, forms) == 0
    assert above(only(single_of(root)), root, forms) > 0  # so it is the charge that keeps them below


def split_at_random(root: Root, rng: np.random.Generator) -> Domains:
    """Return sub-domains of a root after three splits each, with slopes and multipliers as a climb may leave them."""
    domains = root_domains(root)
    for _ in range(3):
        open_ = (domains.lower < 0) & (domains.upper > 0)
        score = torch.from_numpy(rng.random(open_.shape)) * open_
        best = torch.where(open_.any(1), score.argmax(1), -1)
        domains = split_on(root, domains, best[:, None])
    shape = domains.slopes.shape
    slopes = torch.from_numpy(rng.random(shape)).float()
    beta = torch.from_numpy(rng.random(shape)).float() * (domains.splits != 0)
    return replace(domains, slopes=slopes, multipliers=beta)


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_sub_domains_have_bounds_just_below_those_of_float64(seed: int, size: float, flushed: None) -> None:
    """Splits, multipliers and slopes of any kind; weights of the first layer of other sizes."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 3)
    node = build.relu(build.linear(0, rng.normal(size=(6, 3)) * size, rng.normal(size=6) * size / 4))
    node = build.relu(build.linear(node, rng.normal(size=(5, 6)), rng.normal(size=5) * size / 4))
    build.linear(node, rng.normal(size=(1, 5)) / size)
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    domains = split_at_random(root, rng)
    theta = DualPoint.of(domains)
    done = Dual.on(single_of(root), root.valid, domains).at(theta)
    fine = Dual.of(root, domains, proof=True).at(theta)
    assert len(domains) > 4
    assert bool((done.value <= fine.value).all())
    assert done.pulled.charge is not None
    assert bool((fine.value - done.value <= 2 * done.pulled.charge).all())
    assert float(done.pulled.charge.max()) < 1e-4 * max(1.0, size)


def test_a_convolution_is_a_plain_sum_in_float32() -> None:
    """The start of a network: γ_n holds for no other way to compute it."""
    rng = np.random.default_rng(0)
    kernel = Kernel(torch.from_numpy(rng.normal(size=(4, 2, 3, 3))), (1, 1), (1, 1), (1, 1), 1, (2, 4, 4))
    build = GraphBuilder(1, 2, 4, 4)
    node = build.relu(build.add(Conv(kernel, None, (1, 2, 4, 4), (1, 4, 4, 4)), 0, shape=(1, 4, 4, 4)))
    last = build.add(Conv(kernel_of_ones(), None, (1, 4, 4, 4), (1, 1, 1, 1)), node, shape=(1, 1, 1, 1))
    assert last
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    single = single_of(root)
    ops = [n.op for n in single.trunk.graph.nodes if isinstance(n.op, Conv)]
    assert [op.kernel.summed for op in ops] == [True]
    assert ops[0].kernel.weight.dtype == torch.float32
    theta = DualPoint.of(root_domains(root))
    done = Dual.on(single, root.valid, root_domains(root)).at(theta)
    fine = Dual.of(root, root_domains(root), proof=True).at(theta)
    assert float(fine.value) - 1e-3 < float(done.value) <= float(fine.value)


def kernel_of_ones() -> Kernel:
    return Kernel(torch.ones(1, 4, 4, 4, dtype=DOUBLE), (1, 1), (0, 0), (1, 1), 1, (4, 4, 4))


# --- one charge at a time ---


def test_the_sums_of_a_pass_are_charged() -> None:
    """Slopes are 1, and the first layer is exact in float32: what rounds is the matrix, and sums of its products."""
    rng = np.random.default_rng(0)
    root = plain_root(lopsided(rng.integers(1, 9, (6, 3)) / 8, rng.uniform(0.1, 1, (4, 6))))
    after = torch.from_numpy(rng.integers(1, 9, (12, root.count))).double()
    after[:, :6] = 0.0
    forms, net = over_z(root, after), single_of(root)
    assert above(only(net, "before"), root, forms) == 0
    assert above(only(net), root, forms) > 0


def test_the_form_that_a_pass_starts_from_is_charged() -> None:
    """It becomes float32."""
    build = GraphBuilder(1, 3)
    build.relu(build.linear(0, np.eye(3)))
    root = plain_root(box_problem(build.finish(), 1.0, 2.0))
    forms = torch.cat([torch.zeros(12, 1, dtype=DOUBLE), random_forms(0, 12, 3)], 1)
    assert above(only(single_of(root), "seed"), root, forms) == 0
    assert above(only(single_of(root)), root, forms) > 0


def test_the_start_of_the_network_is_charged() -> None:
    """Coefficients of y that leave next to nothing of x: what is left is what rounding makes of it."""
    seen = 0
    for seed in range(8):
        weight = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32).astype(np.float64)
        root = plain_root(lopsided(weight, lower=-1.0))
        net, order = single_of(root), root.condensed64.trunk.index.numpy()
        null = np.linalg.svd(weight[order].T)[2][-1].astype(np.float32)
        form = torch.from_numpy(np.concatenate([[0.0], null, np.zeros(root.count)]))[None]
        assert above(only(net, "trunk"), root, form) == 0
        seen += above(only(net), root, form)
    assert seen > 0


def test_what_a_split_takes_off_is_charged() -> None:
    """a·slope − sβ is next to nothing, and a·slope was rounded."""
    rng = np.random.default_rng(0)
    root = plain_root(lopsided(rng.uniform(0.1, 1, (8, 1)).astype(np.float32).astype(np.float64), lower=-0.7))
    after = -torch.from_numpy(rng.integers(1, 99, (12, root.count))).double()
    lines = lines_of(root.condensed64, root_domains(root)).at(torch.ones(1, root.count, dtype=DOUBLE))
    signed = (after * lines.upper_slope).float().double()
    forms, net = over_z(root, after), single_of(root)
    assert above(only(net, "before", "trunk", "split"), root, forms, signed) == 0
    assert above(only(net, "before", "trunk"), root, forms, signed) > 0


def test_what_vanishes_is_charged(flushed: None) -> None:
    """A coefficient that is 0 in float32, of a column that is large."""
    build = GraphBuilder(1, 1)
    build.relu(build.linear(0, np.eye(1)))
    root = plain_root(box_problem(build.finish(), 2.0**30, 2.0**31))
    forms = torch.tensor([[0.0, 2.0**-160]], dtype=DOUBLE)
    assert above(only(single_of(root), "lost"), root, forms) == 0
    assert above(only(single_of(root)), root, forms) == 1


@pytest.mark.parametrize("about", [0.0, 3.0])
def test_weights_that_are_not_known_exactly_are_charged(about: float) -> None:
    """y = w·x with w within 0.1 of 1, about a centre at which it is off already, and away from it."""
    build = GraphBuilder(1, 1)
    one = torch.ones(1, 1, dtype=DOUBLE)
    build.relu(build.add(Linear(one, torch.full((1,), -about, dtype=DOUBLE), Linear(one * 0.1)), 0))
    root = plain_root(box_problem(build.finish(), about - 1.0, about + 1.0))
    net = single_of(root)
    form = torch.tensor([[0.0, 1.0, 0.0]], dtype=DOUBLE)  # y itself, whose least is that of w = 1.1 or 0.9 there
    lines = lines_of(root.condensed64, root_domains(root))
    least = float(pull(net, form, lines, torch.ones(1, 1, dtype=DOUBLE)))
    assert -1.2 - 0.4 * about < least <= min(w * (about - 1.0) - about for w in (0.9, 1.1)) + 1e-12


def test_rows_counted_from_the_middle_have_errors_that_say_so() -> None:
    """Of terms that cancel, what is left is rounding."""
    root = plain_root(two_layers(1))
    net, rng = single_of(root), np.random.default_rng(1)
    rows = torch.from_numpy(rng.normal(size=(20, 1, len(net.middle))))
    rows[:, :, 0] = -(rows[:, :, 1:] @ net.middle[1:])
    counted = net.with_rows(rows, torch.zeros(20, 1, dtype=DOUBLE))
    pairs = zip(rows[:, 0], counted.rows[:, 0, 0], strict=True)
    off = [abs(exact(row) @ exact(net.middle) - Fraction(float(const))) for row, const in pairs]
    assert any(off)
    assert all(o <= Fraction(float(e)) for o, e in zip(off, counted.error[:, 0], strict=True))


def test_boxes_are_counted_outward() -> None:
    """One that is thin and far from the centre would move by its width."""
    build = GraphBuilder(1, 2)
    build.relu(build.linear(0, np.eye(2)))
    net = single_of(plain_root(box_problem(build.finish(), np.array([-0.3, -0.3]), np.array([1.0, 1.1]))))
    lower = torch.from_numpy(np.random.default_rng(0).uniform(-0.3, 1.0, (40, 2)))
    upper = torch.nextafter(lower, lower + 1)
    boxes = net.over(torch.stack([lower, upper], 1))
    assert boxes is not None
    for i in range(40):
        low, high = (exact(side[i]) - exact(net.origin.flatten()) for side in (lower, upper))
        assert all(exact(boxes.centre[i]) - exact(boxes.radius[i]) <= low)
        assert all(exact(boxes.centre[i]) + exact(boxes.radius[i]) >= high)


# --- where float32 says nothing ---


def test_beyond_the_limit_nothing_is_said() -> None:
    root = plain_root(two_layers(2))
    net, domains = single_of(root), root_domains(root)
    after = torch.full((1, root.count), 4 * SINGLE_LIMIT, dtype=DOUBLE)
    lines, slopes = lines_of(root.condensed64, domains), torch.ones(1, root.count, dtype=DOUBLE)
    assert bool(pull(net, over_z(root, after), lines, slopes).isnan())


@pytest.mark.parametrize("weight", [1e300, 1e39, 1e30, 1e7])
def test_large_weights_are_left_to_float64(weight: float) -> None:
    build = GraphBuilder(1, 2)
    node = build.relu(build.linear(0, np.eye(2)))
    build.linear(build.relu(build.linear(node, np.array([[weight, -1.0]]))), np.ones((1, 1)))
    root = plain_root(box_problem(build.finish(), -1.0, 1.0))
    assert single_copy(root.net64, root.net32) is None


# --- which of the two says what is kept ---


@pytest.fixture
def first() -> Iterator[None]:
    with float32_first():
        yield


def test_float32_is_asked_first_where_float64_is_slow() -> None:
    """A GPU; on a CPU nothing is gained."""
    with float32_first("cpu"):
        assert plain_root(two_layers(0)).single is not None
    assert plain_root(two_layers(0)).single is None


def test_float64_is_asked_within_the_rounding_of_float32(first: None) -> None:
    """Thresholds far below, just below and above what is proved, and none at all."""
    root = plain_root(box_problem(random_relus(3, (6, 5), 1), -1.0, 1.0))
    domains = root_domains(root).select(torch.zeros(4, dtype=torch.int64))
    theta = DualPoint.of(domains)
    coarse = Dual.on(single_of(root), root.valid, domains).at(theta).value
    fine = confirm(root, domains, theta).domains.bound
    assert bool((coarse < fine).all())
    between = (coarse[1] + fine[1]) / 2
    threshold = torch.stack([fine[0] - 1.0, between, fine[2] + 1.0, torch.tensor(torch.inf, dtype=DOUBLE)])
    found = confirm_past(root, domains, theta, threshold).domains
    assert torch.allclose(found.bound, torch.stack([coarse[0], fine[1], coarse[2], fine[3]]), rtol=0, atol=1e-12)
    assert found.evaluated.tolist() == [[-4, 0], [2, 0], [-4, 2], [2, 1]]
    assert bool(found.bound[1] > between)


def test_float32_that_is_not_strict_proves_nothing(first: None) -> None:
    root = plain_root(box_problem(random_relus(3, (6, 5), 1), -1.0, 1.0))
    domains = root_domains(root)
    theta, far = DualPoint.of(domains), torch.full((1,), -100.0, dtype=DOUBLE)
    assert confirm_past(root, domains, theta, far).domains.evaluated.tolist() == [[-1, 0]]
    torch.set_float32_matmul_precision("high")
    try:
        assert confirm_past(root, domains, theta, far).domains.evaluated.tolist() == [[1, 0]]
    finally:
        torch.set_float32_matmul_precision("highest")
