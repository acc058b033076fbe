"""`netproof reproduce table1`: methods against sets, beside the paper's Table 1 and the published rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.instances import Instance
from netproof.campaign.store import Result
from netproof.campaign.summary import contradictions, latest
from netproof.methods.registry import METHODS
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output
from netproof.paper.tables.rows import (
    COUNTERPART,
    HEADER,
    PUBLISHED,
    SETS,
    SOURCES,
    Published,
    Row,
    cells,
    figures,
    our_row,
    paper_rows,
    published_row,
)
from netproof.report.page import Picture, Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WANTED = ("lirpa", "auto", "bdd", "gnn", "gnn-online")  # babsr-lp and mip take hours by design: only when asked for
NOTE = (
    "Measured here: seconds from the question to the answer, loading and float64 confirmation included, start-up of"
    " the process not; what was not solved counts at its time limit. Branches are sub-domains bounded below the root,"
    " two for a split. Published: what GNN_branching published for the same properties, on another machine, limits of"
    " 3600 or 7200 s, branches over those solved. Paper: its Table 1, over its own, larger sets, limit 3600 s."
)


def default_methods() -> list[str]:
    """Those of the table that exist and end within minutes."""
    return [name for name in WANTED if name in METHODS]


def rows_of(
    results: Sequence[Result],
    methods: Sequence[str],
    sets: Mapping[str, Sequence[Instance]],
    published: Mapping[str, Mapping[str, Sequence[Published]]],
) -> list[Row]:
    """By set: ours, then what was published (if it was asked for), then the paper's."""
    paper = paper_rows(1)
    rows: list[Row] = []
    for name in sets:
        here = [r for r in results if r.benchmark == name]
        rows += [our_row(method, name, [r for r in here if r.method == method]) for method in methods]
        rows += [published_row(method, name, runs) for method, runs in published.get(name, {}).items()]
        rows += [row for row in paper if row.set == name]
    return rows


def write(
    output: Output,
    results: Sequence[Result],
    methods: Sequence[str],
    sets: Mapping[str, Sequence[Instance]],
    published: Mapping[str, Mapping[str, Sequence[Published]]],
) -> Path:
    """table1.{csv,png,pdf,html} and a cactus plot for each set; the path of the page."""
    rows = rows_of(results, methods, sets, published)
    output.csv(HEADER, [cells(row) for row in rows])
    panels = (("Mean time", "seconds", "mean_s"), ("Mean branches", "branches", "branches"))
    overview = output.panels([_panel(title, unit, rows, list(sets), what) for title, unit, what in panels])
    sections = [Section("All sets", NOTE, warnings=warnings(results), pictures=overview)]
    for name in sets:
        here = [row for row in rows if row.set == name]
        picture = _cactus(output, name, results, methods, published.get(name, {}), len(sets[name]))
        sections.append(Section(SETS[name], tables=[table(here)], pictures=[picture]))
    done = f"{len(results)} runs of {', '.join(methods)}."
    return output.page("Table 1", [*sections, how(results)], done)


def warnings(results: Sequence[Result]) -> list[str]:
    """Answers that contradict each other or what is known, and runs that failed."""
    found = [f"Contradiction: {line}" for line in contradictions(latest(results))]
    errors = [r for r in results if r.verdict == "error"]
    return found + [f"{r.benchmark}: {Path(r.vnnlib).name}, {r.method}: {r.error}" for r in errors[:5]]


def how(results: Sequence[Result]) -> Section:
    """What somebody else needs to run it again."""
    items: dict[str, None] = {}
    for r in results:
        options = ", ".join(f"{name}={value}" for name, value in r.options.items())
        limit = "none" if r.timeout is None else f"{r.timeout:g} s"
        items[f"{r.method} ({options}), {r.device}, {r.threads} threads, seed {r.seed}, time limit {limit}"] = None
    versions = dict.fromkeys(", ".join(f"{n} {v}" for n, v in r.versions.items() if v) for r in results)
    return Section("How it was run", items=[*items, *(f"versions: {line}" for line in versions if line)])


