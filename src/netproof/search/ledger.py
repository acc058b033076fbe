"""What a search has established so far: what is proved of each target, points tried, leaves that stay open."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.search.evidence import Cover
from netproof.search.goals import Goal, Judge


class Ledger:
    """Shared by the parts of one search."""

    def __init__(self, goal: Goal, targets: int, device: torch.device, recorder: Recorder = NOTHING) -> None:
        self.goal = goal
        self._root: Root | None = None
        self._judge: Judge | None = None
        self._recorder = recorder
        self._cover = Cover(targets)
        self._undecided: list[Domains] = []  # leaves that not even the LP could settle
        # By target, the least bound among the sub-domains that were proved.
        self._proved = torch.full((targets,), torch.inf, dtype=torch.float64, device=device)

    def under(self, root: Root) -> None:
        """Take note of the root that sub-domains are parts of from now on."""
        self._root, self._judge = root, Judge(root.graph32.graph, root.rows)

    @property
    def undecided(self) -> int:
        return sum(len(d) for d in self._undecided)

    @property
    def done(self) -> bool:
        """Say whether the goal holds a witness, after which nothing is searched."""
        return self.goal.witness is not None

    def try_points(self, points: Tensor, target: Tensor) -> None:
        """Offer points (n, *input) to the goal; rows with a NaN are no points."""
        real = ~points.flatten(1).isnan().any(1)
        if self._judge is not None and not self.done:
            self.goal.offer(self._judge, points[real], target[real])

    def is_open(self, domains: Domains) -> Tensor:
        """Say which sub-domains are not proved, (domain,) bool."""
        return ~self.goal.proved(domains)

    def settle(self, domains: Domains, by: str = "bound") -> Tensor:
        """Book the sub-domains that are proved; return which are still open, (domain,) bool."""
        still_open = self.is_open(domains)
        done = (~still_open).nonzero()[:, 0]
        self._book(domains, done, by)
        self._cover.close(domains.target[done], domains.level[done])
        return still_open

    def settle_above(self, domains: Domains) -> Domains:
        """Book the bounds of those that are proved and return them; `drop` books the shares of what is below."""
        done = (~self.is_open(domains)).nonzero()[:, 0]
        self._book(domains, done, "above")
        return domains.select(done)

    def drop(self, domains: Domains) -> None:
        """Book sub-domains as proved that lie within what was proved already."""
        self._recorder.closed(self._root, domains, "within")
        self._cover.close(domains.target, domains.level)

    def _book(self, domains: Domains, done: Tensor, by: str) -> None:
        if len(done) and self._recorder is not NOTHING:
            self._recorder.closed(self._root, domains.select(done), by)
        self._proved = self._proved.scatter_reduce(0, domains.target[done], domains.bound[done], "amin")

    def restart(self, targets: Tensor) -> None:
        """Search these targets (n,) from their whole sets again; what was proved of parts of them is not used."""
        self._recorder.restarted(targets)
        self._cover.restart(targets.tolist())
        self._undecided = [d.select(~torch.isin(d.target, targets.to(d.target.device))) for d in self._undecided]

    def proved(self) -> tuple[Fraction, ...]:
        """Return by target the share of its input set that is proved."""
        return self._cover.shares()

    def leave_undecided(self, domains: Domains) -> None:
        """Keep undecided leaves: they must degrade the verdict, and a dropped one is a silent hole in the proof."""
        if len(domains):
            self._undecided.append(domains)

    def nothing_is_known(self) -> None:
        self._proved.fill_(-torch.inf)

    def target_bounds(self, still_open: Sequence[Domains]) -> Tensor:
        """Return by target (target,) the least bound of all its sub-domains; it holds on the whole set."""
        bounds = self._proved
        for domains in (*self._undecided, *still_open):
            device = bounds.device
            bounds = bounds.scatter_reduce(0, domains.target.to(device), domains.bound.to(device), "amin")
        return bounds.cpu()
