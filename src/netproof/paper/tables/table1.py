"""`netproof reproduce table1`: methods against sets, beside the paper's Table 1 and the published rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.store import Result
from netproof.campaign.summary import contradictions, latest
from netproof.methods.registry import METHODS
from netproof.paper.sets import LIMIT, PaperSet
from netproof.paper.tables.drawing import SHAPES, Mark, Panel, draw_marks, mark_categories, style
from netproof.paper.tables.output import Output
from netproof.paper.tables.rows import (
    COUNTERPART,
    HEADER,
    SOURCES,
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

    from netproof.report.plots import Solved

# Those bounded by LPs, one sub-domain at a time, take hours by design: only when asked for.
_BESIDE = ("auto", "bdd", "mip", "lirpa-gnn", "lirpa-gnn-online")
WANTED = {"released": ("lirpa", "lirpa-grown", *_BESIDE), "printed": ("lirpa-printed", *_BESIDE)}
NOTE = (
    "Measured here: seconds from the question to the answer, loading, attacks and float64 confirmation included,"
    " start-up of the process not; what was not solved counts at its time limit. Published: what GNN_branching"
    " published for these properties with boxes x ± ε, on another machine, cut at the paper's limit of 3600 s, branches"
    " over those solved. Paper: its Table 1, over its own, larger sets, limit 3600 s; it does not say which boxes."
)
BRANCHES = (
    "Branches are sub-domains bounded below the root. One that is split on k neurons at once makes 2^k, which is"
    " counted; the column 'two per split' counts 2^(k+1) − 2 for it, as published counts do, which split one neuron at"
    " a time. It is 2 (branches − sub-domains split). There is none for auto, which bounds sub-domains again."
)
IN_LP = (
    "'Timed out in LP' counts the properties whose time ended inside a turn of the LP, which Algorithm 1 takes once"
    " more than η sub-domains are open; babsr-lp, whose every bound is an LP, has no such turns."
)
FLOOR = (
    "The first round of lirpa-grown, lirpa-tight and lirpa-gnn has a floor: it splits the root on so many neurons at"
    " once that more than n sub-domains come of it. With n = 400 a proof that needs any split takes 512 branches or"
    " more (1022 two per split), with n = 200 256 or more (510)."
)
GNN = (
    "lirpa-gnn and lirpa-gnn-online are bounded by LiRPA, in batches: only the branching is like the rows GNN and"
    " GNN-online of the paper and of published.csv, which are bounded by the LP, one sub-domain at a time, as gnn and"
    " gnn-online are."
)


BDD = (
    "bdd stands for BDD+ BaBSR, so it is run with original=true: it splits a sub-domain on one neuron in a round, by"
    " BaBSR's rule as published. --set bdd:original=false gives its own defaults instead."
)
MIP = (
    "mip stands for MIPplanet. Where the boxes are x ± ε, MIPplanet's published figures stand beside it; they are of"
    " another machine, with Gurobi."
)


def default_methods(profile: str) -> list[str]:
    """Return those of the table that exist and end within minutes, with Algorithm 1 in one of its profiles."""
    return [name for name in WANTED[profile] if name in METHODS]


def beside(methods: Sequence[str]) -> list[str]:
    """Return the published rows that stand beside methods without being asked for."""
    return [COUNTERPART[name] for name in methods if name == "mip"]


def rows_of(results: Sequence[Result], methods: Sequence[str], sets: Mapping[str, PaperSet]) -> list[Row]:
    """Return by set ours, then what was published (where it is of these boxes), then the paper's."""
    rows: list[Row] = []
    for name, one in sets.items():
        here = [r for r in results if r.benchmark == name]
        rows += [our_row(method, one, [r for r in here if r.method == method]) for method in methods]
        rows += [published_row(method, one, runs) for method, runs in one.published.items()]
        rows += paper_rows(1, one)
    return rows


