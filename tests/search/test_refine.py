"""Tighter roots: neurons bounded by branch and bound, sub-domains carried over, bounded again below the root."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.neurons.root import Root
from netproof.bounds.neurons.transfer import repack
from netproof.bounds.record import NOTHING, Nothing, Recorder, Sides
from netproof.bounds.scope import LayerScope
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.problem.problem import Problem
from netproof.search.root_tightening import NeuronSearch, size_of
from support.asking import bound_of, first_problem, knotted, root_of, sample
from support.exact import milp_minimum
from support.problems import inside, packed_values

BETA = Beta(root_steps=10, neuron_steps=5, steps=5)
WITHOUT_PLANES = replace(BETA, planes=0)
FOREVER = Deadline(None)


def deep(seed: int) -> Problem:
    return first_problem(knotted(seed, (3, 6, 5, 4, 2)))


def tightened(root: Root, worth: int = 36, recorder: Recorder = NOTHING) -> Root:
    bounder = BETA if recorder is NOTHING else WITHOUT_PLANES  # of planes nothing is told
    search = NeuronSearch(bounder, Babsr(), worth, size_of(root.net32), 0, FOREVER, Clock(recorder=recorder))
    better = bounder.tighter(root, search, FOREVER, recorder=recorder)
    assert better is not None
    return better


def width(root: Root) -> float:
    return sum(
        float((root.intervals.of[layer.pre].upper - root.intervals.of[layer.pre].lower).sum())
        for layer in root.graph32.layers
    )


def test_branching_on_neurons_tightens_and_never_cuts_off_a_value() -> None:
    gained = 0
    for seed in range(6):
        problem = deep(seed)
        root, _ = root_of(BETA, problem)
        slopes_only = BETA.tighter(root, None, FOREVER)
        assert slopes_only is not None
        better = tightened(root)
        values = problem.graph.values(sample(problem, 500, seed))
        for node, value in enumerate(values):
            interval = better.intervals.of[node]
            assert bool((interval.lower <= value + 1e-9).all())
            assert bool((value <= interval.upper + 1e-9).all())
        last = better.graph32.layers[-1].pre
        before, after = (r.intervals.of[last] for r in (slopes_only, better))
        gained += bool(((after.upper - after.lower) < (before.upper - before.lower) - 1e-6).any())
    assert gained >= 4


def test_with_rounds_enough_a_neuron_is_bounded_exactly() -> None:
    """Until no sub-domain can be split: the least bound meets the neuron's true minimum where no leaf is degenerate."""
    close = 0
    for seed in range(4):
        problem = deep(seed)
        question = knotted(seed, (3, 6, 5, 4, 2))
        root, _ = root_of(BETA, problem)
        better = tightened(root, worth=480)
        layer = better.graph32.layers[1]
        found = better.intervals.of[layer.pre]
        head = problem.graph.nodes[layer.pre]
        graph = type(problem.graph)(problem.graph.nodes[: layer.pre + 1])
        for place in layer.index.tolist():
            row = torch.zeros(1, head.size, dtype=torch.float64)
            row[0, place] = 1.0
            exact = milp_minimum(graph, *question.box, row.numpy(), torch.zeros(1).double().numpy(), {}).value
            bound = float(found.lower.flatten()[place])
            assert bound <= exact + 1e-6
            close += bound > exact - 0.05 * (1 + abs(exact))
    assert close >= 4


