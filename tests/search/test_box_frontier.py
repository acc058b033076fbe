"""The frontier of boxes gives back what it was given, and children fill their parents."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from netproof.branching.inputs import split
from netproof.search.boxes.parts import Boxes
from netproof.search.frontier import Frontier


def random_boxes(count: int, seed: int) -> Boxes:
    g = torch.Generator().manual_seed(seed)
    lower = torch.rand(count, 3, generator=g, dtype=torch.float64)
    return Boxes(
        torch.randint(5, (count,), generator=g),
        lower,
        lower + torch.rand(count, 3, generator=g, dtype=torch.float64),
        torch.randn(count, generator=g, dtype=torch.float64),
        torch.rand(count, 3, generator=g, dtype=torch.float64),
        torch.randint(-1, 2, (count, 4), generator=g, dtype=torch.int8),
        torch.arange(count),
    )


def listed(*parts: Boxes) -> list[tuple[object, ...]]:
    return sorted(
        tuple(tuple(t.flatten().tolist()) for t in (getattr(p, f.name)[i] for f in fields(Boxes)))
        for p in parts
        for i in range(len(p))
    )


def test_a_frontier_gives_back_what_it_was_given_worst_first() -> None:
    first, second = random_boxes(7, 1), random_boxes(30, 2)
    frontier = Frontier(first.select(torch.zeros(0, dtype=torch.int64)))
    frontier.push(first)
    frontier.push(second)
    taken = [frontier.pop(5), frontier.pop(4, best=True)]
    assert taken[0].bound.max() <= frontier.domains.bound.min()
    assert taken[1].bound.min() >= frontier.domains.bound.max()
    frontier.push(taken[0])
    assert len(frontier) == 33
    taken = [taken[1], frontier.pop(20), frontier.pop(100)]
    assert len(frontier) == 0
    assert listed(*taken) == listed(first, second)


def test_what_was_taken_is_not_overwritten() -> None:
    frontier = Frontier(random_boxes(4, 1))
    taken = frontier.pop(9)
    before = listed(taken)
    frontier.push(random_boxes(4, 2))
    assert listed(taken) == before


@pytest.mark.parametrize("times", [1, 2, 5])
def test_children_fill_their_parents(times: int) -> None:
    boxes = random_boxes(6, 3)
    upper = boxes.upper.clone()
    upper[:, 1] = boxes.lower[:, 1]  # a pinned coordinate
    lower, high, parent = split(boxes.lower, upper, boxes.score, times)
    assert len(lower) == 6 * 2**times
    free = torch.tensor([0, 2])
    for b in range(6):
        mine = parent == b
        assert int(mine.sum()) == 2**times
        volume = (high[mine] - lower[mine])[:, free].prod(1).sum()
        torch.testing.assert_close(volume, (upper[b] - boxes.lower[b])[free].prod())
        assert torch.equal(lower[mine].amin(0), boxes.lower[b])
        assert torch.equal(high[mine].amax(0), upper[b])
