"""Panels: each on its own for the page, where a phone shows it at full width, and all in one file for print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    "lirpa-grown": ("#44aa99", "d"),
    "lirpa-tight": ("#117733", "H"),
    "lirpa-printed": ("#332288", "8"),
    "lirpa-printed-fixed": ("#ddcc77", "h"),
    "lirpa-printed-single": ("#cc6677", "p"),
    "lirpa-forced": ("#6699cc", "X"),
    "LP of a leaf": ("#444444", "v"),
}
SAME = {  # rows of Table 2
    "both": "Fast and Complete",
    "both, grown": "lirpa-grown",
    "both, split lines forced": "lirpa-forced",
    "batch only": "lirpa-fixed",
    "optimised only": "lirpa-single",
}
OTHER = ("#444444", "X")  # of a method that no table of the paper has
LINES = {"ours": "-", "published": "--", "paper": ":"}
SHAPES = {"ours": "o", "published": "s", "paper": "D"}  # of marks over categories, where no line says the source


@dataclass(frozen=True)
class Panel:
    """`draw` fills the axes; `words` say what is to be seen, for those who do not see it."""

    title: str
    words: str
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    grid: bool = True


@dataclass(frozen=True)
class Mark:
    """One value of a series at a category."""

    category: int
    value: float
    solved: bool  # all of it, so that a mean is one of answers alone
    colour: str
    shape: str
    label: str


def style(method: str, source: str) -> tuple[str, str, str]:
    """Return colour and dash and marker: the first and last of the method, the dash of who says it."""
    from netproof.paper.tables.rows import COUNTERPART

    colour, marker = STYLES.get({**COUNTERPART, **SAME}.get(method, method), OTHER)
    return colour, LINES[source], marker


def draw_marks(axes: Axes, marks: Sequence[Mark], series: int, count: int) -> None:
    """Draw one series over categories, as marks that nothing joins; hollow where not all was solved.

    series, count: which one of how many, so that each has its own place beside the category.
    """
    at = [mark.category + dodged(series, count) for mark in marks]
    colour, shape = marks[0].colour, marks[0].shape
    full = [(x, mark.value) for x, mark in zip(at, marks, strict=True) if mark.solved]
    hollow = [(x, mark.value) for x, mark in zip(at, marks, strict=True) if not mark.solved]
    label: str | None = marks[0].label
    for points, fill in ((full, colour), (hollow, "white")):
        if points:
            look: dict[str, Any] = {"color": colour, "marker": shape, "markerfacecolor": fill, "label": label}
            axes.plot(*zip(*points, strict=True), linestyle="", markersize=6, zorder=3, **look)
            label = None  # once in the legend


def mark_categories(axes: Axes, names: Sequence[str], label: str) -> None:
    """Name the categories under the axis, with a faint line between each two of them."""
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.5, len(names) - 0.5), xlabel=label)
    axes.grid(visible=False, axis="x")
    for between in range(1, len(names)):
        axes.axvline(between - 0.5, color=GRID, linewidth=1, zorder=0)


def dodged(index: int, count: int, width: float = 0.7) -> float:
    """Return how far beside its category a mark stands, so that those of several series do not cover each other."""
    return width * ((index + 0.5) / count - 0.5)


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
