"""The quick attack beside the root, in a thread: what one of them finds or fails at is known to the other."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import netproof
from netproof.bounds.beta import Beta
from netproof.core.deadline import Deadline, Sooner
from netproof.core.machine.allowance import allowance
from netproof.demo import Instance
from netproof.errors import OutOfMemory
from netproof.run import beside
from netproof.search.attack import Pgd
from netproof.search.loop import Search

Demo = dict[str, tuple[Path, Path, Instance]]
PATIENCE = 60.0  # seconds after which a test that waits has failed


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the attack go beside the root of any network, on a CPU too."""
    monkeypatch.setitem(beside.LARGE, "cpu", 0)


@pytest.fixture
def attacks(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Note the thread that each attack is made in."""
    find, threads = Pgd.find, list[threading.Thread]()

    def noted(self: Pgd, *args: Any) -> bool:
        threads.append(threading.current_thread())
        return find(self, *args)

    monkeypatch.setattr(Pgd, "find", noted)
    return threads


def ask(demo: Demo, name: str, **how: Any) -> netproof.Verdict:
    return netproof.verify(*demo[name][:2], device="cpu", threads=1, **how)


def with_root(monkeypatch: pytest.MonkeyPatch, root: Callable[..., Any]) -> None:
    """Let every root be bounded by a function that is given the real one, what that is given, and its deadline."""
    real = Beta.root

    def other(self: Beta, problem: Any, threshold: Any, device: Any, deadline: Deadline, clock: Any) -> Any:
        return root(lambda: real(self, problem, threshold, device, deadline, clock), deadline)

    monkeypatch.setattr(Beta, "root", other)


def wait_for(deadline: Deadline) -> None:
    began = time.monotonic()
    while not deadline.expired:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.001)


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "conv-3-holds", "res-4-holds", "fc-5-breaks"])
def test_answers_are_those_of_an_attack_before_the_root(
    name: str, demo: Demo, attacks: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ask(demo, name)
    assert attacks[0] is not threading.main_thread()
    assert not attacks[0].is_alive()
    monkeypatch.setitem(beside.LARGE, "cpu", 1 << 60)
    attacks.clear()
    before = ask(demo, name)
    assert attacks[0] is threading.main_thread()
    assert (found.status, found.decided_by) == (before.status, before.decided_by)
    if found.status == "unsat":
        assert (found.lower_bound, found.stats.domains) == (before.lower_bound, before.stats.domains)
        assert found.upper_bound == before.upper_bound  # what the attack saw is known all the same


def test_a_witness_ends_the_root(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(real: Callable[[], Any], deadline: Deadline) -> None:
        wait_for(deadline)

    def of_no_use(*_: Any) -> None:
        raise AssertionError("there is a witness")

    with_root(monkeypatch, never)
    monkeypatch.setattr("netproof.run.gather.bounds_by_intervals", of_no_use)
    found = ask(demo, "fc-5-breaks")
    assert (found.status, found.decided_by) == ("sat", "attack")


@pytest.mark.parametrize("at_end", [False, True])
def test_a_witness_that_comes_last_ends_the_search(at_end: bool, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root has been bounded by then, or memory ran out for it the first time."""
    find, bounded, tries = Pgd.find, threading.Event(), list[int]()

    def late(self: Pgd, *args: Any) -> bool:
        assert bounded.wait(PATIENCE)
        return find(self, *args)

    def first(real: Callable[[], Any], deadline: Deadline) -> Any:
        tries.append(0)
        done = real()
        bounded.set()
        if not at_end and len(tries) == 1:
            raise torch.OutOfMemoryError("a full device")
        assert at_end or deadline.expired  # by the witness
        return done

    monkeypatch.setattr(Pgd, "find", late)
    monkeypatch.setattr(Search, "_filter", None)  # what is open does not matter any more
    with_root(monkeypatch, first)
    found = ask(demo, "fc-5-breaks")
    assert (found.status, found.decided_by, found.stats.rounds) == ("sat", "attack", 0)
    assert len(tries) == 2 - at_end


def test_it_is_made_once_however_often_a_root_is_tried(
    demo: Demo, attacks: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[int]()

    def full_twice(real: Callable[[], Any], deadline: Deadline) -> Any:
        tries.append(0)
        if len(tries) < 3:
            raise torch.OutOfMemoryError("a full device")
        return real()

    with_root(monkeypatch, full_twice)
    assert ask(demo, "conv-3-holds").status == "unsat"
    assert (len(tries), len(attacks)) == (3, 1)


def test_memory_that_the_attack_has_too_little_of_is_the_roots(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    starved, shares = threading.Event(), list[float]()

    def starving(self: Pgd, *args: Any) -> bool:
        while allowance().halve():
            pass
        starved.set()
        return False

    def after(real: Callable[[], Any], deadline: Deadline) -> Any:
        assert starved.wait(PATIENCE)
        shares.append(allowance().share)
        return real()

    monkeypatch.setattr(Pgd, "find", starving)
    with_root(monkeypatch, after)
    assert ask(demo, "conv-3-holds").status == "unsat"
    assert shares == [1.0]


def test_an_error_in_the_attack_is_not_lost(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Pgd, *args: Any) -> bool:
        raise ZeroDivisionError("in a thread")

    monkeypatch.setattr(Pgd, "find", broken)
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        ask(demo, "conv-3-holds")


@pytest.mark.parametrize("by", ["cancel", "interrupt"])
def test_ctrl_c_ends_both(by: str, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, deadline = list[bool](), Deadline()

    def endless(self: Pgd, problem: Any, goal: Any, device: Any, seed: int, until: Deadline) -> bool:
        wait_for(until)
        ended.append(until.expired)
        return False

    def interrupted(real: Callable[[], Any], until: Deadline) -> None:
        if by == "interrupt":
            raise KeyboardInterrupt
        deadline.cancel()
        wait_for(until)

    monkeypatch.setattr(Pgd, "find", endless)
    with_root(monkeypatch, interrupted)
    if by == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            ask(demo, "conv-3-holds", deadline=deadline)
    else:
        assert ask(demo, "conv-3-holds", deadline=deadline).reason == "interrupted"
    assert ended == [True]


def test_the_thread_has_the_settings_of_the_run(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    find, seen = Pgd.find, list[Any]()

    def noted(self: Pgd, *args: Any) -> bool:
        seen.append((allowance().caps.host, torch.get_default_dtype(), torch.is_grad_enabled()))
        return find(self, *args)

    monkeypatch.setattr(Pgd, "find", noted)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            ask(demo, "conv-3-holds", memory={"host": 1 << 40})
    finally:
        torch.set_default_dtype(torch.float32)
    assert seen == [(1 << 40, torch.float32, True)]


def test_phases_add_up_to_the_whole(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both took at once counts once: an attack that is the longer one adds only what the root waits for it."""
    find, ended = Pgd.find, threading.Event()

    def long(self: Pgd, *args: Any) -> bool:
        assert ended.wait(PATIENCE)
        time.sleep(0.05)
        return find(self, *args)

    def noted(real: Callable[[], Any], deadline: Deadline) -> Any:
        done = real()
        ended.set()
        return done

    monkeypatch.setattr(Pgd, "find", long)
    with_root(monkeypatch, noted)
    seconds = ask(demo, "conv-3-holds").stats.seconds
    assert seconds["attack"] >= 0.05
    assert sum(spent for phase, spent in seconds.items() if phase != "total") == pytest.approx(seconds["total"])


def test_an_error_of_the_attack_ends_the_root(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[bool]()

    def fails(self: Pgd, *args: Any) -> bool:
        raise ZeroDivisionError

    def never(real: Callable[[], Any], deadline: Deadline) -> None:
        wait_for(deadline)
        ended.append(True)

    monkeypatch.setattr(Pgd, "find", fails)
    with_root(monkeypatch, never)
    with pytest.raises(ZeroDivisionError):
        ask(demo, "conv-3-holds")
    assert ended == [True]


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("a full device")])
def test_an_attack_that_has_no_room_costs_no_proof(
    error: Exception, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Pgd, *args: Any) -> bool:
        raise error

    monkeypatch.setattr(Pgd, "find", full)
    assert ask(demo, "conv-3-holds", timeout=PATIENCE).status == "unsat"


def full_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no room for an attack in a thread of its own."""
    find = Pgd.find

    def full(self: Pgd, *args: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            raise OutOfMemory("a full device")
        return find(self, *args)

    monkeypatch.setattr(Pgd, "find", full)


def test_an_attack_that_had_no_room_beside_the_root_is_made_after_it(
    demo: Demo, attacks: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    full_beside(monkeypatch)
    found = ask(demo, "fc-5-breaks", timeout=PATIENCE)
    assert (found.status, found.decided_by) == ("sat", "attack")
    assert attacks == [threading.main_thread()]


def test_it_is_made_too_where_no_root_has_room(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(real: Callable[[], Any], deadline: Deadline) -> None:
        raise torch.OutOfMemoryError("a full device")

    full_beside(monkeypatch)
    with_root(monkeypatch, never)
    found = ask(demo, "fc-5-breaks", timeout=PATIENCE)
    assert (found.status, found.decided_by) == ("sat", "attack")


def test_what_a_root_held_that_had_no_room_is_given_back_to_the_attack(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the root holds its frames, and these hold what was in them."""
    held, full, free = list[weakref.ref[Any]](), threading.Event(), list[bool]()
    find = Pgd.find

    def root(real: Callable[[], Any], deadline: Deadline) -> Any:
        if held:
            return real()
        large = torch.zeros(10)
        held.append(weakref.ref(large))
        full.set()
        raise torch.OutOfMemoryError("a full device")

    def waits(self: Pgd, *args: Any) -> bool:
        assert full.wait(PATIENCE)
        began = time.monotonic()
        while held[0]() is not None and time.monotonic() - began < 5.0:
            time.sleep(0.001)
        free.append(held[0]() is None)
        return find(self, *args)

    monkeypatch.setattr(Pgd, "find", waits)
    with_root(monkeypatch, root)
    assert ask(demo, "conv-3-holds", timeout=PATIENCE).status == "unsat"
    assert free[0]


def test_where_there_is_no_thread_the_attack_comes_after_the_root(
    demo: Demo, attacks: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(beside.ThreadPoolExecutor, "submit", none)
    found = ask(demo, "fc-5-breaks", timeout=PATIENCE)
    assert (found.status, found.decided_by) == ("sat", "attack")
    assert attacks == [threading.main_thread()]


def test_what_bounds_no_root_is_attacked_first(demo: Demo, attacks: list[threading.Thread]) -> None:
    ask(demo, "fc-3-holds", method="mip", attack=True, timeout=20)
    assert attacks[0] is threading.main_thread()


def test_a_sooner_end_is_not_the_others() -> None:
    other = Deadline(100.0)
    sooner = Sooner(other)
    assert (sooner.expired, sooner.cancelled) == (False, False)
    assert 0.0 < sooner.remaining() <= 100.0
    sooner.cancel()
    assert (sooner.expired, sooner.cancelled, sooner.remaining()) == (True, True, 0.0)
    assert (other.expired, other.cancelled) == (False, False)
    again = Sooner(other)
    other.cancel()
    assert (again.expired, again.cancelled, again.remaining()) == (True, True, 0.0)
    assert Sooner(Deadline(0.0)).expired
