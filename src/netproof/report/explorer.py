"""What the explorers of all pages are made of: columns by key with each text once, pictures, a table without script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from netproof.report.page import Table, data_uri

PLAIN = 1000  # rows that those without JavaScript see
DIGITS = 6

Column = dict[str, Any]


def text_column(key: str, title: str, texts: Sequence[str], *, ordered: bool = False, **more: Any) -> Column:
    """Make a column of texts: each once, and by row its place; ordered: shorter ones first, for people to choose."""
    values = sorted(set(texts), key=lambda text: (len(text), text)) if ordered else texts
    places = {text: place for place, text in enumerate(dict.fromkeys(values))}
    data = [places[text] for text in texts]
    common = {"kind": "text", "search": bool(title) and not more.get("hidden")}
    return {"key": key, "title": title, **common, **more, "values": list(places), "data": data}


def number_column(key: str, title: str, values: Sequence[float | None], **more: Any) -> Column:
    """Make a column of numbers, with the digits that the page needs."""
    return {"key": key, "title": title, "kind": "number", **more, "data": [short(value) for value in values]}


def hidden_column(key: str, data: Sequence[Any]) -> Column:
    """Make a column that the script reads and nobody sees."""
    return {"key": key, "title": "", "kind": key, "hidden": True, "data": list(data)}


def short(value: float | None) -> float | None:
    """Round to the digits that the page needs; JSON has no word for what is not finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


@dataclass
class Pictures:
    """The pictures of a page, as many as it has room for."""

    most: int
    most_bytes: int
    kind: str  # of their content, as "image/png"
    drawn: list[dict[str, Any]] = field(default_factory=list)
    _bytes: int = 0

    def column(self, of: Sequence[Callable[[], bytes | None]]) -> Column:
        """Draw the first rows that have a picture; return the column of their places."""
        return hidden_column("picture", [self._place(make) for make in of])

    def _place(self, make: Callable[[], bytes | None]) -> int | None:
        if len(self.drawn) >= self.most or self._bytes >= self.most_bytes:
            return None
        content = make()
        if not content:
            return None
        self._bytes += len(content)
        self.drawn.append({"source": data_uri(content, self.kind)})
        return len(self.drawn) - 1


def plain_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    noun: str,
    file: str,
    names: int,
    marked: set[tuple[int, int]],
) -> Table:
    """Make the table for those without JavaScript; file: the one that has all rows."""
    count = len(rows)
    more = f"The first {PLAIN} of {count} {noun}; {file} has all" if count > PLAIN else f"{count} {noun}"
    seen = frozenset((row, column) for row, column in marked if row < PLAIN)
    return Table(header, rows[:PLAIN], names=names, caption=more, marked=seen)
