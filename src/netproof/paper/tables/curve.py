"""The paper's Figure 3: the optimised bound against the step, between the LPs on the first and on the best bounds.

Every slope is optimised at once, those of the output and those of each intermediate neuron, by the gradient of the
output's bound through the intermediate bounds (section 3.1). The two lines are triangle LPs that differ only in the
neurons' bounds: with the slopes that CROWN starts from, and the best of all steps, neuron by neuron. Both values are
certified from the LP's duals. A curve with the intermediate bounds held still shows the other half of section 3.1:
then the best slopes are the LP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from netproof.bounds.base import root_domains
from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Params, Schedule, ascend
from netproof.bounds.graph.batch import Batch, Bounded, bound_batch
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.numerics import float32_down, float32_up
from netproof.problem.problem import Problem
from netproof.search.leaf import LeafLP

NEVER = 1 << 30  # steps of patience: the curve is to be seen to its end

Progress = Callable[[str, int, int], None]  # phase, steps done, steps in all


@dataclass(frozen=True, eq=False)
class Curve:
    """What was found on one instance; every bound is of the row that the property asks to be positive."""

    name: str
    joint: list[float]  # by step, intermediate bounds optimised too
    fixed: list[float]  # by step, intermediate bounds as CROWN leaves them
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
        """The first step whose bound is above the LP on unoptimised intermediate bounds."""
        return next((step for step, value in enumerate(self.joint) if value > self.lp_first), None)

    @property
    def stays_under(self) -> bool:
        """Under the LP on the best intermediate bounds, up to the float32 of the curve."""
        return max(self.joint) <= self.lp_best + 1e-5 * (1 + abs(self.lp_best))


def optimisation_curve(
    name: str,
    problem: Problem,
    device: torch.device,
    steps: int,
    deadline: Deadline,
    progress: Progress = lambda phase, done, total: None,
) -> Curve | None:
    """None when the deadline came first: half a curve has no second line."""
    began = time.monotonic()
    root = build_root(problem, device, Schedule(0), deadline)
    if root is None:
        return None
    _one_row_a_target(root)
    whole = root_domains(root)
    if len(whole) > 1:  # the target that is hardest for fixed slopes
        values = _start(root, whole).value(root, whole)
        whole = whole.select(values.argmin()[None])
    progress("LP", 0, steps)
    lp = LeafLP(root, 1)
    first = float(lp.decide(whole, deadline).bound)
    joint = _Climb.of(root, whole, refresh=True)
    joint.run(steps, deadline, progress)
    fixed = _Climb.of(root, whole, refresh=False)
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
            "the curve needs one row a disjunct, and this property joins several by `and`",
            remedy="give a property with one inequality a disjunct",
        )


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Of the output (1, U), and by layer of each of its neurons' two bounds (1, 2, U_k, U')."""

    output: Tensor
    neurons: dict[int, Tensor]

    def value(self, root: Root, domains: Domains) -> Tensor:
        """(domain,) with the intermediate bounds that the domains have."""
        batch = _batch(root, domains, [None] * len(root.graph32.layers))
        output = self.output.expand(len(domains), -1)
        return bound_batch(root.graph32, root.rows, batch, output, {}, domains.weights).bound


def _start(root: Root, domains: Domains, layers: Sequence[int] = ()) -> _Slopes:
    """CROWN's slopes for the output and for the neurons of `layers`."""
    output = domains.slopes[:1].float()
    every = root.graph32.layers
    neurons = {k: output[:, None, None, : every[k].start].expand(1, 2, every[k].count, -1).clone() for k in layers}
    return _Slopes(output, neurons)


def _batch(root: Root, domains: Domains, refresh: list[Tensor | None]) -> Batch:
    layers = root.graph32.layers
    lower = [domains.lower[:, layer.packed] for layer in layers]
    upper = [domains.upper[:, layer.packed] for layer in layers]
    return Batch(domains.target, lower, upper, refresh)


