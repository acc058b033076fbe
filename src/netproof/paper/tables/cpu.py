"""`netproof reproduce cpu`: the time on 1 to 16 cores and on a GPU, as in the paper's Figure 5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.store import Result
from netproof.core.cpu import available_cpus
from netproof.errors import UsageError
from netproof.paper.sets import PaperSet
from netproof.paper.tables.drawing import SHAPES, Panel, style
from netproof.paper.tables.output import Output, shown
from netproof.paper.tables.rows import SOURCES, Row, figures, our_row, paper_rows, published_row
from netproof.paper.tables.table1 import boxes_said, how, warnings
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CPU_SETS = ("oval_base_easy", "oval_wide", "oval_deep")
CORES = (1, 2, 4, 8, 16)  # the paper stops at 8
LINES = ("GNN-online", "BaBSR")  # of published.csv
HEADER = (
    *("set", "boxes", "source", "method", "place", "properties"),
    *("mean_s", "mean_branches", "solved_percent", "limit_s"),
)
NOTE = (
    "Measured here: one worker bound to so many cores, the same properties each time; what was not solved counts at its"
    " time limit. GNN-online and BaBSR: what was published for these properties with boxes x ± ε, on another machine"
    " (one core, and a GPU for GNN-online), cut at 3600 s. Paper: its own sets; the figure's bars for cores have no"
    " printed numbers, so only the values that its Table 1 and captions print stand here."
)


@dataclass(frozen=True)
class Place:
    """Where runs were made."""

    device: str
    threads: int | None  # None: on a GPU, as the tool chooses

    def __str__(self) -> str:
        if self.device == "cuda":
            return "GPU"
        return f"{self.threads} core{'s' * (self.threads != 1)}"


@dataclass(frozen=True)
class Point:
    place: str
    row: Row


def read_threads(text: str | None) -> list[int]:
    """Read numbers of cores such as `1,2,4`; without a word return those of CORES that this machine has."""
    there = available_cpus()
    if text is None:
        return [count for count in CORES if count <= there]
    try:
        counts = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError(f"--threads: {text!r} is not a list of numbers", remedy="as in --threads 1,2,4") from None
    if counts[0] < 1 or counts[-1] > there:
        raise UsageError(f"--threads: {text} is not within 1 to {there}, what there is here", remedy="give fewer")
    return counts


def points_of(results: Mapping[Place, Sequence[Result]], method: str, sets: Mapping[str, PaperSet]) -> list[Point]:
    """Return by set what was measured in every place, published lines that are of these boxes, and the paper's."""
    points: list[Point] = []
    for name, one in sets.items():
        for place, runs in results.items():
            mine = [r for r in runs if r.benchmark == name]
            points.append(Point(str(place), our_row(method, one, mine)))
        if one.published:
            points += [Point("published", published_row(line, one, one.published[line])) for line in LINES]
        wanted = ("Fast and Complete", *LINES)
        points += [Point("paper", row) for row in paper_rows(1, one) if row.method in wanted]
    return points


def write(output: Output, results: Mapping[Place, Sequence[Result]], method: str, sets: Mapping[str, PaperSet]) -> Path:
    """Write cpu.{csv,png,pdf,html}; return the path of the page."""
    points = points_of(results, method, sets)
    output.csv(HEADER, [_cells(point) for point in points])
    places = [str(place) for place in results]
    panels = [_panel(one, [p for p in points if p.row.set == one.name], places) for one in sets.values()]
    pictures = output.panels(panels, columns=len(panels))
    every = [r for runs in results.values() for r in runs]
    tables = [_table(one, [p for p in points if p.row.set == one.name]) for one in sets.values()]
    said = boxes_said(sets)
    sections = [
        Section("Time by cores", NOTE, items=said, warnings=warnings(every), tables=tables, pictures=pictures),
        how(every),
    ]
    return output.page("CPU and GPU", sections, f"{len(every)} runs of {method} on {', '.join(places)}.")


def _cells(point: Point) -> tuple[object, ...]:
    """Return a point under HEADER."""
    row = point.row
    figures = (row.properties, row.mean_s, row.branches, row.solved, row.limit)
    return (row.set, row.boxes, row.source, row.method, point.place, *figures)


def _table(of: PaperSet, points: Sequence[Point]) -> Table:
    header = ("where", "method", "source", "boxes", "mean s", "% solved", "properties", "limit s")
    rows = [
        (
            p.place if p.row.source == "ours" else "–",
            p.row.method,
            SOURCES[p.row.source],
            p.row.boxes,
            *figures(p.row, "mean_s", "solved", "properties", "limit"),
        )
        for p in points
    ]
    return Table(header, rows, names=4, caption=of.title)


def _panel(of: PaperSet, points: Sequence[Point], places: Sequence[str]) -> Panel:
    ours = ", ".join(f"{p.place} {shown(p.row.mean_s)} s" for p in points if p.row.source == "ours")
    words = f"{of.title}: mean seconds on a logarithm: {ours}; beside them published and paper's values as lines"
    return Panel(of.short.replace("\n", " "), words, partial(_draw, points=points, places=places), 5.0)


def _draw(axes: Axes, points: Sequence[Point], places: Sequence[str]) -> None:
    """Draw ours as bars, hollow where not all was solved, the published means as lines across, the paper's as marks."""
    ours = {p.place: p.row for p in points if p.row.source == "ours"}
    for place, row in ours.items():
        if row.mean_s is None:
            continue
        at, seconds = places.index(place), row.mean_s
        colour = style(row.method, "ours")[0]
        fill = colour if row.all_solved else "white"
        label, hatch = None if at else row.label, "//" if place == "GPU" else ""
        axes.bar(
            at,
            seconds,
            width=0.6,
            color=fill,
            hatch=hatch,
            edgecolor="black" if row.all_solved else colour,
            label=label,
        )
        axes.annotate(f"{seconds:.2f}", (at, seconds), ha="center", va="bottom", fontsize=9.5)
    for p in points:
        if p.row.source == "ours" or p.row.mean_s is None:
            continue
        colour, line, _ = style(p.row.method, p.row.source)
        label = f"{p.row.label}: {p.row.mean_s:.4g} s"
        if p.row.source == "published":
            axes.axhline(p.row.mean_s, linestyle=line, color=colour, linewidth=2, label=label)
        else:
            fill = colour if p.row.all_solved else "white"
            axes.plot([len(places)], [p.row.mean_s], SHAPES["paper"], color=colour, markerfacecolor=fill, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xticks(range(len(places) + 1), [*places, "paper"])
    every = [p.row.mean_s for p in points if p.row.mean_s]
    least, most = 10.0 ** math.floor(math.log10(min(every)) - 0.3), max(every) * 2
    axes.set(xlim=(-0.6, len(places) + 0.6), ylim=(least, most))
    axes.set(xlabel="measured on; right: the paper's; hollow: not all solved", ylabel="mean time, seconds (log)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=9, handlelength=3.5)
