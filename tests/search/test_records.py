"""Every number that a proof rests on can be had again from what is stored beside it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import condenser
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import Nothing
from netproof.bounds.scope import split_on
from netproof.branching.babsr import Babsr
from netproof.branching.filtered import Filtered
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.asking import CPU, EVERY_EXTRA, nearly_broken, root_of
from support.single import float32_first

EXTRAS = replace(EVERY_EXTRA, probes=3)
METHODS = (
    Method(Beta(root_steps=4, neuron_steps=3, steps=3), Filtered(), 8, lp_threshold=None, extras=EXTRAS),
    Method(Lirpa(root_steps=8, neuron_steps=4, steps=4, rebound=4), Babsr(), batch=8, lp_threshold=64, extras=EXTRAS),
)


class Told(NamedTuple):
    """What a recorder hears of neurons."""

    root: Root
    domains: Domains
    layer: int
    which: Tensor  # (domain, K)
    slopes: Tensor
    multipliers: Tensor | None


@dataclass
class Kept(Nothing):
    """Keeps everything that it hears of."""

    leaves: list[tuple[Root, Domains, str]] = field(default_factory=list)
    tightened: list[Told] = field(default_factory=list)
    again: list[int] = field(default_factory=list)  # targets that were searched from the start again

    def neurons(
        self, scope: Any, domains: Domains, layer: int, which: Tensor, slopes: Tensor, multipliers: Tensor | None
    ) -> None:
        self.tightened.append(Told(scope, domains, layer, which, slopes, multipliers))

    def restarted(self, targets: Tensor) -> None:
        self.again += targets.tolist()

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        self.leaves.append((scope, domains, by))


def searched(seed: int, method: Method) -> Kept:
    """Run a search for some rounds, and keep what it told."""
    kept, problem = Kept(), nearly_broken(seed)
    goal = Decide(problem, lambda point, target: None)
    Search(problem, method, goal, Work(CPU, 1, Deadline(), Stats(), recorder=kept)).run(rounds=10)
    return kept


def evaluated_again(root: Root, leaf: Domains) -> tuple[Tensor, Tensor]:
    """Evaluate what a leaf stores: in a batch of the shape it was in, at its place; and alone."""
    count, place = leaf.evaluated[0].tolist()
    net = root.net64 if count > 0 else root.single
    assert net is not None
    batch = leaf.select(torch.zeros(abs(count), dtype=torch.int64))
    together = Dual.on(net, root.valid, batch).at(DualPoint.of(batch)).value[place]
    alone = Dual.on(net, root.valid, leaf).at(DualPoint.of(leaf)).value[0]
    return together, alone


def rounding_term(root: Root, leaf: Domains) -> Tensor:
    """Return at least what was taken off for rounding: the value without charges, less the proof's."""
    if int(leaf.evaluated[0, 0]) < 0:  # in float32 it says so itself
        assert root.single is not None
        charge = Dual.on(root.single, root.valid, leaf).at(DualPoint.of(leaf)).pulled.charge
        assert charge is not None
        return charge[0] * 4
    proof = Dual.of(root, leaf, proof=True)
    bare = replace(root.condensed64, charges=None, region=root.condensed64.region.about_centre())
    theta = DualPoint.of(leaf)
    weights = (theta.weights.double() / theta.weights.double().sum(1, keepdim=True)).clamp(min=0)
    plain = replace(proof, net=bare).at(replace(theta, weights=weights))
    return (plain.value - proof.at(theta).value).abs()[0] * 2


@pytest.mark.parametrize("method", METHODS, ids=["beta", "lirpa"])
@pytest.mark.parametrize(("first", "on"), [(0, "cpu"), (5, "cpu"), (10, "cuda")])
def test_a_closed_leaf_gives_its_bound_again(first: int, on: str, method: Method) -> None:
    """Bit for bit in the batch's shape, within rounding alone; thirty searches, most of them in float32 first."""
    seen = 0
    for seed in range(first, first + 5):
        with float32_first(on):
            told = searched(seed, method).leaves
        for root, domains, by in told:
            own = (domains.evaluated[:, 0] != 0) & domains.bound.isfinite()
            for i in own.nonzero()[:12, 0].tolist() if by == "bound" else []:
                leaf = domains.select(slice(i, i + 1))
                together, alone = evaluated_again(root, leaf)
                assert float(together) == float(leaf.bound)
                term = rounding_term(root, leaf)
                assert abs(float(alone - leaf.bound)) <= float(term)
                assert float(leaf.bound) <= float(term) or float(alone) > 0
                seen += 1
    assert seen > 10


