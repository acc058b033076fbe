"""What a search has established so far: bounds by target, points tried, leaves that stay open."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from netproof.problem.domains import Domains
from netproof.search.goals import Goal, Judge


class Ledger:
    """Shared by the parts of one search."""

    def __init__(self, goal: Goal, targets: int, device: torch.device) -> None:
        self.goal = goal
        self.done = False  # the goal was reached: a witness
        self.judge: Judge | None = None  # set when the root is there
        self._undecided: list[Domains] = []  # leaves that not even the LP could settle
        # By target, the least bound among the sub-domains that were proved.
        self._proved = torch.full((targets,), torch.inf, dtype=torch.float64, device=device)

    @property
    def undecided(self) -> int:
        return sum(len(d) for d in self._undecided)

    def try_points(self, points: Tensor, target: Tensor) -> None:
        """Offer points (n, *input) to the goal; rows with a NaN are no points."""
        real = ~points.flatten(1).isnan().any(1)
        if self.judge is not None and self.goal.offer(self.judge, points[real], target[real]):
            self.done = True

    def settle(self, domains: Domains) -> Tensor:
        """Book the sub-domains that are proved; (domain,) bool which they are."""
        proved = self.goal.proved(domains)
        self._proved = self._proved.scatter_reduce(0, domains.target[proved], domains.bound[proved], "amin")
        return proved

    def leave_undecided(self, domains: Domains) -> None:
        """An undecided leaf must degrade the verdict, so it is kept: dropping it would be a silent hole."""
        if len(domains):
            self._undecided.append(domains)

    def nothing_is_known(self) -> None:
        self._proved.fill_(-torch.inf)

    def target_bounds(self, still_open: Sequence[Domains]) -> Tensor:
        """(target,): the least bound of all its sub-domains, proved, open or undecided. It holds on the whole set."""
        bounds = self._proved
        for domains in (*self._undecided, *still_open):
            device = bounds.device
            bounds = bounds.scatter_reduce(0, domains.target.to(device), domains.bound.to(device), "amin")
        return bounds.cpu()
