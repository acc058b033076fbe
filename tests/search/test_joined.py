"""Sub-domains of several input sets of one network in one search, each on its own box."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import netproof
from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Clock, root_domains
from netproof.bounds.beta import Beta
from netproof.bounds.condensed import condenser
from netproof.bounds.confirm import confirm_past
from netproof.bounds.dual import DualPoint
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.neurons.transfer import repack
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.problem.joined import join
from netproof.problem.problem import Problem
from netproof.search.attack import Pgd
from netproof.search.boxes import parts
from netproof.search.boxes.parts import Boxes, alike
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.leaf import LeafLP
from netproof.search.loop import Search
from netproof.search.method import Method, Work
from support.asking import CPU
from support.boxes import deaf, joined_replay, several
from support.exact import enumerate_minimum
from support.problems import box_problem, packed_values, random_relus, targets_of
from support.single import float32_first

either_net = pytest.mark.parametrize("fits", [True, False], ids=["condensed", "graph"])


def near(*rooms: float, seed: int = 0) -> list[Problem]:
    """Three boxes that lie side by side; the least values of their targets are `rooms`."""
    graph, problems = random_relus(seed, (8, 6), 2), []
    for k, room in enumerate(rooms or (0.02, 0.02, 0.02)):
        low = np.array([-1.0 + 0.4 * k, -0.8])
        high = low + np.array([0.9, 1.4])
        row = np.array([[1.0, -0.5 * k]])
        least = enumerate_minimum(graph, low, high, row, np.zeros(1)).value
        problems.append(box_problem(graph, low, high, targets_of([row], [[least - room]])))
    return problems


def searched(problems: Sequence[Problem], method: Method, **more: Any) -> tuple[Outcome, Stats]:
    joined, stats = join(problems), Stats()
    goal = Decide(joined, more.pop("replay", joined_replay(problems)))
    return Search(joined, method, goal, Work(CPU, 1, Deadline(60.0), stats), **more).run(), stats


def method_of(name: str, **options: str) -> Method:
    return build_method(name, method_info(name).options({"batch": "8", **options}), CPU)


def root_of(problem: Problem, schedule: Schedule | None = None) -> Root:
    root = build_root(problem, CPU, schedule or Schedule(0), Deadline())
    assert root is not None
    return root


def test_neurons_have_the_bounds_of_each_ones_own_box() -> None:
    problems = several()[0]
    joined = join(problems)
    root, generator = root_of(joined), torch.Generator().manual_seed(0)
    assert joined.own is not None
    for target, home in enumerate(joined.own.home.tolist()):
        low, high = root.bounds_of(torch.tensor([target]))
        inputs = problems[home].input_set
        share = torch.rand(300, *inputs.lower.shape, generator=generator, dtype=torch.float64)
        h = packed_values(root, inputs.lower + share * (inputs.upper - inputs.lower))
        assert bool(((h >= low) & (h <= high)).all())
        alone = root_of(problems[home])
        for layer in root.layers:
            mine, there = low[0, layer.packed], alone.intervals.of[layer.pre].flat.lower[layer.index]
            assert torch.allclose(mine.double(), there, rtol=1e-6, atol=1e-30)
    wide = root.packed_bounds
    every = root.bounds_of(torch.arange(len(joined.disjuncts)))
    assert bool(((every.upper - every.lower) < 0.9 * (wide.upper - wide.lower)).any())


@either_net
def test_a_target_has_the_bound_that_it_has_alone(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    problems, bounder = several()[0], Beta(root_steps=0)
    never = torch.full((len(several()[1]),), torch.inf, dtype=torch.float64)
    found = bounder.root(join(problems), never, CPU, Deadline(), Clock())
    assert found is not None
    alone = [bounder.root(p, never[: len(p.disjuncts)], CPU, Deadline(), Clock()) for p in problems]
    bounds = torch.cat([each[1].domains.bound for each in alone if each is not None])
    assert torch.allclose(found[1].domains.bound, bounds, rtol=1e-5, atol=1e-5)


@either_net
@pytest.mark.parametrize("name", ["beta", "lirpa"])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_holds_on_every_box_is_proved(name: str, seed: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condenser, "holds", lambda size, device: fits)
    outcome, stats = searched(near(seed=seed), method_of(name))
    assert (outcome.status, outcome.proved) == ("proved", (1, 1, 1))
    assert stats.domains > 0
    assert all(0 <= bound <= 0.02 + 1e-9 for bound in outcome.bounds)


@pytest.mark.parametrize("name", ["beta", "lirpa"])
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_violation_on_one_box_is_found_there(name: str, broken: int) -> None:
    """With a replay that knows the boxes; the others hold, also outside of their boxes nothing counts."""
    problems = near(*(-0.02 if k == broken else 0.02 for k in range(3)))
    outcome, _ = searched(problems, method_of(name))
    assert outcome.status == "found"
    assert outcome.witness is not None
    point, inputs = torch.from_numpy(outcome.witness.input), problems[broken].input_set
    assert bool(((point >= inputs.lower) & (point <= inputs.upper)).all())
    deaf_outcome, _ = searched(problems, method_of(name), replay=deaf)
    assert [share == 1 for share in deaf_outcome.proved] == [k != broken for k in range(3)]


@pytest.mark.parametrize("rungs", [1, 3])
def test_a_tighter_root_is_one_for_every_box(rungs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tightened before anything is split, again and again: nothing is lost, and bounds get no worse."""
    from netproof.search import loop
    from netproof.search.effort import Effort

    made: list[Root] = []
    real = loop.tighter_root

    def tighter(*given: Any) -> Root | None:
        made.append(given[2])
        return real(*given)

    monkeypatch.setattr(loop, "tighter_root", tighter)
    monkeypatch.setattr(Effort, "tightening_is_due", lambda self, cost: len(made) < rungs)
    outcome, _ = searched(near(seed=1), method_of("beta", planes="0"))
    assert (outcome.status, outcome.proved) == ("proved", (1, 1, 1))
    assert len(made) == rungs
    target = torch.arange(3)
    for before, after in itertools.pairwise(made):
        assert len(after.members) == 3
        shared = {layer.node: layer for layer in before.layers}
        for layer in after.layers:
            at = shared[layer.node].start + torch.searchsorted(shared[layer.node].index, layer.index)
            assert bool((after.bounds_of(target).lower[:, layer.packed] >= before.bounds_of(target).lower[:, at]).all())


