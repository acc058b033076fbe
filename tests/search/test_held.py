"""Sub-domains that wait: what comes back is what was put away, but for slopes, in a fraction of the memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.domains import Domains, split
from netproof.bounds.linear import memory
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.scope import split_on
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.model.nonlinear.smooth.powers import Power
from netproof.search.waiting.held import STEPS, Held, Keeper
from support.awkward import GraphBuilder
from support.problems import box_problem, random_relus, targets_of

CPU = torch.device("cpu")
EXACT = ("target", "splits", "lower", "upper", "points", "multipliers", "weights", "bound", "candidates", "level")


def root_of(graph: Graph, targets: int = 2) -> Root:
    rows = targets_of([[[float(i + 1)]] for i in range(targets)])
    root = build_root(box_problem(graph, -1.0, 1.0, rows), CPU, Schedule(0), Deadline())
    assert root is not None
    return root


def cubes() -> Graph:
    rng, b = np.random.default_rng(1), GraphBuilder(1, 3)
    hidden = b.add(Power(3), b.linear(0, rng.normal(size=(12, 3))))
    b.linear(hidden, rng.normal(size=(1, 12)))
    return b.finish()


def some_domains(root: Root, seed: int = 0, splits: int = 3) -> Domains:
    """Sub-domains with splits, multipliers of these, slopes of their own and some neurons bounded again."""
    g = torch.Generator().manual_seed(seed)
    domains = root_domains(root)
    for _ in range(splits):
        neurons = torch.randint(root.count, (len(domains), 1), generator=g)
        domains = split_on(root, domains, neurons)
    shape = domains.splits.shape
    return replace(
        domains,
        slopes=torch.rand(shape, generator=g),
        multipliers=torch.rand(shape, generator=g) * (domains.splits != 0),
        bound=torch.randn(shape[0], generator=g, dtype=torch.float64),
        candidates=torch.randint(-1, root.count, (shape[0], 4), generator=g),
        evaluated=torch.full((shape[0], 2), 7),
        settled=torch.arange(shape[0]),
        rebounded=torch.arange(shape[0]),
    )


def check_exact(back: Domains, domains: Domains) -> None:
    for name in (*EXACT, "settled", "rebounded", "inside"):
        mine, theirs = getattr(back, name), getattr(domains, name)
        assert torch.equal(mine, theirs), name
        assert mine.dtype == theirs.dtype, name


@pytest.mark.parametrize("moved", [1 << 24, 1])
def test_what_comes_back_is_what_was_put_away(moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOVED", moved)  # also one sub-domain at a time
    root = root_of(random_relus(3, (40, 30), 1))
    domains = some_domains(root)
    lower = domains.lower.clone()
    lower[1, 5] += 0.001  # as a neuron that was bounded again
    domains = replace(domains, lower=lower)
    held = Keeper.of(root).put_away(domains)
    assert held.columns is not None
    back = Keeper.of(root).bring_back(held)
    check_exact(back, domains)
    assert float((back.slopes - domains.slopes).abs().max()) <= 0.5 / STEPS + 1e-6
    assert not back.evaluated.any()  # its slopes are not those that gave its bound


def test_slopes_at_the_ends_of_their_range_stay_there() -> None:
    root = root_of(random_relus(3, (40, 30), 1))
    domains = some_domains(root)
    domains = replace(domains, slopes=domains.slopes.round())
    back = Keeper.of(root).bring_back(Keeper.of(root).put_away(domains))
    assert torch.equal(back.slopes, domains.slopes)


def test_it_takes_a_fraction_of_the_memory() -> None:
    root = root_of(random_relus(3, (400, 300), 1))
    domains = some_domains(root, splits=6)
    held = Keeper.of(root).put_away(domains)
    assert held.bytes == sum(t.numel() * t.element_size() for t in held.tensors())
    assert held.bytes < domains.bytes / 8
    assert held.coarser().bytes < domains.bytes / 20


def test_without_slopes_the_climb_begins_with_those_of_the_whole_set() -> None:
    root = root_of(random_relus(3, (40, 30), 1))
    domains, start = some_domains(root), torch.rand(2, root.count)
    keeper = Keeper.of(root, start)
    back = keeper.bring_back(keeper.put_away(domains).coarser())
    check_exact(back, domains)
    assert torch.equal(back.slopes, start[domains.target])


def test_sub_domains_that_differ_everywhere_are_kept_as_they_are() -> None:
    """As those of `lirpa`, whose neurons are all bounded again."""
    root = root_of(random_relus(3, (40, 30), 1))
    domains = some_domains(root)
    domains = replace(domains, lower=domains.lower * 0.9, upper=domains.upper * 0.9)
    held = Keeper.of(root).put_away(domains)
    assert held.columns is None
    check_exact(Keeper.of(root).bring_back(held), domains)


def test_points_of_neurons_that_are_split_anywhere_are_kept() -> None:
    root = root_of(cubes(), 1)
    domains = some_domains(root, splits=2)
    assert domains.points.shape[1] == root.count
    assert bool(domains.points.any())
    check_exact(Keeper.of(root).bring_back(Keeper.of(root).put_away(domains)), domains)


def test_one_that_has_nothing_of_its_own() -> None:
    root = root_of(random_relus(3, (40, 30), 1))
    domains = some_domains(root, splits=0)
    held: Held = Keeper.of(root).put_away(domains)
    assert held.columns is not None
    assert held.columns.shape == (2, 0)
    check_exact(Keeper.of(root).bring_back(held), domains)


def test_a_bound_that_is_no_number_comes_back() -> None:
    root = root_of(random_relus(3, (40, 30), 1))
    domains = split(some_domains(root, splits=0), torch.tensor([[1], [2]]))
    lower = domains.lower.clone()
    lower[0, 3] = torch.nan
    back = Keeper.of(root).bring_back(Keeper.of(root).put_away(replace(domains, lower=lower)))
    assert torch.equal(back.lower.isnan(), lower.isnan())
    assert torch.equal(back.lower.nan_to_num(), lower.nan_to_num())
