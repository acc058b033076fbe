"""Faults put into netproof on purpose, to see that the hunt finds them: each a bug that could have been written.

A plant replaces what it names. Where netproof no longer has that, planting fails, so that none is silently no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLANTS: dict[str, Callable[[], None]] = {}


def plant(name: str) -> None:
    """Put one fault into the netproof of this process."""
    import netproof.api  # noqa: F401  what is patched must be there

    PLANTS[name]()


def _planted(make: Callable[[], None]) -> Callable[[], None]:
    PLANTS[make.__name__] = make
    return make


def _swap(owner: Any, name: str, fault: Any) -> Any:
    """Replace an attribute that must be there; returns what it was."""
    real = getattr(owner, name)
    setattr(owner, name, fault)
    return real
