"""The paper's Figure 3: the optimised bound against the step, between the LPs on the first and on the best bounds.

Every unstable neuron has one slope, which every bound uses that it enters, as in `lirpa-printed`; or each layer's
bounds have slopes of their own, as in `lirpa`, or each neuron's. All are optimised by the gradient of the output's
bound through the intermediate bounds (section 3.1). The two lines are triangle LPs that differ only in the neurons'
bounds: with the slopes at the start, and the best of all steps, neuron by neuron. Both values are certified from the
LP's duals. A curve with the intermediate bounds held still shows the other half of section 3.1: then the best slopes
are the LP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import root_domains
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.joint import Bounded, Joint, Recorded
from netproof.bounds.neurons.root import Root, SlopeRule, build_root
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.numerics import float32_outward
from netproof.problem.problem import Problem
from netproof.search.leaf import LeafLP

Progress = Callable[[str, int, int], None]  # phase, steps done, steps in all


class Slopes(NamedTuple):
    """Which slopes there are, what they start from, and how far a step goes."""

    own: bool = False  # whether the bounds of each neuron have slopes of their own
    layers: bool = False  # whether each layer's bounds have slopes of their own, which its neurons share
    parallel: bool = True  # parallel to the upper lines, or CROWN's
    rate: float = 0.1

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Slopes:
        """Return those of a method of LiRPA, by its fields."""
        return cls(fields["own_slopes"], fields["layer_slopes"], fields["parallel"], fields["rate"])


AS_PRINTED = Slopes()


@dataclass(frozen=True, eq=False)
class Curve:
    """What was found on one instance; every bound is of the row that the property asks to be positive."""

    name: str
    joint: list[float]  # by step, intermediate bounds optimised too
    fixed: list[float]  # by step, intermediate bounds as the first slopes leave them
    lp_first: float  # the LP on unoptimised intermediate bounds
    lp_best: float  # the LP on the best intermediate bounds of all steps
    confirmed: float  # the best of `joint` in float64 with rounding charged
    unstable: int
    seconds: float

    @property
    def best_so_far(self) -> list[float]:
        best: list[float] = []
        for value in self.joint:
            best.append(max(value, best[-1]) if best else value)
        return best

    @property
    def crossing(self) -> int | None:
        """Return the first step whose bound is above the LP on unoptimised intermediate bounds; None if none is."""
        return next((step for step, value in enumerate(self.joint) if value > self.lp_first), None)

    @property
    def stays_under(self) -> bool:
        """Say whether the curve is under the LP on the best intermediate bounds, up to its float32."""
        return max(self.joint) <= self.lp_best + 1e-5 * (1 + abs(self.lp_best))


def optimisation_curve(
    name: str,
    problem: Problem,
    device: torch.device,
    steps: int,
    deadline: Deadline,
    progress: Progress = lambda phase, done, total: None,
    slopes: Slopes = AS_PRINTED,
) -> Curve | None:
    """Compute the curve and both LPs; None when the deadline came first: half a curve has no second line."""
    began = time.monotonic()
    root = build_root(problem, device, Schedule(0), deadline, slopes=SlopeRule(slopes.parallel))
    if root is None:
        return None
    _one_row_a_target(root)
    whole = root_domains(root)
    if len(whole) > 1:  # the target that is hardest for fixed slopes
        values = Dual.of(root, whole, proof=False).at(_start(whole, {})).value
        whole = whole.select(values.argmin()[None])
    progress("LP", 0, steps)
    lp = LeafLP(root, 1)
    first = float(lp.decide(whole, deadline).bound)
    joint = _Ascent.of(root, whole, slopes)
    joint.run(steps, deadline, progress)
    fixed = _Ascent.of(root, whole, slopes, rebound=False)
    fixed.run(steps, deadline, progress)
    progress("LP", steps, steps)
    best = joint.best_bounds()
    last = float(lp.decide(best, deadline).bound)
    if deadline.expired or len(joint.values) <= steps or len(fixed.values) <= steps:
        return None
    seconds = time.monotonic() - began
    return Curve(name, joint.values, fixed.values, first, last, joint.confirmed(), root.count, seconds)


def _one_row_a_target(root: Root) -> None:
    if bool((root.rows.valid.sum(1) != 1).any()):
        raise UsageError(
            "the curve needs one row per disjunct, and this property joins several by `and`",
            remedy="give a property with one inequality per disjunct",
        )


def _start(domains: Domains, neurons: Mapping[int, Tensor]) -> DualPoint:
    """Return the first slopes for the output, with slopes that neurons' bounds have for themselves."""
    return DualPoint(domains.slopes.float(), None, domains.weights, neurons)


