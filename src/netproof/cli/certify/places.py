"""Where the answers about a data set go, beside the store, and which of them are there already. No numpy here."""

from __future__ import annotations

from dataclasses import dataclass

from netproof.certificate.wish import Wish


@dataclass(frozen=True)
class Places:
    """Folders for what the search's process writes itself."""

    out: str | None = None  # for counterexamples
    wish: Wish | None = None  # for certificates
    answered: frozenset[int] = frozenset()  # images
