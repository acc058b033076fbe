"""Splits that are tried before one is taken: both children bounded by their LPs, as the search itself would bound them.

The search bounds the children of the split that was taken as those of any other. They are known by then, so that no LP
is solved twice, and all that it costs to be told so is that the bounder remembers them for a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains, names_of
from netproof.bounds.neurons.root import Root
from netproof.bounds.scope import split_on
from netproof.core.deadline import Deadline
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Trial:
    """The two children of a split, bounded, and the share of what their parent misses to a proof that they gain."""

    neuron: int
    children: Bounds
    gain: float  # the mean of both, in [0, 1]


@dataclass(eq=False)
class _Run:
    """How a root's sub-domains are bounded, as the search last said, and the children of splits that were taken."""

    threshold: Tensor  # (target,)
    deadline: Deadline
    clock: Clock
    children: dict[bytes, Bounds] = field(default_factory=dict)  # each alone


@dataclass(frozen=True)
class TryingLP(BabsrLP):
    """`BabsrLP`, which a branching rule may ask what a split would be worth."""

    keeps_duals: bool = True
    _runs: WeakKeyDictionary[Root, _Run] = field(default_factory=WeakKeyDictionary, repr=False, compare=False)

    def root(
        self, problem: Problem, threshold: Tensor, device: torch.device, deadline: Deadline, clock: Clock
    ) -> tuple[Root, Bounds] | None:
        found = super().root(problem, threshold, device, deadline, clock)
        if found is not None:
            self._runs[found[0]] = _Run(threshold.clone(), deadline, clock)
        return found

    def bound(self, root: Root, domains: Domains, threshold: Tensor, deadline: Deadline, clock: Clock) -> Bounds:
        run = self._runs.get(root)
        names = names_of(domains)
        if run is not None:
            run.threshold[domains.target] = threshold
        if run is None or not all(name in run.children for name in names):
            return super().bound(root, domains, threshold, deadline, clock)
        self.forget_parents(root, domains)
        return Bounds.joined([run.children.pop(name) for name in names])

    def attempt(self, root: Root, domain: Domains, neuron: int) -> Trial | None:
        """Bound the children of one sub-domain, split on a neuron; None where no search has begun under this root."""
        run = self._runs.get(root)
        if run is None:
            return None
        parts = split_on(root, domain, domain.target.new_tensor([[neuron]]))
        threshold = run.threshold[parts.target]
        bounds = self.bound_children(root, parts, threshold, run.deadline, run.clock)
        return Trial(neuron, bounds, mean_gain(bounds.domains.bound, domain.bound, threshold))

    def take(self, root: Root, trial: Trial) -> None:
        """Remember the children of a split that is to be taken, until they come to be bounded."""
        run = self._runs[root]
        for i, name in enumerate(names_of(trial.children.domains)):
            run.children[name] = trial.children.select(torch.tensor([i], device=root.device))

    def reject(self, root: Root, trial: Trial) -> None:
        """Let go of the children of a split that is not to be taken."""
        self.forget(root, trial.children.domains)

    def forget_taken(self, root: Root) -> None:
        """Forget children that never came to be bounded, of rounds that are over."""
        if root in self._runs:
            self._runs[root].children.clear()


def mean_gain(children: Tensor, parent: Tensor, threshold: Tensor) -> float:
    """Return the mean share in [0, 1] that children (n,) gain of what a parent (1,) misses to the threshold (n,).

    That is (min(child, 0) − parent) / −parent for a threshold of 0, as Lu and Kumar have it.
    """
    missing = threshold - parent
    left = (threshold - children).clamp(min=0.0)
    return float((1.0 - left / missing).nan_to_num(nan=0.0).clamp(0.0, 1.0).mean())
