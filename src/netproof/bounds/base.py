"""What every bounder offers the search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.layers import initial_slopes
from netproof.bounds.neurons.each import Deepen
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.bounds.scope import Scope
from netproof.core.batch import concatenate
from netproof.core.deadline import Deadline
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

    def replaced(self, index: Tensor, other: Bounds) -> Bounds:
        """Return the same with those at `index` (n,) as `other` has them."""
        order = torch.arange(len(self.domains), device=index.device)
        order[index] = len(order) + torch.arange(len(index), device=index.device)
        return Bounds.joined([self, other]).select(order)

    @classmethod
    def joined(cls, parts: Sequence[Bounds]) -> Bounds:
        """Put what was bounded in parts together, in order."""
        domains = concatenate([part.domains for part in parts])
        empty, coef, point = (torch.cat(one) for one in zip(*((p.empty, p.coef, p.point) for p in parts), strict=True))
        return cls(domains, empty, coef, point)


@dataclass
class Clock:
    """What is told of bounding besides what it returns: seconds spent confirming, and where numbers come from."""

    confirm: float = 0.0
    recorder: Recorder = NOTHING


class NeuronBounder(Protocol):
    """What branch and bound on the neurons themselves needs of a bounder."""

    def tightening_cost(self, root: Root) -> int:
        """Return what the first tighter root costs, in sub-domains of the search."""

    def bound_part(self, part: Scope, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Bound sub-domains of any scope, as `Bounder.bound` does those of a root."""


class Bounder(ABC):
    """May be loose, never unsound: every number it returns is confirmed."""

    @abstractmethod
    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        """Bound the whole input set, one domain per target; None when the deadline came first.

        threshold (target,): the bound above which a target is settled.
        """

    @abstractmethod
    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Sub-domains as `split` made them; threshold (domain,): the bound above which one is settled."""

    @abstractmethod
    def whole(self, root: Root, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        """Bound the whole input set under a root that is there already, one domain per target, in their order."""

    def tighter(
        self,
        root: Root,
        deepen: Deepen | None,
        deadline: Deadline,
        targets: Tensor | None = None,
        recorder: Recorder = NOTHING,
    ) -> Root | None:
        """Return a root with better bounds of the neurons, for more time; None where there is none to be had.

        targets (n,): those that it is wanted for; None: all.
        """
        return None

    def of_neurons(self) -> NeuronBounder | None:
        """Return what bounds neurons for `tighter`; None where there is no tighter root."""
        return None

    @abstractmethod
    def domains_at_once(self, root: Root) -> int:
        """Return how many sub-domains `bound` may be given, for the memory there is."""

    def rebound_rows(self, root: Root) -> int:
        """Return how many bounds `rebounded` computes for a sub-domain; 0: it is not to be asked."""
        return 0

    def rebounded(self, root: Root, domains: Domains, deadline: Deadline, clock: Clock) -> Domains:
        """Return sub-domains with the neurons bounded again that matter most to them."""
        return domains


def root_domains(root: Root) -> Domains:
    """Return one unsplit domain per target, nothing known of it yet."""
    target = torch.arange(root.rows.coef.shape[0], device=root.device)
    lower, upper = root.bounds_of(target)
    slopes = root.planed
    if slopes is None:
        slopes = initial_slopes(root.layers, lower, upper, parallel=root.parallel)
    domains = Domains.unsplit(target, lower, upper, root.points, slopes, root.valid)
    return domains if root.own is None else replace(domains, inside=root.own.of(target))
