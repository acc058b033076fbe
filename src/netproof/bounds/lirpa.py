"""Optimised LiRPA, the bounder of the paper: slopes fixed, or chosen by gradient and then confirmed.

Each unstable neuron of a sub-domain has one slope, which every bound uses that it enters: the output's, and those of
the neurons behind it, which are optimised jointly (the text after equation (7), section 3.1). In the authors' released
code each layer's bounds have slopes for themselves, which only the root optimises, and a neuron that a split holds on
one side keeps a free slope.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.ascent import Climb, Schedule, ascend
from netproof.bounds.base import Bounder, Bounds, Clock, root_domains
from netproof.bounds.confirm import confirm, mark_empty
from netproof.bounds.domains import Domains
from netproof.bounds.dual import DualPoint
from netproof.bounds.joint import Joint
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.linear.memory import attempted, more_than_a_pass
from netproof.bounds.neurons.affected import later_neurons, moved_neurons, some_of
from netproof.bounds.neurons.root import Root, SlopeRule, build_root
from netproof.bounds.neurons.transfer import intervals_with, moved_slopes, repack
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.numerics import with_margin
from netproof.problem.problem import Problem

Slopes = Mapping[int, Tensor]  # by layer (domain, 2 or 1, K or 1, U'): of neurons' bounds
Rebound = Mapping[int, Tensor]  # by layer (domain, K): its neurons that are bounded again, U_k where there is none


@dataclass(frozen=True)
class Lirpa(Bounder):
    """Optimised LiRPA: slopes by gradient, jointly through the intermediate bounds that a split moves."""

    root_steps: int = 100
    neuron_steps: int = 20  # with slopes of their own, of the neurons at the root
    steps: int = 10
    rebound: int | None = None  # neurons per layer bounded again after a split; None: all that it moves
    ranked: bool = False  # only those of them that branching ranked highest
    own_slopes: bool = False  # whether each neuron's bounds have slopes of their own
    layer_slopes: bool = False  # whether each layer's bounds have slopes of their own, which its neurons share
    free_splits: bool = False  # whether lower lines keep their slopes where a split holds h on one side
    fresh: bool = False  # whether neurons' bounds rest on those that the same pass found of the layers before
    joint: bool = True  # below the root, whether slopes are optimised through the neurons' bounds, not after them
    parallel: bool = True  # whether slopes start parallel to the upper lines, or as CROWN has them
    rate: float = 0.1
    child_rate: float = 0.1
    root_gain: float | None = None  # of |bound| that a few steps at the root must gain; None: all steps are taken
    gain: float | None = 0.0  # the same below it

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        first = self._built(problem, device, Schedule(0), deadline)
        if first is None:
            return None
        climbed = self._whole(first, threshold, deadline, clock)
        bounds = climbed.bounds
        proved = bool((bounds.domains.bound > threshold).all())
        if proved or len(first.layers) < 2:
            return first, bounds
        tighter = None
        if self.own_slopes:
            tighter = self._neuron_by_neuron(first, threshold, deadline, clock)
        elif self.root_steps:
            tighter = self._taken_over(first, climbed, deadline)
        return tighter or (first, bounds)

    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        return self._whole(root, threshold, deadline, clock).bounds

    def _built(
        self,
        problem: Problem,
        device: torch.device,
        schedule: Schedule,
        deadline: Deadline,
        earlier: Sequence[Intervals] = (),
    ) -> Root | None:
        slopes = SlopeRule(self.parallel, self.free_splits)
        return build_root(problem, device, schedule, deadline, earlier, slopes=slopes)

    def _whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> _Climbed:
        """Bound the whole input set, jointly with all neurons behind the first layer unless each has own slopes."""
        climb = Climb(Schedule(self.root_steps, self.rate, gain=self.root_gain), with_margin(threshold), deadline)
        domains = root_domains(root)
        most = 0 if self.own_slopes or self.root_steps == 0 else _most_again(root)

        def bounded() -> _Climbed:
            moved = later_neurons(root, domains, most) if most else {}
            shared = {k: domains.slopes[:, None, None, : root.layers[k].start] for k in moved}
            return self._climbed(root, domains, moved, shared if self.layer_slopes else {}, climb, clock)

        while most:
            found = attempted(bounded, root.device)
            if found is not None:
                return found
            most //= 2
        return bounded()

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        most = _most_again(root) if self.rebound is None else self.rebound
        moved = moved_neurons(root, domains, most, ranked=self.ranked)
        if not self.joint:
            domains, moved = self._bounded_once(root, domains, moved, deadline, clock), {}
        climb = Climb(Schedule(self.steps, self.child_rate, gain=self.gain), with_margin(threshold), deadline)
        return self._climbed(root, domains, moved, self._neurons(root, domains, moved), climb, clock).bounds

    def domains_at_once(self, root: Root) -> int:
        return root.net32.climbs_that_fit()  # those with neurons to bound again are taken in smaller parts

    def _climbed(
        self, root: Root, domains: Domains, moved: Rebound, neurons: Slopes, climb: Climb, clock: Clock
    ) -> _Climbed:
        """Bound sub-domains with the neurons that are to be bounded again, as many at once as fit."""
        climbed, places = [], _parts(root, moved) if moved else [torch.arange(len(domains), device=root.device)]
        for index in places:
            some, mine = domains.select(index), some_of(moved, index, root.layers)
            theta = self._start(root, some, _of_part(neurons, mine, index), climb.schedule.steps)
            limits = climb._replace(threshold=climb.threshold[index])
            climbed.append(optimise_and_confirm(root, some, mine, theta, limits, clock, fresh=self.fresh))
        bounds = Bounds.joined([one.bounds for one in climbed]).select(torch.cat(places).argsort())
        return replace(min(climbed, key=_least), bounds=bounds)

    def _bounded_once(self, root: Root, domains: Domains, moved: Rebound, deadline: Deadline, clock: Clock) -> Domains:
        """Bound neurons again by the slopes that are there, without optimising; as many sub-domains at once as fit."""
        if not moved:
            return domains
        began, neurons = time.monotonic(), self._neurons(root, domains, moved)
        bounded, places = [], _parts(root, moved)
        for index in places:
            some, mine = domains.select(index), some_of(moved, index, root.layers)
            theta = DualPoint(some.slopes, None, some.weights, _of_part(neurons, mine, index))
            try:
                again = with_neurons(root, some, mine, theta, clock, deadline, fresh=self.fresh) if mine else some
            except DeadlineExpired:  # what is known of the neurons holds without a new bound, too
                again = some
            bounded.append(again)
        clock.confirm += time.monotonic() - began
        return concatenate(bounded).select(torch.cat(places).argsort())

    def _neurons(self, root: Root, domains: Domains, moved: Rebound) -> Slopes:
        """Return the slopes of neurons' bounds where they are not those of the output's: the root's.

        They are good wherever a neuron is unstable.
        """
        neurons = {}
        for depth, which in moved.items() if self.own_slopes or self.layer_slopes else ():
            own = root.slopes[depth].float()  # (2, U_k or 1, U')
            if self.layer_slopes:
                neurons[depth] = own[:1, :1].expand(len(domains), 1, 1, -1)
            else:
                neurons[depth] = own[:, which.clamp(max=own.shape[1] - 1)].transpose(0, 1)
        return neurons

    def _start(self, root: Root, domains: Domains, neurons: Slopes, steps: int) -> DualPoint:
        """Return the parent's slopes; where nothing is optimised, the first choice for the bounds at hand."""
        if steps == 0:
            slopes = initial_slopes(root.layers, domains.lower, domains.upper, parallel=root.parallel)
            return DualPoint(slopes, None, domains.weights)
        return DualPoint(domains.slopes, None, domains.weights, neurons)

    def _neuron_by_neuron(
        self, first: Root, threshold: Tensor, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        """Make every neuron as tight as slopes of its own get it, layer by layer; None when there was no time."""
        if self.neuron_steps == 0:
            return None
        schedule = Schedule(self.neuron_steps, self.rate)
        root = self._built(first.problem, first.device, schedule, deadline, first.confirmed)
        return None if root is None else (root, self.whole(root, threshold, deadline, clock))

    def _taken_over(self, first: Root, climbed: _Climbed, deadline: Deadline) -> tuple[Root, Bounds] | None:
        """Make a root of what the joint optimisation found of the neurons, and bound by the same slopes under it.

        None when there was no time, or where targets have sets of their own, of which each bound speaks alone.
        """
        if first.own is not None:
            return None
        # No decision was taken yet, so what one target's slopes say of a neuron holds for all.
        domains = climbed.bounds.domains
        tight = intervals_with(first, domains.lower.amax(0), domains.upper.amin(0))
        root = self._built(first.problem, first.device, Schedule(0), deadline, (tight,))
        if root is None:
            return None
        for depth, slopes in moved_slopes(climbed.neurons, first, root).items():
            root.slopes[depth] = slopes.expand(2, 1, -1)
        domains, _ = repack(domains, first, root)
        return root, mark_empty(confirm(root, domains, DualPoint.of(domains)))


@dataclass(frozen=True, eq=False)
class _Climbed:
    """What was found of sub-domains, and by which slopes of the neurons' bounds where the least one is."""

    bounds: Bounds
    neurons: Slopes  # by layer (1, K or 1, U'), only where they are not the output's


def _of_part(neurons: Slopes, moved: Rebound, index: Tensor) -> Slopes:
    """Return the slopes of the neurons that some sub-domains (n,) bound again, as `some_of` gives them."""
    return {depth: neurons[depth][index, :, : which.shape[1]] for depth, which in moved.items() if depth in neurons}


def _least(climbed: _Climbed) -> float:
    return float(climbed.bounds.domains.bound.min())


# As tight as slopes alone get the root, in fewer steps: what netproof found better.
TIGHT = Lirpa(own_slopes=True, parallel=False, rate=0.25, root_gain=1e-3, rebound=16, ranked=True, gain=1e-3)
# CROWN: slopes as they are first chosen, one pass per bound.
CROWN = replace(TIGHT, root_steps=0, neuron_steps=0, steps=0)


def _most_again(root: Root) -> int:
    """Return how many neurons per layer of one sub-domain may be bounded again together, for the memory there is."""
    return max(1, more_than_a_pass(root.device, root.net32.climbs_that_fit()) // (2 * max(1, len(root.layers))))


def _parts(root: Root, moved: Rebound) -> list[Tensor]:
    """Return the places of sub-domains to be bounded together: those with nothing to bound again apart."""
    counts = torch.stack([(which < root.layers[k].count).sum(1) for k, which in moved.items()]).sum(0)
    order = counts.argsort(descending=True, stable=True)
    some = int((counts > 0).sum())
    parts, fits, begin = [], root.net32.climbs_that_fit(), 0
    sizes = counts[order].tolist()
    while begin < some:
        end = min(some, begin + max(1, fits // (1 + 2 * sizes[begin])))
        parts.append(order[begin:end])
        begin = end
    return parts if some == len(order) else [*parts, order[some:]]


def optimise_and_confirm(
    root: Root,
    domains: Domains,
    rebound: Rebound,
    theta: DualPoint,
    climb: Climb,
    clock: Clock,
    *,
    fresh: bool = False,
) -> _Climbed:
    """Climb in float32, then let float64 say what the slopes found are worth."""
    if climb.schedule.steps > 0 and root.count > 0:
        joint = Joint.of(root, domains, rebound, proof=False, deadline=climb.deadline, fresh=fresh)
        _, theta = ascend(joint, theta, climb)
    began = time.monotonic()
    try:
        bounds = confirm_jointly(root, domains, rebound, theta, clock, climb.deadline, fresh=fresh)
    except DeadlineExpired:  # what is known of the neurons holds without a new bound, too
        bounds = confirm_jointly(root, domains, {}, replace(theta, neurons={}), clock)
    clock.confirm += time.monotonic() - began
    worst = int(bounds.domains.bound.argmin()) if theta.neurons else 0
    return _Climbed(bounds, {depth: slopes[worst, :1] for depth, slopes in theta.neurons.items()})


@torch.no_grad()
def confirm_jointly(
    root: Root,
    domains: Domains,
    rebound: Rebound,
    theta: DualPoint,
    clock: Clock,
    deadline: Deadline | None = None,
    *,
    fresh: bool = False,
) -> Bounds:
    """Confirm the neurons' bounds, then the bound that rests on them.

    Every sub-domain passes through here, proved or not, so no number in the frontier is a float32 guess: what a child
    inherits from its parent is confirmed already, and an infeasible sub-domain (lower > upper) is empty for certain.
    DeadlineExpired where that came before all neurons were bounded.
    """
    return mark_empty(confirm(root, with_neurons(root, domains, rebound, theta, clock, deadline, fresh=fresh), theta))


@torch.no_grad()
def with_neurons(
    root: Root,
    domains: Domains,
    rebound: Rebound,
    theta: DualPoint,
    clock: Clock,
    deadline: Deadline | None,
    *,
    fresh: bool = False,
) -> Domains:
    """Return sub-domains with confirmed bounds of neurons, rounded to what is kept; DeadlineExpired as above."""
    lower, upper = Joint.of(root, domains, rebound, proof=True, deadline=deadline, fresh=fresh).neurons(theta)
    domains = replace(domains, lower=lower.float(), upper=upper.float())  # as they are: rounded to these already
    for depth, which in rebound.items():
        shared = theta.slopes[:, None, None, : root.layers[depth].start]
        clock.recorder.neurons(root, domains, depth, which, theta.neurons.get(depth, shared), None)
    return domains
