"""The published graph network: its file, its messages neuron by neuron, what the LP tells it, and whole runs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from netproof.bounds.base import Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.model.conv import Conv, Kernel
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.paper.rivals import babsr_lp
from netproof.paper.rivals.gnn.fail_safe import FAILURES
from netproof.paper.rivals.gnn.fail_safe_published import PublishedFailSafe
from netproof.paper.rivals.gnn.published import Seen, load_published
from netproof.paper.rivals.gnn.trials import Trial, TryingLP
from netproof.paper.rivals.gnn.wiring import Wiring, _windows
from netproof.problem.problem import Problem
from support.asking import CPU, ask, at_most, knotted, nearly_broken, problem_of, sharpened, whole_box, worst_row
from support.plain_gnn import Neuron, PlainGnn, Reads, random_tensors, save_published
from support.problems import random_points, unstable_of
from support.random_graphs import NetworkBuilder, rows_tensor

WIDTHS = (3, 8, 7, 6, 2)
FNODE = "ComputeFinalScore.fnode.weight"


def zero(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64)


def rule_of(folder: Path, seed: int = 0, **how: Any) -> PublishedFailSafe:
    path = save_published(random_tensors(seed), folder / "weights.npz")
    return PublishedFailSafe(path, bounder=TryingLP(keeps_optima=True), **how)


def begun(rule: PublishedFailSafe, problem: Problem) -> tuple[Root, Domains]:
    """The root, one sub-domain whose LP was solved, ranked as a search would rank it."""
    found = rule.bounder.root(problem, zero(len(problem.disjuncts)), CPU, Deadline(None), Clock())
    assert found is not None
    root, bounds = found
    one = bounds.select(torch.tensor([0]))
    return root, replace(one.domains, candidates=rule.choose(root, one, 12))


def told(rule: PublishedFailSafe, root: Root, domain: Domains) -> Seen:
    seen = rule._told(root, domain)
    assert seen is not None
    return seen


def images(seed: int) -> Problem:
    """A property of a small network of convolutions that fails by a little in its relaxation."""
    rng = np.random.default_rng(seed)
    build, last = NetworkBuilder(9), 0
    for weight in (rng.normal(size=(2, 1, 2, 2)), rng.normal(size=(2, 2, 2, 2))):
        last = build.relu(build.conv(last, weight, rng.normal(scale=0.1, size=2), padding=1))
    last = build.relu(build.linear(last, rng.normal(size=(5, build.width(last))), rng.normal(size=5)))
    build.linear(last, rng.normal(size=(2, 5)), rng.normal(size=2))
    graph = build.finish().graph
    box = (np.full(9, -1.0), np.full(9, 1.0))
    least = float(graph.forward(random_points(problem_of(graph, box, rows(0.0)), 3000, seed)).flatten(1)[:, 0].min())
    return problem_of(graph, box, rows(least - 0.1))


def rows(limit: float) -> Any:
    """Y_0 − limit."""
    return rows_tensor(np.array([[1.0, 0.0]]), np.array([limit]))


# --- the file ---


def test_every_tensor_has_its_place(tmp_path: Path) -> None:
    tensors = random_tensors(1, width=5)
    net = load_published(save_published(tensors, tmp_path / "weights.npz"))
    kept = {name.removeprefix("maps."): value for name, value in net.state_dict().items()}
    assert len(kept) == len(tensors)
    for name, value in tensors.items():
        assert np.array_equal(kept[name.removeprefix("EmbedUpdates.update.").removeprefix("ComputeFinalScore.")], value)


def test_numbers_too_small_to_be_normal_are_read_as_0(tmp_path: Path) -> None:
    tensors = random_tensors(1)
    tensors[FNODE][0] = 9e-41
    net = load_published(save_published(tensors, tmp_path / "weights.npz"))
    found = net.state_dict()["maps.fnode.weight"]
    assert not bool(found[0].any())
    assert np.array_equal(found[1:], tensors[FNODE][1:])


def broken(what: str) -> dict[str, Any]:
    tensors: dict[str, Any] = random_tensors(0)
    bias = "EmbedUpdates.update.bc3.bias"
    match what:
        case "missing":
            del tensors[bias]
        case "nothing":
            del tensors[FNODE]
        case "shape":
            tensors[bias] = tensors[bias][:-1]
        case "oblong":
            tensors[FNODE] = tensors[FNODE][:-1]
        case "nan":
            tensors[bias] = np.full_like(tensors[bias], np.nan)
        case "large":
            tensors[bias] = np.full(tensors[bias].shape, 1e300)
        case "words":
            tensors[bias] = np.array(["a", "b", "c", "d"])
        case "more":
            tensors["EmbedUpdates.update.fc9.bias"] = tensors[bias]
    return tensors


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("missing", "no tensor EmbedUpdates.update.bc3.bias"),
        ("nothing", f"no tensor {FNODE}"),
        ("shape", r"EmbedUpdates.update.bc3.bias is of shape \(3,\), not \(4,\)"),
        ("oblong", rf"{FNODE} is of shape \(3, 4\), not square"),
        ("nan", "EmbedUpdates.update.bc3.bias does not hold finite"),
        ("large", "EmbedUpdates.update.bc3.bias does not hold finite"),
        ("words", "EmbedUpdates.update.bc3.bias does not hold finite"),
        ("more", "EmbedUpdates.update.fc9.bias is no tensor of this network"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(what: str, words: str, tmp_path: Path) -> None:
    path = save_published(broken(what), tmp_path / "weights.npz")
    with pytest.raises(UsageError, match=words) as error:
        load_published(path)
    assert str(path) in str(error.value)
    assert "docs/paper.md" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez_compressed(path, **{FNODE: np.random.default_rng(0).normal(size=(64, 64))})
    content = bytearray(path.read_bytes())
    content[200:4000] = bytes(byte ^ 0x5A for byte in content[200:4000])
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"not a \.npz file") as error:
        load_published(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_what_is_no_archive_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"not a \.npz file") as error:
        load_published(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


# --- its messages ---


def matrix(graph: Graph, nodes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of affine nodes in a row, from what they make of unit vectors."""
    shape = graph.nodes[nodes[0] - 1].shape
    size = int(np.prod(shape))
    x = torch.cat([torch.zeros(1, size), torch.eye(size)]).double().reshape(-1, *shape)
    for node in nodes:
        x = graph.nodes[node].op.forward(x)
    flat = x.flatten(1).numpy()
    return (flat[1:] - flat[0]).T, flat[0]


