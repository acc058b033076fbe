"""What a search books: shares of what is proved, bounds of everything, and leaves that stay undecided."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from netproof.bounds.domains import Domains, split
from netproof.bounds.linear.memory import with_less
from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.search.goals import Goal, Judge
from netproof.search.ledger import Ledger
from support.full_device import Device
from support.problems import plain_domains

CPU = torch.device("cpu")
HALF = Fraction(1, 2)


class AboveZero(Goal):
    """A bound above 0 proves; points say nothing."""

    def thresholds(self, target: Tensor) -> Tensor:
        return torch.zeros(len(target), dtype=torch.float64)

    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        return False


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(AboveZero(), 2, CPU)


def halves(*bounds: float) -> Domains:
    """Both targets' sets in two halves, target by target."""
    both = split(plain_domains(2, 3), torch.tensor([[0], [1]]))
    return replace(both, bound=torch.tensor(bounds, dtype=torch.float64))


def test_only_what_is_proved_counts_and_what_is_open_is_told(ledger: Ledger) -> None:
    assert ledger.settle(halves(1.0, -1.0, 2.0, 3.0)).tolist() == [False, True, False, False]
    assert ledger.proved() == (HALF, 1)


def test_a_bound_is_that_of_every_part(ledger: Ledger) -> None:
    """Of target 0 one half is open, of target 1 one is undecided; the proved ones are no better than they are."""
    domains = halves(1.0, 0.0, 3.0, 2.0)
    still_open = domains.select(ledger.settle(domains))
    assert ledger.target_bounds([still_open]).tolist() == [0.0, 2.0]
    assert ledger.target_bounds([]).tolist() == [1.0, 2.0]
    ledger.leave_undecided(domains.select(torch.tensor([2])))
    ledger.leave_undecided(replace(domains, bound=domains.bound - 5).select(torch.tensor([3])))
    assert ledger.target_bounds([]).tolist() == [1.0, -3.0]
    assert ledger.undecided == 2


def test_of_a_parent_its_bound_is_booked_and_of_what_lies_below_its_share(ledger: Ledger) -> None:
    parents = replace(plain_domains(2, 3), bound=torch.tensor([0.5, -0.5], dtype=torch.float64))
    assert ledger.settle_above(parents).target.tolist() == [0]
    assert ledger.proved() == (0, 0)
    assert ledger.target_bounds([]).tolist() == [0.5, float("inf")]
    ledger.drop(halves(-1.0, -2.0, -3.0, -4.0).select(torch.tensor([0, 1])))
    assert ledger.proved() == (1, 0)
    assert ledger.target_bounds([]).tolist() == [0.5, float("inf")]


def test_what_is_searched_again_starts_from_nothing_and_the_rest_stays(ledger: Ledger) -> None:
    domains = halves(1.0, -1.0, 2.0, -2.0)
    ledger.leave_undecided(domains.select(ledger.settle(domains)))
    ledger.restart(torch.tensor([0]))
    assert ledger.proved() == (0, HALF)
    assert ledger.undecided == 1
    assert ledger.target_bounds([])[1] == -2.0


class Told:
    """Keeps the bounds of what was closed."""

    def __init__(self) -> None:
        self.bounds: list[float] = []

    def neurons(self, *given: Any) -> None:
        pass

    def closed(self, scope: Any, domains: Domains, by: str) -> None:
        self.bounds += domains.bound.tolist()

    def restarted(self, targets: Tensor) -> None:
        pass


def test_where_memory_runs_out_all_is_told_and_counted_once() -> None:
    """At each operation in turn, after which it is all done again."""
    domains, at, count = halves(1.0, -1.0, 2.0, 3.0), 0, 1
    while at < count:
        at += 1
        told = Told()
        ledger = Ledger(AboveZero(), 2, CPU, told)
        with allowing(NO_CAPS), Device(at) as device:
            with_less(lambda ledger=ledger: ledger.settle(domains), CPU)  # type: ignore[misc]
        count = device.count
        assert told.bounds == [1.0, 2.0, 3.0], at
        assert ledger.proved() == (HALF, 1), at
    assert at > 8
