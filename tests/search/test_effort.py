"""When what is due: by the work done, so that the same seed takes the same way."""

from __future__ import annotations

from dataclasses import replace

import torch

from netproof.bounds.base import root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains
from netproof.core.extras import CANDIDATES, Extras
from netproof.search.effort import (
    EARLY,
    FEW_NEURONS,
    LONG_SEARCH,
    NEURON_PROBES,
    ROUNDS,
    Effort,
    LpTurn,
    Rebounding,
    Tightening,
    neurons_at_once,
    rounds_for,
)
from netproof.search.frontier import Frontier
from support.asking import CPU, EVERY_EXTRA, first_problem, knotted, root_of

BETA = Beta(root_steps=5, neuron_steps=4, steps=2)


def turns(account: LpTurn, frontier: Frontier[Domains], rounds: int) -> list[bool]:
    """Say in which of so many rounds the LP has a turn."""
    had = []
    for _ in range(rounds):
        account.watch(frontier)
        had.append(account.is_due(len(frontier)))
        if had[-1]:
            account.pay()
    return had


def test_the_first_tighter_root_comes_when_as_much_was_searched_as_it_costs() -> None:
    account = Tightening(first=0, overhead=0)
    assert not account.is_due(cost=100, bounded=99)
    assert account.is_due(cost=100, bounded=100)
    assert not Tightening(first=200, overhead=0).is_due(cost=100, bounded=199)


def test_tighter_roots_cost_more_each_time_and_end_when_they_do_not_pay() -> None:
    account = Tightening(first=0, overhead=0)
    account.pay(cost=100, bounded=1000)
    account.judge(-1.0, -1.0, -0.5)  # the first is only slopes, and is always followed
    assert account.is_due(cost=100, bounded=500)
    account.pay(cost=100, bounded=500)
    assert not account.is_due(cost=100, bounded=999)  # the last cost twice 500
    assert account.is_due(cost=100, bounded=1000)
    account.judge(-1.0, -0.99, -0.5)
    assert not account.is_due(cost=100, bounded=10**9)


def test_after_a_root_that_is_ahead_of_the_search_the_next_comes_sooner_at_the_same_price() -> None:
    account = Tightening(first=0, overhead=0)
    account.pay(cost=100, bounded=1000)
    account.judge(-9.0, -4.0, -5.0)  # ahead: the search had got to -5
    assert not account.is_due(cost=100, bounded=24)  # the last cost 100, and each counts for four
    assert account.is_due(cost=100, bounded=25)
    account.pay(cost=100, bounded=25)
    assert account.price == 200  # as after 100
    account.judge(-4.0, -3.0, -2.0)  # behind: from now on as much is searched as it costs
    assert not account.is_due(cost=100, bounded=199)
    assert account.is_due(cost=100, bounded=200)


def test_neurons_are_bounded_again_once_tried_and_only_as_far_as_the_search_has_cost() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    domains = root_domains(root).select(torch.zeros(10, dtype=torch.int64))
    domains.splits[:, 0] = 20  # twenty decisions since they were last bounded
    account = Rebounding(levels=1, worth=0.2)  # twice what one costs
    assert len(account.due(domains, rows=5, bounded=9)) == 0
    for _ in range(2):  # asking changes nothing
        assert account.due(domains, rows=5, bounded=10).tolist() == [0, 1, 2, 3]  # the trial
    account.pay(4)
    account.judge(0.5)
    assert len(account.due(domains, rows=5, bounded=25)) == 1  # five were paid for, four are done
    account.judge(0.1)
    assert len(account.due(domains, rows=5, bounded=10**6)) == 0


def test_young_sub_domains_keep_their_bounds() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    assert len(Rebounding(levels=6, worth=0.2).due(root_domains(root), rows=1, bounded=10**6)) == 0


def test_neurons_are_bounded_again_after_as_many_decisions_as_is_said() -> None:
    root, _ = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    domains = root_domains(root).select(torch.zeros(2, dtype=torch.int64))
    domains.splits[:, 0] = torch.tensor([8, 9])
    one, nine = (Rebounding(levels, worth=0.2) for levels in (1, 9))
    assert nine.due(domains, rows=5, bounded=5 << 9).tolist() == [1]
    assert len(nine.due(domains, rows=5, bounded=(5 << 9) - 1)) == 0
    assert one.due(domains, rows=255, bounded=10**6).tolist() == [0, 1]  # 8 decisions make 256
    assert one.due(domains, rows=256, bounded=10**6).tolist() == [1]


def test_what_a_trial_must_gain_is_said() -> None:
    for worth, pays in ((0.1, True), (0.3, False)):
        account = Rebounding(levels=6, worth=worth)
        account.judge(0.2)
        assert account.pays is pays


def test_no_more_roots_are_tightened_than_is_said() -> None:
    account = Tightening(first=0, overhead=0, most=2)
    for _ in range(2):
        assert account.is_due(cost=1, bounded=10**6)
        account.pay(cost=1, bounded=1)
    assert not account.is_due(cost=1, bounded=10**9)
    assert not Tightening(first=0, overhead=0, most=0).is_due(cost=1, bounded=10**9)


