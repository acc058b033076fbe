"""What every bounder offers the search, and the LiRPA one of the paper with its slopes fixed or optimised."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.joint import Batch, bound_batch
from netproof.bounds.memory import rows_that_fit
from netproof.bounds.optimise import Params, Schedule, ascend
from netproof.bounds.refresh import refresh_rows
from netproof.bounds.root import Root, build_root, project_slopes
from netproof.core.deadline import Deadline
from netproof.numerics import SEARCH_MARGIN, float32_down, float32_up
from netproof.problem.domains import Domains, concatenate
from netproof.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Bounds:
    """What bounding a batch gave: confirmed sub-domains, and by-products for branching and attacks."""

    domains: Domains
    empty: Tensor  # (domain,) bool: confirmed that no x satisfies the splits
    coef: Tensor  # (domain, U): the coefficient of each packed neuron's output in the bound
    point: Tensor  # (domain, *input) float32: where the bound is attained

    def select(self, index: Tensor) -> Bounds:
        return Bounds(self.domains.select(index), self.empty[index], self.coef[index], self.point[index])


@dataclass
class Clock:
    """Seconds spent confirming, apart from the rest."""

    confirm: float = 0.0


class Bounder(ABC):
    """May be loose, never unsound: every number it returns is confirmed."""

    @abstractmethod
    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        """The whole input set, one domain a target; None when the deadline came first.

        threshold (target,): the bound above which a target is settled.
        """

    @abstractmethod
    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Sub-domains as `split` made them; threshold (domain,): the bound above which one is settled."""


