"""Sub-domains that wait, in little memory: what each has of its own, and slopes in steps of 1/255.

A sub-domain differs from its target's whole set in the neurons that were split, and in those bounded again: a few of
thousands. Of these alone decisions, bounds, points and multipliers are kept, exactly. Slopes only say where the climb
of a child begins, so that steps are enough; where memory runs short they are dropped, and the climb begins with those
of the whole set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.linear.memory import pieces
from netproof.bounds.neurons.root import Root

STEPS = 255  # of a slope's range
OWN = ("splits", "lower", "upper", "points", "multipliers")  # what a sub-domain has by neuron, besides slopes
COUNTS = ("evaluated", "candidates", "settled", "rebounded")  # int64 in a search, where they are few
LOOKED_AT = 4  # bytes of a neuron as a sub-domain is compared with its whole set
FEW = 0.5  # share of the neurons up to which it takes less to name them


@dataclass(frozen=True, eq=False)
class Held:
    """Some sub-domains on the host. `K` is the most neurons in which one of them differs; U stands for none."""

    slim: Domains  # on the host, without anything by neuron
    columns: Tensor | None  # (domain, K) int32: the neurons that it has of its own; None: all of them
    own: tuple[Tensor, ...]  # by name in OWN (domain, K), or (domain, U) as the sub-domains have them
    slopes: Tensor | None  # (domain, U) uint8; None: the whole set's

    def __len__(self) -> int:
        return len(self.slim)

    @property
    def target(self) -> Tensor:
        """Return (domain,): what is asked of each."""
        return self.slim.target

    @property
    def bound(self) -> Tensor:
        """Return (domain,): what is proved of each."""
        return self.slim.bound

    @property
    def bytes(self) -> int:
        """Return what all of them take."""
        more = [t for t in (self.columns, *self.own, self.slopes) if t is not None]
        return sum(t.numel() * t.element_size() for t in (*self.slim.tensors(), *more))

    def tensors(self) -> list[Tensor]:
        """Return all that is held."""
        return [t for t in (*self.slim.tensors(), self.columns, *self.own, self.slopes) if t is not None]

    def coarser(self) -> Held:
        """Return the same without slopes."""
        return replace(self, slopes=None)


@dataclass(frozen=True, eq=False)
class Keeper:
    """Puts sub-domains of one root away and brings them back."""

    root: Root
    start: Tensor  # (target, U): the slopes of the whole set
    coarse: bool = False  # whether slopes are left out

    @classmethod
    def of(cls, root: Root, start: Tensor | None = None) -> Keeper:
        """Make that of a root; start (target, U): slopes to begin with where none were kept, None: halves."""
        targets = root.rows.coef.shape[0]
        half = torch.full((1, 1), 0.5, device=root.device)
        return cls(root, half.expand(targets, root.count) if start is None else start)

    @torch.no_grad()
    def put_away(self, domains: Domains) -> Held:
        """Return what is kept of sub-domains, on the host."""
        cut = pieces(len(domains), LOOKED_AT * max(1, self.root.count), self.root.device)
        parts = [self._own(domains.select(piece)) for piece in cut]
        wide = max((columns.shape[1] for columns, _ in parts), default=0)
        slopes = None
        if not self.coarse:
            slopes = torch.cat([_in_steps(domains.slopes[piece]) for piece in cut])
        slim = _slim(domains)
        if wide > FEW * self.root.count:
            return Held(slim, None, tuple(getattr(domains, name).cpu().clone() for name in OWN), slopes)
        pad = torch.nn.functional.pad
        columns = torch.cat([pad(c, (0, wide - c.shape[1]), value=self.root.count).cpu() for c, _ in parts])
        each = zip(OWN, zip(*(values for _, values in parts), strict=True), strict=True)
        bare = () if self.root.points.shape[1] else ("points",)  # where all neurons are split at 0
        own = tuple(torch.cat([_padded(t, 0 if name in bare else wide).cpu() for t in some]) for name, some in each)
        return Held(slim, columns, own, slopes)

    @torch.no_grad()
    def bring_back(self, held: Held) -> Domains:
        """Return the sub-domains on the root's device; their slopes are not those that gave their bounds."""
        device, root = self.root.device, self.root
        slim = held.slim.map(lambda t: t.to(device))
        own = [t.to(device) for t in held.own]
        if held.columns is not None:
            columns, whole = held.columns.to(device).long(), self._whole(slim.target)
            own = [_spread(base, columns, some) for base, some in zip(whole, own, strict=True)]
        slopes = self.start[slim.target] if held.slopes is None else held.slopes.to(device).float() / STEPS
        counts = {name: getattr(slim, name).long() for name in COUNTS}
        counts["evaluated"] = torch.zeros_like(counts["evaluated"])
        back = replace(slim, slopes=slopes, **counts, **dict(zip(OWN, own, strict=True)))
        assert back.splits.shape[1] == root.count
        return back

    def _whole(self, target: Tensor) -> list[Tensor]:
        """Return by name in OWN what the whole sets of targets (n,) have: (n, U), or (n, 0) points."""
        lower, upper = (side.expand(len(target), -1) for side in self.root.bounds_of(target))
        none = torch.zeros_like(lower)
        return [none.to(torch.int16), lower, upper, self.root.points.expand(len(target), -1), none]

    def _own(self, domains: Domains) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the neurons (domain, K) int32 in which each differs from its whole set, and what it has there."""
        mine, whole = [getattr(domains, name) for name in OWN], self._whole(domains.target)
        differs = torch.zeros(domains.splits.shape, dtype=torch.bool, device=domains.splits.device)
        for own, base in zip(mine, whole, strict=True):
            if own.shape[1]:
                differs |= own != base
        count, neurons = differs.sum(1), domains.splits.shape[1]
        owner, column = differs.nonzero(as_tuple=True)
        rank = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[owner]
        wide = int(count.max()) if len(count) else 0
        columns = torch.full((len(domains), wide), neurons, dtype=torch.int64, device=owner.device)
        columns[owner, rank] = column
        at = columns.clamp(max=max(0, neurons - 1))
        return columns.int(), [own.gather(1, at) if own.shape[1] else own for own in mine]


def _in_steps(slopes: Tensor) -> Tensor:
    """Return slopes as they wait, on the host."""
    return (slopes * STEPS).round_().clamp_(0, STEPS).to(torch.uint8).cpu()


def _slim(domains: Domains) -> Domains:
    """Return sub-domains on the host without what they have by neuron, and counts in int32."""
    gone = {name: getattr(domains, name)[:, :0] for name in (*OWN, "slopes")}
    counts = {name: getattr(domains, name).int() for name in COUNTS}
    return replace(domains, **gone, **counts).map(lambda t: t.cpu().clone())


def _padded(values: Tensor, wide: int) -> Tensor:
    """Return values (domain, K') with zeros up to `wide`."""
    return torch.nn.functional.pad(values, (0, wide - values.shape[1]))


def _spread(base: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Return base (domain, U) with values (domain, K) at columns (domain, K), U for none."""
    if base.shape[1] == 0:
        return base.clone()
    wide = torch.nn.functional.pad(base, (0, 1))
    return wide.scatter_(1, columns, values)[:, :-1].contiguous()