def test_another_process_gives_the_same_within_rounding(tmp_path: Path) -> None:
    """A root and its leaves travel, and prove there what they proved here."""
    told = [(root, domains) for root, domains, by in searched(3, METHODS[0]).leaves if by == "bound" and len(domains)]
    root, leaf = told[-1][0], told[-1][1].select(slice(0, 1))
    (tmp_path / "told.pickle").write_bytes(pickle.dumps((root, leaf)))
    script = (
        "import pickle, sys; from netproof.bounds.dual import Dual, DualPoint\n"
        "root, leaf = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(float(Dual.of(root, leaf, proof=True).at(DualPoint.of(leaf)).value).hex())"
    )
    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "told.pickle")], capture_output=True, text=True, check=True
    )
    there = float.fromhex(out.stdout.strip())
    assert abs(there - float(leaf.bound)) <= float(rounding_term(root, leaf))


@pytest.mark.parametrize("seed", range(4))
def test_every_neuron_that_is_bounded_again_is_told_of(seed: int) -> None:
    """A bound that is neither the root's nor a decision's was told of, with the parameters that gave it."""
    kept = searched(seed, METHODS[1])
    told = {(one.layer, int(w)) for one in kept.tightened for w in one.which.flatten()}
    moved = set()
    for root, domains, _ in kept.leaves:
        lower, upper = torch.cat(list(root.lower)), torch.cat(list(root.upper))
        of_root = (domains.lower == lower) | (domains.splits > 0), (domains.upper == upper) | (domains.splits < 0)
        for column in (~(of_root[0] & of_root[1])).any(0).nonzero()[:, 0].tolist():
            layer = next(k for k, one in enumerate(root.layers) if one.packed.start <= column < one.packed.stop)
            moved.add((layer, column - root.layers[layer].start))
    assert moved
    assert moved <= told


def lower_bounds(told: Told) -> Tensor:
    """Evaluate what gave the lower bounds of the neurons that were told of: (domain, K)."""
    net, layer = told.root.net64.upto(told.layer), told.root.layers[told.layer]
    found = []
    for i in range(told.which.shape[1]):
        forms, error = told.root.net64.neurons(told.layer, told.which[:, i].clamp(max=layer.count - 1))
        dual = Dual.of_forms(net, forms, error, told.domains.known.upto(layer.start))
        column = min(i, told.slopes.shape[2] - 1)
        beta = None if told.multipliers is None else told.multipliers[:, 0, column]
        found.append(dual.at(DualPoint(told.slopes[:, 0, column], beta, torch.ones(len(forms), 1))).value)
    return torch.stack(found, 1)


FIXED = Method(
    Lirpa(root_steps=0, neuron_steps=0, steps=0, rebound=4), Babsr(), batch=8, lp_threshold=64, extras=EXTRAS
)


@pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])
@pytest.mark.parametrize("method", [METHODS[1], FIXED], ids=["lirpa", "lirpa-fixed"])
def test_what_is_told_of_a_neuron_gives_its_bound_again(
    method: Method, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    kept, exact = searched(1, method), 0
    for told in kept.tightened:
        layer = told.root.layers[told.layer]
        real = told.which < layer.count
        stored = told.domains.lower[:, layer.packed].double().gather(1, told.which.clamp(max=layer.count - 1))
        again = lower_bounds(told)
        near = 1e-6 * (1 + again.abs())
        assert bool(((stored >= again - near) | ~real).all())
        exact += int((((stored - again).abs() <= near) & real).sum())
    assert exact > 10


@pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])
def test_what_is_bounded_again_with_multipliers_is_told_of_with_them(
    fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    root, bounds = root_of(METHODS[0].bounder, nearly_broken(1))
    children = split_on(root, bounds.domains, torch.tensor([[0, 1, 3]]).expand(len(bounds.domains), -1))
    kept = Kept()
    fresh = rebound(root, children, 4, Schedule(4), Deadline(), kept)
    assert bool((fresh.lower > children.lower).any())
    for told in kept.tightened:
        layer = told.root.layers[told.layer]
        assert told.multipliers is not None
        again = lower_bounds(told)[:, 0]
        owner = [
            next(i for i in range(len(children)) if torch.equal(children.splits[i], s)) for s in told.domains.splits
        ]
        stored = fresh.lower[owner, layer.start + told.which[:, 0]].double()
        assert bool((stored >= again - 1e-6 * (1 + again.abs())).all())
        assert bool(((stored - again).abs() <= 1e-6 * (1 + again.abs())).any())


def test_a_leaf_of_the_graph_gives_its_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: False)
    for method in METHODS:
        for root, domains, by in searched(2, method).leaves:
            own = (domains.evaluated[:, 0] != 0) & domains.bound.isfinite()
            for i in own.nonzero()[:4, 0].tolist() if by == "bound" else []:
                leaf = domains.select(slice(i, i + 1))
                assert float(evaluated_again(root, leaf)[0]) == float(leaf.bound)


def test_a_search_that_begins_again_says_so() -> None:
    """Under a tighter root, with too many open to carry over."""
    assert searched(1, METHODS[0]).again
