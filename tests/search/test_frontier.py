"""The frontier: worst first, nothing lost, and pruned only inside what was proved."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from netproof.bounds.domains import Domains, split
from netproof.bounds.linear import memory
from netproof.core.batch import concatenate
from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.errors import OutOfMemory
from netproof.search.frontier import Frontier
from netproof.search.lp_turns import is_below
from netproof.search.waiting.host import AsTheyAre
from support.problems import plain_domains as domains
from support.problems import same_domains as same


def pruned(frontier: Frontier[Domains], target: int, splits: Tensor) -> list[Domains]:
    return frontier.take_out(partial(is_below, target, splits))


def with_bounds(bounds: list[float], neurons: int = 4) -> Domains:
    return replace(domains(len(bounds), neurons), bound=torch.tensor(bounds, dtype=torch.float64))


def test_the_worst_come_first() -> None:
    frontier = Frontier(with_bounds([0.0, -3.0, 2.0, -1.0]))
    assert frontier.lower_bound == -3.0
    assert sorted(frontier.pop(2).bound.tolist()) == [-3.0, -1.0]
    assert frontier.lower_bound == 0.0
    assert frontier.pop(1).bound.tolist() == [0.0]
    assert frontier.pop(5).bound.tolist() == [2.0]
    assert len(frontier) == 0
    assert frontier.lower_bound == float("inf")


def test_pushed_and_popped_are_the_same_sub_domains() -> None:
    everything = with_bounds([float(v) for v in torch.randperm(20)])
    frontier = Frontier(everything.select(torch.arange(5)))
    popped = [frontier.pop(3)]
    frontier.push(everything.select(torch.arange(5, 20)))
    while len(frontier):
        popped.append(frontier.pop(4))
    back = concatenate(popped)
    assert same(back.select(back.target.argsort()), everything)


def test_push_and_pop_of_nothing() -> None:
    frontier = Frontier(with_bounds([1.0]))
    none = frontier.domains.select(torch.zeros(0, dtype=torch.int64))
    frontier.push(none)
    assert len(frontier) == 1
    assert len(frontier.pop(0)) == 0
    frontier.pop(1)
    assert len(frontier.pop(3)) == 0
    frontier.push(with_bounds([2.0, 1.0]))
    assert len(frontier) == 2


def test_prune_takes_what_lies_inside_and_of_the_same_target() -> None:
    children = split(domains(2, 3), torch.tensor([[0, 1], [0, 1]]))  # 4 a target
    frontier = Frontier(children)
    proved = torch.tensor([1, 0, 0], dtype=torch.int16)
    assert sum(map(len, pruned(frontier, 1, proved))) == 2
    left = frontier.domains
    assert sorted(left.target.tolist()) == [0, 0, 0, 0, 1, 1]
    assert bool((left.splits[left.target == 1, 0] < 0).all())
    assert sum(map(len, pruned(frontier, 1, proved))) == 0
    assert sum(map(len, pruned(frontier, 0, torch.zeros(3, dtype=torch.int16)))) == 4


def test_keep_keeps_what_the_mask_says() -> None:
    frontier = Frontier(with_bounds([3.0, 1.0, 2.0]))
    frontier.keep(torch.tensor([True, False, True]))
    assert frontier.domains.bound.tolist() == [3.0, 2.0]


def test_bounds_within_a_grain_are_equal_and_the_deepest_goes_first() -> None:
    many = replace(with_bounds([-1.001, -1.002, -1.003, -2.0]), settled=torch.tensor([5, 9, 1, 0]))
    frontier = Frontier(many, grain=0.1)
    assert frontier.pop(1).bound.tolist() == [-2.0]
    assert [frontier.pop(1).settled.item() for _ in range(3)] == [9, 5, 1]


def test_in_strict_order_only_equal_bounds_are_told_apart_by_depth() -> None:
    many = replace(with_bounds([-1.0, -1.002, -1.0, -2.0]), settled=torch.tensor([5, 1, 9, 0]))
    frontier = Frontier(many, grain=0.0)
    assert [frontier.pop(1).settled.item() for _ in range(4)] == [0, 1, 9, 5]
    frontier = Frontier(many, grain=0.0)
    assert sorted(frontier.pop(3).settled.tolist()) == [0, 1, 9]


def test_the_best_come_first_on_request() -> None:
    frontier = Frontier(with_bounds([0.0, -3.0, 2.0, -1.0]))
    assert frontier.pop(1, best=True).bound.tolist() == [2.0]


def test_what_does_not_fit_waits_on_the_host_and_nothing_is_lost() -> None:
    everything = with_bounds([float(v) for v in torch.randperm(60, generator=torch.Generator().manual_seed(1))])
    frontier = Frontier(everything.select(slice(0, 5)), room=8)
    for start in range(5, 60, 5):
        frontier.push(everything.select(slice(start, start + 5)))
    assert len(frontier) == 60
    assert frontier.waiting > 40
    assert frontier.lower_bound == 0.0
    assert sum(map(len, frontier.everything())) == 60
    popped = []
    while len(frontier):
        popped.append(frontier.pop(7))
    back = concatenate(popped)
    assert same(back.select(back.bound.argsort()), everything.select(everything.bound.argsort()))


def test_what_waits_survives_a_device_that_ran_empty() -> None:
    everything = with_bounds([float(v) for v in range(12)])
    frontier = Frontier(everything.select(slice(0, 2)), room=4)
    frontier.push(everything.select(slice(2, 12)))
    assert frontier.waiting == 8
    assert len(frontier.pop(4)) == 4  # all that the device holds
    frontier.push(everything.select(slice(0, 1)))
    assert len(frontier) == 9
    assert frontier.lower_bound == 0.0


def test_what_waits_has_its_turn() -> None:
    everything = with_bounds([float(v) for v in range(12)])
    frontier = Frontier(everything.select(slice(0, 2)), room=4)
    frontier.push(everything.select(slice(2, 12)))
    assert len(frontier.pop(4)) + len(frontier.pop(4)) == 8


def test_pruning_reaches_what_waits() -> None:
    children = split(domains(2, 3), torch.tensor([[0, 1], [0, 1]]))
    frontier = Frontier(children.select(slice(0, 2)), room=2)
    frontier.push(children.select(slice(2, 8)))
    assert frontier.waiting
    gone = pruned(frontier, 1, torch.tensor([1, 0, 0], dtype=torch.int16))
    assert sum(map(len, gone)) == 2
    assert len(frontier) == 6
    while frontier.waiting:  # a part of which nothing is left is not fetched
        for target in (0, 1):
            pruned(frontier, target, torch.zeros(3, dtype=torch.int16))
    assert len(frontier.pop(3)) == 0


def test_where_too_much_waits_it_takes_less_and_then_the_nearest_to_a_proof_go_first() -> None:
    class Coarse:
        """Keeps sub-domains as they are, and says that they take a third once they are coarser."""

        def __init__(self, domains: Domains, bytes_each: int = 3) -> None:
            self.kept, self.each = domains, bytes_each

        def __len__(self) -> int:
            return len(self.kept)

        target = property(lambda self: self.kept.target)
        bound = property(lambda self: self.kept.bound)
        bytes = property(lambda self: self.each * len(self.kept))

        def tensors(self) -> list[Tensor]:
            return self.kept.tensors()

        def coarser(self) -> Coarse:
            return Coarse(self.kept, 1)

    class Keeper:
        def put_away(self, domains: Domains) -> Coarse:
            return Coarse(domains)

        def bring_back(self, held: Coarse) -> Domains:
            return held.kept

    everything = with_bounds([float(v) for v in range(40)])
    frontier = Frontier(everything.select(slice(0, 4)), 4, storage=Keeper(), may_wait=lambda held: held <= 20)
    frontier.push(everything.select(slice(4, 10)))
    assert (frontier.bytes_waiting, frontier.crowded) == (18, False)
    frontier.push(everything.select(slice(10, 20)))
    assert (frontier.bytes_waiting, frontier.crowded) == (16, False)
    frontier.push(everything.select(slice(20, 40)))
    assert (frontier.bytes_waiting, frontier.crowded) == (36, True)
    assert frontier.pop(2, best=True).bound.tolist() == [39.0, 38.0]
    popped = [frontier.pop(5, best=frontier.crowded) for _ in range(3)]
    assert float(concatenate(popped).bound.min()) > 20
    assert frontier.crowded
    while len(frontier):
        popped.append(frontier.pop(5))
    assert sorted(concatenate(popped).bound.tolist()) == [float(v) for v in range(38)]


class Refusing:
    """Lets calls of a method of the frontier fail for want of memory: the n-th, and some after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, at: int = 1, times: int = 1) -> None:
        self.calls, real = 0, getattr(Frontier, name)

        def call(frontier: Frontier[Domains], *args: Any, **more: Any) -> Any:
            self.calls += 1
            if at <= self.calls < at + times:
                raise torch.OutOfMemoryError("a full device")
            return real(frontier, *args, **more)

        monkeypatch.setattr(Frontier, name, call)


