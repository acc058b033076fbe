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

WIDTH, HEIGHT = 5.2, 4.0  # inches a panel; with type of 11 points it can be read where a phone shows it 9 cm wide
GRID = "#dddddd"


@dataclass(frozen=True)
class Panel:
    """`draw` fills the axes; `words` say what is to be seen, for those who do not see it."""

    title: str
    words: str
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    grid: bool = True


def write_panels(panels: Sequence[Panel], path: Path, *, columns: int = 2) -> list[Picture]:
    """PATH.png and PATH.pdf with every panel, and each panel for the page."""
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
