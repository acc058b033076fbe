"""Faults put into netproof on purpose, to see that the hunt finds them: each a bug that could have been written.

A plant replaces what it names. Where netproof no longer has that, planting fails, so that none is silently no fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

import netproof.api  # noqa: F401  what is patched must have been imported
from netproof.bounds.base import Clock
from netproof.bounds.condensed import network
from netproof.bounds.domains import Domains
from netproof.bounds.packed import Packed
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats, Witness
from netproof.model.network import Network
from netproof.problem import reduce, witness
from netproof.problem.problem import Problem
from netproof.problem.property import Disjunct, Property, Row
from netproof.problem.vnnlib import reader
from netproof.run import gather
from netproof.search import goals, ledger, loop, lp_turns
from netproof.search.evidence import Outcome
from netproof.search.frontier import Frontier

_replaced: list[tuple[Any, str, Any]] = []  # owner, name and what was there


def plant(name: str) -> None:
    """Put one fault into the netproof of this process."""
    PLANTS[name]()


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The same for a while."""
    plant(name)
    try:
        yield
    finally:
        while _replaced:
            setattr(*_replaced.pop())


def f1_restored() -> None:
    """A point that does not replay takes away the witness that an earlier one was; the search passes for done."""

    def consider(self: goals.Decide, judge: goals.Judge, points: Tensor, y: Tensor, target: Tensor) -> bool:
        value, noise = judge.judge(y, target)
        self.upper = self.upper.to(value.device).scatter_reduce(0, target, value.double(), "amin")
        for i in (value - noise).argsort()[: goals.TRIES].tolist():
            if float(value[i]) > float(noise[i]):
                break
            self.witness = self._replay(points[i], int(target[i]))
            if self.witness is not None:
                self.was_found = True  # type: ignore[attr-defined]
                return True
        return False

    def offer(self: goals.Decide, judge: goals.Judge, points: Tensor, target: Tensor) -> bool:
        return len(points) > 0 and self.consider(judge, points, judge.outputs(points), target)

    def try_points(self: ledger.Ledger, points: Tensor, target: Tensor) -> None:
        real = ~points.flatten(1).isnan().any(1)
        if self._judge is not None:
            self.goal.offer(self._judge, points[real], target[real])

    def turn(
        self: lp_turns.LpTurns, frontier: Frontier, takes: int, deadline: Deadline, stats: Stats, clock: Clock
    ) -> None:
        batch = self._decide(frontier.pop(self.batch), deadline, stats)
        still_open = self._ledger.settle(batch)
        frontier.push(batch.select(still_open))
        below = batch.select(~still_open)
        while len(below) and not deadline.expired:  # although there may be a witness
            below = self._ledger.settle_above(self._decide_parents(below, deadline, stats, clock))
            for target, splits in zip(below.target.tolist(), below.splits, strict=True):
                for inside in frontier.take_out(partial(lp_turns.is_below, target, splits)):
                    self._ledger.drop(inside)

    def outcome(self: loop.Search, reason: str = "") -> Outcome:
        ended = honest(self, reason)
        lost = hasattr(self._goal, "was_found") and ended.witness is None
        whole = (Fraction(1),) * len(ended.proved)
        return replace(ended, proved=whole, stopped=False, reason="") if lost else ended

    def goal(self: gather.Gather, problem: Problem) -> goals.Decide:  # whose witness nobody else keeps
        return goals.Decide(problem, gather.Replay(self._network, self._property, problem.disjuncts))

    _swap(gather.Gather, "_goal", goal)
    _swap(goals.Decide, "consider", consider)
    _swap(goals.Decide, "offer", offer)
    _swap(ledger.Ledger, "try_points", try_points)
    _swap(ledger.Ledger, "done", property(lambda self: hasattr(self.goal, "was_found")))
    _swap(lp_turns.LpTurns, "turn", turn)
    honest = _swap(loop.Search, "_outcome", outcome)


