"""Networks made to mislead: hidden counterexamples, numbers that cancel, rewritings that change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from netproof.core.verdict import Status, Verdict
from netproof.methods.registry import METHODS
from netproof.model.affine import Linear
from netproof.problem.property import Property
from netproof.run.ranges import RANGE_METHODS
from support.asking import ask, at_most, brief, dense, gaussian, knotted, sharpened, whole_box
from support.exact import milp_minimum
from support.random_graphs import NetworkBuilder, TinyNetwork

every_method = pytest.mark.parametrize("method", METHODS)

MARGIN = Fraction(1, 50)


# --- planted counterexamples ---


def spike(centre: Sequence[float], width: float, height: float = 2.0) -> TinyNetwork:
    """f = 1 − height·relu(1 − Σ|x_i − c_i|/width): 1 almost everywhere, 1 − height at one point."""
    n = len(centre)
    inwards = np.vstack([np.eye(n), -np.eye(n)]) / width
    offsets = np.concatenate([-np.array(centre), np.array(centre)]) / width
    return dense((inwards, offsets), (-np.ones((1, 2 * n)), [1.0]), ([[-height]], [1.0]))


SPIKES = [
    ([0.3125, -0.4375], 2.0**-7),
    ([0.8125, 0.1875], 2.0**-10),
    ([0.3125, -0.4375, 0.6875], 2.0**-6),
    ([0.3125, -0.4375, 0.6875, -0.8125], 2.0**-5),
]


@every_method
@pytest.mark.parametrize(("centre", "width"), SPIKES, ids=lambda v: str(len(v)) if isinstance(v, list) else None)
def test_a_narrow_spike_is_found_or_left_open_never_proved_away(
    method: str, centre: list[float], width: float, tmp_path: Path
) -> None:
    network = spike(centre, width)
    question = at_most(whole_box([-1] * len(centre), [1] * len(centre)), network, 0)
    verdict = ask(network, question, tmp_path, method=method, options=brief(method))
    assert verdict.status == Status.SAT  # complete: the spike is wide enough for float32
    assert verdict.decided_by != "attack"
    assert verdict.witness is not None
    assert np.abs(verdict.witness.input - np.array(centre)).sum() <= width / 2 + 1e-6


@every_method
def test_a_spike_that_does_not_reach_is_proved(method: str, tmp_path: Path) -> None:
    network = spike([0.3125, -0.4375], 2.0**-7, height=0.9375)
    question = at_most(whole_box([-1, -1], [1, 1]), network, 0)
    assert ask(network, question, tmp_path, method=method, options=brief(method)).status == Status.UNSAT


@every_method
def test_a_spike_beside_the_box_is_no_counterexample(method: str, tmp_path: Path) -> None:
    """Its centre lies outside by half its width, so that inside it reaches 0 nowhere, though almost."""
    width = 2.0**-4
    network = spike([0.5 + width / 2, 0.25], width, height=1.9375)
    question = at_most(whole_box([-1, -1], ["1/2", 1]), network, 0)
    assert ask(network, question, tmp_path, method=method, options=brief(method)).status == Status.UNSAT
    wider = at_most(whole_box([-1, -1], ["9/16", 1]), network, 0)
    assert ask(network, wider, tmp_path, method=method, options=brief(method)).status == Status.SAT


@every_method
def test_a_spike_in_a_network_that_otherwise_holds(method: str, tmp_path: Path) -> None:
    """One network for each method, and three among the methods."""
    seed = list(METHODS).index(method) % 3
    body = gaussian(seed, (2, 4, 3, 1))
    box = whole_box([-1, -1], [1, 1])
    ends = (np.full(2, -1.0), np.full(2, 1.0))
    least = milp_minimum(body.graph, *ends, np.ones((1, 1)), np.zeros(1)).value
    question = at_most(box, body, Fraction(least) - Fraction(1, 4))
    assert ask(body, question, tmp_path, method=method, options=brief(method)).status == Status.UNSAT
    at = np.random.default_rng(seed).integers(-14, 15, 2) / 16
    depth = float(body.graph.forward(torch.from_numpy(at).reshape(1, 1, 2))) - least + 0.5
    build = NetworkBuilder(2)
    there = add_layers(build, 0, layers_of(body))
    needle = add_layers(build, 0, layers_of(spike(at.tolist(), 2.0**-8))[:-1])
    build.add(there, build.linear(build.relu(needle), np.array([[-float(np.float32(depth))]]), np.zeros(1)))
    network = build.finish()
    for attack in (True, False):
        verdict = ask(network, question, tmp_path, method=method, attack=attack, options=brief(method))
        assert verdict.status == Status.SAT


# --- a branch without a neuron ---


def branched(seed: int) -> TinyNetwork:
    """A residual block on two inputs, one of whose branches is a Reshape and three convolutions with no ReLU between.

    It reads what bends, so that its bounds are none of the input alone; weights are short numbers, exact in float32.
    """
    rng = np.random.default_rng(seed)

    def short(*shape: int) -> np.ndarray:
        return rng.integers(-8, 9, shape) / 8

    build = NetworkBuilder(2)
    source = build.relu(build.linear(0, short(4, 2), short(4)))
    branch = source
    for channels, made, side in ((1, 2, 3), (2, 2, 1), (2, 1, 3)):
        branch = build.conv(branch, short(made, channels, side, side), short(made), padding=side // 2)
    bent = build.linear(build.relu(build.linear(source, short(3, 4), short(3))), short(4, 3), short(4))
    last = build.add(branch, bent)
    build.linear(build.relu(last) if seed % 2 else last, short(1, 4), short(1))
    return build.finish()


@every_method
@pytest.mark.parametrize("seed", range(2))
def test_a_linear_branch_hides_no_counterexample(method: str, seed: int, tmp_path: Path) -> None:
    """One is planted a little below the bound that is asked for; a little above the least value there is none."""
    network = branched(seed)
    least = milp_minimum(network.graph, np.full(2, -1.0), np.full(2, 1.0), np.ones((1, 1)), np.zeros(1)).value
    for margin, expected in ((MARGIN, Status.SAT), (-MARGIN, Status.UNSAT)):
        question = at_most(whole_box([-1] * 2, [1] * 2), network, Fraction(least).limit_denominator(1 << 20) + margin)
        verdict = ask(network, question, tmp_path, method=method, attack=False, options=brief(method))
        assert verdict.status == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", RANGE_METHODS)
def test_the_bounds_of_a_linear_branch_hold_what_it_gives(method: str, seed: int, tmp_path: Path) -> None:
    network = branched(seed)
    region = netproof.box([[-1] * 2], [[1] * 2])
    path = network.save(tmp_path / "network.onnx")
    found = netproof.bounds(path, region, method=method, device="cpu", threads=1)
    points = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (2000, 1, 2)).round(2))
    seen = network.graph.forward(points).flatten()
    assert float(found.lower.reshape(-1)[0]) <= float(seen.min())
    assert float(found.upper.reshape(-1)[0]) >= float(seen.max())


# --- numbers that cancel ---


@every_method
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_rounding_in_float64_proves_nothing(method: str, order: tuple[int, ...], tmp_path: Path) -> None:
    """f = 2^60·a − b − 2^60·c at a = b = c = 1 is −1, but float64 finds 0 in all but one order of its terms."""
    weight = np.array([[2.0**60, -1.0, -(2.0**60)]])[:, list(order)]
    build = NetworkBuilder(3)
    build.linear(0, weight, np.zeros(1))
    network = build.finish()
    point = whole_box([1, 1, 1], [1, 1, 1])
    verdict = ask(network, at_most(point, network, "-1/2"), tmp_path, method=method)
    assert verdict.status != Status.UNSAT
    below = ask(network, at_most(point, network, -(2**20)), tmp_path, method=method)
    assert below.status == Status.UNSAT  # far enough away for its error to be paid
    assert below.lower_bound is not None
    assert below.lower_bound <= 2**20 - 1


@every_method
def test_a_relu_that_rounding_hides(method: str, tmp_path: Path) -> None:
    """The same sum before a ReLU: relu(1) looks like relu(0)."""
    first = ([[2.0**60, 1.0, -(2.0**60)], [2.0**60, 1.0, -(2.0**60)]], [0.0, 0.0])
    network = dense(first, ([[-1.0, 0.0]], [0.5]))
    question = at_most(whole_box([1, 1, 1], [1, 1, 1]), network, 0)
    assert ask(network, question, tmp_path, method=method).status != Status.UNSAT  # f = 0.5 − relu(1)


# --- rewritings ---

Layers = list[tuple[np.ndarray, np.ndarray]]


def layers_of(network: TinyNetwork) -> Layers:
    """Weights and biases of a network that `dense` made."""
    return [(n.op.weight.numpy(), n.op.bias.numpy()) for n in network.graph.nodes if isinstance(n.op, Linear)]


def add_layers(build: NetworkBuilder, last: int, layers: Layers) -> int:
    for k, (weight, bias) in enumerate(layers):
        last = build.linear(build.relu(last) if k else last, weight, bias)
    return last


def permuted(layers: Layers, seed: int) -> TinyNetwork:
    """Hidden neurons in another order."""
    rng = np.random.default_rng(seed)
    layers = list(layers)
    for k in range(len(layers) - 1):
        order = rng.permutation(len(layers[k][1]))
        weight, bias = layers[k]
        after, more = layers[k + 1]
        layers[k], layers[k + 1] = (weight[order], bias[order]), (after[:, order], more)
    return dense(*layers)


def rescaled(layers: Layers, seed: int) -> TinyNetwork:
    """relu(s·h)/s = relu(h); powers of two are exact in every precision."""
    rng = np.random.default_rng(seed)
    layers = list(layers)
    for k in range(len(layers) - 1):
        scale = 2.0 ** rng.integers(-6, 7, len(layers[k][1]))
        weight, bias = layers[k]
        after, more = layers[k + 1]
        layers[k], layers[k + 1] = (weight * scale[:, None], bias * scale), (after / scale, more)
    return dense(*layers)


def split_in_two(layers: Layers, seed: int) -> TinyNetwork:
    """Every linear layer as two: a permutation and scaling of its inputs first, undone by the second."""
    rng = np.random.default_rng(seed)
    build = NetworkBuilder(layers[0][0].shape[1])
    last = 0
    for k, (weight, bias) in enumerate(layers):
        last = build.relu(last) if k else last
        order = rng.permutation(weight.shape[1])
        scale = 2.0 ** rng.integers(-3, 4, weight.shape[1])
        last = build.linear(last, np.eye(len(order))[order] * scale[:, None], np.zeros(len(order)))
        last = build.linear(last, weight[:, order] / scale, bias)
    return build.finish()


def unchanged(layers: Layers, seed: int) -> TinyNetwork:
    return dense(*layers)


REWRITINGS = [unchanged, permuted, rescaled, split_in_two]


@every_method
@pytest.mark.parametrize("rewrite", REWRITINGS)
def test_rewriting_a_network_changes_no_verdict(
    method: str, rewrite: Callable[[Layers, int], TinyNetwork], tmp_path: Path
) -> None:
    """One network in all its forms for each method, and three networks among the methods.

    Of every two rewritings a method is asked one where the network holds and one where it is broken, and the next
    method the other way round.
    """
    place = list(METHODS).index(method)
    holds = (place + REWRITINGS.index(rewrite)) % 2 == 0
    question = sharpened(knotted(400 + place % 3, (2, 5, 3, 2)), (MARGIN if holds else -MARGIN,))
    other = rewrite(layers_of(question.network), place % 3)
    verdict = ask(other, question.property, tmp_path, method=method, attack=False, options=brief(method))
    assert verdict.status == (Status.UNSAT if holds else Status.SAT)


def shrunk(property: Property, share: Fraction, corner: Sequence[Fraction]) -> Property:
    """Every box scaled by `share` towards a point of it; `corner` gives the point in [0, 1] a coordinate."""
    box = property.disjuncts[0].box
    anchor = [lo + c * (hi - lo) for lo, hi, c in zip(box.lower, box.upper, corner, strict=True)]
    lower = tuple(a + share * (lo - a) for a, lo in zip(anchor, box.lower, strict=True))
    upper = tuple(a + share * (hi - a) for a, hi in zip(anchor, box.upper, strict=True))
    smaller = replace(box, lower=lower, upper=upper)
    return replace(property, disjuncts=tuple(replace(d, box=smaller) for d in property.disjuncts))


@every_method
def test_a_smaller_box_keeps_what_is_proved_and_a_larger_one_what_is_broken(method: str, tmp_path: Path) -> None:
    seen = set()
    for seed in range(2):
        question = sharpened(knotted(500 + seed, (2, 5, 3, 2)), (MARGIN if seed % 2 else -MARGIN,))
        rng = np.random.default_rng(seed)
        corner = [Fraction(int(v), 4) for v in rng.integers(0, 5, 2)]
        verdicts: list[Verdict] = []
        for share in (Fraction(1), Fraction(1, 2), Fraction(1, 8)):
            smaller = shrunk(question.property, share, corner)
            verdicts.append(ask(question.network, smaller, tmp_path, method=method, options=brief(method)))
        statuses = [v.status for v in verdicts]
        assert set(statuses) <= {Status.SAT, Status.UNSAT}
        assert statuses == sorted(statuses, key=[Status.SAT, Status.UNSAT].index)
        seen.update(itertools.pairwise(statuses))
    assert (Status.SAT, Status.UNSAT) in seen


# --- the same seed, the same run ---


REPEATED = [(600, (MARGIN,), False), (601, (-MARGIN,), False), (602, (MARGIN, -MARGIN), True)]


@pytest.mark.parametrize(
    ("method", "asked"),
    [(method, asked) for place, method in enumerate(METHODS) for asked in (REPEATED[0], REPEATED[1 + place % 2])],
    ids=[f"{method}-{kind}" for method in METHODS for kind in ("holds", "breaks")],
)
def test_a_run_can_be_repeated(method: str, asked: tuple[int, tuple[Fraction, ...], bool], tmp_path: Path) -> None:
    """Every method where it proves, and where it finds a witness: by itself or after the attack, in turn."""
    seed, margins, attack = asked
    question = sharpened(knotted(seed, (2, 5, 4, 2)), margins)
    how = {"method": method, "attack": attack, "seed": 7, "options": brief(method)}
    first, again = (ask(question.network, question.property, tmp_path, **how) for _ in range(2))
    assert first.status == again.status
    assert (first.lower_bound, first.upper_bound) == (again.lower_bound, again.upper_bound)
    counts = ("domains", "rounds", "lps", "leaf_lps", "lp_parents_proved", "lp_pruned")
    assert [getattr(first.stats, c) for c in counts] == [getattr(again.stats, c) for c in counts]
    if first.witness is not None and again.witness is not None:
        np.testing.assert_array_equal(first.witness.input, again.witness.input)
