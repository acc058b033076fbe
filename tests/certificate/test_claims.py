"""Bounds of single neurons by trees: told by the search, valued again, written as claims, and none that is false."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from test_certificates import CLOSE, certified, files

import netproof
import npcheck.region
from hunt.plants import PLANTS, planted
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.core.verdict import Verdict
from npcheck.check import check
from npcheck.errors import Invalid
from support.asking import knotted, sharpened
from support.random_graphs import Question

EAGER = {"neuron_steps": 1, "steps": 20, "probes": 0, "lp_turns": False}  # tighter roots come early, and no LP
DEEP = (3, 6, 5, 4, 2)


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Certificates are made with all bounds that the search told of; the claims that were checked."""
    monkeypatch.setattr("netproof.certificate.write.MOST_HOLD", 2.0)
    checked: list[str] = []
    check_claim = npcheck.region._check_claim

    def watched(*args: Any) -> None:
        checked.append(str(args[2]))
        check_claim(*args)

    monkeypatch.setattr(npcheck.region, "_check_claim", watched)
    return checked


def deep(seed: int, margin: Fraction) -> Question:
    return sharpened(knotted(seed, DEEP), [margin])


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_proved_is_certified(
    seed: int, claims: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a tree is given a claim above what it shows, the certificate is refused."""
    question = deep(seed, CLOSE)
    verdict, state, request = certified(question, tmp_path, method="beta", options=EAGER)
    assert verdict.proved
    assert (state.written, state.reason) == (True, "")
    check(request.path, request.model, request.spec)
    assert len(claims) >= 4
    monkeypatch.setattr("netproof.certificate.claims.MARGIN", -0.01)
    assert request.finish(request.subject()).written
    with pytest.raises(Invalid, match=r"neuron \d+ of node .* is not shown"):
        check(request.path, request.model, request.spec)


@pytest.mark.parametrize("plant", PLANTS)
def test_no_fault_of_the_engine_ends_in_an_accepted_certificate(plant: str, claims: list[str], tmp_path: Path) -> None:
    """As in test_certificates, with trees of neurons."""
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        model, spec = files(deep(seed, -CLOSE), folder)
        request = Request(folder / "c.npcert", model, spec, folder / "hints", 1.0, check=False, at_once=False)
        recording = Recording.of(request)
        with planted(plant):
            netproof.verify(
                str(model), str(spec), device="cpu", threads=1, timeout=20, method="beta", options=EAGER, attack=False,
                certificate=recording,
            )  # fmt: skip
        assert not request.finish(request.subject()).written
        assert not request.path.exists()


def test_planes_come_when_half_of_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the verdict is what it is without a certificate; that the search does without at first is told before it."""
    monkeypatch.setattr("netproof.run.gather.FIRST", 0.0)
    model, spec = files(deep(1, CLOSE), tmp_path)
    told: list[str] = []

    def ask(**more: Any) -> Verdict:
        return netproof.verify(str(model), str(spec), device="cpu", threads=1, method="beta", **more)

    alone = ask()
    verdict = ask(certificate=tmp_path / "c.npcert", progress=lambda progress: told.append(progress.note))
    assert alone.proved
    assert (verdict.status, verdict.stats.domains) == (alone.status, alone.stats.domains)
    assert [note for note in told if note] == [
        "certificates cannot state planes above the first layer: the search does without at first"
    ]
    assert verdict.certificate is not None
    assert verdict.certificate["checked"] is True
