"""A tighter root: first slopes of their own for the neurons, then branch and bound on each, without a MIP solver.

Every unstable neuron's lower and upper bound is a small minimisation over the layers before it. All of a layer's are
searched at once: in each round every neuron whose sign is still open has its worst sub-domains split. The least bound
over a neuron's sub-domains holds for it on the whole input set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.base import Bounder, Clock, NeuronBounder
from netproof.bounds.domains import Domains
from netproof.bounds.net import Net
from netproof.bounds.neurons.each import Deepen
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING
from netproof.bounds.scope import LayerScope, split_on
from netproof.branching.brancher import Brancher
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
from netproof.search.effort import GAIN, PATIENCE, Effort, rounds_for


def tightening_cost(bounder: Bounder, root: Root) -> int | None:
    """Return what the first tighter root costs, in sub-domains; None where there is none to be had."""
    neurons = bounder.of_neurons()
    return None if neurons is None else neurons.tightening_cost(root)


def tighter_root(
    bounder: Bounder,
    brancher: Brancher,
    root: Root,
    effort: Effort,
    deadline: Deadline,
    clock: Clock,
    targets: Tensor | None = None,
) -> Root | None:
    """Return the next root, for the price that was paid; None where there is none that is better.

    targets (n,): those that are open; None: all.
    """
    deepen = _deepen(bounder, brancher, root, effort, deadline, clock)
    return bounder.tighter(root, deepen, deadline, targets, clock.recorder)


def _deepen(
    bounder: Bounder, brancher: Brancher, root: Root, effort: Effort, deadline: Deadline, clock: Clock
) -> Deepen | None:
    """Return the search that branches on neurons; None where none is paid for, or where neurons are not bounded."""
    neurons, paid = bounder.of_neurons(), effort.tightening.branching(root.later)
    if paid is None or neurons is None:
        return None
    probes = effort.probes_due(of_neurons=True)
    return NeuronSearch(neurons, brancher, paid, size_of(root.net32), probes, deadline, clock)


def size_of(net: Net) -> int:
    """Return the numbers that one pass of a network multiplies, roughly."""
    return max(1, net.count * net.rows.shape[-1]) + (0 if net.planes is None else net.planes.work)


@dataclass(frozen=True, eq=False)
class NeuronSearch:
    """Called by the root for each layer in turn, with the bounds of the layers before it as tight as they have got."""

    bounder: NeuronBounder
    brancher: Brancher
    worth: int  # rounds of one sub-domain per neuron, at the cost of the whole network
    whole: int  # the size of that
    probes: int  # neurons tried in each before it is
    deadline: Deadline
    clock: Clock

    def __call__(self, part: LayerScope, domains: Domains) -> Tensor:
        """Return better confirmed bounds, (target,). domains: one per target, unsplit, with a confirmed bound."""
        count = len(domains)
        least = domains.bound.clone()
        stale = torch.zeros(count, device=part.device)
        leaves = self._bound(part, domains)
        shown = _shown(leaves, domains) if self._tells(part) else None
        rounds, width = rounds_for(self.worth, size_of(part.net32) / self.whole)
        for _ in range(rounds):
            if self.deadline.expired:
                break
            open_ = (least <= part.settled) & (stale < PATIENCE)
            picked = _worst(leaves, open_ & self._splittable(leaves, count), part.settled, width)
            if len(picked) == 0:
                break
            chosen = self.brancher.reorder(part, leaves.select(picked), self.probes)
            children = self._in_chunks(part, split_on(part, leaves.select(picked), chosen[:, :1]))
            if children is None:
                break
            rest = torch.ones(len(leaves), dtype=torch.bool, device=part.device)
            rest[picked] = False
            if shown is not None:
                above = picked.repeat_interleave(1 + (chosen[:, 0] >= 0).long())  # of each child
                shown = concatenate([shown.select(rest), _shown(children, shown.select(above))])
            leaves = concatenate([leaves.select(rest), children])
            now = torch.full_like(least, torch.inf).scatter_reduce(0, leaves.target, leaves.bound, "amin")
            now = least.maximum(now)
            stale = torch.where(now > least + GAIN * least.abs(), torch.zeros_like(stale), stale + 1)
            least = now
        if shown is not None and part.sides is not None:
            gained = least > domains.bound
            self.clock.recorder.branched(part.sides, least, shown.select(gained[shown.target]))
        return least

    def _tells(self, part: LayerScope) -> bool:
        return self.clock.recorder is not NOTHING and part.sides is not None

    def _bound(self, part: LayerScope, domains: Domains) -> Domains:
        threshold = part.settled[domains.target]
        bounds = self.bounder.bound_part(part, domains, threshold, self.deadline, self.clock)
        return replace(bounds.domains, candidates=self.brancher.choose(part, bounds, max(1, self.probes)))

    def _in_chunks(self, part: LayerScope, domains: Domains) -> Domains | None:
        """Bound sub-domains, as many at a time as fit; None where the deadline comes first."""
        size, found = part.net32.climbs_that_fit(), []
        for piece in torch.arange(len(domains), device=part.device).split(size):
            if self.deadline.expired:
                return None
            found.append(self._bound(part, domains.select(piece)))
        return concatenate(found)

    @staticmethod
    def _splittable(leaves: Domains, count: int) -> Tensor:
        """Say by target (target,) whether its worst sub-domain has a neuron to split; else its bound cannot rise."""
        worst = torch.full((count,), torch.inf, dtype=torch.float64, device=leaves.bound.device)
        worst.scatter_reduce_(0, leaves.target, leaves.bound, "amin")
        stuck = (leaves.candidates < 0).all(1) & (leaves.bound <= worst[leaves.target])
        return ~torch.zeros(count, dtype=torch.bool, device=stuck.device).index_fill_(0, leaves.target[stuck], True)


def _shown(domains: Domains, above: Domains) -> Domains:
    """Return what the bounds of sub-domains rest on: they themselves, or what is above where its bound is better."""
    own, names = domains.evaluated[:, :1] != 0, ("splits", "lower", "upper", "slopes", "multipliers")
    return replace(domains, **{name: getattr(domains, name).where(own, getattr(above, name)) for name in names})


def _worst(leaves: Domains, wanted: Tensor, settled: Tensor, width: int) -> Tensor:
    """Return the places of the `width` sub-domains with the least bounds of each wanted (target,) that can be split."""
    able = wanted[leaves.target] & (leaves.candidates[:, 0] >= 0) & (leaves.bound <= settled[leaves.target])
    able = able.nonzero()[:, 0]
    by_bound = able[leaves.bound[able].sort(stable=True).indices]
    order = by_bound[leaves.target[by_bound].sort(stable=True).indices]
    target = leaves.target[order]
    first = torch.searchsorted(target, target)  # where each target's own begin
    rank = torch.arange(len(order), device=order.device) - first
    return order[rank < width]
