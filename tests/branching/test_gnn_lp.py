"""The graph network under LPs: what it is told of them, when BaBSR is tried too, what counts and when it learns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.root import Root
from netproof.branching.babsr import BabsrOriginal
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.paper.rivals import babsr_lp
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.paper.rivals.gnn.fail_safe import FAILURES, USELESS, GnnFailSafe, told_of
from netproof.paper.rivals.gnn.features import BABSR
from netproof.paper.rivals.gnn.net import WEIGHTS, Links, load_weights
from netproof.paper.rivals.gnn.trials import Trial, TryingLP, mean_gain
from support.asking import CPU, ask, bound_of, knotted, nearly_broken, root_of, sharpened
from support.problems import unstable_of

WIDTHS = (3, 8, 7, 6, 2)
both = pytest.mark.parametrize("method", ["gnn", "gnn-online"])


def zero(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64)


def begun(rule: GnnFailSafe, seed: int = 3) -> tuple[Root, Domains]:
    """The root of a problem whose root proves nothing, one sub-domain, ranked as a search would rank it."""
    problem = nearly_broken(seed, WIDTHS, 0.02)
    found = rule.bounder.root(problem, zero(len(problem.disjuncts)), CPU, Deadline(None), Clock())
    assert found is not None
    root, bounds = found
    one = bounds.select(torch.tensor([0]))
    assert float(one.domains.bound) < 0
    return root, replace(one.domains, candidates=rule.choose(root, one, 12))


class Fixed(nn.Module):
    """Likes the neurons that it is told to, in that order, whatever they are."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, links: Links, features: Tensor) -> Tensor:
        scores = 0.0 * features[..., BABSR]
        for place, neuron in enumerate(self.order):
            scores[:, neuron] += len(self.order) - place
        return self.factor * scores


def liking(*order: int, **how: Any) -> GnnFailSafe:
    rule = GnnFailSafe(**how)
    rule.memory.net = Fixed(*order)  # type: ignore[assignment]
    return rule


def gains_of_all(root: Root, domain: Domains) -> list[float]:
    """By neuron, what a split gains, by the plain bounder; −1 where it cannot be split."""
    found = []
    for neuron, free in enumerate(unstable_of(domain)[0].tolist()):
        children = split(domain, torch.tensor([[neuron]]))
        bounds = BabsrLP().bound(root, children, zero(2), Deadline(None), Clock()) if free else None
        parent = float(domain.bound)
        gained = 0.0 if bounds is None else sum(min(b, 0.0) - parent for b in bounds.domains.bound.tolist())
        found.append(-1.0 if bounds is None else gained / (-2 * parent))
    return found


# --- what it is told ---


def test_the_lps_duals_are_kept_as_slopes_and_multipliers() -> None:
    """A pass with them is worth what the LP is, where no side of the LP but those of the triangle and splits binds."""
    close = better = every = 0
    for seed in range(6):
        rule = TryingLP(rebound=False)
        root, bounds = root_of(rule, nearly_broken(seed, WIDTHS))
        order = torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))
        for some in (bounds, bound_of(rule, root, split(bounds.domains, order[None, :2]))):
            full = some.select((~some.empty).nonzero()[:, 0])
            domains = full.domains
            value = Dual.of(root, domains, proof=True).at(DualPoint.of(domains)).value
            slopes = initial_slopes(root.layers, domains.lower, domains.upper, parallel=True)
            without = Dual.of(root, domains, proof=True).at(DualPoint(slopes, None, domains.weights)).value
            assert bool((value <= domains.bound + 1e-6 * (1 + domains.bound.abs())).all())
            close += int((value > domains.bound - 1e-4 * (1 + domains.bound.abs())).sum())
            better += int((value > without).sum())
            every += len(domains)
    assert close > 0.8 * every
    assert better > 0.8 * every > 0


def test_keeping_duals_changes_no_bound_below() -> None:
    for seed in range(3):
        problem = nearly_broken(seed, WIDTHS)
        counts = []
        for bounder in (TryingLP(), BabsrLP()):
            root, bounds = root_of(bounder, problem)
            last, before = root.count - 1, root.count - 2  # where multipliers move what is before them
            children = bound_of(bounder, root, split(bounds.domains, torch.tensor([[last]])))
            again = bound_of(bounder, root, split(children.domains, torch.tensor([[before]] * len(children.domains))))
            counts.append((again.domains.bound, again.coef))
        assert torch.equal(counts[0][0], counts[1][0])
        assert torch.equal(counts[0][1], counts[1][1])


# --- splits that are tried ---


def test_a_gain_is_the_mean_share_of_what_is_missing() -> None:
    def gain(children: list[float], parent: float, threshold: float = 0.0) -> float:
        sides = (torch.tensor(one, dtype=torch.float64) for one in (children, [parent], [threshold, threshold]))
        return mean_gain(*sides)

    assert gain([-1.0, -2.0], -2.0) == 0.25
    assert gain([3.0, -2.0], -2.0) == 0.5  # past a proof nothing counts
    assert gain([float("inf"), -1.0], -2.0) == 0.75  # an empty child is proved
    assert gain([-1.0, -1.0], -2.0, 2.0) == 0.25
    assert gain([-2.0, -2.0], -2.0) == 0.0


