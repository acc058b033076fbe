"""What waits in the host's memory, in parts: put away, watched for the memory that it takes, and brought back.

Where the host runs short too, all of it waits in a form that takes less, and then those nearest to a proof go first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from netproof.bounds.linear.memory import pieces, with_less
from netproof.core.batch import P


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


class Storage(Protocol[P]):
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
class Part:
    """Sub-domains that wait, and what is asked of them all again and again."""

    held: Waiting
    summary: Summary
    least: float
    most: float

    @classmethod
    def of(cls, held: Waiting) -> Part:
        """Look at sub-domains once."""
        target, which = held.target.unique(return_inverse=True)
        least = torch.full(target.shape, torch.inf, dtype=held.bound.dtype).scatter_reduce(0, which, held.bound, "amin")
        return cls(held, Summary(target, least), float(least.min()), float(held.bound.max()))

    def __len__(self) -> int:
        return len(self.held)

    def coarser(self) -> Part:
        """Return the same in less memory."""
        return replace(self, held=self.held.coarser())


class OnHost(Generic[P]):
    """All parts that wait; `may_wait` says whether so many bytes may."""

    def __init__(self, storage: Storage[P], device: torch.device, may_wait: Callable[[int], bool]) -> None:
        self._storage, self._device, self._may_wait = storage, device, may_wait
        self._coarse = False
        self.parts: list[Part] = []
        self.crowded = False  # whether the host holds more than it may, however coarse

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def bytes(self) -> int:
        """Return what all of them take."""
        return sum(part.held.bytes for part in self.parts)

    def kept(self, domains: P) -> list[Part]:
        """Return sub-domains of the device as parts that could wait, not too much of them at a time."""
        cut = pieces(len(domains), domains.bytes_each, self._device)
        return [self._part(domains.select(piece)) for piece in cut]

    def _part(self, domains: P) -> Part:
        held = self._storage.put_away(domains)
        return Part.of(held.coarser() if self._coarse else held)

    def add(self, parts: list[Part]) -> None:
        """Let parts wait, and see whether so much may; if not, it takes less from now on."""
        self.parts += parts
        if not self._coarse and not self._may_wait(self.bytes):
            self.parts = with_less(lambda: [part.coarser() for part in self.parts], self._device)
            self._coarse = True
        self._see_the_crowd()

    def everything(self) -> Iterator[P]:
        """Yield all of them, on the device."""
        for part in self.parts:
            yield self._storage.bring_back(part.held)

    def nearest(self, wanted: int, *, best: bool) -> tuple[list[P], list[Part]]:
        """Return as many as wanted, on the device, and the parts that go on waiting: those with the least bounds go.

        With `best`, the one part that is nearest to a proof.
        """
        bounds = [part.most if best else part.least for part in self.parts]
        order = sorted(range(len(bounds)), key=bounds.__getitem__, reverse=best)
        many = list(itertools.accumulate(len(self.parts[i]) for i in order))
        enough = next((i + 1 for i, count in enumerate(many) if count >= wanted), len(order))
        chosen = set(order[: 1 if best else enough])
        back = [self._storage.bring_back(part.held) for i, part in enumerate(self.parts) if i in chosen]
        return back, [part for i, part in enumerate(self.parts) if i not in chosen]

    def without(self, which: Callable[[P], Tensor]) -> tuple[list[P], list[Part]]:
        """Return those that `which` names by a mask (domain,), on the device, and the parts that go on waiting."""
        gone: list[P] = []
        left: list[Part] = []
        for held in self.parts:
            part = self._storage.bring_back(held.held)
            mask = which(part)
            if not bool(mask.any()):
                left.append(held)
                continue
            gone.append(part.select(mask))
            if not bool(mask.all()):
                left += self.kept(part.select(~mask))
        return gone, left

    def leave(self, parts: list[Part]) -> None:
        """Let these alone go on waiting."""
        self.parts = parts
        self._see_the_crowd()

    def _see_the_crowd(self) -> None:
        """See whether too much waits; once it does, until half of that is gone."""
        times = 2 if self.crowded else 1
        self.crowded = self._coarse and not self._may_wait(times * self.bytes)
