"""The set of unverified sub-domains (𝒫 of the paper): tensors on the device that grow in place.

Where the device has no room for more, the sub-domains with the best bounds wait in the host's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic

import torch
from torch import Tensor

from netproof.core.batch import P, concatenate

SMALLEST = 64  # rows of the first store
SPILLS = 16  # one in so many of the sub-domains that the device may hold goes to the host at a time, at least
DEEPEST = 65536.0  # more than any sub-domain's depth


class Frontier(Generic[P]):
    """Worst bound first; bounds in the same step of `grain` count as equal, and the most urgent of those goes first.

    `room`: how many sub-domains the device may hold; None: as many as there are. They are held as `pack` makes them,
    and `unpack` gives back what it left out.
    """

    def __init__(
        self,
        domains: P,
        room: int | None = None,
        grain: float = 0.0,
        pack: Callable[[P], P] = lambda domains: domains,
        unpack: Callable[[P], P] = lambda domains: domains,
    ) -> None:
        self._pack, self._unpack = pack, unpack
        self._store = pack(domains).map(torch.clone)  # it is written to, the caller's is not
        self._count = len(domains)
        self._room, self._grain = room, grain
        self._waiting: list[P] = []  # on the host, each at least as good as what is on the device was

    def __len__(self) -> int:
        return self._count + self.waiting

    @property
    def waiting(self) -> int:
        """Count the sub-domains in the host's memory."""
        return sum(map(len, self._waiting))

    @property
    def domains(self) -> P:
        """Return those on the device; a view, so to be read before the next change."""
        return self._store.map(lambda t: t[: self._count])

    def parts(self) -> list[P]:
        """Return all of them, wherever they are."""
        return [self.domains, *self._waiting]

    @property
    def lower_bound(self) -> float:
        """Return the least bound of any sub-domain; +inf when there is none."""
        return min((float(part.bound.min()) for part in self.parts() if len(part)), default=float("inf"))

    def push(self, domains: P) -> None:
        added = len(domains)
        if added == 0:
            return
        domains = self._pack(domains)
        if self._count == 0:
            self._store, self._count = domains.map(torch.clone), added  # it is written to, the caller's is not
            return
        if self._count + added > len(self._store):
            self._grow(max(2 * self._count, self._count + added, SMALLEST))
        for old, new in zip(self._store.tensors(), domains.tensors(), strict=True):
            old[self._count : self._count + added] = new
        self._count += added
        if self._room is not None and self._count > self._room:
            self._spill()

    def pop(self, n: int, *, best: bool = False) -> P:
        """Remove and return the n sub-domains with the least bounds; with `best`, those nearest to a proof."""
        if self._waiting and self._count < n:
            self._fetch()
        n = min(n, self._count)
        if n == self._count:
            taken = self.domains
            self._store, self._count = taken.select(slice(0, 0)), 0
            return self._unpack(taken)
        bound = self._store.bound[: self._count]
        key = bound
        if self._grain:
            key = (bound / self._grain).floor() * DEEPEST - self._store.urgency[: self._count]
        index = key.topk(n, largest=best, sorted=False).indices
        taken = self._store.select(index)
        self._remove(index)
        return self._unpack(taken)

    def take_out(self, which: Callable[[P], Tensor]) -> list[P]:
        """Remove every sub-domain that `which` names by a mask (domain,), wherever it is, and return them."""
        masks = [which(part) for part in self.parts()]
        gone = [part.select(mask) for part, mask in zip(self.parts(), masks, strict=True)]
        left = [part.select(~mask) for part, mask in zip(self._waiting, masks[1:], strict=True)]
        self.keep(~masks[0])
        self._waiting = [part for part in left if len(part)]
        return gone

    def keep(self, mask: Tensor) -> None:
        """Keep those on the device where the mask (domain,) holds."""
        drop = (~mask).nonzero()[:, 0]
        if len(drop):
            self._remove(drop)

    def discard(self) -> None:
        """Let go of everything, in a thread: to free tens of gigabytes of host memory takes seconds."""
        tensors = [t for part in (self._store, *self._waiting) for t in part.tensors() if not t.is_cuda]
        self._waiting, self._store, self._count = [], self._store.map(lambda t: t[:0].clone()), 0

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
        """Fill the places `index` (n,), all distinct, with the last sub-domains."""
        left = self._count - len(index)
        gone = torch.zeros(self._count, dtype=torch.bool, device=index.device)
        gone[index] = True
        holes, movers = gone[:left].nonzero()[:, 0], (~gone[left:]).nonzero()[:, 0] + left
        for t in self._store.tensors():
            t[holes] = t[movers]
        self._count = left

    def _spill(self) -> None:
        """Move the best to the host: what is too many, or a little more, so that few rounds wait for a copy."""
        many = max(self._count - self._room if self._room is not None else 0, (self._room or 0) // SPILLS, 1)
        index = self._store.bound[: self._count].topk(many, sorted=False).indices
        self._waiting.append(self._store.select(index).map(lambda t: t.cpu()))
        self._remove(index)

    def _fetch(self) -> None:
        """Move the waiting part with the least bound back to the device."""
        at = min(range(len(self._waiting)), key=lambda i: float(self._waiting[i].bound.min()))
        device = self._store.bound.device
        back = self._waiting.pop(at).map(lambda t: t.to(device))
        self._store, self._count = concatenate([self.domains, back]), self._count + len(back)
