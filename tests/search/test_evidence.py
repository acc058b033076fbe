"""Covers: the shares of proved sub-domains, added up exactly; a status is read off what they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch

from netproof.bounds.domains import split
from netproof.core.batch import concatenate
from netproof.core.verdict import Witness
from netproof.search import evidence
from netproof.search.evidence import Cover, Outcome
from support.problems import plain_domains

ONE, HALF = Fraction(1), Fraction(1, 2)


def tree(seed: int = 0, rounds: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets and levels of the leaves of random splits, several neurons at once, of two targets."""
    rng = np.random.default_rng(seed)
    leaves = plain_domains(2, 40)
    for _ in range(rounds):
        at = int(rng.integers(len(leaves)))
        unsplit = (leaves.splits[at] == 0).nonzero()[:, 0].tolist()
        neurons = rng.choice(unsplit, size=3, replace=False)
        neurons[int(rng.integers(1, 4)) :] = -1  # fewer than three
        rest = torch.arange(len(leaves)) != at
        leaves = concatenate(
            [leaves.select(rest), split(leaves.select(torch.tensor([at])), torch.tensor(neurons)[None])]
        )
    return leaves.target, leaves.level


def cover_of(target: torch.Tensor, level: torch.Tensor) -> tuple[Fraction, ...]:
    cover = Cover(2)
    cover.close(target, level)
    return cover.shares()


def test_the_leaves_of_a_tree_cover_it() -> None:
    for seed in range(5):
        assert cover_of(*tree(seed)) == (ONE, ONE)


def test_one_leaf_lost_or_doubled_shows() -> None:
    target, level = tree()
    for at in range(len(target)):
        kept = torch.arange(len(target)) != at
        lost = cover_of(target[kept], level[kept])
        assert lost[int(target[at])] == 1 - Fraction(1, 2 ** int(level[at]))
        twice = torch.cat([torch.arange(len(target)), torch.tensor([at])])
        assert cover_of(target[twice], level[twice])[int(target[at])] > 1


def test_shares_are_exact_however_deep() -> None:
    cover, deep = Cover(1), 700
    levels = torch.arange(1, deep + 1)
    cover.close(torch.zeros_like(levels), levels)
    assert cover.shares() == (1 - Fraction(1, 2**deep),)
    cover.close(torch.tensor([0]), torch.tensor([deep]))
    assert cover.shares() == (ONE,)


def test_shares_add_up_in_parts(monkeypatch) -> None:
    monkeypatch.setattr(evidence, "WAITING", 3)
    target, level = tree()
    cover = Cover(2)
    for at in range(len(target)):
        cover.close(target[at : at + 1], level[at : at + 1])
    assert cover.shares() == (ONE, ONE)
    assert cover.shares() == (ONE, ONE)


def test_a_target_that_is_searched_again_starts_from_nothing() -> None:
    cover = Cover(3)
    cover.close(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 2]))
    cover.restart([0, 2])
    assert cover.shares() == (0, ONE, 0)
    cover.close(torch.tensor([0]), torch.tensor([0]))
    assert cover.shares() == (ONE, ONE, 0)


def test_a_status_is_what_the_evidence_says() -> None:
    witness = Witness(np.zeros(1, np.float32), np.zeros(1, np.float32))
    assert Outcome((ONE, ONE), (1.0, 2.0)).status == "proved"
    assert Outcome((ONE, ONE), (1.0, 2.0)).lower_bound == 1.0
    assert Outcome((ONE, HALF), (1.0, -2.0)).status == "undecided"
    assert Outcome((ONE, HALF), (1.0, -2.0), stopped=True).status == "timeout"
    assert Outcome((ONE, ONE), (1.0, 2.0), stopped=True).status == "timeout"  # something was counted twice
    assert Outcome((ONE, ONE), (1.0, 2.0), reason="1 leaf left").status == "undecided"
    assert Outcome((ONE, Fraction(3, 2)), (1.0, 1.0)).status == "undecided"  # more than all is not all
    assert Outcome((ONE, HALF), (1.0, -2.0), witness).status == "found"
