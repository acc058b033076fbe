"""A joint evaluation in parts: some sub-domains and some neurons at a time, and a deadline in between."""

from __future__ import annotations

import pytest
import torch

from netproof.bounds.base import Clock, root_domains
from netproof.bounds.domains import split
from netproof.bounds.dual import DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.affected import moved_neurons
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from support.joint import NEVER, all_candidates, assert_holds, dense, rooted
from support.problems import random_points


class Ending(Deadline):
    """A deadline that is over after so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    @property
    def expired(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_a_deadline_inside_a_climb_leaves_sound_bounds(looks: int) -> None:
    """Whenever it comes: what was found counts as far as it was confirmed, and is never worse than what was known."""
    root = rooted(dense(0))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0, 1]]))
    never = torch.full((len(children),), NEVER, dtype=torch.float64)
    bounds = Lirpa(steps=8).bound(root, children, never, Ending(looks), Clock())
    assert_holds(root, bounds, random_points(root.problem, 400))
    assert bool((bounds.domains.lower >= children.lower).all())
    assert bool((bounds.domains.upper <= children.upper).all())


def test_an_expired_deadline_bounds_no_neuron() -> None:
    root = rooted(dense(0))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0]]))
    never = torch.full((2,), NEVER, dtype=torch.float64)
    free = Lirpa(steps=2).bound(root, children, never, Deadline(), Clock()).domains
    late = Lirpa(steps=2).bound(root, children, never, Ending(0), Clock()).domains
    assert not torch.equal(free.lower, children.lower)
    assert torch.equal(late.lower, children.lower)


def test_neurons_in_several_passes_are_bounded_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    root = rooted(dense(1))
    children = split(all_candidates(root, root_domains(root)), torch.tensor([[0, 1]]))
    moved = moved_neurons(root, children, None)
    theta = DualPoint(children.slopes, None, children.weights)
    whole = Joint.of(root, children, moved, proof=True).neurons(theta)
    monkeypatch.setattr(type(root.net64), "climbs_that_fit", lambda self: 3)
    parts = Joint.of(root, children, moved, proof=True).neurons(theta)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert any(which.shape[1] > 3 for which in moved.values())


def test_parts_come_back_in_the_order_of_the_sub_domains() -> None:
    """A split in the last layer moves nothing, one in the first does: they are bounded apart."""
    root = rooted(dense(0))
    whole = all_candidates(root, root_domains(root))
    last, first = root.count - 1, 0
    children = concatenate([split(whole, torch.tensor([[neuron]])) for neuron in (last, first)])
    never = torch.full((len(children),), NEVER, dtype=torch.float64)
    bounds = Lirpa(steps=2).bound(root, children, never, Deadline(), Clock())
    assert torch.equal(bounds.domains.splits, children.splits)
    assert torch.equal(bounds.domains.evaluated[:, 0], torch.tensor([2, 2, 2, 2]))  # two parts