def test_what_was_tried_and_taken_is_not_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = GnnFailSafe()
    root, domain = begun(rule)
    trial = rule.bounder.attempt(root, domain, int(domain.candidates[0, 0]))
    assert trial is not None
    assert trial.gain == pytest.approx(gains_of_all(root, domain)[trial.neuron], abs=1e-6)
    children = split(domain, torch.tensor([[trial.neuron]]))
    solved = bound_of(TryingLP(), root, children)
    rule.bounder.take(root, trial)
    monkeypatch.setattr(babsr_lp, "solve_from", lambda *_: pytest.fail("it is known"))
    for some in (slice(1, 2), slice(0, 1)):  # in any order, and alone
        part = children.select(some)
        found = rule.bounder.bound(root, part, zero(1), Deadline(None), Clock())
        assert torch.equal(found.domains.splits, part.splits)
        assert found.domains.bound.item() == pytest.approx(solved.domains.bound[some].item(), abs=1e-6)
    with pytest.raises(pytest.fail.Exception):  # known once
        rule.bounder.bound(root, children, zero(2), Deadline(None), Clock())


def test_other_children_than_those_taken_are_bounded() -> None:
    rule = GnnFailSafe()
    root, domain = begun(rule)
    first, second = domain.candidates[0, :2].tolist()
    trial = rule.bounder.attempt(root, domain, first)
    assert trial is not None
    rule.bounder.take(root, trial)
    other = split(domain, torch.tensor([[second]]))
    found = rule.bounder.bound(root, other, zero(2), Deadline(None), Clock())
    plain = BabsrLP().bound(root, other, zero(2), Deadline(None), Clock())
    assert torch.equal(found.domains.splits, other.splits)
    torch.testing.assert_close(found.domains.bound, plain.domains.bound)


def test_bases_of_what_is_rejected_are_forgotten() -> None:
    rule = GnnFailSafe()
    root, domain = begun(rule)
    bases = rule.bounder._open[root].bases
    before = set(bases)
    trials = [rule.bounder.attempt(root, domain, int(neuron)) for neuron in domain.candidates[0, :2]]
    assert before < set(bases)  # the parent's is still there: both started from it
    assert trials[0] is not None
    assert trials[1] is not None
    rule.bounder.take(root, trials[0])
    rule.bounder.reject(root, trials[1])
    taken = trials[0].children.domains
    found = rule.bounder.bound(root, taken, zero(2), Deadline(None), Clock())
    assert torch.equal(found.domains.splits, taken.splits)
    assert len(bases) <= 2
    assert not before & set(bases)


# --- when BaBSR is tried too ---


@pytest.mark.parametrize("seed", range(4))
def test_the_better_of_the_two_is_taken_where_the_networks_is_weak(seed: int) -> None:
    root, domain = begun(GnnFailSafe(), seed)
    gains, babsrs = gains_of_all(root, domain), int(domain.candidates[0, 0])
    seen = set()
    for chosen in (neuron for neuron, gain in enumerate(gains) if gain >= 0):
        for weak in (0.0, gains[chosen] - 1e-3, gains[chosen] + 1e-3):
            rule = liking(chosen, weak=weak)
            root, domain = begun(rule, seed)
            (first, *rest) = rule.reorder(root, domain, 0)[0].tolist()
            follows = weak > gains[chosen] and gains[babsrs] > gains[chosen] + 1e-9
            assert first == (babsrs if follows else chosen)
            assert rule.memory.failed == follows
            assert len({first, *rest} - {-1}) == 1 + sum(neuron >= 0 for neuron in rest)
            assert [n for n in rest if n >= 0] == [n for n in domain.candidates[0].tolist() if n not in (-1, first)][
                : sum(neuron >= 0 for neuron in rest)
            ]
            seen.add((weak > gains[chosen], first == chosen))
    assert {(True, False), (True, True), (False, True)} <= seen


def test_ranked_are_sub_domains_by_babsr_as_first_published() -> None:
    rule = GnnFailSafe()
    root, bounds = root_of(rule.bounder, nearly_broken(1, WIDTHS))
    assert torch.equal(rule.choose(root, bounds, 5), BabsrOriginal().choose(root, bounds, 5))


def test_before_a_search_begins_nothing_is_tried() -> None:
    root, domain = begun(GnnFailSafe())
    last = int(domain.candidates[0][domain.candidates[0] >= 0][-1])
    assert int(liking(last, weak=1.0).reorder(root, domain, 0)[0, 0]) == last


