"""One table, in Markdown, and numbers as people read them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """The first row is the header; the first `names` columns hold names and are set left, numbers right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * width for width in widths]
    slots = [f"{{:{'<' if i < names else '>'}{width}}}" for i, width in enumerate(widths)]
    return "\n".join(f"| {' | '.join(slots)} |".format(*row) for row in (rows[0], rule, *rows[1:]))


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and least to most where there are several: `1.20 (1.10–1.45)`."""
    if not values:
        return "-"
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def short(value: float | None) -> str:
    """Four digits, or `-` where there is nothing to say."""
    return "-" if value is None else f"{value:.4g}"


def count(value: float | None) -> str:
    """`83 512`."""
    return "-" if value is None else f"{value:,.0f}".replace(",", " ")


def say(line: str) -> None:
    """To people, while it runs; stdout is for the table."""
    print(line, file=sys.stderr, flush=True)
