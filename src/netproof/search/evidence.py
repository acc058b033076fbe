"""What a search establishes: how much of each target's input set is proved, and a witness. Verdicts rest on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from netproof.core.verdict import Witness

WAITING = 1 << 20  # sub-domains whose shares are not added up yet, at most: they are kept on the device
LEVELS = 1 << 20  # more than any sub-domain's level

RANKS = ("root", "search", "leaf")  # what decided, from the least work to the most


class Cover:
    """Adds up what is proved of each target's input set, exactly.

    A sub-domain that `level` halvings led to is the share 2^-level of its target's set. A split keeps the sum of the
    shares, so the proved sub-domains cover the whole set when they add up to 1, and only then: one that is lost on the
    way leaves the sum below 1, one that is counted twice may take it above.
    """

    def __init__(self, targets: int) -> None:
        self._targets = targets
        self._counts: Counter[int] = Counter()  # by target and level
        self._waiting: list[Tensor] = []
        self._many = 0

    def close(self, target: Tensor, level: Tensor) -> None:
        """Count sub-domains as proved; target, level: (n,), integers."""
        self.add(self.keys(target, level))

    def keys(self, target: Tensor, level: Tensor) -> Tensor:
        """Return what `add` counts of sub-domains; all that memory may run out in, and none counts yet."""
        if self._many > WAITING:
            self._add_up()
        return target.long() * LEVELS + level.long()

    def add(self, keys: Tensor) -> None:
        """Count sub-domains as proved; keys (n,): what `keys` said of them."""
        if len(keys):
            self._waiting.append(keys)
            self._many += len(keys)

    def restart(self, targets: Sequence[int]) -> None:
        """Forget what was proved of these targets, whose sets are searched from the start again."""
        self._add_up()
        again = set(targets)
        self._counts = Counter({key: n for key, n in self._counts.items() if key // LEVELS not in again})

    def shares(self) -> tuple[Fraction, ...]:
        """Return by target the share of its input set that is proved."""
        self._add_up()
        deepest = max((key % LEVELS for key in self._counts), default=0)
        parts = [0] * self._targets  # in units of the smallest share
        for key, count in self._counts.items():
            parts[key // LEVELS] += count << (deepest - key % LEVELS)
        return tuple(Fraction(part, 1 << deepest) for part in parts)

    def _add_up(self) -> None:
        if self._waiting:
            device = self._waiting[0].device  # some may come from the host's memory
            keys, counts = torch.cat([w.to(device) for w in self._waiting]).unique(return_counts=True)
            self._counts.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))
        self._waiting, self._many = [], 0


@dataclass(frozen=True)
class Outcome:
    """What a search of some targets has established when it ends.

    `status` is read off the evidence: there is no word for "found" without a witness, nor for "proved" without a cover.
    """

    proved: tuple[Fraction, ...]  # by target, the share of its input set that is proved
    bounds: tuple[float, ...]  # by target, what is proved of it on all that was asked; inf where nothing was
    witness: Witness | None = None
    reason: str = ""  # why something is open; empty where nothing is
    stopped: bool = False  # whether the deadline came first, or the last round that was asked for
    decided_by: str = ""  # one of RANKS
    asked: tuple[Fraction, ...] | None = None  # by target, the share that the search was given; None: all of it

    @staticmethod
    def nothing(targets: int, reason: str) -> Outcome:
        """Make the outcome of a search that was not begun."""
        return Outcome((Fraction(0),) * targets, (float("-inf"),) * targets, reason=reason, decided_by="root")

    @property
    def lower_bound(self) -> float:
        """Return the bound that is proved of all targets."""
        return min(self.bounds)

    @property
    def covers(self) -> bool:
        """Say whether the shares of every target add up to all that was asked."""
        return self.proved == (self.asked or (Fraction(1),) * len(self.proved))

    @property
    def status(self) -> str:
        """Return "found", "proved", "timeout" or "undecided"."""
        if self.witness is not None:
            return "found"
        if self.covers and not self.reason and not self.stopped:
            return "proved"
        return "timeout" if self.stopped else "undecided"