@pytest.mark.parametrize("name", ["_push", "_pop", "_grow", "_fetch"])
@pytest.mark.parametrize("at", [1, 2])
def test_memory_that_runs_out_loses_nothing(name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = with_bounds([float(v) for v in torch.randperm(300, generator=torch.Generator().manual_seed(1))])
    refusing = Refusing(monkeypatch, name, at)
    frontier = Frontier(everything.select(slice(0, 5)), room=150)
    for start in range(5, 300, 59):
        frontier.push(everything.select(slice(start, start + 59)))
    popped = []
    while len(frontier):
        popped.append(frontier.pop(40))
    back = concatenate(popped)
    assert refusing.calls > at
    assert same(back.select(back.bound.argsort()), everything.select(everything.bound.argsort()))


@pytest.mark.parametrize("at", [1, 3, 6])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_memory_that_runs_out_in_the_middle_of_a_pop_loses_nothing(
    at: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it does so again: what is moved into the gaps is moved as a whole or not at all."""
    everything = with_bounds([float(v) for v in torch.randperm(300, generator=torch.Generator().manual_seed(2))])
    monkeypatch.setattr(memory, "MOVED", 1)  # row by row
    refusing = Refusing(monkeypatch, "_rooms", at, times)
    frontier = Frontier(everything)
    popped = []
    while len(frontier):
        popped.append(frontier.pop(30))
    back = concatenate(popped)
    assert refusing.calls > at
    assert same(back.select(back.bound.argsort()), everything.select(everything.bound.argsort()))


def test_a_device_that_takes_nothing_lets_all_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise torch.OutOfMemoryError("a full device")

    everything = with_bounds([float(v) for v in range(20)])
    frontier = Frontier(everything.select(slice(0, 5)))
    monkeypatch.setattr(Frontier, "_push", full)
    frontier.push(everything.select(slice(5, 20)))
    assert (len(frontier), frontier.waiting) == (20, 20)
    assert frontier.lower_bound == 0.0


@pytest.mark.parametrize("name", ["put_away", "bring_back"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_host_that_is_full_for_a_while_loses_nothing(name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing at all fits on the device, so that what is pushed goes to the host at once."""
    everything = with_bounds([float(v) for v in torch.randperm(60, generator=torch.Generator().manual_seed(3))])
    calls, real, push = [0], getattr(AsTheyAre, name), Frontier._push

    def call(self: Any, given: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise MemoryError
        return real(self, given)

    def full(self: Frontier[Domains], given: Domains) -> int:
        if 20 < float(given.bound[0]) < 40:
            raise torch.OutOfMemoryError("a full device")
        return push(self, given)

    monkeypatch.setattr(AsTheyAre, name, call)
    monkeypatch.setattr(Frontier, "_push", full)
    with allowing(NO_CAPS):
        frontier = Frontier(everything.select(slice(0, 5)), room=8)
        for start in range(5, 60, 5):
            frontier.push(everything.select(slice(start, start + 5)))
        assert len(frontier) == 60
        popped = []
        while len(frontier):
            popped.append(frontier.pop(7))
    assert calls[0] > at
    back = concatenate(popped)
    assert same(back.select(back.bound.argsort()), everything.select(everything.bound.argsort()))


def test_a_device_without_room_for_a_number_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    frontier = Frontier(with_bounds([2.0, 1.0]))

    def full(*args: Any, **more: Any) -> None:
        raise torch.OutOfMemoryError("a full device")

    monkeypatch.setattr(Frontier, "domains", property(full))
    with allowing(NO_CAPS), pytest.raises(OutOfMemory, match="out of memory"):
        _ = frontier.lower_bound
    monkeypatch.setattr(Frontier, "_pop", full)
    with pytest.raises(OutOfMemory, match="with as little at once"):
        frontier.pop(2)


def test_the_callers_tensors_are_left_alone() -> None:
    mine = with_bounds([3.0, 1.0, 2.0, 0.0])
    frontier = Frontier(mine)
    frontier.pop(2)
    assert mine.bound.tolist() == [3.0, 1.0, 2.0, 0.0]


def test_a_discarded_frontier_is_empty_and_holds_nothing() -> None:
    everything = domains(40, 6)
    frontier = Frontier(everything.select(slice(0, 4)), room=8)
    for start in range(4, 40, 4):
        frontier.push(everything.select(slice(start, start + 4)))
    held = [weakref.ref(part.held.bound) for part in frontier._host.parts]
    assert held
    frontier.discard()
    assert len(frontier) == 0
    assert frontier.lower_bound == float("inf")
    for thread in threading.enumerate():
        if thread.name == "frontier (free)":
            assert not thread.daemon
            thread.join()
    assert all(bound() is None for bound in held)


def test_summaries_have_the_least_bound_of_every_target() -> None:
    everything = replace(with_bounds([float(v) for v in range(12)]), target=torch.arange(12) % 3)
    frontier = Frontier(everything.select(slice(0, 2)), room=4)
    frontier.push(everything.select(slice(2, 12)))
    assert frontier.waiting
    least = torch.full((3,), torch.inf, dtype=torch.float64)
    for target, bound in frontier.summaries():
        least = least.scatter_reduce(0, target, bound, "amin")
    assert least.tolist() == [0.0, 1.0, 2.0]
    waiting = [target.tolist() for target, _ in frontier.summaries()[1:]]
    assert {target for part in waiting for target in part} == {0, 1, 2}