def layers_of(problem: Problem) -> tuple[list[Reads], np.ndarray, float]:
    graph, stages, own = problem.graph, [], []
    for node in graph.nodes[1:]:
        if isinstance(node.op, Affine):
            own.append(node.index)
        else:
            stages.append(own)
            own = []
    found = []
    for nodes in stages:
        weight, bias = matrix(graph, nodes)
        image = any(isinstance(graph.nodes[k].op, Conv) for k in nodes)
        found.append(Reads(weight, bias, windows_of(graph, nodes) if image else np.ones(weight.shape[1])))
    weight, bias = matrix(graph, own)
    coef, offset = problem.rows.coef[0, 0].numpy(), float(problem.rows.offset[0, 0])
    return found, coef @ weight, float(coef @ bias - offset)


def windows_of(graph: Graph, nodes: list[int]) -> np.ndarray:
    """By place, in how many windows of the convolution of these nodes it lies."""
    (kernel,) = (op.kernel for op in (graph.nodes[k].op for k in nodes) if isinstance(op, Conv))
    return np.tile(counted(kernel), kernel.image[0])


def counted(kernel: Kernel) -> np.ndarray:
    """By place of one channel, the windows that it lies in, counted one by one."""
    count = np.zeros(kernel.image[1:])
    places = itertools.product(*map(range, kernel.result[1:]), *map(range, kernel.window))
    for row, col, down, right in places:
        at = (row * kernel.stride[0] - kernel.padding[0] + down, col * kernel.stride[1] - kernel.padding[1] + right)
        if all(0 <= k < size for k, size in zip(at, count.shape, strict=True)):
            count[at] += 1
    return count.flatten()


@pytest.mark.parametrize(("stride", "padding", "side"), [(2, 1, 8), (1, 1, 5), (1, 0, 4), (2, 0, 5)])
def test_windows_are_counted(stride: int, padding: int, side: int) -> None:
    weight = torch.randn(3, 2, 3, 3)
    kernel = Kernel(weight, (stride,) * 2, (padding,) * 2, (1, 1), 1, (2, side, side))
    op = Conv(kernel, torch.zeros(3), (1, 2, side, side), (1, *kernel.result))
    assert np.array_equal(_windows(op, CPU).flatten().numpy(), np.maximum(counted(kernel), 1))


def plainly(seen: Seen, problem: Problem, seed: int) -> list[float]:
    """The scores, neuron by neuron."""
    layers, weight, constant = layers_of(problem)
    columns = (seen.lower, seen.upper, seen.before, seen.after, seen.identity, seen.chord)
    known = [
        [Neuron(*values) for values in zip(*(c[k].tolist() for c in columns), strict=True)] for k in range(len(layers))
    ]
    inputs = [(low, at, high) for low, at, high in seen.inputs.tolist()]
    least, most = seen.property[:2].tolist()
    return PlainGnn(random_tensors(seed), layers, (weight, constant)).scores(inputs, known, (least, most))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["dense", "images"])
