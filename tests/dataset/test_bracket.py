"""The largest radius: closed in from both sides, whatever attacks and proofs can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
import torch

import netproof
from netproof.api import attack
from netproof.core.deadline import Deadline
from netproof.core.verdict import Status, Verdict
from netproof.dataset import radius
from netproof.dataset.bracket import Bracket, close_in
from netproof.errors import UsageError
from support.looks import Looks


@dataclass
class Oracle:
    """An image whose largest radius is known; attacks work from `attacked` on, proofs in time up to `provable`."""

    true: float
    attacked: float
    provable: float
    patient: float = 0.0  # with more than the usual time, proofs work up to here
    usual: float = 30.0
    asked: list[tuple[str, Fraction]] = field(default_factory=list)

    def attack(self, eps: Fraction, seconds: float | None) -> bool:
        self.asked.append(("attack", eps))
        return eps > self.attacked

    def prove(self, eps: Fraction, seconds: float | None) -> str:
        self.asked.append(("prove", eps))
        limit = self.patient if seconds is not None and seconds > self.usual else self.provable
        if eps <= min(self.true, limit):
            return "unsat"
        return "timeout"


def closed(oracle: Oracle, first: str = "0.01") -> Bracket:
    return close_in(oracle, Fraction(first), Deadline(None), limited=False)


@pytest.mark.parametrize("first", ["0.001", "0.01", "0.3", "5"])
def test_both_sides_meet_where_all_is_decided(first: str) -> None:
    found = closed(Oracle(0.07, 0.07, 1.0), first)
    assert found.certified is not None
    assert found.broken is not None
    assert found.certified <= 0.07 < found.broken
    assert found.broken - found.certified <= Fraction(2, 100) * found.broken


def test_a_timeout_is_no_counterexample() -> None:
    """Proofs end at 0.05 and attacks begin at 0.2: both sides are as near as they get, and nothing is said between."""
    found = closed(Oracle(0.1, 0.2, 0.05))
    assert found.certified is not None
    assert found.broken is not None
    assert 0.045 <= found.certified <= 0.05
    assert 0.2 < found.broken <= 0.21


def test_a_share_that_is_finer_than_ours_is_kept() -> None:
    found = close_in(Oracle(0.07, 0.07, 1.0), Fraction("0.01"), Deadline(None), limited=False, within=Fraction(1, 1000))
    assert found.broken is not None
    assert found.broken - found.low <= found.broken / 1000


@pytest.mark.parametrize("within", [Fraction(1, 4), Fraction(1, 2)])
def test_a_share_that_may_stay_open_ends_it(within: Fraction) -> None:
    """Without a limit of time, so the same whatever the machine does; the attacks go as far as ever."""
    exact, rough = Oracle(0.07, 0.07, 1.0), Oracle(0.07, 0.07, 1.0)
    closed(exact)
    found = close_in(rough, Fraction("0.01"), Deadline(None), limited=False, within=within)
    assert found.certified is not None
    assert found.broken is not None
    assert found.certified <= 0.07 < found.broken <= 0.071
    assert found.broken - found.certified <= within * found.broken
    proofs = [[eps for kind, eps in oracle.asked if kind == "prove"] for oracle in (rough, exact)]
    assert proofs[0] == proofs[1][: len(proofs[0])]
    assert len(proofs[0]) < len(proofs[1])


def test_more_time_at_the_end_moves_the_frontier() -> None:
    without, with_time = closed(Oracle(0.1, 0.2, 0.05)), closed(Oracle(0.1, 0.2, 0.05, patient=0.1))
    assert without.certified is not None
    assert with_time.certified is not None
    assert with_time.certified > without.certified


def test_proofs_are_asked_only_below_what_is_broken() -> None:
    oracle = Oracle(0.07, 0.07, 1.0)
    found = closed(oracle, "5")
    assert all(eps < found.broken for kind, eps in oracle.asked if kind == "prove")  # type: ignore[operator]


def test_nothing_that_breaks_leaves_the_broken_side_open() -> None:
    found = closed(Oracle(1e9, 1e9, 1e9))
    assert found.broken is None
    assert found.certified is not None
    assert found.certified >= Fraction("0.01") * 2**19


def test_no_time_is_no_answer() -> None:
    found = close_in(Oracle(1, 1, 1), Fraction(1, 100), Deadline(0), limited=True)
    assert (found.certified, found.broken) == (None, None)


def linear() -> torch.nn.Module:
    """A lead of 1 at the origin that falls by 2ε in ℓ∞, √2·ε in ℓ2 and ε in ℓ1: by 1 at 1/2, 1/√2 and 1."""
    net = torch.nn.Linear(12, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.weight[0, 0], net.weight[1, 1] = 1.0, 1.0
        net.bias.copy_(torch.tensor([1.0, 0.0]))
    return net


@pytest.mark.parametrize(("norm", "true"), [("inf", 0.5), (2, 2**-0.5), (1, 1.0)])
def test_the_radius_of_a_linear_network_is_known(norm: str | int, true: float) -> None:
    found = netproof.largest_eps(linear(), np.zeros(12), norm=norm, device="cpu", threads=1)
    assert found.certified is not None
    assert found.broken is not None
    assert 0.97 * true <= found.certified < true
    assert true <= found.broken <= 1.03 * true
    assert found.bracket == (found.certified, found.broken)
    assert found.witness is not None
    assert found.witness.output.reshape(-1)[0] <= found.witness.output.reshape(-1)[1]
    assert repr(found).startswith("Radius(certified ")
    assert {probe["by"] for probe in found.to_dict()["probes"]} == {"attack", "proof"}


def test_rounding_that_breaks_what_is_proved_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is below the counterexample, whatever was proved in real arithmetic."""
    found = Bracket(certified=Fraction(1, 2), broken=Fraction(1, 4))

    def fake(asking: radius._Asking, *given: object, **how: object) -> Bracket:
        asking.attack(Fraction(3, 4), None)
        asking.witnesses[Fraction(1, 4)] = asking.witnesses[Fraction(3, 4)]
        asking.prove(Fraction(1, 8), None)
        return found

    monkeypatch.setattr(radius, "close_in", fake)
    said = netproof.largest_eps(linear(), np.zeros(12), device="cpu", threads=1)
    assert (said.certified, said.broken) == (0.125, 0.25)
    assert "real arithmetic" in said.reason


