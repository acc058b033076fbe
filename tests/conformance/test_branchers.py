"""What every branching rule owes the search: unstable neurons, best first. A new one joins by a line in BRANCHERS."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import Bounds
from netproof.bounds.domains import split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import Babsr, BabsrOriginal
from netproof.branching.brancher import Brancher
from netproof.branching.filtered import Filtered
from netproof.branching.random import Random
from netproof.paper.rivals.gnn.rule import Gnn
from support.asking import bound_of, first_problem, knotted, root_of
from support.awkward import GraphBuilder
from support.problems import box_problem, random_relus, unstable_of

BRANCHERS: dict[str, Brancher] = {
    "babsr": Babsr(),
    "babsr, original": BabsrOriginal(),
    "filtered": Filtered(),
    "gnn": Gnn(),
    "gnn, BaBSR wherever it is better": Gnn(weak=1.0),
    "gnn, online": Gnn(online=True),
    "random": Random(),
}

every_brancher = pytest.mark.parametrize("brancher", BRANCHERS.values(), ids=BRANCHERS)
BOUNDER = Lirpa(root_steps=5, neuron_steps=2, steps=2)


@cache
def situations(seeds: int = 6) -> list[tuple[Root, Bounds]]:
    """Roots, and batches in which neurons are split, decided by the splits, or contradictory."""
    found = []
    for seed in range(seeds):
        root, bounds = root_of(BOUNDER, first_problem(knotted(seed, (3, 5, 4, 2) if seed % 2 else (2, 6, 2))))
        found.append((root, bounds))
        order = torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))
        children = (split(bounds.domains, order[None, :count]) for count in (1, 3, root.count))
        found.extend((root, bound_of(BOUNDER, root, domains)) for domains in children)
    return found


def check(chosen: Tensor, bounds: Bounds, k: int) -> None:
    """(domain, at most k): unstable, each once, as many as there are, −1 behind them."""
    unstable = unstable_of(bounds.domains)
    assert chosen.shape[0] == len(bounds.domains)
    assert chosen.shape[1] == max(1, min(k, unstable.shape[1]))
    for row, free in zip(chosen.tolist(), unstable, strict=True):
        real = [neuron for neuron in row if neuron >= 0]
        assert row == real + [-1] * (len(row) - len(real))
        assert len(set(real)) == len(real) == min(k, int(free.sum()))
        assert all(bool(free[neuron]) for neuron in real)


@every_brancher
@pytest.mark.parametrize("k", [1, 2, 5, 50])
def test_it_chooses_unstable_neurons_and_minus_one_past_the_last(brancher: Brancher, k: int) -> None:
    some = full = 0
    for root, bounds in situations():
        check(brancher.choose(root, bounds, k), bounds, k)
        some += int((unstable_of(bounds.domains).sum(1) < k).sum())
        full += int((unstable_of(bounds.domains).sum(1) >= k).sum())
    assert k == 50 or full > 0
    assert some > 0


@every_brancher
def test_the_best_comes_first_and_fewer_are_a_prefix(brancher: Brancher) -> None:
    for root, bounds in situations():
        scores = brancher.scores(root, bounds)
        assert scores.shape == unstable_of(bounds.domains).shape
        many = brancher.choose(root, bounds, root.count)
        for row, score in zip(many, scores, strict=True):
            ranked = score[row[row >= 0]]
            assert bool((ranked[:-1] >= ranked[1:]).all())
        first = brancher.choose(root, bounds, 1)
        real = first[:, 0] >= 0
        best = scores.gather(1, first.clamp(min=0))[real]
        assert torch.equal(best, scores.gather(1, many[:, :1].clamp(min=0))[real])


@every_brancher
def test_the_choice_is_the_same_every_time(brancher: Brancher) -> None:
    for root, bounds in situations(2):
        assert torch.equal(brancher.choose(root, bounds, 4), brancher.choose(root, bounds, 4))


@every_brancher
def test_a_domain_is_ranked_alone_as_in_a_batch(brancher: Brancher) -> None:
    for root, bounds in situations(2):
        together = brancher.choose(root, bounds, 3)
        for i in range(len(bounds.domains)):
            one = torch.tensor([i])
            alone = Bounds(bounds.domains.select(one), bounds.empty[one], bounds.coef[one], bounds.point[one])
            assert torch.equal(brancher.choose(root, alone, 3)[0], together[i])


@every_brancher
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 0.0])
def test_useless_coefficients_leave_no_unstable_neuron_out(brancher: Brancher, poison: float) -> None:
    """A search that cannot name a neuron would take the domain for a leaf."""
    for root, bounds in situations(3):
        bad = replace(bounds, coef=torch.full_like(bounds.coef, poison))
        check(brancher.choose(root, bad, 4), bad, 4)


@every_brancher
def test_trying_some_first_changes_no_more_than_their_order(brancher: Brancher) -> None:
    changed = 0
    for root, bounds in situations(3):
        domains = replace(bounds.domains, candidates=brancher.choose(root, bounds, 5))
        assert torch.equal(brancher.reorder(root, domains, 0), domains.candidates)
        for probes in (1, 3, 12):
            tried = brancher.reorder(root, domains, probes)
            assert torch.equal(tried[:, :probes].sort(1).values, domains.candidates[:, :probes].sort(1).values)
            assert torch.equal(tried[:, probes:], domains.candidates[:, probes:])
            changed += not torch.equal(tried, domains.candidates)
    assert (changed > 0) == isinstance(brancher, Filtered)


def test_the_original_rule_takes_the_first_layer_only_where_no_other_neuron_loses_anything() -> None:
    later = first = 0
    for root, bounds in situations():
        start = root.graph32.layers[0].count
        for i, (neuron,) in enumerate(BabsrOriginal().choose(root, bounds, 1).tolist()):
            if neuron < 0:
                continue
            low, high = bounds.domains.lower[i, start:], bounds.domains.upper[i, start:]
            loses = unstable_of(bounds.domains)[i, start:] & (bounds.coef[i, start:] * low * high / (high - low) > 1e-4)
            if bool(loses.any()):
                assert neuron >= start
            first += neuron < start
            later += neuron >= start
    assert first > 0
    assert later > 0


# --- BaBSR on networks made for it ---


def whole(build: GraphBuilder) -> tuple[Root, Bounds]:
    return root_of(Lirpa(root_steps=5), box_problem(build.finish(), -1.0, 1.0))


@pytest.mark.parametrize("seed", range(5))
def test_branching_names_unstable_neurons_once_each_below_its_own_choices(seed: int) -> None:
    root, bounds = root_of(BOUNDER, box_problem(random_relus(seed, (6, 6, 6), 2), -1.0, 1.0))
    for _ in range(3):
        ranked = replace(bounds.domains, candidates=Babsr().choose(root, bounds, 12))
        bounds = bound_of(BOUNDER, root, split(ranked, ranked.candidates[:, :1]))
    check(Babsr().choose(root, bounds, 8), bounds, 8)


def test_branching_prefers_what_the_bound_hangs_on() -> None:
    """Two neurons alike but for their weight in the output, which is −10 against −0.1."""
    build = GraphBuilder(1, 2)
    h = build.relu(build.linear(0, np.eye(2), np.zeros(2)))
    build.linear(h, np.array([[-0.1, -10.0]]), np.zeros(1))
    assert Babsr().choose(*whole(build), 2).tolist() == [[1, 0]]


def test_branching_where_nothing_can_be_split() -> None:
    build = GraphBuilder(1, 1)
    build.linear(0, np.array([[1.0]]), np.zeros(1))
    assert Babsr().choose(*whole(build), 4).tolist() == [[-1]]
