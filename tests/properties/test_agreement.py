"""Every method against exhaustive enumeration, on random tiny networks: verdicts, exact ranges, and bounds in order.

Random right-hand sides on random networks mostly ask easy questions. So some are sharpened, their least value moved to
a margin of a fiftieth, and some are asked of knotted networks, which take splits, LPs and leaves to decide.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import netproof
from netproof.core.verdict import Status, Verdict
from netproof.methods.registry import METHODS
from netproof.run.ranges import RANGE_METHODS
from support.asking import ask, brief, knotted, sharpened
from support.exact import decide, enumerate_minimum
from support.random_graphs import Question, questions, random_question, seeded

MARGIN = Fraction(1, 50)
HOLDS = (MARGIN,)
BREAKS = (MARGIN, -MARGIN)  # of two disjuncts or more the second is broken; a single one holds
ASKED, KNOTTED = 20, 8  # networks of each method; `make hunt` asks more, of other networks
ORDER = (("crown", "alpha"), ("alpha", "lp"), ("lp", "exact"))  # intervals and fixed slopes have no order


def truth_of(question: Question) -> str:
    """What the oracle says: sat, unsat, or a tie."""
    return decide(question.graph, question.property.disjuncts)


def agree(question: Question, truth: str, folder: Path, method: str, attack: bool) -> Verdict | None:
    """The verdict, which must be the oracle's; None where the oracle sees a tie."""
    if truth == "tie":
        return None
    how = {"method": method, "attack": attack, "options": brief(method)}
    verdict = ask(question.network, question.property, folder, **how)
    assert verdict.status == truth, f"{method}, attack {attack}: {verdict}"
    return verdict


@pytest.mark.parametrize("method", METHODS)
def test_verdicts_agree_with_enumeration(method: str, tmp_path: Path) -> None:
    """Other networks for every method, with the attack on or off."""
    seen = set()
    start = 1000 * list(METHODS).index(method)
    for seed in range(start, start + ASKED):
        question = random_question(seeded(seed), neurons=9)
        if seed % 2:
            question = sharpened(question, BREAKS if seed % 4 == 1 else HOLDS)
        verdict = agree(question, truth_of(question), tmp_path, method, attack=seed % 3 == 0)
        seen.add("tie" if verdict is None else verdict.status)
    assert {Status.SAT, Status.UNSAT} <= seen


@pytest.mark.parametrize("method", METHODS)
def test_verdicts_agree_on_knotted_networks(method: str, tmp_path: Path) -> None:
    """Again others for every method; what decides them is the search, not the root."""
    start = 100 * list(METHODS).index(method)
    domains = lps = 0
    for seed in range(start, start + KNOTTED):
        question = sharpened(knotted(seed), HOLDS if seed % 3 else BREAKS)
        verdict = agree(question, truth_of(question), tmp_path, method, attack=False)
        assert verdict is not None
        domains += verdict.stats.domains
        lps += verdict.stats.lps + verdict.stats.leaf_lps
    assert domains >= 5 * KNOTTED or method == "mip"  # whose presolve leaves little of such networks
    # Two split the input of such networks first; one bounds by LPs that are no fall-back; one's own search does that.
    assert lps >= KNOTTED or method in ("auto", "input-split", "babsr-lp", "gnn", "gnn-online", "mip")


@pytest.mark.parametrize("seed", range(2))
def test_all_methods_agree_with_the_attack_on_or_off(seed: int, tmp_path: Path) -> None:
    question = sharpened(knotted(900 + seed), HOLDS if seed % 2 else (-MARGIN,))
    truth = truth_of(question)
    assert truth == (Status.UNSAT if seed % 2 else Status.SAT)
    for method in METHODS:
        for attack in (True, False):
            assert agree(question, truth, tmp_path, method, attack) is not None


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(questions(neurons=6, inputs=3))
def test_verdicts_agree_on_what_hypothesis_thinks_of(tmp_path: Path, question: Question) -> None:
    truth = truth_of(question)
    for method in METHODS:
        agree(question, truth, tmp_path, method, attack=False)


def exact_range(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """(output,) least and greatest, by enumeration."""
    graph, zero = question.graph, np.zeros(1)
    rows = np.eye(graph.output.size)
    least = [enumerate_minimum(graph, *question.box, row[None], zero).value for row in rows]
    most = [-enumerate_minimum(graph, *question.box, -row[None], zero).value for row in rows]
    return np.array(least), np.array(most)


def check_ranges(question: Question, folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By method the bounds (output,) of every output, after they were held against the truth."""
    model = question.network.save(folder / "network.onnx")
    least, most = exact_range(question)
    box = [torch.from_numpy(side) for side in question.box]
    x = box[0] + torch.rand(200, len(box[0]), dtype=torch.float64) * (box[1] - box[0])
    y = question.graph.forward(x.reshape(-1, *question.graph.input.shape)).flatten(1).numpy()
    found = {}
    for method in RANGE_METHODS:
        bounds = netproof.bounds(model, question.property, method=method, device="cpu", threads=1)
        found[method] = lower, upper = bounds.lower.reshape(-1), bounds.upper.reshape(-1)
        assert bounds.exact == (method == "exact")
        assert (lower <= least + 1e-6).all(), method  # 1e-6: what the oracle may be off by
        assert (upper >= most - 1e-6).all(), method
        assert (lower <= y.min(0)).all(), method
        assert (upper >= y.max(0)).all(), method
    np.testing.assert_allclose(found["exact"][0], least, atol=1e-4)
    np.testing.assert_allclose(found["exact"][1], most, atol=1e-4)
    for looser, tighter in ORDER:
        assert (found[tighter][0] >= found[looser][0] - 1e-5).all(), (looser, tighter)
        assert (found[tighter][1] <= found[looser][1] + 1e-5).all(), (looser, tighter)
    return found


@pytest.mark.parametrize("first", [0, 8, 16])
def test_ranges_hold_and_the_exact_ones_are_exact(first: int, tmp_path: Path) -> None:
    for seed in range(7000 + first, 7000 + first + 8):
        check_ranges(random_question(seeded(seed), neurons=7), tmp_path)


def test_ranges_of_knotted_networks_show_what_each_method_gains(tmp_path: Path) -> None:
    pairs = (("ibp", "crown"), *ORDER)
    gains = dict.fromkeys(pairs, 0)
    for seed in range(8):
        found = check_ranges(knotted(seed), tmp_path)
        for looser, tighter in pairs:
            gains[looser, tighter] += bool((found[tighter][0] > found[looser][0] + 1e-3).any())
    assert min(gains.values()) >= 2, gains