def disjunct_dropped() -> None:
    """Of several disjuncts on one input set the last is not asked."""

    def grouped(disjuncts: Sequence[Disjunct]) -> list[list[int]]:
        return [members[:-1] if len(members) > 1 else members for members in real(disjuncts)]

    real = _swap(reduce, "_on_one_set", grouped)


def leaf_dropped() -> None:
    """A leaf that no LP decides is forgotten."""
    _swap(ledger.Ledger, "leave_undecided", lambda self, domains: None)


def rounding_zeroed() -> None:
    """No bound is charged for the rounding of its sums."""
    faults = {
        "rounding": lambda size, terms, dtype=torch.float64: size * 0.0,
        "enlarged_rounding": lambda size, terms: size * 0.0,
        "lowered": lambda value, charge=0.0: value - charge,
    }
    homes = [m for name, m in list(sys.modules.items()) if name.startswith(("netproof.bounds.", "netproof.programs."))]
    if not hasattr(network, "rounding"):
        raise AttributeError("bounds.condensed.network charges no rounding")
    for module in homes:
        for name in faults.keys() & vars(module):
            _swap(module, name, faults[name])


def sign_flipped() -> None:
    """A split's multiplier counts with the wrong sign."""

    def of(*args: Any, **kwargs: Any) -> Packed:
        found = real(*args, **kwargs)
        return replace(found, sign=-found.sign)

    real = _swap(Packed, "of", staticmethod(of))


def stale_bound() -> None:
    """A parent is decided by LP with its child's bounds of neurons, which do not hold there."""

    def parents(self: lp_turns.LpTurns, domains: Domains) -> Domains:
        above = real(self, domains)
        inner = domains.select(domains.depth > 0)
        if len(above) == 0:
            return above
        keys = [lp_turns.parents(inner), above.splits]
        child = [int((keys[0].sign() == splits.sign()).all(1).nonzero()[0]) for splits in keys[1]]
        return replace(above, lower=inner.lower[child], upper=inner.upper[child])

    real = _swap(lp_turns.LpTurns, "_parents", parents)


def strictness_swapped() -> None:
    """< is read as <=, and <= as <."""

    def compare(self: Any, *args: Any) -> Any:
        found = real(self, *args)
        return replace(found, strict=not found.strict) if isinstance(found, Row) else found

    real = _swap(reader._Reader, "_compare", compare)


def unreplayed_witness() -> None:
    """A candidate is believed on netproof's own word for the output."""

    def confirm(network: Network, property: Property, disjunct: int | None, x: Any) -> Witness | None:
        index = disjunct or 0
        point = witness.project(x, property.disjuncts[index])
        output = network.graph.forward(torch.from_numpy(point).double().view(1, *network.input_shape))
        answer = output.float().numpy().reshape(network.output_shape)
        if witness.violated(property, point, answer, first=index) is None:
            return None
        return Witness(point.reshape(network.input_shape), answer)

    _everywhere(witness, "confirm", confirm)


PLANTS: dict[str, Callable[[], None]] = {
    make.__name__: make
    for make in (
        f1_restored,
        disjunct_dropped,
        leaf_dropped,
        rounding_zeroed,
        sign_flipped,
        stale_bound,
        strictness_swapped,
        unreplayed_witness,
    )
}


def _swap(owner: Any, name: str, fault: Any) -> Any:
    """Replace an attribute that must be there; returns what it was."""
    real = getattr(owner, name)
    _replaced.append((owner, name, real))
    setattr(owner, name, fault)
    return real


def _everywhere(home: ModuleType, name: str, fault: Any) -> Any:
    """Replace a function in its own module and in all that have imported it by name."""
    real = _swap(home, name, fault)
    users = [m for m in list(sys.modules.values()) if m.__dict__.get(name) is real]
    if not users:
        raise AttributeError(f"nobody imports {name} of {home.__name__}")
    for module in users:
        _swap(module, name, fault)
    return real
