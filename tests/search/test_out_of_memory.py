"""Memory that runs out at any operation of a search: the answer is the same as with memory enough."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import netproof
from netproof.bounds.beta import Beta
from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import attempted, with_less
from netproof.core.machine.allowance import NO_CAPS, allowing, said_plainly
from netproof.core.verdict import Verdict
from netproof.demo import Instance
from netproof.errors import OutOfMemory
from netproof.problem.vnnlib.reader import parse_property
from netproof.run.conclude import Evidence
from netproof.search.attack import Pgd
from netproof.search.boxes.loop import InputSplit
from netproof.search.effort import Effort
from netproof.search.frontier import Frontier
from netproof.search.ledger import Ledger
from netproof.search.loop import Search
from netproof.search.lp_turns import LpTurns
from support.asking import knotted, sharpened
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


def is_for_memory(verdict: Verdict) -> bool:
    """Say whether it is open for want of memory, which the reason says without telling what to do."""
    reason = verdict.reason
    return verdict.status == "unknown" and "memory" in reason and "(" not in reason


TRIES, LAST = 3, 10
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("fc-4-needs-splits", {}),
    ("fc-4-needs-splits", {"method": "lirpa-printed", "options": {"lp_threshold": 4, "batch": 2}}),
    ("fc-4-needs-splits", {"method": "lirpa", "options": {"lp_threshold": 4, "batch": 2, "root_steps": 20}}),
    ("fc-4-needs-splits", {"options": {"batch": 2, "tighter_roots": 2, "rebound_after": 1}}),
    ("res-4-holds", {}),
    ("conv-3-two-images", {}),
    ("fc-5-breaks", {}),
]


@pytest.mark.parametrize(("name", "asked"), QUESTIONS)
def test_memory_that_runs_out_anywhere_changes_no_answer(
    name: str, asked: dict[str, Any], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At places spread over all operations of the run, and at the last ones, when all is proved.

    With a small store, so that sub-domains wait.
    """
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 3)
    watched, roomy = Watched(monkeypatch), Device()
    expected = watched.verdict(roomy, demo[name][:2], **asked)
    assert expected.status in ("sat", "unsat")
    rng = random.Random(name)
    for at in [*rng.sample(range(1, roomy.count), TRIES), *range(roomy.count - LAST, roomy.count + 1)]:
        assert watched.verdict(Device(at), demo[name][:2], **asked).status == expected.status, at


