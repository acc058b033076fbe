"""The rungs of a root: forms alone, then backward passes; the same verdicts, and some bound where time runs out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import netproof
from netproof.bounds import beta
from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounds, Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.confirm import confirm
from netproof.bounds.domains import Domains
from netproof.bounds.dual import DualPoint
from netproof.bounds.linear.graph_net import GraphNet
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.neurons import each, worth
from netproof.bounds.neurons.root import Root, build_root, forward_root
from netproof.bounds.record import Source
from netproof.bounds.windows import plan
from netproof.core.deadline import Deadline
from netproof.problem.problem import Problem
from netproof.problem.reduce import reduce
from netproof.problem.specs import classification, linf_ball
from support.asking import sample

CPU = torch.device("cpu")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(6, 6, 3, 1, 1), torch.nn.Conv2d(6, 6, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.b(torch.relu(self.a(x))) + x)


def network(seed: int) -> torch.nn.Module:
    """A residual network of images 10 by 10."""
    torch.manual_seed(seed)
    first = [torch.nn.Conv2d(2, 6, 3, 1, 1), torch.nn.ReLU(), Block()]
    rest = [torch.nn.Conv2d(6, 4, 3, 2, 1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(100, 4)]
    return torch.nn.Sequential(*first, *rest).eval()


def problem_of(seed: int, eps: float) -> Problem:
    net, x = network(seed), torch.rand(1, 2, 10, 10, generator=torch.Generator().manual_seed(seed))
    label = int(net(x).argmax())
    loaded = netproof.load_network(net, example_shape=tuple(x.shape))
    (problem,) = reduce(loaded, classification(linf_ball(x, eps), label, 4))
    return problem


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every rung be worth it, however small the network."""
    for name in ("FORWARD_FIRST", "CONDENSING_WORTH", "LITTLE"):
        monkeypatch.setattr(worth, name, 0)
    for numbers in (worth.FORWARD_WORTH, worth.ONE_SIDE_WORTH):
        monkeypatch.setitem(numbers, "cpu", 0)
    monkeypatch.setattr(worth, "OPEN", 1)


def rooted(problem: Problem, deadline: Deadline | None = None) -> tuple[Root, Bounds] | None:
    threshold = torch.zeros(len(problem.disjuncts), dtype=torch.float64)
    return Beta().root(problem, threshold, CPU, deadline or Deadline(), Clock())


@pytest.mark.parametrize("seed", range(4))
def test_bounds_by_forms_hold(always: None, seed: int) -> None:
    """Every value that a node takes lies within the cheap root's bounds, and within those of the full one."""
    problem = problem_of(seed, 0.05)
    cheap = forward_root(problem, CPU, Deadline())
    assert cheap is not None
    full = build_root(problem, CPU, Schedule(0), Deadline(), cheap.confirmed)
    assert full is not None
    assert any(bool((sources == Source.FORWARD).any()) for sources in cheap.sources)
    values = problem.graph.to(CPU, torch.float64).values(sample(problem, 300, seed).double())
    for root in (cheap, full):
        for value, bound in zip(values, root.intervals.of, strict=True):
            assert bool(((value >= bound.lower - 1e-9) & (value <= bound.upper + 1e-9)).all())
    assert 0 < full.count <= cheap.count


