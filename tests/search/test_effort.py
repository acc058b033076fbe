"""When what is due: by the work done, so that the same seed takes the same way."""

from __future__ import annotations

import torch

from netproof.bounds.base import root_domains
from netproof.bounds.beta import Beta
from netproof.search.effort import Effort, LpTurn, Rebounding, Tightening
from netproof.search.frontier import Frontier
from support.asking import CPU, first_problem, knotted, root_of

BETA = Beta(root_steps=5, neuron_steps=4, steps=2)


def test_the_first_tighter_root_comes_when_as_much_was_searched_as_it_costs() -> None:
    account = Tightening(first=0, overhead=0)
    assert not account.is_due(cost=100, bounded=99)
    assert account.is_due(cost=100, bounded=100)
    assert not Tightening(first=200, overhead=0).is_due(cost=100, bounded=199)


def test_tighter_roots_cost_more_each_time_and_end_when_they_do_not_pay() -> None:
    account = Tightening(first=0, overhead=0)
    account.pay(cost=100, bounded=1000)
    account.judge(-1.0, -1.0)  # the first is only slopes, and is always followed
    assert account.is_due(cost=100, bounded=500)
    account.pay(cost=100, bounded=500)
    assert not account.is_due(cost=100, bounded=999)  # the last cost twice 500
    assert account.is_due(cost=100, bounded=1000)
    account.judge(-1.0, -0.99)
    assert not account.is_due(cost=100, bounded=10**9)


def test_neurons_are_bounded_again_once_tried_and_only_as_far_as_the_search_has_cost() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    domains = root_domains(root).select(torch.zeros(10, dtype=torch.int64))
    domains.splits[:, 0] = 20  # twenty decisions since they were last bounded
    account = Rebounding(after=2)
    assert len(account.due(domains, rows=5, bounded=9)) == 0
    assert account.due(domains, rows=5, bounded=10).tolist() == [0, 1, 2, 3]  # the trial
    account.judge(0.5)
    assert len(account.due(domains, rows=5, bounded=25)) == 1  # five were paid for, four are done
    account.judge(0.1)
    assert len(account.due(domains, rows=5, bounded=10**6)) == 0


def test_young_sub_domains_keep_their_bounds() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    assert len(Rebounding().due(root_domains(root), rows=1, bounded=10**6)) == 0


def test_the_lp_has_a_turn_when_bounds_are_stuck_or_there_are_too_many() -> None:
    _, bounds = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    frontier = Frontier(bounds.domains)
    stuck = LpTurn(None, allowed=True, pause=0, patience=2)
    assert [stuck.is_due(frontier) for _ in range(4)] == [False, False, True, False]
    assert not any(LpTurn(None, allowed=False, pause=0, patience=1).is_due(frontier) for _ in range(4))
    assert LpTurn(0, allowed=False, pause=0, patience=9).is_due(frontier)
    paused = LpTurn(0, allowed=False, pause=2, patience=9)
    assert [paused.is_due(frontier) for _ in range(4)] == [True, False, False, True]


def test_the_second_attack_comes_once() -> None:
    effort = Effort.on(CPU)
    effort.attack_after = 10
    effort.pay(9)
    assert not effort.attack_is_due()
    effort.pay(1)
    assert effort.attack_is_due()
    assert not effort.attack_is_due()


def test_nothing_is_due_where_it_is_switched_off() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    domains = root_domains(root)
    domains.splits[:, 0] = 20
    effort = Effort.on(CPU, off=True)
    effort.lp, effort.attack_after = LpTurn(0, allowed=True, pause=0, patience=1), 0
    effort.pay(10**9)
    assert not effort.tightening_is_due(1)
    assert len(effort.rebounds_due(domains, 1)) == 0
    assert not effort.lp_is_due(Frontier(domains))
    assert not effort.attack_is_due()
