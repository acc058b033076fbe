"""What other packages offer, by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from netproof.errors import UsageError


def offered(group: str) -> Iterator[tuple[str, Any]]:
    """Load what the entry points of a group name, each with the place that it comes from."""
    for point in points(group):
        yield point.value, load(point)


def points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, by name."""
    return sorted(entry_points(group=group), key=lambda point: point.name)


def load(point: EntryPoint) -> Any:
    """Load what an entry point names; whatever a foreign package raises becomes a UsageError that names it."""
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"{point.value} cannot be loaded: {type(error).__name__}: {error}",
            remedy="mend or uninstall that package",
        ) from error
