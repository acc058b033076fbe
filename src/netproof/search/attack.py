"""The search for a counterexample by projected gradient descent, on every target at once.

`QUICK` runs before the root is bounded, or beside it: it finds most counterexamples that exist within a few steps.
`Pgd()` runs once the search has bounded `attack_after` sub-domains, on the targets that are open then. It has another
seed, so that it does not repeat the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from netproof.bounds.linear.memory import points_that_fit, with_less
from netproof.bounds.linear.region import Region
from netproof.core.deadline import Deadline
from netproof.core.machine.allowance import allowance
from netproof.model.graph import Graph
from netproof.numerics import generator
from netproof.problem.problem import InputSet, Problem, Rows
from netproof.search.goals import Decide, Judge

FEWEST = 3  # restarts per target, at least
LOOK = 4  # steps between two looks for a witness: each look waits for the device

# Entries of all nodes over all points up to which a step takes hardly longer than with one point.
FREE = {"cpu": 1 << 15, "cuda": 1 << 22}
MOST_FREE = 320  # points that are added only because they cost nothing, at most

# Entries of all nodes over FEWEST points of each target up to which all targets are attacked. Beyond that an attack on
# hundreds of classes would take longer than the root, so that those which come nearest at the centre have to do.
ALL_TARGETS = 1 << 26


@dataclass(frozen=True)
class Pgd:
    """Signed steps on the worst row of each target, from the centre, from corners and from random points."""

    restarts: int = 30  # per target; more where they cost nothing
    points: int = 320  # over all targets; more where they cost nothing, or for FEWEST per target if that is not much
    steps: int = 40

    def find(
        self,
        problem: Problem,
        goal: Decide,
        device: torch.device,
        seed: int,
        deadline: Deadline,
        targets: Sequence[int] | None = None,
    ) -> bool:
        """Offer what is found to the goal; True when it is a witness. `targets`: the ones to attack, or all.

        OutOfMemory says that it was not looked for to the end; the goal may have a witness all the same.
        """
        return with_less(lambda: self._find(problem, goal, device, seed, deadline, targets), device)

    def _find(
        self,
        problem: Problem,
        goal: Decide,
        device: torch.device,
        seed: int,
        deadline: Deadline,
        targets: Sequence[int] | None,
    ) -> bool:
        graph, rows = problem.graph.to(device, torch.float32), problem.rows.to(device)
        judge = Judge(graph, rows)
        for inputs, wanted in problem.by_set(range(len(problem.disjuncts)) if targets is None else targets):
            region = Region.of(inputs, device, torch.float32)
            near = self._nearest(torch.tensor(wanted, device=device), graph, judge, region)
            restarts = self._restarts(len(near), graph, device)
            starts = self._starts(region, len(near), restarts, seed)
            each = near.repeat_interleave(restarts)
            size = points_that_fit(graph, device, rows.coef[0].numel())
            for x, target in zip(starts.split(size), each.split(size), strict=True):
                offer = partial(_offer, goal, judge, target)
                if self.descend(x, region, Slope(graph, rows, target), offer, deadline) or deadline.expired:
                    return goal.witness is not None
        return goal.witness is not None

    def _nearest(self, target: Tensor, graph: Graph, judge: Judge, region: Region) -> Tensor:
        """Return the targets (n,) to attack: all, or those that are lowest at the centre where all would cost much."""
        most = self.points // FEWEST
        if len(target) <= most or len(target) * FEWEST * graph.entries <= ALL_TARGETS:
            return target
        y = judge.outputs(region.centre[None])
        value = judge.worst_row(y.expand(len(target), *y.shape[1:]), target)
        nearest = value.nan_to_num(torch.inf).argsort(stable=True)[:most]
        return target[nearest.sort().values]

    def descend(
        self, x: Tensor, region: Region, slope: Slope, offer: Callable[[Seen], bool], deadline: Deadline
    ) -> bool:
        """Descend from the starts x: (n, *input); True when `offer` took something."""
        width = region.upper - region.lower
        seen: list[Seen] = []
        for step in range(self.steps):
            here, gradient = slope.at(x)
            seen.append(here)
            if step in (0, 1) or (step + 1) % LOOK == 0:
                # A full step lands on a corner of the box, where ties of piecewise linear networks lie.
                seen = [_best([*seen, slope.only_value(region.minimiser(gradient))])]
                if bool((seen[0].value <= 0).any()):
                    if offer(seen[0]):
                        return True
                    seen = []  # refused, so they must not be in the way of others
            if deadline.expired:
                return bool(seen) and offer(_best(seen))
            rate = 0.5 * (1 - step / self.steps) + 0.01
            x = into(region, torch.addcmul(x, gradient.sign(), width, value=-rate))
        return offer(_best([*seen, slope.only_value(x)]))

    def _restarts(self, targets: int, graph: Graph, device: torch.device) -> int:
        """Return the number of starts per target."""
        free = min(FREE[device.type] // graph.entries, MOST_FREE)
        wanted = max(FEWEST, max(min(self.restarts * targets, self.points), free) // max(1, targets))
        return max(1, int(wanted * allowance().share))

    def _starts(self, region: Region, targets: int, restarts: int, seed: int) -> Tensor:
        """Draw the starts, (target·restarts, *input)."""
        device = region.centre.device
        shape = (targets, restarts, *region.centre.shape)
        uniform = torch.rand(shape, generator=generator(seed, device), device=device)
        uniform[:, restarts // 2 :].round_()  # half of them corners
        x = torch.lerp(region.lower, region.upper, uniform)
        x[:, 0] = region.centre
        return into(region, x.flatten(0, 1))


def _offer(goal: Decide, judge: Judge, target: Tensor, best: Seen) -> bool:
    return goal.consider(judge, best.x, best.y, target)


QUICK = Pgd(restarts=16, points=27, steps=10)


@dataclass(frozen=True, eq=False)
class Seen:
    """Points (n, *input), their outputs (n, *output) and the worst rows there (n,)."""

    x: Tensor
    y: Tensor
    value: Tensor


class Slope:
    """The worst row of each point's target, and its gradient."""

    def __init__(self, graph: Graph, rows: Rows, target: Tensor) -> None:
        self._graph = graph
        self._coef = rows.coef.float()[target]  # (n, row, output)
        # (n, row); padding is never the worst
        self._offset = rows.offset.masked_fill(~rows.valid, torch.inf).float()[target]
        self._each = torch.arange(len(target), device=target.device)

    @torch.no_grad()
    def at(self, x: Tensor) -> tuple[Seen, Tensor]:
        """Evaluate points (n, *input); return what is there, and the gradients (n, *input)."""
        values = self._graph.values(x)
        y = values[-1]
        value, worst = self._worst_row(y)
        coef = self._coef[:, 0] if self._coef.shape[1] == 1 else self._coef[self._each, worst]
        return Seen(x, y, value), self._graph.gradient(values, coef.reshape(y.shape))

    @torch.no_grad()
    def only_value(self, x: Tensor) -> Seen:
        y = self._graph.forward(x)
        return Seen(x, y, self._worst_row(y)[0])

    def _worst_row(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest row and its index, (n,) both. An output that is no number violates nothing."""
        rows = (self._coef @ y.flatten(1)[:, :, None])[:, :, 0] - self._offset
        value, worst = rows.max(1)
        return value.nan_to_num(torch.inf, torch.inf, -torch.inf), worst


def _best(seen: list[Seen]) -> Seen:
    """Return what was seen where each start came lowest."""
    if len(seen) == 1:
        return seen[0]
    value, step = torch.stack([s.value for s in seen]).min(0)
    each = torch.arange(len(step), device=step.device)
    return Seen(torch.stack([s.x for s in seen])[step, each], torch.stack([s.y for s in seen])[step, each], value)


def places(inputs: InputSet, count: int, seed: int) -> Tensor:
    """Return `count` points of an input set, (count, *input) float32: the centre, corners, and random ones."""
    region = Region.of(inputs, torch.device("cpu"), torch.float32)
    share = torch.rand((count, *region.centre.shape), generator=generator(seed))
    share[: count // 2].round_()
    share[0], share[1], share[2] = 0.5, 0.0, 1.0
    return into(region, torch.lerp(region.lower, region.upper, share))


def into(region: Region, x: Tensor) -> Tensor:
    """Move points into the box, and towards the ball's centre until they are inside the ball."""
    x = torch.clamp(x, region.lower, region.upper)
    if region.ball is None:
        return x
    away = x - region.centre
    size = torch.linalg.vector_norm(away.flatten(1), ord=region.ball.p, dim=1).clamp(min=1e-30)
    share = (region.ball.radius / size).clamp(max=1.0)
    inside: Tensor = region.centre + away * share.view(-1, *(1,) * (x.dim() - 1))
    return inside