def test_a_tighter_root_branches_on_neurons_as_long_as_its_price_lasts() -> None:
    account = Tightening(first=0, overhead=0)
    account.pay(cost=100, bounded=1000)
    assert account.branching(neurons=10) is None  # slopes only
    account.pay(cost=100, bounded=100)  # a price of 200
    assert account.branching(neurons=10) == 5
    assert account.branching(neurons=1000) == 1
    account.pay(cost=100, bounded=1000)
    assert account.branching(neurons=10) == 50


def test_every_layer_gets_as_much_work_and_early_ones_more_rounds() -> None:
    assert rounds_for(5, 1.0) == (5, 1)
    assert rounds_for(5, 0.5) == (10, 1)
    assert rounds_for(50, 1.0) == (ROUNDS, 3)  # wider, not longer
    assert rounds_for(5, 1e-6) == (ROUNDS, 5 * EARLY // ROUNDS)
    assert rounds_for(1, 3.0) == (1, 1)


def test_the_lp_has_a_turn_when_bounds_are_stuck_or_there_are_too_many() -> None:
    _, bounds = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    frontier = Frontier(bounds.domains)
    stuck = LpTurn(None, allowed=True, pause=0, patience=2)
    assert turns(stuck, frontier, 4) == [False, False, True, False]
    assert not any(turns(LpTurn(None, allowed=False, pause=0, patience=1), frontier, 4))
    assert turns(LpTurn(0, allowed=False, pause=0, patience=9), frontier, 1) == [True]
    paused = LpTurn(0, allowed=False, pause=2, patience=9)
    assert turns(paused, frontier, 4) == [True, False, False, True]


def test_asking_for_a_turn_of_the_lp_changes_nothing() -> None:
    account = LpTurn(0, allowed=False, pause=1, patience=9)
    account.since = 2
    assert account.is_due(1)
    assert account.is_due(1)
    account.pay()
    assert not account.is_due(1)


def test_the_lp_has_turns_where_bounds_are_stuck_unless_it_is_told_not_to() -> None:
    _, bounds = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    frontier = Frontier(bounds.domains)

    def has_turns(extras: Extras, neurons: int, eta: int | None) -> bool:
        effort = Effort.on(CPU, extras)
        effort.with_lp(neurons, eta, patience=1)
        return any(turns(effort.lp, frontier, 20))

    may, never = Extras(lp_turns=True), Extras()
    assert has_turns(may, FEW_NEURONS, None)
    assert not has_turns(may, FEW_NEURONS + 1, None)
    assert has_turns(may, FEW_NEURONS + 1, 10**6)
    assert not has_turns(never, FEW_NEURONS, None)
    assert not has_turns(never, FEW_NEURONS, 10**6)
    assert has_turns(never, FEW_NEURONS, 0)  # past η


def test_rounds_are_smaller_only_where_the_lp_cannot_keep_up() -> None:
    effort = Effort.on(CPU, EVERY_EXTRA)
    assert not effort.lp.is_behind(10**9)  # there is no LP
    effort.with_lp(10, 4, patience=1)
    assert not effort.lp.is_behind(40)
    assert effort.lp.is_behind(41)
    effort.with_lp(10, None, patience=1)
    assert not effort.lp.is_behind(10**9)


def test_probes_are_what_is_said_and_fewer_for_the_neurons_own() -> None:
    assert [Effort.on(CPU, Extras(probes=n)).probes_due() for n in (0, 3, 12)] == [0, 3, 12]
    assert [Effort.on(CPU, Extras(probes=n)).probes_due(of_neurons=True) for n in (0, 1, 12)] == [0, 1, NEURON_PROBES]


def test_several_neurons_are_split_while_sub_domains_are_few() -> None:
    assert [neurons_at_once(64, n) for n in (1, 2, 32, 64, 65)] == [7, 6, 2, 1, 1]
    assert [neurons_at_once(1, n) for n in (1, 2, 32)] == [1, 1, 1]
    assert neurons_at_once(10**9, 1) == CANDIDATES


def test_the_second_attack_comes_when_is_said_or_by_device_or_never() -> None:
    assert Effort.on(CPU, Extras(attack_after=None)).attack_after == LONG_SEARCH["cpu"]
    never = Effort.on(CPU, Extras(attack_after=0))
    never.pay(10**9)
    assert not never.attack_is_due()


def test_the_second_attack_comes_once() -> None:
    effort = Effort.on(CPU, Extras(attack_after=10))
    effort.pay(9)
    assert not effort.attack_is_due()
    effort.pay(1)
    assert effort.attack_is_due()
    assert effort.attack_is_due()  # asking changes nothing
    effort.pay_attack()
    assert not effort.attack_is_due()


def test_nothing_is_due_where_no_extra_is_declared() -> None:
    _, bounds = root_of(BETA, first_problem(knotted(0, (3, 6, 5, 4, 2))))
    domains = bounds.domains
    domains.splits[:, 0] = 20
    due = []
    for extras in (Extras(), replace(EVERY_EXTRA, rebound_after=1)):
        effort = Effort.on(CPU, extras)
        effort.with_lp(1, None, patience=1)
        effort.pay(10**9)
        rebounds, lps = len(effort.rebounds_due(domains, 1)), sum(turns(effort.lp, Frontier(domains), 3))
        probes = effort.probes_due() + effort.probes_due(of_neurons=True)
        due.append((effort.tightening_is_due(1), effort.attack_is_due(), rebounds > 0, lps > 0, probes > 0))
    assert due == [(False,) * 5, (True,) * 5]