@pytest.mark.parametrize(("name", "asked"), QUESTIONS[2:3])
def test_memory_that_is_gone_for_a_while_is_unknown_at_worst(
    name: str, asked: dict[str, Any], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error comes out, wherever it begins and however long it lasts."""
    monkeypatch.setattr("netproof.search.rounds.domains_that_fit", lambda each, device: 3)
    watched, roomy = Watched(monkeypatch), Device()
    expected = watched.verdict(roomy, demo[name][:2], attack=False, **asked)
    rng = random.Random(name)
    for length in (4, 12, 60, 1000):
        short = Device(rng.randrange(1, roomy.count), length=length)
        found = watched.verdict(short, demo[name][:2], attack=False, **asked)
        assert found.status == expected.status or is_for_memory(found)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("x"), MemoryError(), RuntimeError("can't allocate memory")])
def test_every_error_of_memory_is_caught_by_one_rule(error: Exception) -> None:
    def full() -> int:
        raise error

    assert attempted(full, torch.device("cpu")) is None
    assert attempted(lambda: 0, torch.device("cpu")) == 0
    with allowing(NO_CAPS), pytest.raises(OutOfMemory, match="out of memory"):
        with_less(full, torch.device("cpu"))
    with pytest.raises(OutOfMemory, match="out of memory"), said_plainly():
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


@pytest.mark.parametrize("name", ["fc-4-needs-splits", "conv-3-two-images"])
def test_a_device_that_is_always_full_leaves_a_question_open(
    name: str, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Watched(monkeypatch).verdict(Device(most=0), demo[name][:2], attack=False)
    assert is_for_memory(found)
    assert found.lower_bound is not None  # by intervals, whose memory is there again


def test_what_a_search_has_proved_stays_when_memory_is_gone(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it from some round on: the bound of what was bounded before is that of the verdict."""
    bound, rounds = Beta.bound, list[float]()

    def gone(self: Beta, root: Any, domains: Domains, *rest: Any) -> Any:
        rounds.append(float(domains.bound.min()))
        if len(rounds) > 3:
            raise torch.OutOfMemoryError("a full device")
        return bound(self, root, domains, *rest)

    monkeypatch.setattr(Beta, "bound", gone)
    found = netproof.verify(*demo["fc-4-needs-splits"][:2], device="cpu", attack=False, options={"batch": 2})
    assert is_for_memory(found)
    assert "sub-domains still open, and no memory for more" in found.reason
    assert found.lower_bound is not None
    assert rounds[0] < found.lower_bound < 0


Step = type[Search] | type[InputSplit]


def full_after(monkeypatch: pytest.MonkeyPatch, step: Step, *, only: int | None = None, work: bool = True) -> None:
    """Let memory run out at the end of a kind of step, or of the one of a number; or at its beginning."""
    run, count = step.run, iter(range(1000))

    def full(self: Any, *args: Any) -> Any:
        if only not in (None, next(count)):
            return run(self, *args)
        if work:
            run(self, *args)
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(step, "run", full)


@pytest.mark.parametrize("steps", [(Search,), (InputSplit, Search)])
def test_a_witness_stays_when_memory_runs_out_after_it(
    steps: tuple[Step, ...], demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a search over neurons and of one over boxes, whose outcomes nobody learns of."""
    full_after(monkeypatch, steps[0])
    for other in steps[1:]:
        full_after(monkeypatch, other, work=False)
    method = "auto" if steps[0] is Search else "input-split"
    found = netproof.verify(*demo["fc-5-breaks"][:2], device="cpu", attack=False, method=method)
    assert (found.status, found.decided_by) == ("sat", "search")


def two_sets(first: str, second: str) -> tuple[netproof.Network, netproof.Property]:
    """|x| on an interval or another must stay below 2."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        for layer, weights in ((net[0], [[1.0], [-1.0]]), (net[2], [[1.0, 1.0]])):
            layer.weight.copy_(torch.tensor(weights))
            layer.bias.zero_()
    lines = ["(declare-const X_0 Real)", "(declare-const Y_0 Real)", "(assert (>= Y_0 2.0))"]
    boxes = [f"(and (>= X_0 {low}) (<= X_0 {high}))" for low, high in (first.split(), second.split())]
    return netproof.load_network(net, example_shape=(1,)), parse_property(
        "\n".join([*lines, f"(assert (or {' '.join(boxes)}))"])
    )


@pytest.mark.parametrize(("second", "status"), [("1 3", "sat"), ("-1 1.5", "unknown")])
def test_other_sets_are_searched_where_one_has_no_room(
    second: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, property = two_sets("-1.75 1.5", second)
    full_after(monkeypatch, Search, only=0)
    found = netproof.verify(net, property, device="cpu", attack=False, method="lirpa")
    assert found.status == status
    assert status == "sat" or is_for_memory(found)


def test_neurons_are_split_where_boxes_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    net, property = two_sets("-1.75 1.5", "-1 1.5")
    full_after(monkeypatch, InputSplit)
    found = netproof.verify(net, property, device="cpu", attack=False)
    assert found.status == "unsat"


def test_a_first_look_counts_once_where_memory_runs_out_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has proved is proved again by the search, and must not be counted twice."""
    net, property = two_sets("-1.75 1.5", "-1 1.5")

    def full(*args: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("netproof.run.gather.alike", full)
    assert netproof.verify(net, property, device="cpu", attack=False).status == "unsat"


def test_what_has_no_room_is_let_go_of_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    net, property = two_sets("-1.75 1.5", "-1 1.5")
    alive: list[weakref.ref[Search]] = []
    run = Search.run

    def full(self: Search, *args: Any) -> Any:
        assert all(search() is None for search in alive)
        alive.append(weakref.ref(self))
        run(self, *args)
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(Search, "run", full)
    gc.disable()
    try:
        netproof.verify(net, property, device="cpu", attack=False, method="lirpa")
    finally:
        gc.enable()
    assert len(alive) == 2


BETA = {"method": "beta", "options": {"batch": 2}}
ONE = {"method": "lirpa-printed", "options": {"lp_threshold": 1, "batch": 1}}
PLACES: list[tuple[type, str, dict[str, Any]]] = [
    (Search, "_take", BETA),
    (Search, "_storage", BETA),
    (LpTurns, "_parents", BETA),
    (Ledger, "settle_above", BETA),
    (Ledger, "drop", BETA),
    (Frontier, "_pop", ONE),
    (LpTurns, "_apart", ONE),
]


@pytest.mark.parametrize(("owner", "name", "asked"), PLACES)
def test_memory_that_runs_out_once_at_a_place_that_is_seldom_reached_changes_no_answer(
    owner: type, name: str, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parents are given up for one turn, and one sub-domain alone is tried again."""
    question = sharpened(knotted(1, [3, 7, 6, 2]), [Fraction(1, 50), Fraction(1, 30)])
    network = netproof.load_network(question.network.save(tmp_path / "net.onnx"))
    real, failed = getattr(owner, name), list[int]()

    def once(self: Any, *args: Any, **more: Any) -> Any:
        if not failed:
            failed.append(0)
            raise torch.OutOfMemoryError("a full device")
        return real(self, *args, **more)

    monkeypatch.setattr(owner, name, once)
    found = netproof.verify(network, question.property, device="cpu", attack=False, **asked)
    assert failed
    assert found.status == "unsat"


def test_what_holds_itself_is_given_back_when_memory_runs_out() -> None:
    """As what an earlier question left behind may, until Python happens to look for it."""

    class Held:
        """Refers to itself."""

    gc.collect()
    gc.disable()
    try:
        one = Held()
        one.itself = one  # type: ignore[attr-defined]
        left = weakref.ref(one)
        del one
        assert left() is not None
        with allowing(NO_CAPS):
            assert attempted(partial(_raise, torch.OutOfMemoryError("full")), torch.device("cpu")) is None
        assert left() is None
    finally:
        gc.enable()


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("lasting", [False, True])
def test_a_tighter_root_that_has_no_room_is_left_out(
    lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it runs out of memory: its bounds, or what they are compared with."""
    question = sharpened(knotted(1, [3, 7, 6, 2]), [Fraction(1, 50), Fraction(1, 30)])
    network = netproof.load_network(question.network.save(tmp_path / "net.onnx"))
    real, failed = Search._prepared, list[int]()

    def full(self: Search, *args: Any) -> Any:
        failed.append(0)
        if lasting or len(failed) == 1:
            raise torch.OutOfMemoryError("a full device")
        return real(self, *args)

    monkeypatch.setattr(Effort, "tightening_is_due", lambda self, cost: not self.tightening.over)
    monkeypatch.setattr(Search, "_prepared", full)
    found = netproof.verify(network, question.property, device="cpu", attack=False, **BETA)
    assert failed
    assert found.status == "unsat"


@pytest.mark.parametrize(("step", "lasting"), [("verdict", False), ("see", False), ("see", True)])
def test_a_proof_stays_when_memory_runs_out_behind_it(
    step: str, lasting: bool, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While what was found is put together: once, or for ever where no answer hangs on it."""
    real, calls = getattr(Evidence, step), list[int]()

    def full(self: Evidence, *args: Any, **more: Any) -> Any:
        calls.append(0)
        if lasting or len(calls) == 1:
            raise MemoryError
        return real(self, *args, **more)

    monkeypatch.setattr(Evidence, step, full)
    assert netproof.verify(*demo["fc-4-needs-splits"][:2], device="cpu").status == "unsat"
    assert len(calls) > 1


def test_memory_that_is_gone_for_good_at_the_end_is_said_plainly(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **more: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Evidence, "verdict", full)
    with pytest.raises(OutOfMemory, match="out of memory"):
        netproof.verify(*demo["conv-3-holds"][:2], device="cpu")
    monkeypatch.setattr("netproof.api.reduce", full)
    with pytest.raises(OutOfMemory, match="out of memory"):
        netproof.verify(*demo["conv-3-holds"][:2], device="cpu")
