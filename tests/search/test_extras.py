"""What a search does beside plain rounds: as much of it as its options say, and none where they say 0 or false."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import Scope
from netproof.branching.filtered import Filtered
from netproof.core.deadline import Deadline
from netproof.core.extras import Extras
from netproof.core.verdict import Stats, Status
from netproof.methods.declared import BOX_BATCHES
from netproof.run import gather
from netproof.search.boxes.loop import BATCH, InputSplit, SplitOptions
from netproof.search.effort import NEURON_PROBES, TRIALS
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.asking import CPU, EVERY_EXTRA, ask, at_most, gaussian, nearly_broken, whole_box


@dataclass(frozen=True)
class Noting(Filtered):
    """Filtered branching that notes how many neurons it is told to try, by whose sub-domains they are."""

    told: list[tuple[bool, int]] = field(default_factory=list)  # of the search itself, probes

    def reorder(self, scope: Scope, domains: Domains, probes: int) -> Tensor:
        self.told.append((isinstance(scope, Root), probes))
        return super().reorder(scope, domains, probes)


@dataclass(frozen=True)
class Counting(Beta):
    """Beta that notes how many sub-domains it is given to bound their neurons again."""

    rebounds: list[int] = field(default_factory=list)

    def rebounded(self, root: Root, domains: Domains, *rest: Any) -> Domains:
        self.rebounds.append(len(domains))
        return super().rebounded(root, domains, *rest)


@dataclass
class Seen:
    """What was done in one search."""

    roots: int
    lps: int
    looks: list[int]  # sub-domains at each look
    rebounds: list[int]
    own: set[int]  # probes in sub-domains of the search
    of_neurons: set[int]  # probes in those of neurons


ONE_ROOT: dict[str, Any] = {"tighter_roots": 0, "lp_turns": False}  # where the search goes on


def seen(start: Extras = EVERY_EXTRA, fill: int | None = None, **changed: Any) -> Seen:
    """Search a problem that just holds, with a bounder so weak that all of the extras come."""
    brancher, bounder = Noting(), Counting(root_steps=2, neuron_steps=2, steps=1)
    problem = nearly_broken(1, (3, 10, 9, 8, 2), room=0.02)
    method = Method(bounder, brancher, 4, lp_threshold=None, fill=fill, extras=replace(start, **changed))
    phases: list[str] = []
    looks: list[int] = []
    stats, goal = Stats(), Decide(problem, lambda point, target: None)

    def report(phase: str, bound: float, frontier: int) -> None:
        phases.append(phase)

    def look(targets: list[int]) -> bool:
        looks.append(stats.domains)
        return False

    Search(problem, method, goal, Work(CPU, 1, Deadline(None), stats, report), look).run(rounds=40)
    own, of_neurons = ({probes for mine, probes in brancher.told if mine is side} for side in (True, False))
    return Seen(phases.count("root"), stats.lps, looks, bounder.rebounds, own, of_neurons)


def test_the_root_is_tightened_no_more_often_than_is_said() -> None:
    assert [seen(tighter_roots=most).roots for most in (0, 1)] == [1, 2]
    assert seen().roots > 2


def test_the_lp_has_turns_unless_it_is_told_not_to() -> None:
    assert seen().lps > 0
    assert seen(lp_turns=False).lps == 0


def test_the_second_attack_comes_after_as_many_sub_domains_as_is_said() -> None:
    assert seen(**ONE_ROOT, attack_after=0).looks == []
    (domains,) = seen(**ONE_ROOT, attack_after=100).looks
    assert 100 <= domains < 200


def test_neurons_are_bounded_again_after_as_many_splits_as_is_said() -> None:
    assert seen(**ONE_ROOT, rebound_after=1).rebounds
    assert not seen(**ONE_ROOT, rebound_after=20).rebounds


def test_after_a_trial_neurons_are_bounded_again_only_if_it_gained_as_much_as_is_said() -> None:
    always, never = (seen(**ONE_ROOT, rebound_after=1, rebound_gain=gain).rebounds for gain in (0.0, 1.0))
    assert never == [TRIALS]
    assert len(always) > 1


@pytest.mark.parametrize("probes", [0, 3, 12])
def test_as_many_neurons_are_tried_as_is_said(probes: int) -> None:
    found = seen(probes=probes)
    assert found.own == {probes}
    assert found.of_neurons == {min(probes, NEURON_PROBES)}


def test_without_extras_nothing_comes_but_plain_rounds() -> None:
    assert seen(Extras(), fill=1) == Seen(roots=1, lps=0, looks=[], rebounds=[], own={0}, of_neurons=set())


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, [BOX_BATCHES.default * BATCH["cpu"]]),
        ({"box_batches": 0}, []),
        ({"box_batches": 3}, [3 * BATCH["cpu"]]),
        ({"box_batches": 3, "batch": 5}, [3 * 10]),  # both halves of five
    ],
)
def test_boxes_are_tried_first_for_as_many_batches_as_is_said(
    options: dict[str, int], limits: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve inputs and one layer of neurons, with a margin that the root does not prove."""
    network, box = gaussian(0, (12, 9, 1)), whole_box([-1] * 12, [1] * 12)
    tried: list[int | None] = []

    def noted(problem: Any, goal: Any, work: Work, options: SplitOptions) -> InputSplit:
        tried.append(options.limit)
        return InputSplit(problem, goal, work, options)

    monkeypatch.setattr(gather, "InputSplit", noted)
    assert ask(network, at_most(box, network, -100), tmp_path, options=options, attack=False).status == Status.UNSAT
    assert tried == limits