def test_a_misread_input_is_broken_at_once() -> None:
    found = netproof.largest_eps(linear(), np.zeros(12), label=1, device="cpu", threads=1)
    assert (found.certified, found.broken, found.predicted) == (None, 0.0, 0)
    assert found.reason == "the network reads x itself as 0"
    assert found.witness is not None


def test_where_nothing_is_certified_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the time is up: before anything was asked, among attacks, among proofs."""
    found: list[netproof.Radius] = []
    while not found or found[-1].certified is None:
        monkeypatch.setattr(radius, "Deadline", lambda seconds: Looks(len(found)))
        found.append(netproof.largest_eps(linear(), np.zeros(12), first=0.4, timeout=5, device="cpu", threads=1))
    *without, _ = found
    assert {one.reason for one in without} == {"no radius is certified: no time was left for a proof"}
    assert {one.broken is None for one in without} == {True, False}


def test_a_proof_that_comes_to_no_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Verdict(Status.TIMEOUT, "3 boxes still open")
    monkeypatch.setattr(radius, "verify", lambda *given, **how: late)
    found = netproof.largest_eps(linear(), np.zeros(12), first=0.4, device="cpu", threads=1)
    assert found.certified is None
    least = min(probe.eps for probe in found.probes if probe.by == "proof")
    assert found.reason == f"no radius is certified: {least:.6g} was left open (3 boxes still open)"


@pytest.mark.parametrize(("eps", "status"), [(0.4, "unknown"), (0.6, "sat")])
def test_an_attack_alone_proves_nothing(eps: float, status: str) -> None:
    found = attack(linear(), netproof.linf_ball(np.zeros(12), eps), label=0, device="cpu", threads=1)
    assert found.status == status
    assert (found.witness is not None) == (status == "sat")
    assert found.lower_bound is None
    assert found.reason == ("" if status == "sat" else "no counterexample was found")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": np.zeros(5)}, "shape|inputs"),
        ({"first": 0}, "first is 0"),
        ({"norm": 7}, "norm"),
        ({"label": 2}, "label 2"),
        ({"timeout": -1}, "timeout"),
        ({"within": 0}, "within is no share"),
        ({"within": 1.5}, "within is no share"),
        ({"within": 10**400}, "within is no share"),
    ],
)
def test_bad_input_gets_one_line(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        netproof.largest_eps(linear(), **{"x": np.zeros(12), "device": "cpu", **given})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