def test_scores_are_those_of_a_plain_program(kind: str, seed: int, tmp_path: Path) -> None:
    rule = rule_of(tmp_path, seed)
    problem = nearly_broken(seed, WIDTHS, 0.02) if kind == "dense" else images(seed)
    root, domain = begun(rule, problem)
    seen = told(rule, root, domain)
    scores = rule._learner(root)(Wiring.of(root), seen).detach()
    expected = torch.tensor(plainly(seen, problem, seed))
    torch.testing.assert_close(scores, expected, rtol=1e-3, atol=1e-3)
    assert float(expected.std()) > 0.01
    assert len(scores) == sum(len(layer.bias) for layer in layers_of(problem)[0])  # stable neurons too
    starts = np.cumsum([0, *map(len, seen.lower)])
    pre = Wiring.of(root).pre
    packed = [int(starts[pre.index(layer.pre)]) + i for layer in root.layers for i in layer.index.tolist()]
    assert torch.equal(rule._scored(root, seen).detach(), scores[packed])


@pytest.mark.parametrize("kind", ["leaky", "joined"])
def test_a_network_that_it_cannot_read_is_said_so(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    build = NetworkBuilder(3)
    first = build.linear(0, rng.normal(size=(4, 3)), rng.normal(size=4))
    last = build.leaky_relu(first, 0.1) if kind == "leaky" else build.add(build.relu(first), first)
    build.linear(last, rng.normal(size=(2, 4)), np.zeros(2))
    rule = rule_of(tmp_path)
    root, _ = begun(rule, problem_of(build.finish().graph, (np.full(3, -1.0), np.full(3, 1.0)), rows(0.0)))
    with pytest.raises(UsageError, match="reads chains of convolutions or linear layers") as error:
        Wiring.of(root)
    assert "\n" not in str(error.value)


# --- what the LP tells it ---


@pytest.mark.parametrize("seed", range(4))
def test_what_it_is_told_is_a_point_of_the_relaxation_with_its_prices(seed: int, tmp_path: Path) -> None:
    """The point keeps to the network's affine layers, and its prices pay for what each neuron's output costs."""
    rule = rule_of(tmp_path)
    problem = nearly_broken(seed, WIDTHS, 0.02)
    root, domain = begun(rule, problem)
    seen, (layers, weight, constant) = told(rule, root, domain), layers_of(problem)
    x, charged = seen.inputs[:, 1].double().numpy(), 0
    cost: Any = weight  # of the last neurons' outputs
    for k in reversed(range(len(layers))):
        free = (seen.lower[k] < 0) & (seen.upper[k] > 0)
        slope = (seen.upper[k] / (seen.upper[k] - seen.lower[k])).double().numpy()
        identity, chord = seen.identity[k].double().numpy(), seen.chord[k].double().numpy()
        above = np.where(free, identity - chord * slope, np.where(seen.lower[k] >= 0, cost, 0.0))
        rest = np.where(free, cost - identity + chord, 0.0)  # the price of z >= 0
        assert (rest > -1e-4).all()
        assert (identity >= 0).all()
        assert (chord >= 0).all()
        charged += int((identity + chord > 1e-3).sum())
        cost = above @ layers[k].weight
    assert charged > 3
    for k, layer in enumerate(layers):
        h = layer.weight @ x + layer.bias
        free = ((seen.lower[k] < 0) & (seen.upper[k] > 0)).numpy()
        assert np.allclose(h[free], seen.before[k].numpy()[free], atol=1e-4)
        x = np.where(free, seen.after[k].double().numpy(), np.maximum(h, 0))
    assert weight @ x + constant == pytest.approx(float(domain.bound), abs=1e-4)
    least, _, value, said = seen.property.tolist()
    assert least == value == pytest.approx(float(domain.bound), abs=1e-6)
    assert said == pytest.approx(constant, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_property_is_bounded_from_above_and_never_worse_than_the_parents(seed: int, tmp_path: Path) -> None:
    rule = rule_of(tmp_path)
    problem = nearly_broken(seed, WIDTHS, 0.02)
    root, domain = begun(rule, problem)
    most = float(told(rule, root, domain).property[1])
    values = worst_row(problem, random_points(problem, 2000, seed))
    assert most >= float(values.max())
    neuron = int(domain.candidates[0, 0])
    children = rule.bounder.bound_children(
        root, split(domain, torch.tensor([[neuron]])), torch.full((2,), torch.inf).double(), Deadline(None), Clock()
    )
    for side in range(2):
        child = children.domains.select(slice(side, side + 1))
        assert float(told(rule, root, child).property[1]) <= most


def test_what_the_lp_said_is_kept_while_a_sub_domain_may_be_split(tmp_path: Path) -> None:
    rule = rule_of(tmp_path)
    root, domain = begun(rule, nearly_broken(3, WIDTHS, 0.02))
    assert rule.bounder.optimum(root, domain) is not None
    rule.bounder.forget(root, domain)
    assert rule.bounder.optimum(root, domain) is None
    assert rule._told(root, domain) is None  # then BaBSR's order stands
    assert torch.equal(rule.reorder(root, domain, 0), domain.candidates)


# --- its choice ---


def test_of_those_that_can_be_split_the_best_is_taken(tmp_path: Path) -> None:
    chosen = set()
    for seed in range(6):
        rule = rule_of(tmp_path, seed, weak=0.0)
        root, domain = begun(rule, nearly_broken(3, WIDTHS, 0.02))
        scores = rule._scored(root, told(rule, root, domain)).detach()
        first = int(rule.reorder(root, domain, 0)[0, 0])
        able = unstable_of(domain)[0]
        assert bool(able[first])
        assert float(scores[first]) == float(scores[able].max())
        chosen.add(first)
    assert len(chosen) > 1


@pytest.mark.parametrize(("online", "times", "lessons"), [(True, FAILURES, 1), (True, 1, 0), (False, 3, 0)])
def test_only_the_online_rule_learns(
    online: bool, times: int, lessons: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = rule_of(tmp_path, online=online, rate=1e-3)
    root, domain = begun(rule, nearly_broken(3, WIDTHS, 0.02))
    scores = rule._scored(root, told(rule, root, domain)).detach()
    chosen = int(torch.where(unstable_of(domain)[0], scores, -torch.inf).argmax())
    other = next(n for n in domain.candidates[0].tolist() if n != chosen)
    domain = replace(domain, candidates=torch.tensor([[other, chosen]]))
    gains = {chosen: 0.1, other: 0.15}
    monkeypatch.setattr(TryingLP, "attempt", lambda *given: Trial(given[3], None, gains[given[3]]))  # type: ignore[arg-type]
    monkeypatch.setattr(TryingLP, "take", lambda *_: None)
    monkeypatch.setattr(TryingLP, "reject", lambda *_: None)
    for _ in range(times):
        assert int(rule.reorder(root, domain, 0)[0, 0]) == other
    assert rule.memory.lessons == lessons
    after = rule._scored(root, told(rule, root, domain)).detach()
    assert (float(after[chosen] - after[other]) < float(scores[chosen] - scores[other])) == (lessons > 0)


@pytest.mark.parametrize("method", ["gnn", "gnn-online"])
def test_whole_runs_agree_with_babsr_lp_and_repeat_themselves(method: str, tmp_path: Path) -> None:
    split_some = 0
    for seed in range(4):
        path = save_published(random_tensors(seed), tmp_path / "weights.npz")
        question = sharpened(knotted(seed, (3, 6, 6, 5, 2)), [Fraction(1, 50)])
        asked = (question.network, question.property, tmp_path)
        plain = ask(*asked, method="babsr-lp", attack=False)
        given = {"weights": str(path), "weak": "1"}
        first, second = (ask(*asked, method=method, attack=False, options=given) for _ in range(2))
        assert first.status == plain.status
        assert first.stats.domains == 2 * first.stats.rounds
        assert (first.stats.domains, first.lower_bound) == (second.stats.domains, second.lower_bound)
        split_some += first.stats.domains > 4
    assert split_some > 1


def test_a_wrong_file_is_said_before_anything_is_searched(tmp_path: Path) -> None:
    network = knotted(0, WIDTHS).network
    asked = at_most(whole_box([-1] * 3, [1] * 3), network, 0)
    with pytest.raises(UsageError, match=r"not a \.npz file"):
        ask(network, asked, tmp_path, method="gnn", options={"weights": str(tmp_path / "none.npz")})


def test_its_lps_are_solved_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prices of an LP that stops at a proof are none of its optimum's."""
    cutoffs = []
    real = babsr_lp.solve_from

    def solve(*given: Any) -> Any:
        cutoffs.append(given[3])
        return real(*given)

    monkeypatch.setattr(babsr_lp, "solve_from", solve)
    for bounder in (TryingLP(), TryingLP(keeps_optima=True)):
        problem = nearly_broken(3, WIDTHS, 0.02)
        bounder.root(problem, zero(len(problem.disjuncts)), CPU, Deadline(None), Clock())
    assert np.isfinite(cutoffs[0])
    assert cutoffs[-1] == np.inf
