"""The set of unverified sub-domains (𝒫 of the paper): tensors on the device that grow in place.

Where the device has no room for more, the sub-domains with the best bounds wait in the host's memory, in a form that
takes little of it. Where that runs short too, they wait in a form that takes less, and then those nearest to a proof
go first. Memory that runs out on the way loses nothing: what was to be moved stays where it was.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from netproof.bounds.linear.memory import release
from netproof.core.batch import P, concatenate
from netproof.core.machine.allowance import is_out_of_memory

SMALLEST = 64  # rows of the first store
SPILLS = 16  # one in so many of the sub-domains that the device may hold goes to the host at a time, at least
DEEPEST = 65536.0  # more than any sub-domain's depth
MOVED = 1 << 26  # bytes that are moved inside the store, or put away, at a time

T = TypeVar("T")


class Waiting(Protocol):
    """Sub-domains as they wait on the host."""

    def __len__(self) -> int: ...

    @property
    def target(self) -> Tensor: ...  # (domain,)

    @property
    def bound(self) -> Tensor: ...  # (domain,)

    @property
    def bytes(self) -> int: ...

    def tensors(self) -> list[Tensor]:
        """Return all that is held."""

    def coarser(self) -> Self:
        """Return the same in less memory."""


class Keeper(Protocol[P]):
    """Puts sub-domains away, to wait on the host, and brings them back."""

    def put_away(self, domains: P) -> Waiting:
        """Return what is kept of sub-domains."""

    def bring_back(self, held: Any) -> P:
        """Return the sub-domains on the device."""


class AsTheyAre(Generic[P]):
    """Keeps all there is of sub-domains."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def put_away(self, domains: P) -> Any:
        """Return a copy on the host."""
        return domains.map(lambda t: t.cpu().clone())

    def bring_back(self, held: P) -> P:
        """Return a copy on the device."""
        return held.map(lambda t: t.to(self._device))


class Summary(NamedTuple):
    """The least bound of each target that some sub-domains are of."""

    target: Tensor  # (n,)
    bound: Tensor  # (n,)


@dataclass(frozen=True, eq=False)
class _Part:
    """Sub-domains that wait, and what is asked of them all again and again."""

    held: Waiting
    summary: Summary
    least: float
    most: float

    @classmethod
    def of(cls, held: Waiting) -> _Part:
        target, which = held.target.unique(return_inverse=True)
        least = torch.full(target.shape, torch.inf, dtype=held.bound.dtype).scatter_reduce(0, which, held.bound, "amin")
        return cls(held, Summary(target, least), float(least.min()), float(held.bound.max()))

    def __len__(self) -> int:
        return len(self.held)

    def coarser(self) -> _Part:
        return replace(self, held=self.held.coarser())


