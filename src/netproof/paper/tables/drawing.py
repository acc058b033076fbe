"""Panels: each on its own for the page, where a phone shows it at full width, and all in one file for print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.report.page import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.2, 4.0  # inches per panel; with type of 11 points it can be read where a phone shows it 9 cm wide
GRID = "#dddddd"
# A method has the same colour and marker in every figure; colour-blind readers tell them apart, grey print by markers.
STYLES = {
    "Fast and Complete": ("#0072b2", "o"),
    "BaBSR": ("#d55e00", "s"),
    "MIPplanet": ("#8c6d31", "v"),
    "GNN": ("#009e73", "^"),
    "GNN-online": ("#cc79a7", "D"),
    "BDD+ BaBSR": ("#e69f00", "P"),
    "auto": ("#000000", "*"),
    "lirpa-gnn": ("#56b4e9", "<"),
    "lirpa-gnn-online": ("#777777", ">"),
    "lirpa-fixed": ("#999933", "h"),
    "lirpa-single": ("#882255", "p"),
}
SAME = {"both": "Fast and Complete", "batch only": "lirpa-fixed", "optimised only": "lirpa-single"}  # rows of Table 2
OTHER = ("#444444", "X")  # of a method that no table of the paper has
LINES = {"ours": "-", "published": "--", "paper": ":"}


@dataclass(frozen=True)
class Panel:
    """`draw` fills the axes; `words` say what is to be seen, for those who do not see it."""

    title: str
    words: str
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    grid: bool = True


def style(method: str, source: str) -> tuple[str, str, str]:
    """Return colour and dash and marker: the first and last of the method, the dash of who says it."""
    from netproof.paper.tables.rows import COUNTERPART

    colour, marker = STYLES.get({**COUNTERPART, **SAME}.get(method, method), OTHER)
    return colour, LINES[source], marker


def write_panels(panels: Sequence[Panel], path: Path, *, columns: int = 2) -> list[Picture]:
    """Write PATH.png and PATH.pdf with every panel; return each panel as a picture for the page."""
    from netproof.report.plots import render, save

    save(figure_of(panels, columns=columns), path)
    return [Picture(render(figure_of([panel]), "svg"), panel.words) for panel in panels]


def figure_of(panels: Sequence[Panel], *, columns: int = 1) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from netproof.report.plots import SETTINGS

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with mpl.rc_context({**SETTINGS, "font.size": 11, "legend.fontsize": 9.5}):
        height = max(panel.height for panel in panels)
        figure = Figure(figsize=(WIDTH * columns, height * rows), layout="constrained")
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            if panel.grid:
                axes.grid(visible=True, color=GRID, linewidth=0.6)
            axes.set_title(panel.title, fontsize=12)
            panel.draw(axes)
    return figure