def test_sub_domains_get_the_tighter_bounds_of_their_own_boxes() -> None:
    problems = near(seed=1)
    old = root_of(join(problems))
    new = build_root(old.problem, CPU, Schedule(20), Deadline(), old.confirmed)
    assert new is not None
    moved, dropped = repack(root_domains(old), old, new)
    assert len(dropped) == 0
    assert torch.equal(moved.lower, new.bounds_of(moved.target).lower)
    assert torch.equal(moved.upper, new.bounds_of(moved.target).upper)
    assert not torch.equal(moved.lower[0], moved.lower[1])


def test_a_proof_in_float32_is_attained_in_the_box_of_its_own_target() -> None:
    problems = near(seed=1)
    root = root_of(join(problems))
    domains = root_domains(root)
    with float32_first():
        found = confirm_past(root, domains, DualPoint.of(domains), torch.full((3,), -10.0, dtype=torch.float64))
    assert bool((found.domains.evaluated[:, 0] < 0).all())
    for problem, point in zip(problems, found.point.double(), strict=True):
        assert bool((point >= problem.input_set.lower - 1e-6).all() and (point <= problem.input_set.upper + 1e-6).all())


def test_some_targets_of_joined_problems_keep_their_boxes() -> None:
    """The first problem is left out, so that its box is no member of the root any more."""
    problems = near(seed=1)
    some = join(problems).select(torch.tensor([1, 2]))
    root = root_of(some)
    assert len(root.members) == 2
    for target in (0, 1):
        mine, alone = root.bounds_of(torch.tensor([target])).lower[0], root_of(problems[target + 1])
        for layer in root.layers:
            there = alone.intervals.of[layer.pre].flat.lower[layer.index]
            assert torch.allclose(mine[layer.packed].double(), there, rtol=1e-6, atol=1e-30)
    assert torch.equal(some.input_set.lower, torch.minimum(*(p.input_set.lower for p in problems[1:])))


def test_leaves_are_decided_on_their_own_boxes() -> None:
    problems = near(seed=1)
    joined, alone = root_of(join(problems)), [root_of(p) for p in problems]
    together = LeafLP(joined, 1).decide(root_domains(joined), Deadline()).bound
    each = torch.cat([LeafLP(root, 1).decide(root_domains(root), Deadline()).bound for root in alone])
    assert torch.allclose(together, each, rtol=0, atol=1e-5)


@pytest.mark.parametrize("after", [1, 2, 4])
def test_what_the_deadline_leaves_is_open(after: int) -> None:
    """Of every target: the share that is proved and the shares that are open are 1."""
    joined = join(near(seed=1))
    search = Search(joined, method_of("beta"), Decide(joined, deaf), Work(CPU, 1, Deadline(), Stats()))
    outcome, left = search.run(rounds=after), search.still_open()
    assert left is not None
    shares = list(outcome.proved)
    for target, level in zip(left.domains.target.tolist(), left.domains.level.tolist(), strict=True):
        shares[target] += Fraction(1, 2**level)
    assert shares == [1, 1, 1]
    rest = Search(joined, method_of("beta"), Decide(joined, deaf), Work(CPU, 1, Deadline(), Stats()), start=left)
    assert [a + b for a, b in zip(outcome.proved, rest.run().proved, strict=True)] == [1, 1, 1]


def test_a_joined_root_travels() -> None:
    root = root_of(join(near()))
    copy = pickle.loads(pickle.dumps(root))
    target = torch.arange(3)
    assert torch.equal(copy.bounds_of(target).lower, root.bounds_of(target).lower)


