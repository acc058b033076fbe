"""Planes above the neurons of the first layer: above them exactly, in every precision, and worth what they cost."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.neurons.root import Root
from netproof.bounds.neurons.transfer import repack
from netproof.bounds.planes import climb, first, planes
from netproof.bounds.planes.climb import PlaneAscent, Raised, chords_of, raise_planes, slopes_of
from netproof.bounds.planes.planes import Planes
from netproof.bounds.planes.reads import Reads
from netproof.bounds.planes.rows import RowPlanes
from netproof.core.deadline import Deadline
from netproof.model.conv import Conv, Kernel
from netproof.model.nonlinear.smooth.sigmoids import Sigmoid
from netproof.problem.problem import InputSet, Problem
from support.asking import bound_of, first_problem, knotted, root_of
from support.awkward import GraphBuilder, awkward_numbers
from support.condensed import plain_root
from support.exact import milp_minimum
from support.problems import box_problem, inside, packed_values, random_points
from support.rational import exact, exact_values
from support.single import float32_first, single_of

BETA = Beta(root_steps=4, neuron_steps=4, steps=4, planes=12)
FOREVER = Deadline(None)
DOUBLE = torch.float64


def relus(seed: int, leak: float = 0.0, inputs: int = 4, *, awkward: bool = False) -> Problem:
    """Two affine maps before the first layer, so that what it reads is rounded; then a second layer."""
    rng = np.random.default_rng(seed)
    numbers = awkward_numbers(rng)(6, 5) if awkward else rng.normal(size=(6, 5))
    build = GraphBuilder(1, inputs)
    node = build.linear(build.linear(0, rng.normal(size=(5, inputs)) / 3), numbers, rng.normal(size=6) / 7)
    node = build.relu(build.linear(build.relu(node, leak), rng.normal(size=(5, 6)), rng.normal(size=5)))
    build.linear(node, rng.normal(size=(1, 5)))
    return box_problem(build.finish(), rng.uniform(-1.2, -0.2, inputs), rng.uniform(0.2, 1.2, inputs))


def image(seed: int) -> Problem:
    """A convolution whose windows are padded, then one number."""
    rng = np.random.default_rng(seed)
    kernel = Kernel(torch.from_numpy(rng.normal(size=(3, 2, 3, 3))), (2, 2), (1, 1), (1, 1), 1, (2, 8, 8))
    build = GraphBuilder(1, 2, 8, 8)
    bias = torch.from_numpy(rng.normal(size=3) / 7)
    node = build.relu(build.add(Conv(kernel, bias, (1, 2, 8, 8), (1, 3, 4, 4)), 0, shape=(1, 3, 4, 4)))
    whole = Kernel(torch.from_numpy(rng.normal(size=(1, 3, 4, 4))), (1, 1), (0, 0), (1, 1), 1, (3, 4, 4))
    build.add(Conv(whole, None, (1, 3, 4, 4), (1, 1, 1, 1)), node, shape=(1, 1, 1, 1))
    return box_problem(build.finish(), -0.7, 0.9)


def reads_of(root: Root) -> Reads:
    assert root.reads is not None
    return root.reads


def random_slopes(reads: Reads, count: int, seed: int, spread: float = 0.5) -> Tensor:
    """Return slopes (count, J, K) of planes around those of lines, and beyond."""
    share = np.random.default_rng(seed).uniform(-spread, 1 + spread, (count, reads.count, reads.width))
    return torch.from_numpy(share) * reads.weight


def dense(reads: Reads, each: Tensor) -> Tensor:
    """Return what windows have (n, J, K) over the whole input (n, J, input)."""
    if reads.places is None:
        return each
    return each.new_zeros(*each.shape[:2], reads.inputs).scatter_add(2, reads.places.expand_as(each), each)


def worst_corners(root: Root, slope: Tensor) -> Tensor:
    """Return (2J, *input): where each plane is least above the two lines of its neuron."""
    reads, region = reads_of(root), root.graph64.region
    over = torch.cat([dense(reads, side * reads.weight[None] - slope[None])[0] for side in (1.0, reads.leak)])
    return torch.where(over.view(-1, *region.lower.shape) > 0, region.upper, region.lower)


# --- above neurons ---


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("centred", [False, True])
def test_a_plane_is_above_its_neuron_whatever_its_slope(seed: int, leak: float, centred: bool) -> None:
    root = plain_root(relus(seed, leak, awkward=True))
    reads = reads_of(root).about_centre if centred else reads_of(root)
    slope, layer = random_slopes(reads, 1, seed), root.layers[0]
    height, graph = exact(reads.height(slope)), root.problem.graph
    weight, origin = exact(slope).reshape(slope.shape[1:]), exact(root.graph64.region.centre) * centred
    for corner in torch.cat([worst_corners(root, slope[0]), random_points(root.problem, 6, seed)]):
        x = exact(corner)
        z = exact_values(graph, x)[layer.node][layer.index.numpy()]
        assert bool((weight @ (x - origin) + height >= z).all())


@pytest.mark.parametrize("seed", range(3))
def test_neurons_are_not_above_what_they_read(seed: int) -> None:
    root = plain_root(relus(seed, awkward=True))
    reads, layer = reads_of(root), root.layers[0]
    weight, bias = exact(reads.weight).reshape(reads.weight.shape), exact(reads.bias)
    for corner in random_points(root.problem, 32, seed):
        x = exact(corner)
        h = exact_values(root.problem.graph, x)[layer.pre][layer.index.numpy()]
        assert bool((weight @ x + bias >= h).all())
        assert max(weight @ x + bias - h) < 1e-5  # and next to it


def test_planes_over_windows_are_those_over_the_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain_root(image(0))
    reads, layer = reads_of(root), root.layers[0]
    assert reads.places is not None
    assert reads.width < reads.inputs / 2
    slope = random_slopes(reads, 3, 0)
    x = random_points(root.problem, 12)
    h = packed_values(root, x)[:, layer.packed]
    wide = dense(reads, reads.weight[None])[0]
    torch.testing.assert_close(x.flatten(1) @ wide.mT + reads.bias, h)
    row, q = torch.tensor([0, 2, 1, 1] * 3), torch.rand(12, reads.count, dtype=DOUBLE)
    want = torch.einsum("dj,dji->di", q, dense(reads, slope)[row])
    for kept in (False, True):
        found = Planes.on(reads, slope, row, kept=kept)
        assert (found.matrix is None) != kept
        above = found.of(torch.arange(12))
        torch.testing.assert_close(above.over_input(q), want)
        lie = torch.einsum("di,dji->dj", x.flatten(1), dense(reads, slope)[row]) + found.height[row]
        torch.testing.assert_close(above.at(x.flatten(1)), lie)
        assert bool((above.at(x.flatten(1)) >= h.relu()).all())
    monkeypatch.setattr(planes, "entries_at_once", lambda device: 5 * reads.count * reads.width)
    above = Planes.on(reads, slope, row).of(torch.arange(12))
    torch.testing.assert_close(above.over_input(q), want)
    torch.testing.assert_close(above.at(x.flatten(1)), lie)
    each = q[:, :, None] * slope[row]
    torch.testing.assert_close(reads.given(each), want)
    torch.testing.assert_close(reads.given_by_input(each), want)


def test_an_image_much_larger_than_windows_has_no_matrices_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a pass multiplies is counted by what is less work."""
    reads = reads_of(plain_root(image(0)))
    found = Planes.on(reads, random_slopes(reads, 1, 0), kept=True)
    assert found.work == reads.count * reads.inputs
    assert found.matrix is not None
    monkeypatch.setattr(planes, "GATHERED", 2)
    found = Planes.on(reads, random_slopes(reads, 1, 0), kept=True)
    assert found.work == 2 * reads.count * reads.width
    assert found.matrix is None