@dataclass(eq=False)
class _Climb:
    """One run of the optimiser, looked at after every step."""

    root: Root
    whole: Domains  # one domain
    batch: Batch
    start: _Slopes
    lower: list[Tensor]  # per layer (1, U_k): the best of all steps
    upper: list[Tensor]
    own: dict[int, Tensor]  # by layer (1, 2, U_k, U'): the slopes that gave them
    values: list[float] = field(default_factory=list)
    best: Params = field(default_factory=list)

    @classmethod
    def of(cls, root: Root, whole: Domains, *, refresh: bool) -> _Climb:
        """With `refresh`, every neuron that has unstable ones before it is bounded again in each step."""
        layers = root.graph32.layers
        again = [k for k, layer in enumerate(layers) if refresh and layer.start > 0]
        device = whole.target.device
        rows = [
            torch.arange(layer.count, device=device)[None] if k in again else None for k, layer in enumerate(layers)
        ]
        batch, start = _batch(root, whole, rows), _start(root, whole, again)
        return cls(root, whole, batch, start, list(batch.lower), list(batch.upper), dict(start.neurons))

    def run(self, steps: int, deadline: Deadline, progress: Progress) -> None:
        schedule = Schedule(steps, patience=NEVER)
        never = torch.full((1,), torch.inf, device=self.root.device)
        phase = "all slopes" if self.start.neurons else "slopes alone"

        def evaluate(params: Params, subset: Tensor | None) -> Tensor:
            bounded = self._bounded(params)
            self._record(bounded, params)
            progress(phase, len(self.values) - 1, steps)
            return bounded.bound

        def project(params: Params) -> Params:
            return [p.clamp(0.0, 1.0) for p in params]

        first = [self.start.output, *self.start.neurons.values()]
        if self.root.count == 0:  # nothing is relaxed, so there is nothing to choose
            self.best, self.values = first, [float(self._bounded(first).bound)] * (steps + 1)
            return
        _, self.best = ascend(evaluate, project, first, schedule, never, deadline)

    def _bounded(self, params: Params) -> Bounded:
        neurons = dict(zip(self.start.neurons, params[1:], strict=True))
        return bound_batch(self.root.graph32, self.root.rows, self.batch, params[0], neurons, self.whole.weights)

    @torch.no_grad()
    def _record(self, bounded: Bounded, params: Params) -> None:
        self.values.append(float(bounded.bound.detach()))
        for k, slopes in zip(self.start.neurons, params[1:], strict=True):
            higher, less = bounded.lower[k] > self.lower[k], bounded.upper[k] < self.upper[k]
            better = torch.stack([higher, less], 1)[..., None]  # (1, 2, U_k, 1)
            self.own[k] = torch.where(better, slopes.detach(), self.own[k])
            self.lower[k] = torch.where(higher, bounded.lower[k].detach(), self.lower[k])
            self.upper[k] = torch.where(less, bounded.upper[k].detach(), self.upper[k])

    @torch.no_grad()
    def best_bounds(self) -> Domains:
        """The best bounds of all steps, each confirmed: what float64 says of its slopes, where that is less, counts.

        Evaluated on the best bounds of the layers before, slopes give at least what they gave in their own step.
        """
        proof = self.root.graph64
        if self.root.count == 0:
            return self.whole
        lower, upper = [t.double() for t in self.batch.lower], [t.double() for t in self.batch.upper]
        for k, slopes in self.own.items():
            layer = proof.layers[k]
            found = proof.neurons(layer, layer.index[None], lower, upper, slopes.double())
            lower[k] = lower[k].fmax(found.lower.minimum(self.lower[k].double()))
            upper[k] = upper[k].fmin(found.upper.maximum(self.upper[k].double()))
        low, high = float32_down(torch.cat(lower, 1)), float32_up(torch.cat(upper, 1))
        return replace(self.whole, lower=low, upper=high)

    @torch.no_grad()
    def confirmed(self) -> float:
        """The best step's bound in float64, every rounding charged."""
        root, (output, *rest) = self.root, [p.double() for p in self.best]
        neurons = dict(zip(self.start.neurons, rest, strict=True))
        weights = self.whole.weights.double()
        return float(bound_batch(root.graph64, root.rows, self.batch.to(torch.float64), output, neurons, weights).bound)