def test_an_attack_stays_in_each_box() -> None:
    problems = near(0.02, -0.2, 0.02)
    joined = join(problems)
    goal, seen = Decide(joined, joined_replay(problems)), []
    real = goal.consider

    def consider(judge: Any, points: torch.Tensor, y: torch.Tensor, target: torch.Tensor) -> bool:
        for point, t in zip(points.double(), target.tolist(), strict=True):
            inputs = problems[t].input_set
            assert bool((point >= inputs.lower - 1e-6).all() and (point <= inputs.upper + 1e-6).all())
            seen.append(t)
        return real(judge, points, y, target)

    goal.consider = consider  # type: ignore[method-assign]
    assert Pgd(steps=10).find(joined, goal, CPU, 0, Deadline())
    assert set(seen) == {0, 1}  # the third is not asked any more


# --- which are searched at once ---


def groups(homes: list[int], signs: list[list[int]]) -> list[list[int]]:
    """Group one open box per target, by the set of each target and the signs that are known of its neurons."""
    count, zero = len(homes), torch.zeros(len(homes), 1, dtype=torch.float64)
    level = torch.zeros(count, dtype=torch.int64)
    known = torch.tensor(signs, dtype=torch.int8)
    boxes = Boxes(torch.arange(count), zero, zero, zero[:, 0], zero, known, level)
    return [group.tolist() for group in alike(boxes, torch.tensor(homes))]


def test_sets_that_leave_the_same_neurons_open_are_searched_at_once() -> None:
    assert groups([0, 1, 2], [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]) == [[0, 1, 2]]
    assert groups([0, 1, 2], [[0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]) == [[0], [1, 2]]


def test_a_neuron_that_has_two_signs_is_open_where_they_meet() -> None:
    contrary = [[0, 1, 1, 1], [0, -1, -1, -1]]
    assert groups([0, 1], contrary) == [[0], [1]]
    assert groups([0, 0], contrary) == [[0, 1]]


def test_no_more_sets_are_searched_at_once_than_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MEMBERS", 2)
    assert groups([0, 1, 2, 2, 3, 4], [[0, 1]] * 6) == [[0, 1], [2, 3, 4], [5]]


def test_a_property_on_several_boxes_is_answered_in_one_search(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More inputs than are ever split, so that the neurons decide."""
    from netproof.methods import plan
    from netproof.problem.property import Property
    from support.asking import at_most, gaussian, whole_box

    network, searches = gaussian(3, (2, 12, 10, 1)), []
    path = network.save(tmp_path / "net.onnx")
    box = whole_box([-0.5, -0.5], [0.5, 0.5])
    wide = netproof.bounds(path, at_most(box, network, 0.0), method="exact", device="cpu", threads=1)
    limit = float(wide.lower.min()) - 0.1
    boxes = [whole_box([low, -0.5], [low + 0.6, 0.5]) for low in (-0.5, -0.3, -0.1)]
    asked = Property(tuple(at_most(b, network, limit).disjuncts[0] for b in boxes), 2, 1, "three boxes")
    monkeypatch.setattr(plan, "FEW_INPUTS", 0)
    real = Search.run

    def run(self: Search, rounds: int | None = None) -> Outcome:
        searches.append(self)
        return real(self, rounds)

    monkeypatch.setattr(Search, "run", run)
    verdict = netproof.verify(path, asked, method="auto", device="cpu", threads=1, attack=False)
    assert str(verdict.status) == "unsat"
    assert len(searches) == 1
    assert verdict.stats.lp_parents_proved > 0  # each in its own box
    broken = replace(asked, disjuncts=(*asked.disjuncts[:2], at_most(boxes[2], network, 100.0).disjuncts[0]))
    assert str(netproof.verify(path, broken, method="auto", device="cpu", threads=1, attack=False).status) == "sat"


def test_a_few_sets_are_attacked_before_all_are_bounded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """To bound them may take all the time there is, and one witness is enough."""
    from netproof.problem.property import Property
    from netproof.run import gather
    from support.asking import at_most, gaussian, whole_box

    network = gaussian(3, (2, 12, 10, 1))
    path = network.save(tmp_path / "net.onnx")
    boxes = [whole_box([low, -0.5], [low + 0.6, 0.5]) for low in (-0.5, -0.3)]
    asked = Property(tuple(at_most(b, network, 100.0).disjuncts[0] for b in boxes), 2, 1, "two boxes")

    def never(*given: Any) -> None:
        raise AssertionError("bounded first")

    monkeypatch.setattr(gather, "InputSplit", never)
    assert str(netproof.verify(path, asked, method="auto", device="cpu", threads=1).status) == "sat"


def test_open_sub_domains_do_not_hold_the_boxes_of_their_targets() -> None:
    joined = join(near(seed=1))
    search = Search(joined, method_of("beta"), Decide(joined, deaf), Work(CPU, 1, Deadline(), Stats()))
    search.run(rounds=2)
    left = search.still_open()
    assert left is not None
    assert len(left.domains) > 0
    assert left.domains.inside.numel() == 0
    again = Search(joined, method_of("beta"), Decide(joined, deaf), Work(CPU, 1, Deadline(), Stats()), start=left)
    again.run(rounds=0)
    picked = again._opened.pop(4)
    assert joined.own is not None
    assert torch.equal(picked.inside, joined.own.of(picked.target))