def write(output: Output, results: Sequence[Result], methods: Sequence[str], sets: Mapping[str, PaperSet]) -> Path:
    """Write table1.{csv,png,pdf,html} and a cactus plot for each set; return the path of the page."""
    rows = rows_of(results, methods, sets)
    output.csv(HEADER, [cells(row) for row in rows])
    panels = (("Mean time", "seconds", "mean_s"), ("Mean branches", "branches", "branches"))
    overview = output.panels([_panel(title, unit, rows, sets, what) for title, unit, what in panels])
    if len(sets) > 1:
        overview.append(_all_cactus(output, results, methods, sets))
    about = {BDD: {"bdd"}, MIP: {"mip"}, GNN: {"lirpa-gnn", "lirpa-gnn-online"}}
    some = [note for note, names in about.items() if names & set(methods)]
    notes = [*limits_said(results), *boxes_said(sets), BRANCHES, IN_LP, FLOOR, *some]
    sections = [Section("All sets", NOTE, items=notes, warnings=warnings(results), pictures=overview)]
    for one in sets.values():
        here = [row for row in rows if row.set == one.name]
        sections.append(Section(one.title, tables=[table(here)], pictures=[_cactus(output, one, results, methods)]))
    done = f"{len(results)} runs of {', '.join(methods)}."
    return output.page("Table 1", [*sections, how(results)], done)


def limits_said(results: Sequence[Result]) -> list[str]:
    """Return the time limits of these runs beside the paper's."""
    limits = sorted({r.timeout for r in results if r.timeout is not None})
    if not limits:
        return []
    here = " or ".join(f"{limit:g} s" for limit in limits)
    return [
        f"Time limit of a run measured here: {here} (--timeout; without it that of instances.csv). The paper's is"
        f" {LIMIT:g} s."
    ]


def boxes_said(sets: Mapping[str, PaperSet]) -> list[str]:
    """Return which boxes each set has, and what that means for the published rows."""
    clipped = [one for one in sets.values() if one.boxes.clipped]
    whole = [one for one in sets.values() if not one.boxes.clipped]
    said = []
    if whole:
        names = "; ".join(one.name for one in whole)
        said.append(f"Boxes x ± ε, as in equation (10) and as published: {names}.")
    if clipped:
        names = "; ".join(f"{one.name} ({one.boxes.clipped} of {one.boxes.count} boxes are smaller)" for one in clipped)
        said.append(
            f"Boxes clipped to valid pixels, as in the authors' released code: {names}. They are smaller than those"
            " that GNN_branching's figures are of, so no published row stands beside them."
        )
    return said


def warnings(results: Sequence[Result]) -> list[str]:
    """Return answers that contradict each other or what is known, and runs that failed."""
    found = [f"Contradiction: {line}" for line in contradictions(latest(results))]
    errors = [r for r in results if r.verdict == "error"]
    return found + [f"{r.benchmark}: {Path(r.vnnlib).name}, {r.method}: {r.error}" for r in errors[:5]]


def how(results: Sequence[Result]) -> Section:
    """Return what somebody else needs to run it again; where options differ from set to set, by set."""
    asked: dict[str, dict[str, None]] = {}
    for r in results:
        options = ", ".join(f"{name}={value}" for name, value in r.options.items())
        limit = "none" if r.timeout is None else f"{r.timeout:g} s"
        attack = "" if r.attack else ", no attack"
        line = f"{r.method} ({options}), {r.device}, {r.threads} threads, seed {r.seed}, time limit {limit}{attack}"
        asked.setdefault(line, {})[r.benchmark] = None
    versions = dict.fromkeys(", ".join(f"{n} {v}" for n, v in r.versions.items() if v) for r in results)
    items = [f"{line}: {', '.join(names)}" for line, names in asked.items()]
    return Section("How it was run", items=[*items, *(f"versions: {line}" for line in versions if line)])


def table(rows: Sequence[Row]) -> Table:
    header = (
        *("method", "source", "boxes", "mean s", "mean branches", "two per split"),
        *("% timed out", "timed out in LP", "% solved", "properties", "limit s"),
    )
    columns = ("mean_s", "branches", "tree", "timed_out", "in_lp", "solved", "properties", "limit")
    return Table(
        header, [(row.method, SOURCES[row.source], row.boxes, *figures(row, *columns)) for row in rows], names=3
    )