def tried(rule: GnnFailSafe, gains: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Trials that gain what is said, without an LP; the list of neurons tried grows with each."""
    neurons: list[int] = []

    def attempt(self: TryingLP, root: Root, domain: Domains, neuron: int) -> Trial:
        neurons.append(neuron)
        return Trial(neuron, bounds_of(domain), gains[neuron])

    monkeypatch.setattr(TryingLP, "attempt", attempt)
    return neurons


def bounds_of(domain: Domains) -> Bounds:
    return Bounds(domain, torch.zeros(1, dtype=torch.bool), domain.slopes, domain.slopes[:, :0])


@pytest.mark.parametrize("online", [False, True])
def test_babsrs_choice_is_tried_no_more_once_it_was_of_no_use(online: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = GnnFailSafe(online=online)
    root, domain = begun(rule)
    babsrs, chosen = domain.candidates[0, :2].tolist()
    rule.memory.net = Fixed(chosen)  # type: ignore[assignment]
    neurons = tried(rule, {chosen: 0.1, babsrs: 0.04}, monkeypatch)
    for _ in range(USELESS + 3):
        assert int(rule.reorder(root, domain, 0)[0, 0]) == chosen
    assert neurons.count(babsrs) == USELESS + (3 if online else 0)  # as in the original, whose online rule has no count
    assert neurons.count(chosen) == USELESS + 3


def test_a_choice_that_gained_something_stays_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = GnnFailSafe()
    root, domain = begun(rule)
    babsrs, chosen = domain.candidates[0, :2].tolist()
    rule.memory.net = Fixed(chosen)  # type: ignore[assignment]
    neurons = tried(rule, {chosen: 0.1, babsrs: 0.06}, monkeypatch)
    for _ in range(USELESS + 3):
        rule.reorder(root, domain, 0)
    assert neurons.count(babsrs) == USELESS + 3


# --- what it learns ---


def failing(online: bool, times: int, monkeypatch: pytest.MonkeyPatch) -> GnnFailSafe:
    """A rule whose own network fails so many times on one sub-domain."""
    rule = GnnFailSafe(online=online, rate=1e-3)
    root, domain = begun(rule)
    chosen = int(GnnFailSafe(weak=0.0, bounder=rule.bounder).reorder(root, domain, 0)[0, 0])
    other = next(n for n in domain.candidates[0].tolist() if n != chosen)
    domain = replace(domain, candidates=torch.tensor([[other, chosen]]))
    tried(rule, {chosen: 0.1, other: 0.15}, monkeypatch)
    scores = []
    for _ in range(times):
        assert int(rule.reorder(root, domain, 0)[0, 0]) == other
        scores.append(lead(rule, root, domain, chosen, other))
    assert scores == sorted(scores, reverse=True)
    assert (scores[-1] < scores[0]) == (online and times > 1)
    return rule


def lead(rule: GnnFailSafe, root: Root, domain: Domains, chosen: int, other: int) -> float:
    """By how much the network ranks its choice above BaBSR's."""
    scores = rule._net(CPU)(rule._links(root), told_of(root, domain))[0].detach()
    return float(scores[chosen] - scores[other])


def test_it_learns_from_the_second_failure_of_a_neuron_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for times, lessons in ((FAILURES - 1, 0), (FAILURES, 1), (FAILURES + 2, 3)):
        rule = failing(True, times, monkeypatch)
        assert (rule.memory.failed, rule.memory.lessons) == (times, lessons)
        monkeypatch.undo()


def test_without_online_nothing_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = failing(False, 4, monkeypatch)
    assert rule.memory.lessons == 0
    assert rule.memory.net is not None
    pairs = zip(rule.memory.net.parameters(), load_weights(WEIGHTS).parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


# --- whole runs ---


def run(seed: int, folder: Path, method: str, weak: str) -> Verdict:
    """A network that needs some tens of splits."""
    question = sharpened(knotted(seed, (3, 6, 6, 5, 2)), [Fraction(1, 50)])
    return ask(question.network, question.property, folder, method=method, attack=False, options={"weak": weak})


@both
def test_children_that_are_rejected_are_no_branches(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two for each split, as published; with `weak` at 1 more than that are bounded."""
    bounded = [0]
    real = BabsrLP.bound_children

    def counting(self: BabsrLP, root: Root, domains: Domains, *how: Any) -> Bounds:
        bounded[0] += len(domains)
        return real(self, root, domains, *how)

    monkeypatch.setattr(BabsrLP, "bound_children", counting)
    for weak in ("0", "1"):
        bounded[0] = 0
        verdict = run(2, tmp_path, method, weak)
        assert verdict.status == Status.UNSAT
        assert verdict.stats.domains == 2 * verdict.stats.rounds > 4
        assert bounded[0] - verdict.stats.domains == 0 if weak == "0" else bounded[0] > verdict.stats.domains + 4


@both
def test_a_run_repeats_itself(method: str, tmp_path: Path) -> None:
    first, second = (run(2, tmp_path, method, "1") for _ in range(2))
    assert (first.stats.domains, first.lower_bound) == (second.stats.domains, second.lower_bound)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_babsr_lp(seed: int, tmp_path: Path) -> None:
    question = knotted(seed, (3, 6, 5, 2))
    expected = ask(question.network, question.property, tmp_path, method="babsr-lp", attack=False).status
    for method in ("gnn", "gnn-online"):
        found = ask(question.network, question.property, tmp_path, method=method, attack=False, options={"weak": "1"})
        assert found.status == expected