def table(rows: Sequence[Row]) -> Table:
    header = ("method", "source", "mean s", "mean branches", "% timed out", "% solved", "properties", "limit s")
    columns = ("mean_s", "branches", "timed_out", "solved", "properties", "limit")
    return Table(header, [(row.method, SOURCES[row.source], *figures(row, *columns)) for row in rows], names=2)


def _cactus(
    output: Output,
    name: str,
    results: Sequence[Result],
    methods: Sequence[str],
    published: Mapping[str, Sequence[Published]],
    total: int,
) -> Picture:
    """Solved properties against time; a published method is a series of its own, and says so."""
    from netproof.report.plots import cactus, render, save

    series: dict[str, list[float]] = {}
    for method in methods:
        series[f"{method}, measured here"] = [
            r.total for r in results if r.benchmark == name and r.method == method and r.solved
        ]
    for method, runs in published.items():
        series[f"{method}, published"] = [run.seconds for run in runs if run.solved]
    limits = [r.timeout for r in results if r.benchmark == name and r.timeout is not None]
    figure = cactus(series, total, title=SETS[name], limit=max(limits, default=None), percent=True)
    save(figure, output.path(f"cactus-{name}"))
    words = ", ".join(f"{label}: {len(times)} of {total}" for label, times in series.items())
    return Picture(render(figure, "svg"), f"Cactus plot, {SETS[name]}: {words}")


def shown_in_plot(rows: Sequence[Row]) -> list[Row]:
    """All of ours and published, of the paper only what stands beside them, and BaBSR and itself."""
    ours = {COUNTERPART.get(row.method) for row in rows if row.source == "ours"}
    published = {row.method for row in rows if row.source == "published"}
    wanted = ours | published | {"Fast and Complete", "BaBSR"}
    return [row for row in rows if row.source != "paper" or row.method in wanted]


def _panel(title: str, unit: str, rows: Sequence[Row], sets: Sequence[str], what: str) -> Panel:
    words = f"Mean {unit} by set on a logarithm: solid what was measured here, dashed published, dotted the paper's"
    return Panel(title, words, partial(draw_figures, rows=shown_in_plot(rows), sets=sets, what=what), 5.4)


def draw_figures(axes: Axes, rows: Sequence[Row], sets: Sequence[str], what: str) -> None:
    """One figure of every method against the set: a line style for the source, a marker for the method."""
    from netproof.report.plots import COLOURS, MARKERS

    styles = {"ours": "-", "published": "--", "paper": ":"}
    names = list(dict.fromkeys(COUNTERPART.get(row.method, row.method) for row in rows))
    for label in dict.fromkeys(row.label for row in rows):
        mine = [row for row in rows if row.label == label]
        points = [(sets.index(row.set), getattr(row, what)) for row in mine if getattr(row, what)]
        place = names.index(COUNTERPART.get(mine[0].method, mine[0].method))
        if points:
            axes.plot(
                *zip(*points, strict=True),
                linestyle=styles[mine[0].source],
                marker=MARKERS[place % len(MARKERS)],
                color=COLOURS[place % len(COLOURS)],
                markerfacecolor=None if mine[0].source == "ours" else "white",
                label=label,
            )
    axes.set_yscale("log")
    axes.set_xticks(range(len(sets)), [SETS[name].replace(", ", ",\n") for name in sets])
    axes.set_xlim(-0.3, len(sets) - 0.7)
    axes.set_ylabel("mean time, seconds (log)" if what == "mean_s" else "mean branches (log)")
    axes.set_xlabel("set of properties")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, fontsize=8.5, frameon=False, handlelength=3.2)


__all__ = ["PUBLISHED", "default_methods", "draw_figures", "rows_of", "warnings", "write"]
