"""What a search is for: to decide a property, or to find a minimum. It says what is proved and what ends the search."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.core.verdict import Witness
from netproof.model.evaluate import evaluate
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Problem, Rows

TRIES = 4  # replays per batch of points, best first


class Goal(ABC):
    """Upper bounds come only from points that were evaluated: on an infeasible sub-domain a bound proves nothing."""

    upper: Tensor  # (target,) float64: the least value seen at a point
    witness: Witness | None = None  # kept once there is one
    moves: bool = False  # whether the thresholds rise or fall as points are seen

    @abstractmethod
    def thresholds(self, target: Tensor) -> Tensor:
        """Return the thresholds of targets (domain,), float64: a bound above it proves a domain of that target."""

    def proved(self, domains: Domains) -> Tensor:
        """Say which sub-domains are proved, (domain,) bool."""
        return domains.bound > self.thresholds(domains.target)

    @abstractmethod
    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        """Evaluate points (n, *input) for their targets (n,); True when the search is over."""

    def learn(self, upper: Tensor) -> None:  # noqa: B027
        """Take note of the least values (target,) that others saw; a goal that keeps its own may ignore them."""

    def see(self, value: float, point: Tensor, target: int) -> None:  # noqa: B027
        """Take note of a point (*input) and its value; a goal that keeps its own may ignore them."""


@dataclass(frozen=True, eq=False)
class Lowest:
    """The evaluated point that comes nearest to a violation, or is one as far as float32 tells."""

    value: float  # of the worst row
    point: Tensor  # (*input) float32, on the CPU


class Decide(Goal):
    """Is there a violation? `replay(point, target)` asks onnxruntime, which alone may say yes.

    look: is given the points (n, *input) that come nearest to a violation, batch by batch, and all that are replayed.
    """

    def __init__(
        self,
        problem: Problem,
        replay: Callable[[Tensor, int], Witness | None],
        look: Callable[[Tensor], None] | None = None,
    ) -> None:
        self._replay, self._look = replay, look
        rows = problem.rows
        self._strict = (rows.strict | ~rows.valid).all(1)  # then Σ λ r = 0 excludes a violation too
        self.upper = torch.full((len(rows.valid),), torch.inf, dtype=torch.float64)
        self.lowest: dict[int, Lowest] = {}  # by target
        self._refused: Counter[int] = Counter()  # by target, the replays that were no violation

    def thresholds(self, target: Tensor) -> Tensor:
        return torch.zeros(target.shape, dtype=torch.float64, device=target.device)

    def proved(self, domains: Domains) -> Tensor:
        tie = (domains.bound == 0) & self._strict.to(domains.bound.device)[domains.target]
        return (domains.bound > 0) | tie

    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        return self.witness is not None or (
            len(points) > 0 and self.consider(judge, points, judge.outputs(points), target)
        )

    def consider(self, judge: Judge, points: Tensor, y: Tensor, target: Tensor) -> bool:
        """Do as `offer` does, for points whose outputs y (n, *output) are known.

        The first witness stays: later points, replayed or refused, change nothing.
        """
        if self.witness is not None:
            return True
        value, noise = judge.judge(y, target)
        device = value.device
        self.upper = self.upper.to(device).scatter_reduce(0, target, value.double(), "amin")
        order = (value - noise).argsort()
        best = int(order[0])
        if self._look is not None:
            self._look(points[order[:TRIES]])
        self.see(float(value[best]), points[best], int(target[best]))
        if float(value[best]) > float(noise[best]):
            return False
        likely = order[(value <= noise)[order]]
        # Those of targets that were refused least go first: near ties of one must not keep others from being tried.
        of_target = list(zip(likely.tolist(), target[likely].tolist(), strict=True))
        tried = sorted(of_target, key=lambda pair: self._refused[pair[1]])[:TRIES]
        if self._look is not None:
            self._look(points[[i for i, _ in tried]])
        for i, which in tried:
            self.see(float(value[i]), points[i], which)
            found = self._replay(points[i], which)
            if found is not None:
                self.witness = found
                return True
            self._refused[which] += 1
        return False

    def learn(self, upper: Tensor) -> None:
        self.upper = self.upper.cpu().minimum(upper)

    def see(self, value: float, point: Tensor, target: int) -> None:
        """Remember the point (*input) if no lower value of its target was seen; NaN is no value."""
        if not math.isnan(value) and (target not in self.lowest or value < self.lowest[target].value):
            self.lowest[target] = Lowest(value, point.detach().cpu())


class Minimise(Goal):
    """The least value of each target's row, to within `tolerance` (absolute and relative)."""

    moves = True

    def __init__(self, problem: Problem, tolerance: float) -> None:
        self._tolerance = tolerance
        self._problem = problem
        self.least: dict[int, Tensor] = {}  # by target, the point (*input) of its least value
        self.upper = torch.full((len(problem.rows.valid),), torch.inf, dtype=torch.float64)

    def thresholds(self, target: Tensor) -> Tensor:
        slack = self._tolerance * (1 + self.upper.abs().nan_to_num(posinf=0.0))
        return (self.upper - slack).to(target.device)[target]

    def offer(self, judge: Judge, points: Tensor, target: Tensor) -> bool:
        if len(points) == 0:
            return False
        value, _ = judge.judge(judge.outputs(points), target)
        for t in target.unique().tolist():
            mine = (target == t).nonzero()[:, 0]
            best = mine[value[mine].argmin()]
            self._try(points[best].double().cpu(), t)
        return False

    def _try(self, point: Tensor, target: int) -> None:
        """Lower the upper bound to a point's value in float64 plus its error: it holds in real arithmetic."""
        ((inputs, _),) = self._problem.by_set([target])
        inside = _into(inputs, point)
        if inside is None:
            return
        y, error = evaluate(self._problem.graph, inside[None])
        coef = self._problem.rows.coef[target, 0]
        value = coef @ (y.flatten()) - self._problem.rows.offset[target, 0]
        above = value + coef.abs() @ error.flatten() + 1e-12 * value.abs()
        if float(above) < float(self.upper[target]):
            self.upper[target], self.least[target] = above, inside