def test_sub_domains_of_one_target_are_not_padded_to_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    root = plain_root(relus(0))
    reads = reads_of(root)
    found = Planes.on(reads, random_slopes(reads, 3, 0))
    above, q = found.of(torch.tensor([2, 0, 2, 2, 1])), torch.rand(5, reads.count, dtype=DOUBLE)
    padded = above.over_input(q)
    monkeypatch.setattr(planes, "SKEWED", -100)
    torch.testing.assert_close(found.of(above.row).over_input(q), padded)


# --- where there are none ---


def test_there_are_no_planes_but_over_boxes_above_hinges_that_do_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = relus(0)
    assert plain_root(problem).reads is not None
    box = problem.input_set
    ball = InputSet(box.lower, box.upper, torch.zeros_like(box.lower), 0.3, 2)
    assert plain_root(replace(problem, input_set=ball)).reads is None
    assert plain_root(relus(0, leak=-0.1)).reads is None
    build = GraphBuilder(1, 2)
    build.linear(build.add(Sigmoid(), 0), np.ones((1, 2)))
    assert plain_root(box_problem(build.finish(), -1.0, 1.0)).reads is None
    monkeypatch.setattr(first, "holds", lambda size, device: False)
    assert plain_root(problem).reads is None


# --- in bounds ---


