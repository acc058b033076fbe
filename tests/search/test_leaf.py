"""Leaves by LP: each with its own bounds, and nothing proved where the LP has no word."""

from __future__ import annotations

import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import root_domains
from netproof.bounds.domains import Domains, split
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.search.leaf import LeafLP, with_bounds
from support.asking import CPU
from support.problems import box_problem, packed_values, random_points, random_relus


def leaves(seed: int) -> tuple[Root, Domains]:
    root = build_root(box_problem(random_relus(seed, (5,), 1), -1.0, 1.0), CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root, split(root_domains(root), torch.arange(root.count)[None])


def test_a_leafs_bound_is_its_own() -> None:
    """Below every value on the leaf, and met by some: on a leaf the network is linear."""
    met = 0
    for seed in range(4):
        root, domains = leaves(seed)
        bounds = LeafLP(root, 1).decide(domains, Deadline(None)).bound
        points = random_points(root.problem, 4000, seed)
        h, value = packed_values(root, points), root.problem.graph.forward(points)[:, 0, 0]
        for bound, splits in zip(bounds, domains.splits, strict=True):
            inside = (h * splits.sign() >= 0).all(1)
            assert bool((bound <= value[inside] + 1e-9).all())
            met += bool((value[inside] <= bound + 0.05).any())
    assert met > 10


def test_past_the_deadline_a_leaf_keeps_what_was_proved_before() -> None:
    root, domains = leaves(0)
    expired = Deadline()
    expired.cancel()
    outcomes = LeafLP(root, 1).decide(domains, expired)
    assert bool((outcomes.bound == -torch.inf).all())
    assert torch.equal(with_bounds(domains, outcomes.bound).bound, domains.bound)
