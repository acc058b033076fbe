"""What other packages offer, by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from netproof.errors import UsageError


def offered(group: str) -> Iterator[tuple[str, Any]]:
    """Load what the entry points of a group name, each with the place that it comes from."""
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            found = point.load()
        except Exception as error:  # a foreign package: whatever is wrong with it is worth a line that names it
            raise UsageError(
                f"{point.value} cannot be loaded: {type(error).__name__}: {error}",
                remedy="mend or uninstall that package",
            ) from error
        yield point.value, found
