"""Optimised LiRPA, the bounder of the paper: slopes fixed, or chosen by gradient and then confirmed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.domains import Domains
from netproof.bounds.graph.ascent import Params, Schedule, ascend
from netproof.bounds.graph.batch import Batch, bound_batch
from netproof.bounds.graph.confirm import confirm
from netproof.bounds.graph.slopes import Slopes
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.neurons.affected import refresh_rows
from netproof.bounds.neurons.root import Root, build_root
from netproof.core.deadline import Deadline
from netproof.numerics import SEARCH_MARGIN
from netproof.problem.problem import Problem


@dataclass(frozen=True)
class Lirpa(Bounder):
    """Optimised LiRPA: slopes by gradient, jointly through the intermediate bounds that a split moves."""

    root_steps: int = 100
    neuron_steps: int = 20
    steps: int = 10
    rebound: int = 16
    rate: float = 0.25
    child_rate: float = 0.1

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        # Cheap first: where fixed slopes for the neurons suffice, nothing else is computed.
        quick = build_root(problem, device, Schedule(0), deadline)
        if quick is None:
            return None
        bounds = self.whole(quick, threshold, deadline, clock)
        proved = bool((bounds.domains.bound > threshold).all())
        if proved or self.neuron_steps == 0 or len(quick.graph32.layers) < 2:
            return quick, bounds
        root = build_root(problem, device, Schedule(self.neuron_steps, self.rate), deadline, quick)
        if root is None:
            return quick, bounds
        return root, self.whole(root, threshold, deadline, clock)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        batch = _batch(root, domains, refresh_rows(root, domains, self.rebound))
        start = Slopes.of_children(root, domains, batch) if self.steps else Slopes.fixed(root, domains, batch)
        schedule = Schedule(self.steps, self.child_rate)
        return optimise_and_confirm(root, batch, domains, start, schedule, threshold, deadline, clock)

    def domains_at_once(self, root: Root) -> int:
        graph = root.graph32.graph
        rows = rows_that_fit(graph, graph.output.index, root.device, torch.float32, grad=True)
        return max(1, rows // (1 + 2 * self.rebound))

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        domains, schedule = root_domains(root), Schedule(self.root_steps, self.rate)
        batch = _batch(root, domains, [None] * len(root.graph32.layers))
        start = Slopes(domains.slopes.float(), {})
        return optimise_and_confirm(root, batch, domains, start, schedule, threshold, deadline, clock)


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
    bounds = confirm(root, batch, domains, slopes, _weights(root, batch.target, logits), deadline)
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
        return bound_batch(root.graph32, root.rows, part, chosen.output, chosen.neurons, weights).bound

    def project(params: Params) -> Params:
        return [*(p.clamp(0.0, 1.0) for p in params[:count]), *params[count:]]

    params = slopes.params() + ([logits] if conjunction else [])
    margin = threshold + SEARCH_MARGIN * (1 + threshold.abs())
    _, best = ascend(evaluate, project, params, schedule, margin.float(), deadline)
    return slopes.with_params(best[:count]), best[-1] if conjunction else logits


def _weights(root: Root, target: Tensor, logits: Tensor) -> Tensor:
    """λ on the simplex of each target's own rows."""
    return torch.where(root.rows.valid[target], logits.float(), -torch.inf).softmax(1)


def _batch(root: Root, domains: Domains, refresh: list[Tensor | None]) -> Batch:
    return Batch(
        domains.target,
        [domains.lower[:, layer.packed] for layer in root.graph32.layers],
        [domains.upper[:, layer.packed] for layer in root.graph32.layers],
        refresh,
    )
