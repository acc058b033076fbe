"""Sub-domains: a split covers its parent, bookkeeping of depths, and batches that come apart and together again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from netproof.bounds.domains import Domains, parents, split
from netproof.core.batch import concatenate
from support.problems import plain_domains as domains
from support.problems import same_domains as same
from support.problems import unstable_of


def covers(parent: Domains, children: Domains, h: torch.Tensor) -> torch.Tensor:
    """(point,): whether some child of the one parent holds the point, given its h (point, U)."""
    low, high = children.lower[:, None], children.upper[:, None]
    return ((low <= h) & (h <= high)).all(2).any(0)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_a_split_makes_all_sign_patterns_and_covers_the_parent(k: int) -> None:
    parent = domains(1, 6)
    neurons = torch.tensor([[4, 0, 5, 2, 1][:k]])
    children = split(parent, neurons)
    assert len(children) == 2**k
    patterns = {tuple(row.tolist()) for row in children.splits[:, neurons[0]].sign()}
    assert len(patterns) == 2**k
    assert all(0 not in pattern for pattern in patterns)
    h = parent.lower + torch.rand(2000, 6) * (parent.upper - parent.lower)
    h[::3] = h[::3] * (torch.rand(len(h[::3]), 6) > 0.3)  # zeros lie on both sides: the halves are closed
    assert bool(covers(parent, children, h).all())
    inner = ((children.lower[:, None] <= h) & (h <= children.upper[:, None])).all(2).sum(0)
    assert bool((inner[(h != 0).all(1)] == 1).all())  # and they overlap only at 0


def test_a_split_moves_only_the_bounds_that_it_decides() -> None:
    parent = domains(2, 4)
    children = split(parent, torch.tensor([[1], [3]]))
    assert children.target.tolist() == [0, 0, 1, 1]
    for i, (origin, neuron, sign) in enumerate([(0, 1, 1), (0, 1, -1), (1, 3, 1), (1, 3, -1)]):
        low, high = parent.lower[origin].clone(), parent.upper[origin].clone()
        (low if sign > 0 else high)[neuron] = 0.0
        assert torch.equal(children.lower[i], low)
        assert torch.equal(children.upper[i], high)
        assert float(children.bound[i]) == float(parent.bound[origin])
        assert torch.equal(children.slopes[i], parent.slopes[origin])
    assert torch.equal(unstable_of(children).sum(1), torch.tensor([3, 3, 3, 3]))


def test_bounds_that_already_know_the_sign_are_not_loosened() -> None:
    parent = domains(1, 2)
    parent = replace(parent, lower=torch.tensor([[0.25, -1.0]]))
    children = split(parent, torch.tensor([[0]]))
    assert children.lower[0, 0] == 0.25
    assert children.lower[1, 0] == 0.25  # and upper 0: an empty sub-domain, which bounding finds
    assert children.upper[1, 0] == 0.0


def test_a_missing_neuron_splits_nothing() -> None:
    parent = domains(3, 4)
    children = split(parent, torch.tensor([[2, 1], [3, -1], [-1, -1]]))
    assert len(children) == 4 + 2 + 1
    assert sorted(children.target.tolist()) == [0, 0, 0, 0, 1, 1, 2]
    untouched = children.select(children.target == 2)
    assert same(untouched, parent.select(torch.tensor([2])))
    assert children.depth[children.target == 1].tolist() == [1, 1]


def test_depths_count_decisions_in_order() -> None:
    once = split(domains(1, 4), torch.tensor([[2]]))
    twice = split(once, torch.tensor([[0, 3]]).repeat(2, 1))
    assert once.depth.tolist() == [1, 1]
    assert twice.depth.tolist() == [3] * 8
    assert twice.splits.abs().unique(dim=0).tolist() == [[2, 0, 1, 3]]


def test_a_parent_lacks_the_last_decision_alone() -> None:
    children = split(split(domains(1, 4), torch.tensor([[2]])), torch.tensor([[0], [3]]))
    above = parents(children)
    assert [row.tolist() for row in above.abs()] == [[0, 0, 1, 0]] * 4
    assert torch.equal(above.sign()[:, 2], children.splits.sign()[:, 2])
    assert parents(domains(2, 3)).tolist() == [[0, 0, 0]] * 2


def test_containment_follows_signs_not_depths() -> None:
    parent = domains(1, 3)
    first = split(split(parent, torch.tensor([[0]])), torch.tensor([[1], [1]]))
    other = split(split(parent, torch.tensor([[1]])), torch.tensor([[0], [0]]))  # the other order
    both = concatenate([first, other])
    assert int(both.contained_in(first.splits[0]).sum()) == 2
    assert bool(both.contained_in(torch.zeros(3, dtype=torch.int16)).all())
    positive = torch.tensor([7, 0, 0], dtype=torch.int16)
    assert torch.equal(both.contained_in(positive), both.splits[:, 0] > 0)
    assert not bool(parent.contained_in(positive).any())  # a larger one is not contained


def test_every_child_is_contained_in_its_ancestors() -> None:
    parent = split(domains(1, 5), torch.tensor([[3]]))
    children = split(parent, torch.tensor([[0, 1], [2, 4]]))
    for child in range(len(children)):
        origin = 0 if int(children.splits[child, 3]) > 0 else 1
        assert bool(children.contained_in(parent.splits[origin])[child])
        assert not bool(children.contained_in(parent.splits[1 - origin])[child])


def test_select_and_concatenate_are_inverse() -> None:
    whole = domains(5, 3)
    mask = torch.tensor([True, False, True, True, False])
    parts = [whole.select(mask), whole.select(~mask)]
    assert [len(p) for p in parts] == [3, 2]
    back = concatenate(parts)
    order = back.target.argsort()
    assert same(back.select(order), whole)
    assert concatenate([whole]) is whole
    assert len(whole.select(torch.zeros(0, dtype=torch.int64))) == 0


def test_what_is_put_back_stands_where_it_stood() -> None:
    everything = domains(6, 4)
    index = torch.tensor([4, 1, 2])
    changed = replace(everything.select(index), bound=torch.tensor([40.0, 10.0, 20.0], dtype=torch.float64))
    found = everything.put(index, changed)
    assert torch.equal(found.target, everything.target)
    assert found.bound[index].tolist() == [40.0, 10.0, 20.0]
    rest = torch.tensor([0, 3, 5])
    assert same(found.select(rest), everything.select(rest))
