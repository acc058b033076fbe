"""Memory that runs out at any operation of a search: the answer is the same as with memory enough."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import netproof
from netproof.bounds.linear.memory import attempted, with_less
from netproof.core.machine.allowance import NO_CAPS, allowing, said_plainly
from netproof.core.verdict import Verdict
from netproof.demo import Instance
from netproof.errors import DeviceError
from netproof.search.attack import Pgd
from netproof.search.boxes.loop import InputSplit
from netproof.search.loop import Search
from support.full_device import Device

Demo = dict[str, tuple[Path, Path, Instance]]


class Watched:
    """Lets memory run out inside searches and attacks, and nowhere else: what is before them is on the host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mode: Device | None = None
        self._inside = False
        for owner, name in ((Search, "run"), (InputSplit, "run"), (Pgd, "find")):
            monkeypatch.setattr(owner, name, self._watch(getattr(owner, name)))

    def _watch(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if self.mode is None or self._inside:
                return real(*args, **more)
            self._inside = True
            try:
                with self.mode:
                    return real(*args, **more)
            finally:
                self._inside = False

        return call

    def verdict(self, mode: Device, files: tuple[Path, Path], **asked: Any) -> Verdict:
        self.mode = mode
        return netproof.verify(*files, device="cpu", threads=1, **asked)


TRIES = 6
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("fc-4-needs-splits", {}),
    ("fc-4-needs-splits", {"method": "lirpa", "options": {"lp_threshold": 4, "batch": 2}}),
    ("fc-4-needs-splits", {"options": {"batch": 2, "tighter_roots": 2, "rebound_after": 1}}),
    ("res-4-holds", {}),
    ("conv-3-two-images", {}),
    ("fc-5-breaks", {}),
]


@pytest.mark.parametrize(("name", "asked"), QUESTIONS)
def test_memory_that_runs_out_anywhere_changes_no_answer(
    name: str, asked: dict[str, Any], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At places spread over all operations of the run, with a small store, so that sub-domains wait."""
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 3)
    watched, roomy = Watched(monkeypatch), Device()
    expected = watched.verdict(roomy, demo[name][:2], **asked)
    assert expected.status in ("sat", "unsat")
    rng = random.Random(name)
    for _ in range(TRIES):
        at = rng.randrange(1, roomy.count)
        assert watched.verdict(Device(at), demo[name][:2], **asked).status == expected.status, at


@pytest.mark.parametrize(("name", "asked"), QUESTIONS[2:3])
def test_memory_that_is_gone_for_a_while_is_one_clear_error_at_most(
    name: str, asked: dict[str, Any], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No raw error of torch comes out, wherever it begins and however long it lasts."""
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 3)
    watched, roomy = Watched(monkeypatch), Device()
    expected = watched.verdict(roomy, demo[name][:2], attack=False, **asked)
    rng = random.Random(name)
    for length in (4, 12, 60, 1000):
        short = Device(rng.randrange(1, roomy.count), length=length)
        with suppress(DeviceError):
            assert watched.verdict(short, demo[name][:2], attack=False, **asked).status == expected.status


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("can't allocate memory")])
def test_every_error_of_memory_is_caught_by_one_rule(error: Exception) -> None:
    def full() -> int:
        raise error

    assert attempted(full, torch.device("cpu")) is None
    assert attempted(lambda: 0, torch.device("cpu")) == 0
    with allowing(NO_CAPS), pytest.raises(DeviceError, match="out of memory"):
        with_less(full, torch.device("cpu"))
    with pytest.raises(DeviceError, match="out of memory"), said_plainly():
        full()
    with pytest.raises(ValueError, match="other"), said_plainly():
        attempted(partial(int, "other"), torch.device("cpu"))


@pytest.mark.parametrize(("name", "asked"), QUESTIONS[:3])
def test_a_device_too_small_for_what_is_done_at_once_does_it_in_parts(
    name: str, asked: dict[str, Any], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, roomy = Watched(monkeypatch), Device()
    expected = watched.verdict(roomy, demo[name][:2], **asked)
    small = Device(most=roomy.largest / 3)
    assert watched.verdict(small, demo[name][:2], **asked).status == expected.status
    assert small.largest > small.most  # it was full at times


def test_a_device_that_is_always_full_is_an_error(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    with pytest.raises(DeviceError, match="out of memory"):
        watched.verdict(Device(most=0), demo["fc-4-needs-splits"][:2], attack=False)