@dataclass(frozen=True)
class Lirpa(Bounder):
    """Optimised LiRPA: slopes by gradient, jointly through the intermediate bounds that a split moves."""

    root_steps: int = 100
    neuron_steps: int = 20
    steps: int = 10
    refresh: int = 16
    rate: float = 0.25
    child_rate: float = 0.1

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        # Cheap first: where fixed slopes for the neurons suffice, nothing else is computed.
        quick = build_root(problem, device, Schedule(0), deadline)
        if quick is None:
            return None
        climb = Schedule(self.root_steps, self.rate)
        bounds = self._bound_root(quick, climb, threshold, deadline, clock)
        proved = bool((bounds.domains.bound > threshold).all())
        if proved or self.neuron_steps == 0 or len(quick.search.layers) < 2:
            return quick, bounds
        root = build_root(problem, device, Schedule(self.neuron_steps, self.rate), deadline, quick)
        if root is None:
            return quick, bounds
        return root, self._bound_root(root, climb, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        batch = _batch(root, domains, refresh_rows(root, domains, self.refresh))
        start = Slopes.of_children(root, domains, batch) if self.steps else Slopes.fixed(root, domains, batch)
        schedule = Schedule(self.steps, self.child_rate)
        return optimise_and_confirm(root, batch, domains, start, schedule, threshold, deadline, clock)

    @staticmethod
    def _bound_root(root: Root, schedule: Schedule, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        domains = root_domains(root)
        batch = _batch(root, domains, [None] * len(root.search.layers))
        start = Slopes(domains.slopes.float(), {})
        return optimise_and_confirm(root, batch, domains, start, schedule, threshold, deadline, clock)


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of one batch: for the output, and for each neuron that is bounded again."""

    output: Tensor  # (domain, U)
    neurons: dict[int, Tensor]  # by layer (domain, 2, K or 1, U')

    @classmethod
    def of_children(cls, root: Root, domains: Domains, batch: Batch) -> Slopes:
        """The parent's for the output; the root's own for each neuron, which are good wherever it is unstable."""
        neurons = {}
        for k, chosen in enumerate(batch.refresh):
            if chosen is not None:
                own = root.slopes[k]  # (2, U_k or 1, U')
                places = chosen.clamp(max=own.shape[1] - 1)
                neurons[k] = own[:, places].transpose(0, 1).float()
        return cls(domains.slopes.float(), neurons)

    @classmethod
    def fixed(cls, root: Root, domains: Domains, batch: Batch) -> Slopes:
        """CROWN's choice for the bounds at hand, the same in every pass."""
        parts = [
            layer.relaxation.initial(domains.lower[:, layer.packed], domains.upper[:, layer.packed])
            for layer in root.search.layers
        ]
        every = torch.cat(parts, 1)
        again = [k for k, chosen in enumerate(batch.refresh) if chosen is not None]
        return cls(every, {k: every[:, None, None, : root.slopes[k].shape[2]].expand(-1, 2, -1, -1) for k in again})

    def params(self) -> Params:
        return [self.output, *self.neurons.values()]

    def with_params(self, params: Sequence[Tensor]) -> Slopes:
        return Slopes(params[0], dict(zip(self.neurons, params[1:], strict=True)))

    def select(self, index: Tensor) -> Slopes:
        return Slopes(self.output[index], {k: v[index] for k, v in self.neurons.items()})

    def double(self) -> Slopes:
        return Slopes(self.output.double(), {k: v.double() for k, v in self.neurons.items()})


def root_domains(root: Root) -> Domains:
    """One unsplit domain a target, nothing known of it yet."""
    count, device = root.rows.coef.shape[0], root.device
    lower = torch.cat(root.lower) if root.lower else torch.zeros(0, device=device)
    upper = torch.cat(root.upper) if root.upper else torch.zeros(0, device=device)
    layers = zip(root.search.layers, root.lower, root.upper, strict=True)
    first = [layer.relaxation.initial(lo, hi) for layer, lo, hi in layers]
    output = torch.cat(first) if first else torch.zeros(0, device=device)
    valid = root.rows.valid.float()
    return Domains(
        target=torch.arange(count, device=device),
        splits=torch.zeros(count, root.count, dtype=torch.int16, device=device),
        lower=lower.repeat(count, 1),
        upper=upper.repeat(count, 1),
        slopes=output.half().repeat(count, 1),
        weights=valid / valid.sum(1, keepdim=True),
        bound=torch.full((count,), -torch.inf, dtype=torch.float64, device=device),
        candidates=torch.full((count, 0), -1, dtype=torch.int64, device=device),
        settled=torch.zeros(count, dtype=torch.int64, device=device),
    )


def optimise_and_confirm(
    root: Root,
    batch: Batch,
    domains: Domains,
    slopes: Slopes,
    schedule: Schedule,
    threshold: Tensor,
    deadline: Deadline,
    clock: Clock,
) -> Bounds:
    """Climb in float32, then let float64 say what the slopes found are worth."""
    logits = domains.weights.clamp(min=1e-6).log()
    if schedule.steps > 0 and root.count > 0:
        slopes, logits = _optimise(root, batch, slopes, logits, schedule, threshold, deadline)
    began = time.monotonic()
    bounds = confirm(root, batch, domains, slopes, _weights(root, batch.target, logits))
    clock.confirm += time.monotonic() - began
    return bounds


def _optimise(
    root: Root,
    batch: Batch,
    slopes: Slopes,
    logits: Tensor,
    schedule: Schedule,
    threshold: Tensor,
    deadline: Deadline,
) -> tuple[Slopes, Tensor]:
    """Slopes and, for conjunctions, the weights of the rows, all at once."""
    conjunction = root.rows.valid.shape[1] > 1
    count = len(slopes.params())

    def evaluate(params: Params, subset: Tensor | None) -> Tensor:
        part = batch if subset is None else batch.select(subset)
        chosen = slopes.with_params(params[:count])
        free = params[-1] if conjunction else torch.zeros_like(part.target[:, None])
        weights = _weights(root, part.target, free)
        return bound_batch(root.search, root.rows, part, chosen.output, chosen.neurons, weights).bound

    def project(params: Params) -> Params:
        return [*(project_slopes(root.search, p) for p in params[:count]), *params[count:]]

    params = slopes.params() + ([logits] if conjunction else [])
    margin = threshold + SEARCH_MARGIN * (1 + threshold.abs())
    _, best = ascend(evaluate, project, params, schedule, margin.float(), deadline)
    return slopes.with_params(best[:count]), best[-1] if conjunction else logits


def confirm(root: Root, batch: Batch, domains: Domains, slopes: Slopes, weights: Tensor) -> Bounds:
    """The bound and every intermediate bound it rests on, in float64 with rounding charged."""
    widest = max((1 if r is None else 2 * r.shape[1] for r in batch.refresh), default=1)
    fit = rows_that_fit(root.proof.graph, root.proof.graph.output.index, root.device, torch.float64, grad=False)
    chunks = torch.arange(len(domains), device=root.device).split(max(1, fit // widest))
    parts = [
        _confirm(root, batch.select(index), domains.select(index), slopes.select(index), weights[index])
        for index in chunks
    ]
    if len(parts) == 1:
        return parts[0]
    return Bounds(
        concatenate([p.domains for p in parts]),
        *(torch.cat([getattr(p, name) for p in parts]) for name in ("empty", "coef", "point")),
    )


@torch.no_grad()
def _confirm(root: Root, batch: Batch, domains: Domains, slopes: Slopes, weights: Tensor) -> Bounds:
    keep: dict[int, Tensor] = {}
    proof = root.proof
    exact = slopes.double()
    done = bound_batch(proof, root.rows, batch.to(torch.float64), exact.output, exact.neurons, weights.double(), keep)
    lower = torch.cat(done.lower, 1) if done.lower else domains.lower.double()
    upper = torch.cat(done.upper, 1) if done.upper else domains.upper.double()
    empty = (lower > upper).any(1)
    bound = domains.bound.fmax(done.bound)  # what held for the parent holds here; a NaN never wins
    packed = domains.lower.new_zeros(len(domains), root.count)
    for layer in proof.layers:
        if layer.node in keep:  # a layer that the output does not depend on has no coefficient
            packed[:, layer.packed] = keep[layer.node].flatten(1)[:, layer.index].float()
    return Bounds(
        replace(
            domains,
            lower=float32_down(lower),
            upper=float32_up(upper),
            slopes=slopes.output.half(),
            weights=weights.float(),
            bound=torch.where(empty, torch.inf, bound),
            settled=domains.depth,
        ),
        empty,
        packed,
        proof.region.minimiser(done.form.coef[:, 0]).float(),
    )


def _weights(root: Root, target: Tensor, logits: Tensor) -> Tensor:
    """λ on the simplex of each target's own rows."""
    return torch.where(root.rows.valid[target], logits.float(), -torch.inf).softmax(1)


def _batch(root: Root, domains: Domains, refresh: list[Tensor | None]) -> Batch:
    return Batch(
        domains.target,
        [domains.lower[:, layer.packed] for layer in root.search.layers],
        [domains.upper[:, layer.packed] for layer in root.search.layers],
        refresh,
    )