class Frontier(Generic[P]):
    """Worst bound first; bounds in the same step of `grain` count as equal, and the most urgent of those goes first.

    `room`: how many sub-domains the device may hold; None: as many as there are. They are held as `pack` makes them,
    and `unpack` gives back what it left out. `may_wait` says whether so many bytes may wait on the host.
    """

    def __init__(
        self,
        domains: P,
        room: int | None = None,
        grain: float = 0.0,
        pack: Callable[[P], P] = lambda domains: domains,
        unpack: Callable[[P], P] = lambda domains: domains,
        keeper: Keeper[P] | None = None,
        may_wait: Callable[[int], bool] = lambda held: True,
    ) -> None:
        self._pack, self._unpack = pack, unpack
        self._store = pack(domains).map(torch.clone)  # it is written to, the caller's is not
        self._count = len(domains)
        self._room, self._grain = room, grain
        self._keeper: Keeper[P] = AsTheyAre(domains.bound.device) if keeper is None else keeper
        self._may_wait, self._coarse = may_wait, False
        self._waiting: list[_Part] = []  # on the host, each at least as good as what is on the device was
        self.crowded = False  # whether the host holds more than it may, however coarse

    def __len__(self) -> int:
        return self._count + self.waiting

    @property
    def waiting(self) -> int:
        """Count the sub-domains in the host's memory."""
        return sum(map(len, self._waiting))

    @property
    def bytes_waiting(self) -> int:
        """Return what they take."""
        return sum(part.held.bytes for part in self._waiting)

    @property
    def domains(self) -> P:
        """Return those on the device; a view, so to be read before the next change."""
        return self._store.map(lambda t: t[: self._count])

    def summaries(self) -> list[Summary]:
        """Return the targets and bounds of all of them, wherever they are; of those that wait, by target."""
        here = self.domains
        return [Summary(here.target, here.bound), *(part.summary for part in self._waiting)]

    def everything(self) -> Iterator[P]:
        """Yield all of them as they are searched, on the device, part by part."""
        yield self.domains
        for part in self._waiting:
            yield self._keeper.bring_back(part.held)

    @property
    def lower_bound(self) -> float:
        """Return the least bound of any sub-domain; +inf when there is none."""
        here = [float(self.domains.bound.min())] if self._count else []
        return min([*here, *(part.least for part in self._waiting)], default=float("inf"))

    def push(self, domains: P) -> None:
        """Add sub-domains; where the device is full others make room, and so do these themselves."""
        if len(domains) == 0:
            return
        domains = self._retry(lambda: self._pack(domains))
        while True:
            try:
                self._push(domains)
                break
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            release(self._store.bound.device)
            if self._count:
                self._room = max(1, self._count // 2)
                self._spill()
            else:
                self._put_away(domains)
                return
        if self._room is not None and self._count > self._room:
            self._spill()

    def _push(self, domains: P) -> None:
        added = len(domains)
        if self._count == 0:
            self._store, self._count = domains.map(torch.clone), added  # it is written to, the caller's is not
            return
        if self._count + added > len(self._store):
            self._grow(max(2 * self._count, self._count + added, SMALLEST))
        for old, new in zip(self._store.tensors(), domains.tensors(), strict=True):
            old[self._count : self._count + added] = new
        self._count += added

    def pop(self, n: int, *, best: bool = False) -> P:
        """Remove and return the n sub-domains with the least bounds; with `best`, those nearest to a proof.

        Fewer, where the memory of the device is too small for so many.
        """
        while True:
            try:
                return self._pop(n, best=best)
            except Exception as error:
                if n <= 1 or not is_out_of_memory(error):
                    raise
            release(self._store.bound.device)
            n //= 2

    def _pop(self, n: int, *, best: bool) -> P:
        nearest = best and self._room is not None and self._count <= self._room  # they wait, the others are here
        if self._waiting and (nearest or self._count < n):
            self._fetch(n - self._count, best=best)
        n = min(n, self._count)
        if n == self._count:
            taken = self._unpack(self.domains)
            self._store, self._count = self._store.select(slice(0, 0)), 0
            return taken
        bound = self._store.bound[: self._count]
        key = bound
        if self._grain:
            key = (bound / self._grain).floor() * DEEPEST - self._store.urgency[: self._count]
        index = key.topk(n, largest=best, sorted=False).indices
        taken = self._unpack(self._store.select(index))
        self._remove(index)
        return taken

    def take_out(self, which: Callable[[P], Tensor]) -> list[P]:
        """Remove every sub-domain that `which` names by a mask (domain,), wherever it is, and return them."""
        here = which(self.domains)
        gone = [self.domains.select(here)]
        left: list[_Part] = []
        for held in self._waiting:
            part = self._keeper.bring_back(held.held)
            mask = which(part)
            if not bool(mask.any()):
                left.append(held)
                continue
            gone.append(part.select(mask))
            if not bool(mask.all()):
                left.append(self._kept(part.select(~mask)))
        self.keep(~here)
        self._waiting = left
        return gone

    def keep(self, mask: Tensor) -> None:
        """Keep those on the device where the mask (domain,) holds."""
        drop = (~mask).nonzero()[:, 0]
        if len(drop):
            self._remove(drop)

    def discard(self) -> None:
        """Let go of everything, in a thread: to free tens of gigabytes of host memory takes seconds."""
        held = [*self._store.tensors(), *(t for part in self._waiting for t in part.held.tensors())]
        tensors = [t for t in held if not t.is_cuda]
        del held
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
        """Fill the places `index` (n,), all distinct, with the last sub-domains.

        All memory that this takes is there before anything is written: what stops in the middle would lose some.
        """
        left = self._count - len(index)
        gone = torch.zeros(self._count, dtype=torch.bool, device=index.device)
        gone[index] = True
        holes, movers = gone[:left].nonzero()[:, 0], (~gone[left:]).nonzero()[:, 0] + left
        size = max(1, MOVED // max(1, self._store.bytes_each))

        rooms = self._retry(partial(self._rooms, min(size, len(holes))))
        for to, by in zip(holes.split(size), movers.split(size), strict=True):
            for t, room in zip(self._store.tensors(), rooms, strict=True):
                t.index_copy_(0, to, torch.index_select(t, 0, by, out=room[: len(by)]))
        self._count = left

    def _rooms(self, rows: int) -> list[Tensor]:
        """Return room for so many sub-domains on their way from one place to another."""
        return [t.new_empty(rows, *t.shape[1:]) for t in self._store.tensors()]

    def _retry(self, move: Callable[[], T]) -> T:
        """Do something that changes nothing if it fails; a second time with memory given back."""
        try:
            return move()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        release(self._store.bound.device)
        return move()

    # --- what waits on the host ---

    def _spill(self) -> None:
        """Move the best to the host: what is too many, or a little more, so that few rounds wait for a copy."""
        room = self._room or 0
        many = min(self._count, max(self._count - room, room // SPILLS, 1))
        index = self._store.bound[: self._count].topk(many, sorted=False).indices
        size = max(1, MOVED // max(1, self._store.bytes_each))
        pieces = [self._retry(partial(self._kept_of, some)) for some in index.split(size)]
        self._remove(index)
        self._waiting += pieces
        self._watch()

    def _put_away(self, domains: P) -> None:
        """Let sub-domains wait that the device has no room for at all."""
        size = max(1, MOVED // max(1, domains.bytes_each))
        self._waiting += [self._kept(domains.select(slice(at, at + size))) for at in range(0, len(domains), size)]
        self._watch()

    def _kept_of(self, index: Tensor) -> _Part:
        return self._kept(self._store.select(index))

    def _kept(self, domains: P) -> _Part:
        held = self._keeper.put_away(domains)
        return _Part.of(held.coarser() if self._coarse else held)

    def _watch(self) -> None:
        """See whether so much may wait; if not, let it take less from now on."""
        if not self._coarse and not self._may_wait(self.bytes_waiting):
            self._coarse, self._waiting = True, [part.coarser() for part in self._waiting]
        self._see_the_crowd()

    def _see_the_crowd(self) -> None:
        """See whether too much waits; once it does, until half of that is gone."""
        times = 2 if self.crowded else 1
        self.crowded = self._coarse and not self._may_wait(times * self.bytes_waiting)

    def _fetch(self, wanted: int, *, best: bool) -> None:
        """Move waiting parts back to the device until there are as many more as wanted: those with the least bounds.

        With `best`, the one part that is nearest to a proof.
        """
        bounds = [part.most if best else part.least for part in self._waiting]
        order = sorted(range(len(bounds)), key=bounds.__getitem__, reverse=best)
        many = list(itertools.accumulate(len(self._waiting[i]) for i in order))
        enough = next((i + 1 for i, count in enumerate(many) if count >= wanted), len(order))
        chosen = set(order[: 1 if best else enough])
        back = [self._keeper.bring_back(part.held) for i, part in enumerate(self._waiting) if i in chosen]
        joined = concatenate([self.domains, *back])
        self._waiting = [part for i, part in enumerate(self._waiting) if i not in chosen]
        self._store, self._count = joined, len(joined)
        self._see_the_crowd()