@dataclass(frozen=True, eq=False)
class _Watched(Joint):
    """The joint dual function, with a look at every evaluation."""

    watch: Callable[[Bounded, DualPoint], None] = field(kw_only=True)

    def evaluate(self, moving: Sequence[Tensor], *, last: bool) -> Recorded:
        seen = super().evaluate(moving, last=last)
        self.watch(seen.bounded, self.point(moving))
        return seen


@dataclass(eq=False)
class _Ascent:
    """One run of the optimiser, looked at after every step."""

    root: Root
    whole: Domains  # one domain
    rebound: dict[int, Tensor]  # by layer (1, U_k): its neurons that are bounded again
    rate: float
    best: DualPoint  # the start, and then what gave the best bound
    lower: Tensor  # (1, U): the best of all steps
    upper: Tensor
    own: dict[int, Tensor]  # by layer (1, 2, U_k, U'): the slopes that gave them
    values: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, root: Root, whole: Domains, slopes: Slopes, *, rebound: bool = True) -> _Ascent:
        """Begin a run; with `rebound`, every neuron that has unstable ones before it is bounded again in each step."""
        layers = enumerate(root.layers)
        device = whole.target.device
        every = {k: torch.arange(layer.count, device=device)[None] for k, layer in layers if rebound and layer.start}
        first = {k: whole.slopes.float()[:, None, None, : root.layers[k].start] for k in every}
        own = {k: first[k].expand(-1, 2, which.shape[1], -1).clone() for k, which in every.items()}
        apart = own if slopes.own else first if slopes.layers else {}
        start = _start(whole, {k: t.clone() for k, t in apart.items()})
        return cls(root, whole, every, slopes.rate, start, whole.lower, whole.upper, own)

    def run(self, steps: int, deadline: Deadline, progress: Progress) -> None:
        phase = "all slopes" if self.rebound else "slopes alone"

        def watch(bounded: Bounded, theta: DualPoint) -> None:
            self._record(bounded, theta)
            progress(phase, len(self.values) - 1, steps)

        joint = Joint.of(self.root, self.whole, self.rebound, proof=False)
        if self.root.count == 0:  # nothing is relaxed, so there is nothing to choose
            self.values = [float(joint.at(self.best).value)] * (steps + 1)
            return
        never = torch.full((1,), torch.inf, device=self.root.device)
        watched = _Watched(joint.dual, joint.known, joint.rebound, watch=watch)
        _, self.best = ascend(watched, self.best, Climb(Schedule(steps, self.rate, gain=None), never, deadline))

    @torch.no_grad()
    def _record(self, bounded: Bounded, theta: DualPoint) -> None:
        self.values.append(float(bounded.value))
        higher, less = bounded.lower > self.lower, bounded.upper < self.upper
        for k in self.rebound:
            slopes = theta.neurons.get(k, theta.slopes[:, None, None, : self.root.layers[k].start])
            column = self.root.layers[k].packed
            better = torch.stack([higher[:, column], less[:, column]], 1)[..., None]  # (1, 2, U_k, 1)
            self.own[k] = torch.where(better, slopes, self.own[k])
        self.lower = torch.where(higher, bounded.lower.detach(), self.lower)
        self.upper = torch.where(less, bounded.upper.detach(), self.upper)

    @torch.no_grad()
    def best_bounds(self) -> Domains:
        """Return the best bounds of all steps, each confirmed.

        What float64 says of a bound's slopes counts where that is less. Evaluated on the best bounds of the layers
        before, slopes give at least what they gave in their own step.
        """
        domains = self.whole
        for k, slopes in self.own.items():
            theta, column = replace(self.best, neurons={k: slopes}), self.root.layers[k].packed
            found = Joint.of(self.root, domains, {k: self.rebound[k]}, proof=True).at(theta)
            lower, upper = domains.lower.clone(), domains.upper.clone()
            low = found.lower[:, column].minimum(self.lower[:, column].double())
            high = found.upper[:, column].maximum(self.upper[:, column].double())
            low, high = float32_outward(low, high)
            lower[:, column], upper[:, column] = lower[:, column].fmax(low), upper[:, column].fmin(high)
            domains = replace(domains, lower=lower, upper=upper)
        return domains

    @torch.no_grad()
    def confirmed(self) -> float:
        """Return the best step's bound in float64, every rounding charged."""
        return float(Joint.of(self.root, self.whole, self.rebound, proof=True).at(self.best).value)
