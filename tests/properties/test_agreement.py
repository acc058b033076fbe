"""Every method against exhaustive enumeration, on random tiny networks: verdicts, exact ranges, and bounds in order.

Random right-hand sides mostly ask easy questions, so half of the questions are sharpened: their least value is moved to
a margin of a fiftieth, where linear bounds at the root seldom suffice.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import netproof
from netproof.core.verdict import Status
from netproof.methods import METHODS
from netproof.ranges import RANGE_METHODS
from support.asking import ask, sharpened
from support.exact import decide, enumerate_minimum
from support.random_graphs import Question, questions, random_question, seeded

MARGIN = Fraction(1, 50)
HOLDS = (MARGIN,)
BREAKS = (MARGIN, -MARGIN)  # of two disjuncts or more the second is broken; a single one holds
CHUNK = 20

# Optimising for long changes no verdict, only how soon it comes.
BRIEF = {"root_steps": "20", "neuron_steps": "5", "steps": "5"}


def brief(method: str) -> dict[str, str]:
    return {} if method == "lirpa-fixed" else BRIEF


def agree(question: Question, folder: Path, method: str, attack: bool) -> Status | None:
    """The verdict, which must be the oracle's; None where the oracle sees a tie."""
    truth = decide(question.graph, question.property.disjuncts)
    if truth == "tie":
        return None
    how = {"method": method, "attack": attack, "options": brief(method)}
    verdict = ask(question.network, question.property, folder, **how)
    assert verdict.status == truth, f"{method}, attack {attack}: {verdict}"
    return verdict.status


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("first", range(0, 80, CHUNK))
def test_verdicts_agree_with_enumeration(method: str, first: int, tmp_path: Path) -> None:
    """Other networks for every method: 320 in all, each with the attack on or off."""
    seen = set()
    start = 1000 * list(METHODS).index(method) + first
    for seed in range(start, start + CHUNK):
        question = random_question(seeded(seed), neurons=9)
        if seed % 2:
            question = sharpened(question, BREAKS if seed % 4 == 1 else HOLDS)
        seen.add(agree(question, tmp_path, method, attack=seed % 3 == 0))
    assert {Status.SAT, Status.UNSAT} <= seen


@pytest.mark.parametrize("seed", range(12))
def test_all_methods_agree_with_the_attack_on_or_off(seed: int, tmp_path: Path) -> None:
    question = sharpened(random_question(seeded(5000 + seed), neurons=8), HOLDS if seed % 2 else (-MARGIN,))
    for method in METHODS:
        for attack in (True, False):
            assert agree(question, tmp_path, method, attack) == (Status.UNSAT if seed % 2 else Status.SAT)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(questions(neurons=6, inputs=3))
def test_verdicts_agree_on_what_hypothesis_thinks_of(tmp_path: Path, question: Question) -> None:
    for method in METHODS:
        agree(question, tmp_path, method, attack=False)


def exact_range(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """(output,) least and greatest, by enumeration."""
    graph, zero = question.graph, np.zeros(1)
    rows = np.eye(graph.output.size)
    least = [enumerate_minimum(graph, *question.box, row[None], zero).value for row in rows]
    most = [-enumerate_minimum(graph, *question.box, -row[None], zero).value for row in rows]
    return np.array(least), np.array(most)


@pytest.mark.parametrize("first", range(0, 40, CHUNK))
def test_ranges_hold_and_the_exact_ones_are_exact(first: int, tmp_path: Path) -> None:
    for seed in range(7000 + first, 7000 + first + CHUNK):
        question = random_question(seeded(seed), neurons=7)
        model = question.network.save(tmp_path / "network.onnx")
        least, most = exact_range(question)
        box = [torch.from_numpy(side) for side in question.box]
        x = box[0] + torch.rand(200, len(box[0]), dtype=torch.float64) * (box[1] - box[0])
        y = question.graph.forward(x.reshape(-1, *question.graph.input.shape)).flatten(1).numpy()
        found = {m: netproof.bounds(model, question.property, method=m, device="cpu") for m in RANGE_METHODS}
        for method, bounds in found.items():
            lower, upper = bounds.lower.reshape(-1), bounds.upper.reshape(-1)
            assert bounds.exact == (method == "exact")
            assert (lower <= least + 1e-6).all(), (seed, method)  # 1e-6: what the oracle may be off by
            assert (upper >= most - 1e-6).all(), (seed, method)
            assert (lower <= y.min(0)).all(), (seed, method)
            assert (upper >= y.max(0)).all(), (seed, method)
        np.testing.assert_allclose(found["exact"].lower.reshape(-1), least, atol=1e-4)
        np.testing.assert_allclose(found["exact"].upper.reshape(-1), most, atol=1e-4)
        for looser, tighter in (("crown", "alpha"), ("alpha", "lp"), ("lp", "exact")):
            assert (found[tighter].lower >= found[looser].lower - 1e-5).all(), (seed, looser, tighter)
            assert (found[tighter].upper <= found[looser].upper + 1e-5).all(), (seed, looser, tighter)


def test_better_bounds_are_better_somewhere(tmp_path: Path) -> None:
    """The order above would also hold if all methods were one."""
    gains = dict.fromkeys(RANGE_METHODS[1:], 0)
    for seed in range(7000, 7030):
        question = random_question(seeded(seed), neurons=8)
        model = question.network.save(tmp_path / "network.onnx")
        found = [netproof.bounds(model, question.property, method=m, device="cpu").lower for m in RANGE_METHODS]
        for method, looser, tighter in zip(gains, found[:-1], found[1:], strict=True):
            gains[method] += bool((tighter > looser + 1e-3).any())
    assert min(gains.values()) >= 3, gains
