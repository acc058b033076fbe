"""Pieces of work of a proof: bounds to be computed, and what is done with them.

A piece rests on what is known of the neurons when it is handed over, and on nothing else; so pieces may be computed by
other processes (`jobs`). Their bounds come back in the order of the pieces: the first fault is the same whoever works.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from npcheck.bound import Ranges
from npcheck.network import Network
from npcheck.statement import Array

Piece = Callable[[Network, Ranges], Array]  # of functions and plain values: another process may be sent it
Done = Callable[[Array], None]
Told = Callable[[str, int], None]  # of what, and how many leaves more of it hold


class Jobs(Protocol):
    """Has pieces computed."""

    def __enter__(self) -> Jobs: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def know(self, known: Ranges) -> None:
        """Hear what the pieces from here on rest on. It does not change before they are done."""

    def do(self, piece: Piece, done: Done) -> None:
        """Have a piece computed, now or later, and `done` called with its bounds, in the order of the pieces."""

    def wait(self) -> None:
        """Return when all is done."""

    def tell(self, what: str, leaves: int) -> None:
        """Say where the check is."""


class Here:
    """Computes each piece at once."""

    def __init__(self, network: Network, tell: Told) -> None:
        self._network, self._tell = network, tell
        self._known = Ranges([], [])

    def __enter__(self) -> Here:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have nothing to end."""

    def know(self, known: Ranges) -> None:
        """Keep it."""
        self._known = known

    def do(self, piece: Piece, done: Done) -> None:
        """Compute a piece."""
        done(piece(self._network, self._known))

    def wait(self) -> None:
        """Have nothing to wait for."""

    def tell(self, what: str, leaves: int) -> None:
        """Pass it on."""
        self._tell(what, leaves)
