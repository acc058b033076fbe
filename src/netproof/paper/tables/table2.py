"""`netproof reproduce table2`: the ablation. What batches and what optimised slopes bring, each alone and together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.instances import Instance
from netproof.campaign.store import Result
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output, shown
from netproof.paper.tables.rows import (
    HEADER,
    SETS,
    SOURCES,
    Published,
    Row,
    cells,
    figures,
    our_row,
    paper_rows,
    paper_speedups,
    published_row,
)
from netproof.paper.tables.table1 import how, warnings
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE = "BaBSR"
# The paper's rows by the method that stands for them; the baseline is what was published.
ROWS = {"batch only": "lirpa-fixed", "optimised only": "lirpa-single", "both": "lirpa"}
MEANING = {
    BASELINE: "LP bounds, one sub-domain at a time (published)",
    "batch only": "batches, slopes not optimised (lirpa-fixed)",
    "optimised only": "optimised slopes, one sub-domain at a time (lirpa-single)",
    "both": "optimised slopes in batches (lirpa)",
}
NOTE = (
    "BaBSR's times are those that GNN_branching published for the same properties, on another machine; the other three"
    " were measured here. A speed-up is BaBSR's mean time divided by the row's, over the same properties. What was not"
    " solved counts at its time limit, so read every mean beside its % solved: where that is below 100, the true mean"
    " is higher and the true speed-up lower. No row is slowed to fit the paper's."
)


@dataclass(frozen=True)
class Line:
    """A row of the ablation with its speed-up."""

    row: Row
    speedup: float | None


def lines_of(
    results: Sequence[Result],
    sets: Mapping[str, Sequence[Instance]],
    published: Mapping[str, Mapping[str, Sequence[Published]]],
) -> list[Line]:
    """By set the four rows of ours, then the paper's four."""
    lines: list[Line] = []
    paper, printed = paper_rows(2), paper_speedups()
    for name in sets:
        here = [r for r in results if r.benchmark == name]
        rows = [published_row(BASELINE, name, published[name][BASELINE])]
        for title, method in ROWS.items():
            rows.append(our_row(title, name, [r for r in here if r.method == method]))
        lines += _with_speedups(rows)
        lines += [Line(row, printed[row.method, name]) for row in paper if row.set == name]
    return lines


def _with_speedups(rows: Sequence[Row]) -> list[Line]:
    base = rows[0].mean_s
    return [Line(row, base / row.mean_s if base and row.mean_s and row.method != BASELINE else None) for row in rows]


def order(lines: Sequence[Line], name: str, source: str) -> list[str]:
    """The three methods from fastest to slowest, as one source has them."""
    mine = [
        line.row for line in lines if line.row.set == name and line.row.source == source and line.row.method in ROWS
    ]
    return [row.method for row in sorted(mine, key=lambda row: row.mean_s or 0.0) if row.mean_s is not None]


def differences(lines: Sequence[Line]) -> list[str]:
    """The sets on which our order is not the paper's, both orders given."""
    found = []
    for name in dict.fromkeys(line.row.set for line in lines):
        ours, paper = order(lines, name, "ours"), order(lines, name, "paper")
        if ours and ours != paper:
            found.append(f"{SETS[name]}: here {' < '.join(ours)}; in the paper {' < '.join(paper)} (mean time)")
    return found


WHY = (
    "Why the order may differ: on the wide and deep networks optimised slopes cost most of their time at the root,"
    " where every intermediate neuron has slopes of its own. Fixed slopes start to split at once and pay with many"
    " times the branches, each far cheaper. Where some thousand such branches finish a proof, they win by the clock"
    " though they lose by the count; where the bound stays far from a proof they do not finish at all. The paper has"
    " unoptimised slopes slower than BaBSR on every set; it does not say how the intermediate bounds of that row are"
    " computed."
)


def write(
    output: Output,
    results: Sequence[Result],
    sets: Mapping[str, Sequence[Instance]],
    published: Mapping[str, Mapping[str, Sequence[Published]]],
) -> Path:
    """table2.{csv,png,pdf,html}; the path of the page."""
    lines = lines_of(results, sets, published)
    output.csv((*HEADER, "speedup"), [(*cells(line.row), line.speedup) for line in lines])
    names = list(sets)
    pictures = output.panels(
        [
            _panel("Mean time, measured here", lines, names, ("ours", "published"), "time"),
            _panel("Mean time, the paper's", lines, names, ("paper",), "time"),
            _panel("Speed-up over BaBSR, measured here", lines, names, ("ours", "published"), "speedup"),
            _panel("Speed-up over BaBSR, the paper's", lines, names, ("paper",), "speedup"),
        ]
    )
    differ = differences(lines)
    sections = [
        Section("The rows", NOTE, items=[f"{name}: {words}" for name, words in MEANING.items()]),
        Section("Overview", warnings=warnings(results), pictures=pictures),
        *(Section(SETS[name], tables=[_table([x for x in lines if x.row.set == name])]) for name in names),
        Section("Order", WHY if differ else "The order of the three is the paper's on every set.", items=differ),
        how(results),
    ]
    return output.page("Table 2: the ablation", sections, f"{len(results)} runs.")


def _table(lines: Sequence[Line]) -> Table:
    header = ("row", "source", "mean s", "speed-up", "mean branches", "% solved", "properties", "limit s")
    rows = [
        (
            line.row.method,
            SOURCES[line.row.source],
            *figures(line.row, "mean_s"),
            shown(line.speedup),
            *figures(line.row, "branches", "solved", "properties", "limit"),
        )
        for line in lines
    ]
    return Table(header, rows, names=2)


def _panel(title: str, lines: Sequence[Line], sets: Sequence[str], sources: tuple[str, ...], what: str) -> Panel:
    mine = [line for line in lines if line.row.source in sources]
    words = f"{title}: by set, on a logarithm, the rows " + ", ".join(dict.fromkeys(line.row.method for line in mine))
    return Panel(title, words, partial(_draw, lines=mine, sets=sets, what=what), 4.8)


def _draw(axes: Axes, lines: Sequence[Line], sets: Sequence[str], what: str) -> None:
    """The same marker and dash for a row in every panel; an open marker where not all were solved."""
    from netproof.report.plots import COLOURS, LINES, MARKERS

    for place, name in enumerate(MEANING):
        mine = [line for line in lines if line.row.method == name]
        values = [line.row.mean_s if what == "time" else line.speedup for line in mine]
        points = [(sets.index(line.row.set), v) for line, v in zip(mine, values, strict=True) if v is not None]
        if not points:
            continue
        source = mine[0].row.source
        label = f"{name} ({SOURCES[source]})" if source != "ours" else name
        axes.plot(
            *zip(*points, strict=True),
            linestyle=LINES[place],
            marker=MARKERS[place],
            color=COLOURS[place],
            markerfacecolor="white" if source != "ours" else None,
            label=label,
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xticks(range(len(sets)), [SETS[name].replace(", ", ",\n") for name in sets])
    axes.set(xlim=(-0.3, len(sets) - 0.7), xlabel="set of properties")
    axes.set_ylabel("mean time, seconds (log)" if what == "time" else "times faster than BaBSR (log)")
    if what == "speedup":
        axes.axhline(1, color="#555555", linewidth=1)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False, handlelength=3.2)