@pytest.mark.parametrize("seed", range(4))
def test_one_side_first_leaves_much_the_same_neurons_open(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A settled neuron's other side stays looser, which later intervals may show; both roots hold."""
    problem = problem_of(seed, 0.05)
    plain = build_root(problem, CPU, Schedule(0), Deadline())
    passes: list[int] = []
    bound = each.bound_places

    def counted(net: GraphNet, places: torch.Tensor, *rest: Any) -> torch.Tensor:
        passes.append(len(places))
        return bound(net, places, *rest)

    monkeypatch.setattr(each, "bound_places", counted)
    monkeypatch.setitem(worth.ONE_SIDE_WORTH, "cpu", 0)
    sides = build_root(problem, CPU, Schedule(0), Deadline())
    assert plain is not None
    assert sides is not None
    assert len(passes) > len(sides.layers)
    assert abs(sides.count - plain.count) <= 0.02 * plain.count + 1
    values = problem.graph.to(CPU, torch.float64).values(sample(problem, 300, seed).double())
    for value, bound_ in zip(values, sides.intervals.of, strict=True):
        assert bool(((value >= bound_.lower - 1e-9) & (value <= bound_.upper + 1e-9)).all())


def test_what_forms_prove_needs_no_more(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(0, 1e-4)
    monkeypatch.setattr(beta, "build_root", None)
    found = rooted(problem)
    assert found is not None
    assert bool((found[1].domains.bound > 0).all())


def test_targets_that_are_easy_are_dropped_first(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a set where some targets are proved at once and others are not, all keep the best bound that is known."""
    problem = next(p for seed in range(40) for p in [problem_of(seed, 0.03)] if _mixed(p))
    found = rooted(problem)
    assert found is not None
    root, bounds = found
    # In the order of the targets: what is handed over with boxes looks a target's bound up by its number.
    assert bounds.domains.target.tolist() == list(range(len(problem.disjuncts)))
    plain = Beta().whole(root, torch.zeros(len(problem.disjuncts), dtype=torch.float64), Deadline(), Clock())
    proved = bounds.domains.bound > 0
    assert proved.tolist() != sorted(proved.tolist(), reverse=True)  # else any order would do
    assert bool((proved | (bounds.domains.bound >= plain.domains.bound - 1e-6)).all())


def _mixed(problem: Problem) -> bool:
    root = build_root(problem, CPU, Schedule(0), Deadline())
    assert root is not None
    first = Beta()._by_graph(root, Deadline(), Clock())
    assert first is not None
    proved = first.domains.bound > 0
    return proved.tolist() != sorted(proved.tolist(), reverse=True)  # an easy target behind one that is not


@pytest.mark.parametrize("seed", range(3))
def test_little_work_is_done_densely_with_the_same_bounds(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """As on a GPU, where launches cost more; planes have windows all the same, as they keep what they read."""
    problem, begun = problem_of(seed, 0.05), list[str]()
    begin = LinedGraph.begin_at

    def noted(self: LinedGraph, *args: Any, narrow: bool = False) -> Any:
        found = begin(self, *args, narrow=narrow)
        begun.append(type(found).__name__)
        return found

    monkeypatch.setattr(LinedGraph, "begin_at", noted)
    roots = []
    for numbers, kinds in ((0, {"Windowed"}), (1 << 60, {"Dense"})):
        monkeypatch.setitem(plan.FEW, "cpu", numbers)
        begun.clear()
        root = build_root(problem, CPU, Schedule(0), Deadline())
        assert root is not None
        assert root.condensed64 is not None
        assert set(begun) == kinds
        begun.clear()
        assert root.reads is not None
        assert set(begun) == {"Windowed"}
        roots.append(root)
    for one, other in zip(roots[0].intervals.of, roots[1].intervals.of, strict=True):
        torch.testing.assert_close(tuple(one), tuple(other), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("at_once", "parts"), [(1, [1, 1, 1]), (1 << 30, [3])])
def test_a_pass_of_the_graph_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, at_once: int, parts: list[int]
) -> None:
    """Target by target where one takes long, with a look at the clock before each; else all at once."""
    monkeypatch.setattr(beta, "entries_at_once", lambda device: at_once)
    problem = problem_of(0, 0.02)
    root = build_root(problem, CPU, Schedule(0), Deadline())
    assert root is not None
    assert Beta()._by_graph(root, Deadline(0.0), Clock()) is None
    asked: list[int] = []
    select = Domains.select
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Domains, "select", lambda self, index: asked.append(len(index)) or select(self, index))
        found = Beta()._by_graph(root, Deadline(), Clock())
    assert asked == parts
    assert found is not None
    whole = confirm(root.by_graph(), root_domains(root), DualPoint.of(root_domains(root)))
    torch.testing.assert_close(found.domains.bound, whole.domains.bound, rtol=1e-12, atol=1e-12)


def test_time_that_runs_out_leaves_what_forms_gave(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(0, 0.5)
    monkeypatch.setattr(beta, "build_root", lambda *args: None)
    found = rooted(problem)
    assert found is not None
    assert bool(found[1].domains.bound.isfinite().all())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("eps", [1e-3, 0.02])
def test_verdicts_are_those_without_rungs(
    always: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, eps: float
) -> None:
    net, x = network(seed), torch.rand(1, 2, 10, 10, generator=torch.Generator().manual_seed(seed))
    asked = {"spec": linf_ball(x, eps), "label": int(net(x).argmax())}
    with_rungs = netproof.verify(net, **asked, device="cpu", timeout=60)
    monkeypatch.setattr(worth, "FORWARD_FIRST", 1 << 60)
    monkeypatch.setitem(worth.FORWARD_WORTH, "cpu", 1 << 60)
    monkeypatch.setattr(worth, "CONDENSING_WORTH", 1 << 60)
    without = netproof.verify(net, **asked, device="cpu", timeout=60)
    assert with_rungs.status == without.status
