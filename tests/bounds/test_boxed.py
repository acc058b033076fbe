"""Sub-domains in boxes of the input: decisions on node 0, as bounds, probes and LPs see them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounder, Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import condenser
from netproof.bounds.domains import Domains
from netproof.bounds.dual import DualPoint
from netproof.bounds.lirpa import Lirpa, confirm_jointly
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.branching.filtered import children
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.search.leaf import LeafLP
from support.asking import root_of
from support.problems import box_problem, packed_values, random_relus

NEVER = torch.inf
BOUNDERS = {"beta": Beta(root_steps=3, neuron_steps=0), "lirpa": Lirpa(root_steps=3, neuron_steps=0)}
either_net = pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])
seeded = pytest.mark.parametrize("seed", range(4))


def quarters(seed: int) -> tuple[Root, Domains]:
    """The four quarters of [−1, 1]² as sub-domains of one root, split once on a neuron each."""
    root, _ = root_of(Beta(root_steps=0, neuron_steps=0), box_problem(random_relus(seed, (6, 5), 1), -1.0, 1.0))
    whole = root_domains(root)
    cuts = [
        ([-1.0, -1.0], [0.25, 0.0]),
        ([-1.0, 0.0], [0.25, 1.0]),
        ([0.25, -1.0], [1.0, 0.0]),
        ([0.25, 0.0], [1.0, 1.0]),
    ]
    boxes = torch.tensor(cuts, dtype=torch.float64)
    parts = concatenate([whole] * 4)
    neuron = torch.arange(4)[:, None] % root.count
    return root, split_on(root, replace(parts, inside=boxes, level=parts.level + 2), neuron)


def unboxed(domains: Domains) -> Domains:
    """The same anywhere in the input set."""
    return replace(domains, inside=domains.inside[:, :0, :0])


def least(root: Root, domains: Domains) -> torch.Tensor:
    """(domain,): the least output seen inside each, inf where no point was."""
    share = torch.rand(20_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = []
    for i in range(len(domains)):
        low, high = domains.inside[i]
        points = (low + share * (high - low)).view(-1, *root.problem.graph.input.shape)
        h, y = packed_values(root, points), root.problem.graph.forward(points).flatten()
        here = ((h >= domains.lower[i]) & (h <= domains.upper[i])).all(1)
        found.append(float(y[here].min()) if bool(here.any()) else torch.inf)
    return torch.tensor(found, dtype=torch.float64)


@seeded
@either_net
@pytest.mark.parametrize("name", BOUNDERS)
def test_bounds_hold_in_the_box_and_gain_by_it(
    name: str, seed: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    bounder: Bounder = BOUNDERS[name]
    root, domains = quarters(seed)
    given = torch.full((len(domains),), NEVER, dtype=torch.float64), Deadline(), Clock()
    found = bounder.bound(root, domains, *given).domains
    anywhere = bounder.bound(root, unboxed(domains), *given).domains
    seen = least(root, domains)
    assert bool((found.bound <= seen + 1e-9).all())
    assert int(seen.isfinite().sum()) >= 5
    assert float(found.bound.mean()) > float(anywhere.bound.mean())
    assert torch.equal(found.inside, domains.inside)


@seeded
@either_net
def test_neurons_that_a_split_moves_gain_by_the_box(seed: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded jointly with the output, as `lirpa` does."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    root, domains = quarters(seed)
    second = root.layers[1]
    again = {1: torch.arange(second.count).repeat(len(domains), 1)}
    theta = DualPoint(domains.slopes, None, domains.weights)
    boxed, anywhere = (
        confirm_jointly(root, d, again, theta, Clock()).domains.lower[:, second.packed].mean()
        for d in (domains, unboxed(domains))
    )
    assert float(boxed) > float(anywhere)


@seeded
def test_points_where_a_bound_is_attained_lie_in_the_box(seed: int) -> None:
    root, domains = quarters(seed)
    threshold = torch.full((len(domains),), NEVER, dtype=torch.float64)
    point = BOUNDERS["beta"].bound(root, domains, threshold, Deadline(), Clock()).point.flatten(1).double()
    slack = 1e-6
    assert bool(((point >= domains.inside[:, 0] - slack) & (point <= domains.inside[:, 1] + slack)).all())


@seeded
def test_neurons_bounded_again_hold_in_the_box(seed: int) -> None:
    root, domains = quarters(seed)
    again, anywhere = (rebound(root, d, 8, Schedule(4, 0.1), Deadline()) for d in (domains, unboxed(domains)))
    assert float((again.upper - again.lower).mean()) < float((anywhere.upper - anywhere.lower).mean())
    assert bool((again.upper - again.lower <= domains.upper - domains.lower).all())
    assert bool((again.upper - again.lower < domains.upper - domains.lower).any())
    share = torch.rand(4000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for i in range(len(domains)):
        low, high = domains.inside[i]
        h = packed_values(root, (low + share * (high - low)).view(-1, *root.problem.graph.input.shape))
        here = ((h >= domains.lower[i]) & (h <= domains.upper[i])).all(1)
        assert bool(((h >= again.lower[i]) & (h <= again.upper[i]))[here].all())


@seeded
def test_probes_of_a_sub_domain_are_those_of_its_box(seed: int) -> None:
    """What is probed in a batch is what is probed alone, and better than without the boxes."""
    root, domains = quarters(seed)
    neurons = torch.arange(2).repeat(len(domains), 1)
    together = children(root, domains, neurons)
    anywhere = children(root, unboxed(domains), neurons)
    assert bool((together >= anywhere - 1e-5).all())
    assert float(together.mean()) > float(anywhere.mean())
    for i in range(len(domains)):
        alone = children(root, domains.select(slice(i, i + 1)), neurons[:1])
        assert torch.allclose(together[i], alone[0], atol=1e-5)


@seeded
def test_the_lp_of_a_sub_domain_knows_its_box(seed: int) -> None:
    root, domains = quarters(seed)
    found, seen = LeafLP(root, 1).decide(domains, Deadline()), least(root, domains)
    assert bool((found.bound <= seen + 1e-9).all())
    anywhere = LeafLP(root, 1).decide(unboxed(domains), Deadline())
    assert bool((found.bound >= anywhere.bound - 1e-6).all())
    assert float(found.bound.nan_to_num(posinf=9.0).mean()) > float(anywhere.bound.nan_to_num(posinf=9.0).mean())
    point = found.point.flatten(1).double()
    there = point.isfinite().all(1)
    slack = 1e-6
    inside = (point >= domains.inside[:, 0] - slack) & (point <= domains.inside[:, 1] + slack)
    assert bool(inside[there].all())