def _into(inputs: InputSet, point: Tensor) -> Tensor | None:
    """Return a point of the set near `point`, float64; None where no point of the ball is found in the box."""
    point = point.maximum(inputs.lower).minimum(inputs.upper)
    if inputs.centre is None:
        return point
    anchor = inputs.centre.maximum(inputs.lower).minimum(inputs.upper)  # the box's point nearest to the centre
    inside, outside = 0.0, 2.0  # shares of the way from there, halved until they meet
    radius = inputs.radius * (1 - 1e-9)  # more than the norm's rounding
    for _ in range(40):
        share = (inside + outside) / 2
        away = anchor + min(share, 1.0) * (point - anchor) - inputs.centre
        inside, outside = (share, outside) if float(away.norm(p=inputs.p)) <= radius else (inside, share)
        if inside >= 1.0:
            return point
    if inside == 0.0 and float((anchor - inputs.centre).norm(p=inputs.p)) > radius:
        return None
    return (anchor + inside * (point - anchor)).maximum(inputs.lower).minimum(inputs.upper)


class Judge:
    """Evaluates points against the rows of their targets, in float32 on the device."""

    def __init__(self, graph: Graph, rows: Rows) -> None:
        self._graph = graph
        self._coef, self._offset, self._valid = rows.coef.float(), rows.offset.float(), rows.valid

    def worst_row(self, y: Tensor, target: Tensor) -> Tensor:
        """Return max_j r_j of outputs (n, *output) for their targets (n,): at most 0 at a violation."""
        each = torch.einsum("nro,no->nr", self._coef[target], y.flatten(1)) - self._offset[target]
        return each.masked_fill(~self._valid[target], -torch.inf).amax(1)

    @torch.no_grad()
    def outputs(self, points: Tensor) -> Tensor:
        """Evaluate points (n, *input); return outputs (n, *output)."""
        return self._graph.forward(points)

    @torch.no_grad()
    def judge(self, y: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the worst row of each output (n, *output), and by how much float32 may be off; (n,) both."""
        value = self.worst_row(y, target)
        size = torch.einsum("nro,no->nr", self._coef[target].abs(), y.flatten(1).abs())
        return value, 1e-5 * (size + self._offset[target].abs()).amax(1) + 1e-6
