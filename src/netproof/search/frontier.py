"""The set of unverified sub-domains (𝒫 of the paper): tensors on the device that grow in place.

Where the device has no room for more, the sub-domains with the best bounds wait in the host's memory
(`search/waiting/`). Memory that runs out on the way loses nothing: what was to be moved stays where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic

import torch
from torch import Tensor

from netproof.bounds.linear.memory import attempted, pieces, with_less
from netproof.core.batch import P, concatenate
from netproof.core.machine.allowance import allowance
from netproof.errors import OutOfMemory
from netproof.search.waiting.host import AsTheyAre, OnHost, Part, Storage, Summary

SMALLEST = 64  # rows of the first store
SPILLS = 16  # one in so many of the sub-domains that the device may hold goes to the host at a time, at least
DEEPEST = 65536.0  # more than any sub-domain's depth


class Frontier(Generic[P]):
    """Worst bound first; bounds in the same step of `grain` count as equal, and the most urgent of those goes first.

    A grain of 0 takes those alone that are equal; without one, any of these goes first.

    `room`: how many sub-domains the device may hold; None: as many as there are. They are held as `pack` makes them,
    and `unpack` gives back what it left out. `may_wait` says whether so many bytes may wait on the host.
    """

    def __init__(
        self,
        domains: P,
        room: int | None = None,
        grain: float | None = None,
        pack: Callable[[P], P] = lambda domains: domains,
        unpack: Callable[[P], P] = lambda domains: domains,
        storage: Storage[P] | None = None,
        may_wait: Callable[[int], bool] = lambda held: True,
    ) -> None:
        self._pack, self._unpack = pack, unpack
        self._store = pack(domains).map(torch.clone)  # it is written to, the caller's is not
        self._count = len(domains)
        self._room, self._grain = room, grain
        self._device = domains.bound.device
        # On the host, each at least as good as what is on the device was.
        self._host = OnHost(AsTheyAre(self._device) if storage is None else storage, self._device, may_wait)

    def __len__(self) -> int:
        return self._count + self.waiting

    @property
    def waiting(self) -> int:
        """Count the sub-domains in the host's memory."""
        return len(self._host)

    @property
    def bytes_waiting(self) -> int:
        """Return what they take."""
        return self._host.bytes

    @property
    def crowded(self) -> bool:
        """Say whether the host holds more than it may, however coarse."""
        return self._host.crowded

    @property
    def domains(self) -> P:
        """Return those on the device; a view, so to be read before the next change."""
        return self._store.map(lambda t: t[: self._count])

    def summaries(self) -> list[Summary]:
        """Return the targets and bounds of all of them, wherever they are; of those that wait, by target."""
        here = self.domains
        return [Summary(here.target, here.bound), *(part.summary for part in self._host.parts)]

    def everything(self) -> Iterator[P]:
        """Yield all of them as they are searched, on the device, part by part."""
        yield self.domains
        yield from self._host.everything()

    @property
    def lower_bound(self) -> float:
        """Return the least bound of any sub-domain; +inf when there is none."""
        here = [with_less(lambda: float(self.domains.bound.min()), self._device)] if self._count else []
        return min([*here, *(part.least for part in self._host.parts)], default=float("inf"))

    def push(self, domains: P) -> None:
        """Add sub-domains; where the device is full others make room, and so do these themselves."""
        if len(domains) == 0:
            return
        domains = with_less(lambda: self._pack(domains), self._device)
        while attempted(lambda: self._push(domains), self._device) is None:
            if self._count == 0:
                self._host.add(with_less(lambda: self._host.kept(domains), self._device))
                return
            self._room = max(1, self._count // 2)
            self._spill()
        if self._room is not None and self._count > self._room:
            self._spill()

    def _push(self, domains: P) -> int:
        """Add sub-domains to the store; return how many it has."""
        added = len(domains)
        if self._count == 0:
            self._store, self._count = domains.map(torch.clone), added  # it is written to, the caller's is not
            return added
        if self._count + added > len(self._store):
            self._grow(max(2 * self._count, self._count + added, SMALLEST))
        for old, new in zip(self._store.tensors(), domains.tensors(), strict=True):
            old[self._count : self._count + added] = new
        self._count += added
        return self._count

    def pop(self, n: int, *, best: bool = False) -> P:
        """Remove and return the n sub-domains with the least bounds; with `best`, those nearest to a proof.

        Fewer, where the memory of the device is too small for so many.
        """
        while True:
            found = attempted(partial(self._pop, n, best=best), self._device)
            if found is not None:
                return found
            if n <= 1 and not allowance().halve():
                raise OutOfMemory
            n = max(1, n // 2)

    def _pop(self, n: int, *, best: bool) -> P:
        nearest = best and self._room is not None and self._count <= self._room  # they wait, the others are here
        if self.waiting and (nearest or self._count < n):
            self._fetch(n - self._count, best=best)
        n = min(n, self._count)
        if n == self._count:
            taken = self._unpack(self.domains)
            self._store, self._count = self._store.select(slice(0, 0)), 0
            return taken
        index = self._order(n, best=best)
        taken = self._unpack(self._store.select(index))
        self._remove(index)
        return taken

    def _order(self, n: int, *, best: bool) -> Tensor:
        """Return the places of the n on the device that go first, in any order."""
        bound, urgency = self._store.bound[: self._count], self._store.urgency[: self._count]
        if self._grain is None:
            return bound.topk(n, largest=best, sorted=False).indices
        if self._grain:
            key = (bound / self._grain).floor() * DEEPEST - urgency
            return key.topk(n, largest=best, sorted=False).indices
        urgent = urgency.argsort(descending=True, stable=True)
        return urgent[bound[urgent].argsort(descending=best, stable=True)[:n]]

    def take_out(self, which: Callable[[P], Tensor]) -> list[P]:
        """Remove every sub-domain that `which` names by a mask (domain,), wherever it is, and return them."""

        def taken() -> list[P]:
            here = which(self.domains)
            gone, left = self._host.without(which)
            gone = [self.domains.select(here), *gone]
            self._keep(~here)  # the last that memory may be too small for
            self._host.leave(left)
            return gone

        return with_less(taken, self._device)

    def keep(self, mask: Tensor) -> None:
        """Keep those on the device where the mask (domain,) holds."""
        with_less(lambda: self._keep(mask), self._device)

    def _keep(self, mask: Tensor) -> None:
        drop = (~mask).nonzero()[:, 0]
        if len(drop):
            self._remove(drop)

    def discard(self) -> None:
        """Let go of everything, in a thread: to free tens of gigabytes of host memory takes seconds."""
        held = [*self._store.tensors(), *(t for part in self._host.parts for t in part.held.tensors())]
        tensors = [t for t in held if not t.is_cuda]
        del held
        self._host.leave([])
        self._store, self._count = with_less(lambda: self._store.map(lambda t: t[:0].clone()), self._device), 0

        def free() -> None:
            while tensors:
                tensors.pop()

        if tensors:
            # Not a daemon: one that still frees memory while the interpreter shuts down crashes the process.
            threading.Thread(target=free, name="frontier (free)").start()

    def _grow(self, capacity: int) -> None:
        room = capacity - self._count
        self._store = self.domains.map(lambda t: torch.cat([t, t.new_empty(room, *t.shape[1:])]))

    def _remove(self, index: Tensor) -> None:
        """Fill the places `index` (n,), all distinct, with the last sub-domains.

        All memory that this takes is there before anything is written: what stops in the middle would lose some.
        """
        left = self._count - len(index)
        gone = torch.zeros(self._count, dtype=torch.bool, device=index.device)
        gone[index] = True
        holes, movers = gone[:left].nonzero()[:, 0], (~gone[left:]).nonzero()[:, 0] + left
        cut = pieces(len(holes), self._store.bytes_each, self._device)
        rooms = self._rooms(max((len(holes[piece]) for piece in cut), default=0))
        for piece in cut:
            to, by = holes[piece], movers[piece]
            for t, room in zip(self._store.tensors(), rooms, strict=True):
                t.index_copy_(0, to, torch.index_select(t, 0, by, out=room[: len(by)]))
        self._count = left

    def _rooms(self, rows: int) -> list[Tensor]:
        """Return room for so many sub-domains on their way from one place to another."""
        return [t.new_empty(rows, *t.shape[1:]) for t in self._store.tensors()]

    def _spill(self) -> None:
        """Move the best to the host: what is too many, or a little more, so that few rounds wait for a copy."""
        room = self._room or 0

        def moved() -> list[Part]:
            many = min(self._count, max(self._count - room, room // SPILLS, 1))
            index = self._store.bound[: self._count].topk(many, sorted=False).indices
            parts = [
                part
                for piece in pieces(many, self._store.bytes_each, self._device)
                for part in self._host.kept(self._store.select(index[piece]))
            ]
            self._remove(index)  # the last that memory may be too small for
            return parts

        self._host.add(with_less(moved, self._device))

    def _fetch(self, wanted: int, *, best: bool) -> None:
        """Move waiting parts back to the device until there are as many more as wanted."""
        back, left = self._host.nearest(wanted, best=best)
        joined = concatenate([self.domains, *back])
        self._host.leave(left)
        self._store, self._count = joined, len(joined)
