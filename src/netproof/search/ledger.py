"""What a search has established so far: what is proved of each target, points tried, parts that stay open."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Generic, Protocol

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.bounds.record import NOTHING, Recorder
from netproof.core.batch import P
from netproof.search.evidence import Cover
from netproof.search.goals import Goal, Judge


class Bounded(Protocol):
    """Parts of input sets, as far as what is proved of them goes."""

    @property
    def target(self) -> Tensor: ...  # (part,)

    @property
    def bound(self) -> Tensor: ...  # (part,)


class Tally(Generic[P]):
    """Counts parts of input sets as proved or undecided; what is neither is in the frontier."""

    def __init__(self, goal: Goal, targets: int, device: torch.device) -> None:
        self.goal = goal
        self._cover = Cover(targets)
        self._undecided: list[P] = []
        # By target, the least bound among the parts that were proved.
        self._proved = torch.full((targets,), torch.inf, dtype=torch.float64, device=device)

    @property
    def done(self) -> bool:
        """Say whether the goal holds a witness, after which nothing is searched."""
        return self.goal.witness is not None

    def book(self, target: Tensor, bound: Tensor) -> None:
        """Book what is proved on parts of the targets' sets; target, bound: (n,). It gives them no share yet."""
        self._proved = self._proved.scatter_reduce(0, target, bound, "amin")

    def close(self, parts: P) -> None:
        """Count parts as proved: each with its share of its target's set."""
        self._cover.close(parts.target, parts.level)

    def leave_undecided(self, parts: P) -> None:
        """Keep parts that nothing decides: they must degrade the verdict, and a dropped one is a hole in the proof."""
        if len(parts):
            self._undecided.append(parts)

    @property
    def undecided(self) -> int:
        return sum(map(len, self._undecided))

    @property
    def undecided_parts(self) -> tuple[P, ...]:
        return tuple(self._undecided)

    def proved(self) -> tuple[Fraction, ...]:
        """Return by target the share of its input set that is proved."""
        return self._cover.shares()

    def least(self) -> tuple[float, ...]:
        """Return by target the least bound of its parts that are proved, +inf where none is."""
        return tuple(self._proved.tolist())

    def nothing_is_known(self) -> None:
        self._proved.fill_(-torch.inf)

    def target_bounds(self, still_open: Sequence[Bounded]) -> Tensor:
        """Return by target (target,) the least bound of all its parts; it holds on the whole set."""
        bounds = self._proved
        every: list[Bounded] = [*self._undecided, *still_open]
        for parts in every:  # those that wait on the host are not taken to the device for it
            bounds = bounds.to(parts.target.device).scatter_reduce(0, parts.target, parts.bound, "amin")
        return bounds.cpu()


class Ledger(Tally[Domains]):
    """What a search over neurons has established, shared by its parts."""

    def __init__(self, goal: Goal, targets: int, device: torch.device, recorder: Recorder = NOTHING) -> None:
        super().__init__(goal, targets, device)
        self._root: Root | None = None
        self._judge: Judge | None = None
        self._recorder = recorder

    def under(self, root: Root) -> None:
        """Take note of the root that sub-domains are parts of from now on."""
        self._root, self._judge = root, Judge(root.graph32.graph, root.rows)

    def try_points(self, points: Tensor, target: Tensor) -> None:
        """Offer points (n, *input) to the goal; rows with a NaN are no points. May be done again."""
        real = ~points.flatten(1).isnan().any(1)
        if self._judge is not None and not self.done:
            self.goal.offer(self._judge, points[real], target[real])

    def is_open(self, domains: Domains) -> Tensor:
        """Say which sub-domains are not proved, (domain,) bool."""
        return ~self.goal.proved(domains)

    def settle(self, domains: Domains, by: str = "bound") -> Tensor:
        """Book the sub-domains that are proved; return which are still open, (domain,) bool.

        Where memory runs out it can be done again: nothing was told or counted then.
        """
        still_open = self.is_open(domains)
        done = (~still_open).nonzero()[:, 0]
        keys = self._cover.keys(domains.target[done], domains.level[done])
        self._book(domains, done, by)
        self._cover.add(keys)
        return still_open

    def settle_above(self, domains: Domains) -> Domains:
        """Book the bounds of those that are proved and return them; `drop` books the shares of what is below."""
        done = (~self.is_open(domains)).nonzero()[:, 0]
        self._book(domains, done, "above")
        return domains.select(done)

    def drop(self, domains: Domains) -> None:
        """Book sub-domains as proved that lie within what was proved already; all of them or none."""
        keys = self._cover.keys(domains.target, domains.level)
        self._recorder.closed(self._root, domains, "within")
        self._cover.add(keys)

    def _book(self, domains: Domains, done: Tensor, by: str) -> None:
        told = domains.select(done) if len(done) and self._recorder is not NOTHING else None
        self.book(domains.target[done], domains.bound[done])  # twice is as good as once
        if told is not None:
            self._recorder.closed(self._root, told, by)

    def restart(self, targets: Tensor) -> None:
        """Search these targets (n,) from their whole sets again; what was proved of parts of them is not used."""
        self._recorder.restarted(targets)
        self._cover.restart(targets.tolist())
        self._undecided = [d.select(~torch.isin(d.target, targets.to(d.target.device))) for d in self._undecided]
