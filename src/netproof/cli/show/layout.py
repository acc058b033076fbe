"""Tables that fit a terminal: what matters less is left out, and nothing that matters is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

EDGES, BETWEEN = 2, 3  # characters that a table has beside its cells: at its edges, and between two columns


@dataclass(frozen=True)
class Column:
    """A column of a table; the one with the highest rank is left out first, and rank 0 never is."""

    name: str
    rank: int = 0
    right: bool = False


def fitting_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Make a table of cells with rich's markup; a cell that is too wide still is folded, not cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    wide = [
        max(len(column.name), *(Text.from_markup(row[k], emoji=False).cell_len for row in rows))
        if rows
        else len(column.name)
        for k, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    while sum(wide[k] for k in kept) + BETWEEN * (len(kept) - 1) + EDGES > width:
        worst = max(kept, key=lambda k: columns[k].rank)
        if columns[worst].rank == 0:
            break
        kept.remove(worst)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k in kept:
        table.add_column(columns[k].name, justify="right" if columns[k].right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(row[k] for k in kept))
    return table


def ending(text: str, width: int) -> str:
    """Cut a text at its beginning: names of one set differ at their end."""
    return text if len(text) <= width else f"…{text[len(text) - max(1, width) + 1 :]}"
