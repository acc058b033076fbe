"""The strongest linear bound: slopes, and a multiplier for every split, optimised together.

The bounds of the neurons are the root's, with the splits applied. With multipliers the optimum is that of the triangle
LP on those bounds, splits included, so a conflict between splits shows as a bound that grows without limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.confirm import confirm, confirm_past, mark_empty
from netproof.bounds.domains import Domains
from netproof.bounds.dual import Dual, DualPoint
from netproof.bounds.linear.memory import entries_at_once
from netproof.bounds.neurons.each import Beside, Deepen
from netproof.bounds.neurons.planed import planed
from netproof.bounds.neurons.rebound import rebound
from netproof.bounds.neurons.refine import in_time
from netproof.bounds.neurons.root import Root, build_root, forward_root
from netproof.bounds.record import NOTHING, Recorder
from netproof.bounds.scope import Scope
from netproof.core.deadline import Deadline
from netproof.numerics import with_margin
from netproof.problem.problem import Problem

GRAPH_PARTS = 8  # passes of the graph for all targets together, at most: so often the deadline is looked at


@dataclass(frozen=True)
class Beta(Bounder):
    """α and β together; the neurons' bounds stay the root's, unless the search has them bounded again."""

    root_steps: int = 20
    neuron_steps: int = 20
    steps: int = 5
    rate: float = 0.25
    child_rate: float = 0.1
    rebound: int = 32  # neurons per layer bounded again after many splits
    planes: int = 20  # steps in which planes above the first layer are climbed at tighter roots; 0: there are none

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        cheap, known = forward_root(problem, device, deadline), None
        if cheap is not None and cheap.fits:
            known = self._by_graph(cheap, deadline, clock)
            if known is not None and bool((known.domains.bound > threshold).all()):
                return cheap, known
        root = build_root(problem, device, Schedule(0), deadline, () if cheap is None else cheap.confirmed)
        if root is not None and not root.graph_pays:
            return root, self.whole(root, threshold, deadline, clock)
        first = None if root is None else self._by_graph(root, deadline, clock)
        if root is None or first is None:  # what is known of the cheap one is better than nothing
            return None if cheap is None or known is None else (cheap, known)
        easy = first.domains.bound > threshold
        if bool(easy.all()) or not root.is_ready(deadline) or deadline.expired:
            return root, first
        rest = (~easy).nonzero()[:, 0]
        climb = Climb(Schedule(self.root_steps, self.rate), with_margin(threshold[rest]), deadline)
        hard = self._bound(root, first.domains.select(rest), climb, clock)
        found = Bounds.joined([first.select(easy.nonzero()[:, 0]), hard])
        return root, found.select(found.domains.target.argsort())  # others ask for a target's by its number

    def _by_graph(self, root: Root, deadline: Deadline, clock: Clock) -> Bounds | None:
        """Bound every target with the slopes to start from, by the graph itself; None past the deadline."""
        began, scope, domains = time.monotonic(), root.by_graph(), root_domains(root)
        few = max(-(-len(domains) // GRAPH_PARTS), entries_at_once(root.device) // root.problem.graph.entries)
        found, done = list[Bounds](), 0
        for some in in_time(torch.arange(len(domains), device=root.device), few, deadline):
            part = domains.select(some)
            found.append(confirm(scope, part, DualPoint.of(part)))
            done += len(some)
        clock.confirm += time.monotonic() - began
        return Bounds.joined(found) if done == len(domains) else None

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Bound the whole input set, one domain per target."""
        climb = Climb(Schedule(self.root_steps, self.rate), with_margin(threshold), deadline)
        return self._bound(root, root_domains(root), climb, clock)

    def tighter(
        self,
        root: Root,
        deepen: Deepen | None,
        deadline: Deadline,
        targets: Tensor | None = None,
        recorder: Recorder = NOTHING,
    ) -> Root | None:
        if self.neuron_steps and len(root.graph32.layers) > 1:
            schedule = Schedule(self.neuron_steps, self.rate, planes=self.planes)
            new = build_root(root.problem, root.device, schedule, deadline, root.confirmed, Beside(deepen, recorder))
            return None if new is None else self._planed(new, targets, deadline) or new
        return self._planed(root, targets, deadline) if root.planes is None else None

    def _planed(self, root: Root, targets: Tensor | None, deadline: Deadline) -> Root | None:
        """Return a root with planes of some targets, which are left open without; None where there are none."""
        if self.planes == 0 or root.reads is None or deadline.expired:
            return None
        wanted = root_domains(root) if targets is None else root_domains(root).select(targets)
        proved = with_margin(torch.zeros(len(wanted), device=root.device))
        climb = Climb(Schedule(self.root_steps, self.rate), proved, deadline)
        start = self._bound(root, wanted, climb, Clock()).domains
        return planed(root, start, Schedule(self.planes, self.rate), deadline)

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        return mark_empty(self.bound_part(root, domains, threshold, deadline, clock))

    def rebound_rows(self, root: Root) -> int:
        return 2 * sum(min(self.rebound, layer.count) for layer in root.layers[1:])

    def rebounded(self, root: Root, domains: Domains, deadline: Deadline, clock: Clock) -> Domains:
        return rebound(root, domains, self.rebound, Schedule(self.steps, self.child_rate), deadline, clock.recorder)

    def of_neurons(self) -> Beta:
        return self

    def tightening_cost(self, root: Root) -> int:
        """Return what slopes of their own for all neurons cost, and planes of all targets, in sub-domains."""
        return (root.later * self.neuron_steps + len(root.valid) * self.planes) // max(1, self.steps)

    def bound_part(self, part: Scope, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Bound sub-domains of any scope, as `bound` does those of a root."""
        climb = Climb(Schedule(self.steps, self.child_rate), with_margin(threshold), deadline, domains.bound)
        return self._bound(part, domains, climb, clock, threshold)

    def domains_at_once(self, root: Root) -> int:
        return root.climbs_that_fit()

    @torch.no_grad()
    def _bound(self, scope: Scope, domains: Domains, climb: Climb, clock: Clock, past: Tensor | None = None) -> Bounds:
        """Climb and confirm; past (domain,): the bounds that count; None: any does, to the last bit of float64."""
        theta = DualPoint.of(domains)
        if climb.schedule.steps > 0 and scope.count > 0:
            _, theta = ascend(Dual.of(scope, domains, proof=False), theta, climb)
        began = time.monotonic()
        bounds = confirm(scope, domains, theta) if past is None else confirm_past(scope, domains, theta, past)
        clock.confirm += time.monotonic() - began
        return bounds