def planed(root: Root, factors: Tensor | None = None) -> Root:
    """Return a root with planes of its one target: with given factors (1, J, K), or with chords for planes."""
    search = reads_of(root).to_search
    given = chords_of(search)[None, :, None] if factors is None else factors
    return root.with_planes(RowPlanes(reads_of(root), slopes_of(search, given)), root_domains(root).slopes)


def random_domains(root: Root, seed: int, splits: int) -> Domains:
    """Return sub-domains after some splits, with slopes and multipliers as a climb may leave them."""
    rng = np.random.default_rng(seed)
    domains = root_domains(root)
    for neuron in rng.permutation(root.count)[:splits]:
        domains = split(domains, torch.full((len(domains), 1), int(neuron)))
    shape = domains.slopes.shape
    slopes = torch.from_numpy(rng.random(shape)).float()
    beta = torch.from_numpy(rng.random(shape)).float() * (domains.splits != 0)
    return replace(domains, slopes=slopes, multipliers=beta)


@pytest.mark.parametrize("seed", range(3))
def test_planes_that_are_chords_change_nothing(seed: int) -> None:
    """In every precision, with shares of any size: the first layer is bounded by what it reads alone."""
    root = plain_root(relus(seed))
    chords, domains = planed(root), random_domains(root, seed, 0)
    theta = DualPoint.of(domains)
    for proof in (False, True):
        plain, same = (Dual.of(one, domains, proof=proof).at(theta).value for one in (root, chords))
        torch.testing.assert_close(plain, same, rtol=1e-5, atol=1e-5)
    single = single_of(root)
    narrow = chords.planes and chords.planes.on_single(single)
    assert narrow is not None
    plain, same = (Dual.on(net, root.valid, domains).at(theta).value for net in (single, narrow))
    torch.testing.assert_close(plain, same, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_proofs_with_planes_are_below_the_network_in_both_precisions(seed: int, leak: float) -> None:
    """Planes, slopes, splits and multipliers of any kind; float32 just below float64."""
    root = plain_root(relus(seed, leak))
    reads = reads_of(root)
    factors = torch.from_numpy(np.random.default_rng(seed).random((1, reads.count, reads.width))).float()
    raised = planed(root, factors)
    domains = random_domains(raised, seed, 3)
    theta, points = DualPoint.of(domains), random_points(root.problem, 200, seed)
    fine = Dual.of(raised, domains, proof=True).at(theta)
    assert raised.planes is not None
    net = raised.planes.on_single(single_of(root))
    assert net is not None
    done = Dual.on(net, raised.valid, domains).at(theta)
    values = root.problem.graph.values(points)[-1].flatten()
    there = inside(domains, packed_values(root, points))
    least = torch.where(there, values, torch.inf).amin(1)
    assert int(there.any(1).sum()) > 2
    assert bool((fine.value <= least + 1e-12).all())
    assert bool((done.value <= fine.value).all())
    assert done.pulled.charge is not None
    assert bool((fine.value - done.value <= 2 * done.pulled.charge).all())


def test_a_neuron_that_is_split_has_no_plane() -> None:
    root = plain_root(relus(0))
    reads = reads_of(root)
    raised = planed(root, torch.rand(1, reads.count, reads.width))
    domains = root_domains(root)
    for neuron in range(reads.count):
        domains = split(domains, torch.full((len(domains), 1), neuron))
    theta = DualPoint.of(replace(domains, slopes=torch.ones_like(domains.slopes)))
    plain, same = (Dual.of(one, domains, proof=True).at(theta).value for one in (root, raised))
    torch.testing.assert_close(plain, same, rtol=0, atol=1e-6)


# --- climbed ---


def climbed(root: Root) -> tuple[PlaneAscent, Raised]:
    domains, search = root_domains(root), reads_of(root).to_search
    factors = torch.rand(1, search.count, search.width, generator=torch.Generator().manual_seed(0))
    return PlaneAscent(Dual.of(root, domains, proof=False), search), Raised(DualPoint.of(domains), factors)


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_what_a_small_step_gains(seed: int, leak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By differences of D, which is made of planes; but at few kinks both sides agree."""
    monkeypatch.setattr(climb, "BOTH", 1e-6)
    root = plain_root(relus(seed, leak))
    ascent, point = climbed(root)
    moving = ascent.start(point)
    seen = ascent.evaluate(moving, last=False)
    slopes, factors = ascent.gradient(moving, seen)[0], ascent.gradient(moving, seen)[-1]
    reads, step, right = ascent.reads, 2e-3, 0
    scale = (reads.weight.abs() * reads.radius * (1 - leak))[None]
    for j, k in itertools.product(range(reads.count), range(reads.width)):
        both = []
        for sign in (1, -1):
            there = [t.clone() for t in moving]
            there[-1][0, j, k] += sign * step
            both.append(float(ascent.evaluate(there, last=False).value))
        want = (both[0] - both[1]) / (2 * step)
        right += abs(want - float((factors * scale)[0, j, k])) < 2e-2 * max(1.0, abs(want))
    assert right >= 0.85 * reads.count * reads.width
    assert bool((factors != 0).any())
    assert bool((slopes != 0).any())


def test_rounding_does_not_say_which_way_a_chord_goes() -> None:
    """It touches both lines of its neuron, and by rounding alone it would be one or the other."""
    ascent, point = climbed(plain_root(relus(1)))
    reads = ascent.reads
    chords = chords_of(reads)[None, :, None].expand(1, -1, reads.width).contiguous()
    found = []
    for shift in (-1e-6, 1e-6):
        moved = replace(ascent, reads=replace(reads, bias=reads.bias + shift))
        moving = moved.start(point._replace(factors=chords))
        found.append(moved.gradient(moving, moved.evaluate(moving, last=False))[-1])
    assert float(found[0].abs().max()) > 0.1
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-3)


def test_the_gradient_of_shares_is_what_a_small_step_gains() -> None:
    root = plain_root(relus(1))
    reads = reads_of(root)
    raised = planed(root, torch.rand(1, reads.count, reads.width, generator=torch.Generator().manual_seed(0)))
    dual = Dual.of(raised, root_domains(raised), proof=False)
    theta = DualPoint.of(root_domains(raised))
    moving = dual.start(replace(theta, slopes=torch.full_like(theta.slopes, 0.5)))
    found, step, right = dual.gradient(moving, dual.evaluate(moving, last=False))[0].flatten(), 2e-3, 0
    for k in range(reads.count):
        there = [[t.clone() for t in moving] for _ in range(2)]
        for sign, one in zip((1, -1), there, strict=True):
            one[0].view(-1)[k] += sign * step
        more, less = (float(dual.evaluate(one, last=False).value) for one in there)
        right += abs((more - less) / (2 * step) - float(found[k])) < 2e-2 * max(1.0, abs(float(found[k])))
    assert right >= reads.count - 1


def test_climbing_raises_the_bound_past_that_of_chords() -> None:
    gained = []
    for seed in range(4):
        root = plain_root(relus(seed))
        domains = root_domains(root)
        dual, theta = Dual.of(root, domains, proof=False), DualPoint.of(domains)
        climb = Climb(Schedule(20, gain=None), torch.full((1,), torch.inf), FOREVER)
        found, slope = raise_planes(dual, reads_of(root).to_search, theta, climb)
        raised = root.with_planes(RowPlanes(reads_of(root), slope), found.slopes)
        value = Dual.of(raised, domains, proof=True).at(found).value
        gained.append(float(value - Dual.of(root, domains, proof=True).at(theta).value))
    assert min(gained) >= -1e-6
    assert max(gained) > 0.05


# --- at tighter roots ---


@pytest.mark.parametrize("narrow", [False, True], ids=["float64", "float32"])
@pytest.mark.parametrize("seed", range(4))
def test_tighter_roots_with_planes_are_sound(seed: int, narrow: bool) -> None:
    """Neurons and targets, against exact minima."""
    question = knotted(seed, (3, 6, 5, 4, 2))
    problem = first_problem(question)
    with float32_first() if narrow else nullcontext():
        root, _ = root_of(BETA, problem)
        better = BETA.tighter(root, None, FOREVER)
        assert better is not None
        assert better.planes is not None
        bounds = BETA.whole(better, torch.full((1,), torch.inf), FOREVER, Clock())
        assert (better.single is not None) == narrow
    rows = problem.rows
    least = milp_minimum(problem.graph, *question.box, rows.coef[0].numpy(), rows.offset[0].numpy()).value
    assert float(bounds.domains.bound) <= least + 1e-5
    h = packed_values(better, random_points(problem, 300, seed))
    lower, upper = better.packed_bounds
    assert bool((h >= lower - 1e-5).all())
    assert bool((h <= upper + 1e-5).all())


def test_planes_make_a_root_tighter_than_slopes_do() -> None:
    ahead = 0
    for seed in range(4):
        problem = first_problem(knotted(seed, (3, 6, 5, 4, 2)))
        found = []
        for steps in (0, 12):
            bounder = replace(BETA, planes=steps)
            better = bounder.tighter(root_of(bounder, problem)[0], None, FOREVER)
            assert better is not None
            assert (better.planes is None) == (steps == 0)
            whole = bounder.whole(better, torch.full((1,), torch.inf), FOREVER, Clock())
            found.append(float(whole.domains.bound))
        assert found[1] >= found[0] - 1e-5
        ahead += found[1] > found[0] + 0.01
    assert ahead > 1


def test_a_network_of_one_layer_has_planes_once() -> None:
    build, rng = GraphBuilder(1, 3), np.random.default_rng(0)
    build.linear(build.relu(build.linear(0, rng.normal(size=(6, 3)))), rng.normal(size=(1, 6)))
    root, _ = root_of(BETA, box_problem(build.finish(), -1.0, 1.0))
    better = BETA.tighter(root, None, FOREVER)
    assert better is not None
    assert better.planes is not None
    assert BETA.tighter(better, None, FOREVER) is None
    assert BETA.tighter(root, None, Deadline(0.0)) is None


def test_sub_domains_carried_over_take_the_slopes_of_planes() -> None:
    problem = first_problem(knotted(1, (3, 6, 5, 4, 2)))
    root, bounds = root_of(BETA, problem)
    better = BETA.tighter(root, None, FOREVER)
    assert better is not None
    assert better.planes is not None
    assert better.planed is not None
    halves = split(bounds.domains, torch.zeros(1, 1, dtype=torch.int64))
    moved, _ = repack(halves, root, better)
    count = better.planes.reads.count
    assert torch.equal(moved.slopes[:, :count], better.planed[:, :count].expand(len(moved), -1))
    found = bound_of(BETA, better, moved)
    values = problem.rows.coef[0] @ problem.graph.values(points := random_points(problem, 200))[-1].flatten(1).mT
    least = (values - problem.rows.offset[0][:, None]).amax(0)
    there = inside(moved, packed_values(better, points))
    assert bool((found.domains.bound[:, None] <= torch.where(there, least, torch.inf) + 1e-9).all())
