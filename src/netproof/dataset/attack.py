"""The attack on many images at once: the descent of `search/attack.py`, each point with an input set of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.linear.ball import Ball
from netproof.bounds.linear.memory import attempted
from netproof.bounds.linear.region import Region
from netproof.core.deadline import Deadline
from netproof.core.verdict import Witness
from netproof.dataset.cases import Case
from netproof.model.graph import Graph
from netproof.numerics import generator
from netproof.problem.joined import join_rows
from netproof.problem.problem import Rows
from netproof.search.attack import FEWEST, QUICK, Seen, Slope, into
from netproof.search.goals import TRIES, Judge, Lowest


@dataclass(frozen=True)
class Effort:
    """How hard an image is attacked."""

    targets: int  # of an image, at most: those that its own output comes nearest to
    starts: int  # for each: the centre, then random points and corners


FIRST = Effort(2, 1)  # breaks most images that can be broken, for less than a bound costs
FULL = Effort(16, FEWEST)
AT_ONCE = {"cpu": 1 << 23, "cuda": 1 << 28}  # entries of all nodes over all points of one batch, about


@dataclass(frozen=True, eq=False)
class PointRegion(Region):
    """The input set of each point: tensors have the point as their first axis, and balls have one radius."""

    def minimiser(self, coef: Tensor) -> Tensor:
        """Return a point of each set where coef·x is least; coef: (point, *input)."""
        if self.ball is None:
            return torch.where(coef > 0, self.lower, self.upper)
        away = self.ball.furthest(coef.flatten(1)).view_as(coef)
        inside: Tensor = (self.centre + away).maximum(self.lower).minimum(self.upper)
        return inside

    def select(self, index: Tensor) -> PointRegion:
        """Return the sets at `index`, (n,), one for each entry."""
        ball = self.ball
        if ball is not None:
            ball = Ball(ball.below[index], ball.above[index], ball.radius, ball.p, ball.cut)
        centre, radius, lower, upper = (t[index] for t in (self.centre, self.radius, self.lower, self.upper))
        return PointRegion(centre, radius, lower, upper, ball)

    @staticmethod
    def stacked(regions: Sequence[Region]) -> PointRegion:
        """Make one of the sets of several images, all boxes or all balls of one norm."""
        first = regions[0].ball
        ball = None
        if first is not None:
            balls = [region.ball for region in regions if region.ball is not None]
            ball = Ball(
                torch.stack([b.below for b in balls]),
                torch.stack([b.above for b in balls]),
                max(b.radius for b in balls),  # a point is moved into its own set before it is replayed
                first.p,
                any(b.cut for b in balls),
            )
        names = ("centre", "radius", "lower", "upper")
        centre, radius, lower, upper = (torch.stack([getattr(r, name) for r in regions]) for name in names)
        return PointRegion(centre, radius, lower, upper, ball)


def attack_all(cases: Sequence[Case], effort: Effort, device: torch.device, seed: int, deadline: Deadline) -> None:
    """Attack the open targets of all cases; a witness and the lowest points go into the evidence of their case.

    Where memory runs out, half as many images go at once.
    """
    graph = attempted(lambda: cases[0].problem.graph.to(device, torch.float32), device)
    if graph is None:
        return
    targets = min(effort.targets, max(len(case.open_targets) for case in cases))
    fits = AT_ONCE[device.type] // (graph.entries * targets * effort.starts)
    together, start = max(1, min(fits, len(cases))), 0
    while start < len(cases) and not deadline.expired:
        some = [case for case in cases[start : start + together] if not case.evidence.is_settled]
        done = not some or attempted(partial(_attack, graph, some, effort, device, seed + start, deadline), device)
        if done or together == 1:  # not found is all that follows of one image that has no room
            start += together
        else:
            together = (together + 1) // 2


def _attack(
    graph: Graph, cases: Sequence[Case], effort: Effort, device: torch.device, seed: int, deadline: Deadline
) -> bool:
    """Attack one batch, and say that it is done."""
    _Attack(graph, cases, effort, device).run(seed, deadline)
    return True


class _Attack:
    """One batch: every image's nearest targets, from its centre and from random points of its set."""

    def __init__(self, graph: Graph, cases: Sequence[Case], effort: Effort, device: torch.device) -> None:
        self._graph, self._device, self._effort = graph, device, effort
        self._offers = Offers(cases)
        self._sets = PointRegion.stacked([Region.of(case.problem.input_set, device, torch.float32) for case in cases])
        rows = join_rows([case.problem.rows for case in cases]).to(device)
        chosen = self._nearest(rows, cases)
        self._rows = rows.map(lambda t: t[chosen.to(device)])

    def _nearest(self, rows: Rows, cases: Sequence[Case]) -> Tensor:
        """Choose the targets (n,), of each image the open ones whose worst row is least at its centre."""
        counts = [len(case.problem.disjuncts) for case in cases]
        image = torch.arange(len(cases)).repeat_interleave(torch.tensor(counts))
        with torch.no_grad():
            y = self._graph.forward(self._sets.centre)
        every = torch.arange(len(image), device=self._device)
        value = Judge(self._graph, rows).worst_row(y[image.to(self._device)], every).cpu()
        first, chosen, targets = 0, list[Tensor](), list[Tensor]()
        for case, count in zip(cases, counts, strict=True):
            still_open = torch.tensor(case.open_targets)
            nearest = value[first + still_open].argsort(stable=True)[: self._effort.targets]
            targets.append(still_open[nearest])
            chosen.append(first + still_open[nearest])
            first += count
        self._target, every = torch.cat(targets), torch.cat(chosen)
        self._image = image[every]
        return every

    def run(self, seed: int, deadline: Deadline) -> None:
        """Descend from the starts of every target."""
        starts = self._effort.starts
        image = self._image.to(self._device).repeat_interleave(starts)
        target = torch.arange(len(self._image), device=self._device).repeat_interleave(starts)
        own = self._target.repeat_interleave(starts)
        region = self._sets.select(image)
        judge, slope = Judge(self._graph, self._rows), Slope(self._graph, self._rows, target)

        def offer(seen: Seen) -> bool:
            value, noise = judge.judge(seen.y, target)
            self._offers.take(seen.x, value, noise, image, own)
            return self._offers.all_found

        QUICK.descend(self._starts(region, seed), region, slope, offer, deadline)
        self._offers.tell()

    def _starts(self, region: PointRegion, seed: int) -> Tensor:
        """Draw the starts: of each target the centre, then random points, half of them corners; (point, *input)."""
        starts = self._effort.starts
        uniform = torch.rand(region.centre.shape, generator=generator(seed, self._device), device=self._device)
        uniform = uniform.unflatten(0, (-1, starts))
        uniform[:, starts // 2 + 1 :].round_()
        x = torch.lerp(region.lower, region.upper, uniform.flatten(0, 1)).unflatten(0, (-1, starts))
        x[:, 0] = region.centre.unflatten(0, (-1, starts))[:, 0]
        return into(region, x.flatten(0, 1))


@dataclass(eq=False)
class Offers:
    """Points offered as counterexamples of several images: the best of each are replayed until one is one."""

    cases: Sequence[Case]
    found: set[int] = field(default_factory=set)  # places of the cases that have a witness
    last: Witness | None = None  # that was found
    _lowest: dict[int, dict[int, Lowest]] = field(default_factory=lambda: defaultdict(dict))  # by place and target

    @property
    def all_found(self) -> bool:
        return len(self.found) == len(self.cases)

    def take(self, x: Tensor, value: Tensor, noise: Tensor, image: Tensor, target: Tensor) -> None:
        """Replay what may be a violation, best first and at most TRIES for an image at a time; all (point, …).

        value, noise: the worst row and by how much float32 may be off; image: the place of the case; target: its own.
        """
        order = (value - noise).nan_to_num(nan=torch.inf).argsort(stable=True).cpu().numpy()
        places, likely = image.cpu().numpy()[order], (value <= noise).cpu().numpy()[order]
        best = np.unique(places, return_index=True)[1]  # where each image stands first
        again = np.flatnonzero(likely & ~np.isin(np.arange(len(places)), best))
        tried: Counter[int] = Counter()
        for k in [*best.tolist(), *again.tolist()]:
            place, at = int(places[k]), int(order[k])
            if place in self.found or tried[place] >= TRIES:
                continue
            which = int(target[at])
            self._see(place, which, float(value[at]), x[at])
            look = self.cases[place].evidence.look
            if look is not None:
                look(x[at][None])
            if likely[k]:
                tried[place] += 1
                self._replay(place, which, x[at])

    def _see(self, place: int, target: int, value: float, point: Tensor) -> None:
        known = self._lowest[place].get(target)
        if value == value and (known is None or value < known.value):
            self._lowest[place][target] = Lowest(value, point.detach().cpu())

    def _replay(self, place: int, target: int, point: Tensor) -> None:
        witness = self.cases[place].replay(point, target)
        if witness is not None:
            self.cases[place].evidence.found(witness, "attack")
            self.found.add(place)
            self.last = witness

    def tell(self) -> None:
        """Add the lowest points to the evidence of their cases."""
        for place, points in self._lowest.items():
            case = self.cases[place]
            of = {case.problem.disjuncts[target]: lowest for target, lowest in points.items()}
            case.evidence.see_points(min(lowest.value for lowest in of.values()), of)