def _cactus(output: Output, of: PaperSet, results: Sequence[Result], methods: Sequence[str]) -> Picture:
    """Draw solved properties against time."""
    from netproof.report.plots import cactus, render, save

    solved = solved_of(of, results, methods)
    figure = cactus(solved.series, solved.total, title=of.title, limit=solved.limit, percent=True, styles=solved.styles)
    save(figure, output.path(f"cactus-{of.name}"))
    words = ", ".join(f"{label}: {len(times)} of {solved.total}" for label, times in solved.series.items())
    return Picture(render(figure, "svg"), f"Cactus plot, {of.title}: {words}")


def _all_cactus(
    output: Output, results: Sequence[Result], methods: Sequence[str], sets: Mapping[str, PaperSet]
) -> Picture:
    """Draw the sets side by side with one legend, as the paper's Figure 4."""
    from netproof.report.plots import cactus_row, render, save

    figure = cactus_row([solved_of(one, results, methods) for one in sets.values()])
    save(figure, output.path("cactus"))
    names = "; ".join(one.title for one in sets.values())
    return Picture(render(figure, "svg"), f"Cactus plots in one row, each again below: {names}")


def solved_of(of: PaperSet, results: Sequence[Result], methods: Sequence[str]) -> Solved:
    """Return what is drawn of a set: a published method is a series of its own, and says so."""
    from netproof.report.plots import Solved

    mine = [r for r in results if r.benchmark == of.name]
    series: dict[str, list[float]] = {}
    styles = {}
    for method in methods:
        label = f"{method}, measured here"
        series[label] = [r.total for r in mine if r.method == method and r.solved]
        styles[label] = style(method, "ours")
    for method, runs in of.published.items():
        label = f"{method}, published"
        series[label] = [run.seconds for run in runs if run.solved]
        styles[label] = style(method, "published")
    limits = [r.timeout for r in mine if r.timeout is not None]
    return Solved(of.short.replace(",\n", ", "), series, len(of.instances), max(limits, default=None), styles)


def shown_in_plot(rows: Sequence[Row]) -> list[Row]:
    """Return all of ours and published, of the paper only what stands beside them, and BaBSR and itself."""
    ours = {COUNTERPART.get(row.method) for row in rows if row.source == "ours"}
    published = {row.method for row in rows if row.source == "published"}
    wanted = ours | published | {"Fast and Complete", "BaBSR"}
    return [row for row in rows if row.source != "paper" or row.method in wanted]


def _panel(title: str, unit: str, rows: Sequence[Row], sets: Mapping[str, PaperSet], what: str) -> Panel:
    words = (
        f"Mean {unit} by set on a logarithm: circles what was measured here, squares published, diamonds the paper's;"
        " hollow where not all was solved"
    )
    return Panel(title, words, partial(draw_figures, rows=shown_in_plot(rows), sets=sets, what=what), 6.0)


def draw_figures(axes: Axes, rows: Sequence[Row], sets: Mapping[str, PaperSet], what: str) -> None:
    """Draw one figure of every method over the sets: a shape for the source, a colour for the method."""
    draw_rows(axes, [(row, getattr(row, what)) for row in rows], sets)
    axes.set_ylabel("mean time, seconds (log)" if what == "mean_s" else "mean branches (log)")


def draw_rows(axes: Axes, rows: Sequence[tuple[Row, float | None]], sets: Mapping[str, PaperSet]) -> None:
    """Draw the values of rows over the sets, one series per method and source; what has no value, or 0, is left out."""
    names = list(sets)
    known = [(row, value) for row, value in rows if value]
    labels = list(dict.fromkeys(row.label for row, _ in known))
    for index, label in enumerate(labels):
        mine = [pair for pair in known if pair[0].label == label]
        colour, shape = style(mine[0][0].method, mine[0][0].source)[0], SHAPES[mine[0][0].source]
        marks = [Mark(names.index(row.set), value, row.all_solved, colour, shape, label) for row, value in mine]
        draw_marks(axes, marks, index, len(labels))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    mark_categories(axes, [one.short for one in sets.values()], "set of properties; hollow: not all solved")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.26), ncols=2, fontsize=8.5, frameon=False)


__all__ = ["default_methods", "draw_figures", "rows_of", "warnings", "write"]
