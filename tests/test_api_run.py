"""How a run goes: its progress, its clock, how it is stopped, and that a seed repeats it."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netproof
from netproof.api import Progress
from netproof.core.deadline import Deadline
from netproof.core.machine import host
from netproof.core.verdict import Status, Verdict
from netproof.demo import Instance
from netproof.errors import UsageError
from netproof.model.load import load_network
from netproof.problem.property import Box, Disjunct, Property
from netproof.problem.specs import linf_ball
from support.api import ask, below, constant_property, least_of, module

PHASES = ("load", "attack", "root", "search", "leaf")


# --- progress and the clock ---


class Fuse(Deadline):
    """Runs out, without being cancelled, when told to."""

    burnt = False

    @property
    def expired(self) -> bool:
        return self.burnt or super().expired


def hard_question() -> tuple[Any, Property]:
    """A search of many rounds: the bound asked for is barely below the minimum."""
    net = module(6, 24, 24, 24, 2)
    row = below(0, least_of(net, -1, 1, 6) - 0.02)
    return load_network(net, example_shape=(1, 6)), constant_property((row,), n=6)


def test_progress_names_the_phases_in_order() -> None:
    net, property = hard_question()
    deadline = Fuse()
    told: list[Progress] = []

    def progress(step: Progress) -> None:
        told.append(step)
        deadline.burnt = sum(t.phase == "search" for t in told) >= 2

    ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    first = [phase for phase, _ in itertools.groupby(t.phase for t in told)]
    assert first[:3] == ["load", "attack", "root"]
    assert "search" in first[3:]
    assert set(first) <= set(PHASES)
    assert [t.seconds for t in told] == sorted(t.seconds for t in told)
    assert [t.domains for t in told] == sorted(t.domains for t in told)
    searching = [t for t in told if t.phase == "search"]
    assert searching[-1].rounds >= 1
    assert searching[-1].frontier > 0
    assert all(t.lower_bound is not None and t.upper_bound is not None for t in searching)
    assert searching[-1].lower_bound <= searching[-1].upper_bound
    assert all((t.problem, t.problems) == (0, 1) for t in told[1:])


def test_without_the_attack_there_is_no_such_phase() -> None:
    told: list[Progress] = []
    verdict = ask(module(2, 3, 2), linf_ball(np.zeros((1, 2)), 0.01), label=0, attack=False, progress=told.append)
    assert "attack" not in {t.phase for t in told}
    assert verdict.stats.seconds["attack"] == 0.0


@pytest.mark.parametrize("phase", ["load", "attack", "root", "search"])
def test_cancelled_from_another_thread_it_ends_as_interrupted(phase: str) -> None:
    net, property = hard_question()
    deadline = Deadline()

    def progress(step: Progress) -> None:
        if step.phase == phase:
            thread = threading.Thread(target=deadline.cancel)
            thread.start()
            thread.join()

    verdict = ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    assert (verdict.status, verdict.reason) == (Status.UNKNOWN, "interrupted")
    assert verdict.witness is None
    assert (verdict.lower_bound is not None) == (phase == "search")


def test_out_of_time_it_says_what_was_proved() -> None:
    net, property = hard_question()
    deadline = Fuse()

    def progress(step: Progress) -> None:
        deadline.burnt = step.phase == "search"

    verdict = ask(net, property, progress=progress, deadline=deadline, options={"batch": "4"})
    assert verdict.status == Status.TIMEOUT
    assert "still open" in verdict.reason
    assert verdict.lower_bound is not None
    assert verdict.upper_bound is not None
    assert verdict.lower_bound <= 0 < verdict.upper_bound
    assert verdict.decided_by == ""


@pytest.mark.parametrize("attack", [True, False])
def test_out_of_time_from_the_start(attack: bool) -> None:
    net, property = hard_question()
    verdict = ask(net, property, timeout=0.0, attack=attack)
    assert verdict.status == Status.TIMEOUT
    assert verdict.lower_bound is None
    assert verdict.witness is None


def test_of_several_sets_an_unfinished_search_claims_no_bound() -> None:
    net, property = hard_question()
    again = Disjunct(Box((Fraction(-1, 2),) * 6, (Fraction(1, 2),) * 6), property.disjuncts[0].rows)
    deadline = Fuse()

    def progress(step: Progress) -> None:
        deadline.burnt = step.phase == "search"

    sets = Property((*property.disjuncts, again), 6, 2)
    verdict = ask(net, sets, progress=progress, deadline=deadline, method="beta")
    assert verdict.status == Status.TIMEOUT
    assert verdict.stats.rounds > 0
    assert verdict.lower_bound is None


# --- the same again ---


def same_run(a: Verdict, b: Verdict) -> bool:
    counters = [(v.status, v.reason, v.lower_bound, v.upper_bound, v.stats.domains, v.stats.rounds) for v in (a, b)]
    if counters[0] != counters[1] or (a.witness is None) != (b.witness is None):
        return False
    return a.witness is None or bool((a.witness.input == b.witness.input).all())


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "fc-5-breaks", "res-6-breaks"])
@pytest.mark.parametrize("attack", [True, False])
def test_a_seed_repeats_the_run(name: str, attack: bool, demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, instance = demo[name]
    runs = [ask(model, spec, seed=3, attack=attack) for _ in range(2)]
    assert runs[0].status == instance.expected
    assert same_run(*runs)


def test_the_clock_is_accounted_for(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    model, spec, _ = demo["fc-4-needs-splits"]
    stats = ask(model, spec).stats
    parts = {name: spent for name, spent in stats.seconds.items() if name != "total"}
    assert all(spent >= 0 for spent in parts.values())
    assert 0 < sum(parts.values()) <= stats.seconds["total"]
    assert stats.domains > 0
    assert stats.peak_memory > 0


def test_the_batch_of_input_splitting_is_the_field() -> None:
    """Boxes are sub-domains too: picked one at a time, they take more rounds; none is as many as by default."""
    net = module(2, 16, 16, 2)
    property = constant_property((below(0, least_of(net, -1, 1, 2) - 0.01),), n=2)
    network = load_network(net, example_shape=(1, 2))
    given: list[dict[str, Any]] = [{"batch": "1"}, {"batch": "64"}, {}, {"batch": "none"}, {"batch": None}]
    rounds = [ask(network, property, method="input-split", options=options).stats.rounds for options in given]
    assert rounds[0] > rounds[1] > 0
    assert rounds[2] == rounds[3] == rounds[4]


def test_a_run_within_caps_on_memory_reports_its_peaks(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    stats = netproof.verify(onnx, vnnlib, device="cpu", memory={"host": "64G"}).stats
    assert stats.peak_memory == stats.peak_host_memory > 1 << 20
    with pytest.raises(UsageError, match=r"less than the .* MiB that the process itself takes"):
        netproof.verify(onnx, vnnlib, device="cpu", memory="host=1M")


def test_a_cap_that_the_network_itself_fills_is_refused(
    demo: dict[str, tuple[Path, Path, Instance]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may stay below it until the network is read; then not even the smallest step fits."""
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    taken = iter([1 << 20, 3 << 20])
    monkeypatch.setattr(host, "taken", lambda: next(taken))
    with pytest.raises(UsageError, match=r"less than the 3 MiB that the process itself takes .*host=6M"):
        netproof.verify(onnx, vnnlib, device="cpu", memory="host=2M")


def test_every_second_is_in_a_phase(demo: dict[str, tuple[Path, Path, Instance]]) -> None:
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    seconds = dict(netproof.verify(onnx, vnnlib, device="cpu").stats.seconds)
    total = seconds.pop("total")
    assert sum(seconds.values()) == pytest.approx(total, rel=1e-6)
    assert seconds["other"] < 0.5 * total