class Shown(Nothing):
    """Values what is told of neurons' bounds again; the telling is wrong where it says more than what it rests on."""

    def __init__(self) -> None:
        self.sides = self.inherited = 0

    def sloped(self, sides: Sides, bounds: Tensor, slopes: Tensor) -> None:
        one = torch.ones(len(slopes), 1, dtype=torch.bool)
        domains = Domains.unsplit(torch.arange(len(slopes)), *sides.root.packed_bounds, sides.root.points, slopes, one)
        assert bool((self._values(sides, domains) >= bounds - 1e-9).all())
        self.sides += int((bounds > -torch.inf).sum())

    def branched(self, sides: Sides, bounds: Tensor, leaves: Domains) -> None:
        assert bool((self._values(sides, leaves) >= bounds[leaves.target] - 1e-9).all())
        self.sides += len(leaves.target.unique())
        each = torch.cat([leaves.target[:, None], leaves.splits.sign()], 1)
        self.inherited += len(each) - len(each.unique(dim=0))

    @staticmethod
    def _values(sides: Sides, domains: Domains) -> Tensor:
        before = sides.root.nets_before(sides.pre, by_graph=False)
        forms, errors = before.forms(sides.places)
        forms = torch.where(sides.above[:, None], -forms, forms)
        part = LayerScope.of(sides.root, before.search, before.proof, forms, errors, torch.zeros(len(forms)))
        return Dual.of(part, domains, proof=True).at(DualPoint.of(domains)).value


def test_what_bounds_of_neurons_rest_on_is_told_with_them() -> None:
    """Of a leaf whose own θ is worse than its parent's, the parent: so some are told of twice."""
    shown = Shown()
    for seed in range(4):
        root, _ = root_of(BETA, deep(seed))
        tightened(root, 120, shown)
    assert shown.sides > 50
    assert shown.inherited > 0


def test_sub_domains_carried_over_hold_the_same_points() -> None:
    dropped = 0
    for seed in range(12):
        problem = deep(seed)
        root, bounds = root_of(BETA, problem)
        everything = torch.arange(root.count)
        chosen = everything[torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))[:4]][None]
        domains = bound_of(BETA, root, split(bounds.domains.select(slice(0, 1)), chosen)).domains
        better = tightened(root)
        moved, gone = repack(domains, root, better)
        points = sample(problem, 400, seed)
        assert sorted(torch.cat([moved.bound, gone.bound]).tolist()) == sorted(domains.bound.tolist())
        assert not bool(inside(gone, packed_values(root, points)).any())
        before, after = inside(domains, packed_values(root, points)), inside(moved, packed_values(better, points))
        assert bool((before.any(0) <= after.any(0)).all())  # no point is lost
        for i, points_of in enumerate(before):  # nor of any sub-domain, should its siblings be proved and gone
            alone = inside(repack(domains.select(slice(i, i + 1)), root, better)[0], packed_values(better, points))
            assert bool((points_of <= alone.any(0)).all())
        assert bool((moved.lower >= torch.cat(better.lower)).all())
        dropped += len(gone)
    assert dropped > 0  # some decisions contradict what the tighter root knows


def test_rebounded_bounds_hold_on_their_sub_domain_and_are_no_wider() -> None:
    moved = 0
    for seed in range(6):
        problem = deep(seed)
        root, bounds = root_of(BETA, problem)
        first = root.graph32.layers[0]
        chosen = torch.arange(min(4, first.count))[None]
        domains = split(bounds.domains.select(slice(0, 1)), chosen)
        fresh = rebound(root, domains, 8, Schedule(10, 0.1), FOREVER)
        assert bool((fresh.lower >= domains.lower).all())
        assert bool((fresh.upper <= domains.upper).all())
        moved += int(((fresh.upper - fresh.lower) < (domains.upper - domains.lower) - 1e-4).sum())
        holds(problem, root, fresh, seed)
    assert moved > 20


def holds(problem: Problem, root: Root, domains: Domains, seed: int) -> None:
    h = packed_values(root, sample(problem, 500, seed))
    here = inside(domains, h)
    for i in range(len(domains)):
        some = h[here[i]]
        if len(some):
            assert bool((domains.lower[i] <= some + 1e-6).all())
            assert bool((some <= domains.upper[i] + 1e-6).all())


def test_an_empty_sub_domain_is_found_by_its_rebounded_bounds() -> None:
    """Two copies of one neuron, decided against each other, and a layer after them."""
    problem = deep(1)
    root, bounds = root_of(BETA, problem)
    domains = bounds.domains.select(slice(0, 1))
    wrong = replace(domains, lower=domains.upper + 1.0)
    assert bool(bound_of(BETA, root, wrong).empty.all())
