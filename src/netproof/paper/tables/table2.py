"""`netproof reproduce table2`: the ablation. What batches and what optimised slopes bring, each alone and together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.campaign.store import Result
from netproof.paper.sets import PaperSet
from netproof.paper.tables.drawing import Panel
from netproof.paper.tables.output import Output, shown
from netproof.paper.tables.rows import (
    HEADER,
    SOURCES,
    Row,
    cells,
    figures,
    our_row,
    paper_rows,
    paper_speedups,
    published_row,
)
from netproof.paper.tables.table1 import BRANCHES, FLOOR, boxes_said, draw_rows, how, warnings
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINE, MEASURED = "BaBSR", "babsr-lp"
# The paper's rows, and what else is measured: section 3.3 can be read in two ways, and the released code's split
# neurons keep slopes that equation (5) does not have.
ROWS = ("batch only", "optimised only", "both")
OURS = {  # by profile of Algorithm 1, the rows by the method that stands for them
    "released": {
        "batch only": "lirpa-fixed",
        "optimised only": "lirpa-single",
        "both": "lirpa",
        "both, split lines forced": "lirpa-forced",
        "both, grown": "lirpa-grown",
    },
    "printed": {
        "batch only": "lirpa-printed-fixed",
        "optimised only": "lirpa-printed-single",
        "both": "lirpa-printed",
    },
}
MEANING = {
    BASELINE: "LP bounds, one sub-domain at a time, where it was run here, and as published",
    "batch only": "batches, slopes not optimised",
    "optimised only": "optimised slopes, one sub-domain at a time",
    "both": "optimised slopes in batches, each leaf split in two",
    "both, split lines forced": "the same with the lines of equation (5) where a split holds a neuron on one side",
    "both, grown": "the same as both, leaves grown by up to log₂ n levels while there are few",
}
NOTE = (
    "A mean counts what was not solved at its time limit, so read it beside its % solved. A speed-up is BaBSR's time"
    " divided by the row's, both summed over the properties that both have solved, and there is none without such"
    " properties; how many they are stands behind it. 'Measured' is against babsr-lp, run here on the same cores;"
    " 'published' is against GNN_branching's times, from another machine, so it compares hardware as well. No row is"
    " slowed to fit the paper's."
)
HEADER2 = (*HEADER, "speedup_measured", "speedup_measured_over", "speedup_published", "speedup_published_over")


@dataclass(frozen=True)
class Speedup:
    """How many times faster, over so many properties that both sides have solved; None where there are none."""

    times: float | None
    over: int

    def __str__(self) -> str:
        return "–" if self.times is None else f"{shown(self.times)} (over {self.over})"


@dataclass(frozen=True)
class Line:
    """A row of the ablation with its speed-ups; the paper's is one as printed."""

    row: Row
    measured: Speedup | None = None
    published: Speedup | None = None
    printed: float | None = None

    @property
    def cells(self) -> tuple[object, ...]:
        """Return the line under HEADER2; a printed speed-up is the paper's own measurement."""
        if self.row.source == "paper":
            return (*cells(self.row), self.printed, None, None, None)
        both = [(s.times, s.over) if s is not None else (None, None) for s in (self.measured, self.published)]
        return (*cells(self.row), *both[0], *both[1])


def lines_of(results: Sequence[Result], sets: Mapping[str, PaperSet], profile: str) -> list[Line]:
    """Return by set the rows of ours, babsr-lp where it was run, what was published of BaBSR, then the paper's four."""
    lines: list[Line] = []
    printed = paper_speedups()
    for name, one in sets.items():
        here = [r for r in results if r.benchmark == name]
        bases = {"measured": _solved(here, MEASURED), "published": published_times(one)}
        measured = [r for r in here if r.method == MEASURED]
        if measured:
            lines.append(Line(our_row(BASELINE, one, measured)))
        if one.published:
            lines.append(Line(published_row(BASELINE, one, one.published[BASELINE])))
        for title, method in OURS[profile].items():
            row = our_row(title, one, [r for r in here if r.method == method])
            mine = _solved(here, method)
            found = {key: speedup(base, mine) for key, base in bases.items() if base is not None}
            lines.append(Line(row, found.get("measured"), found.get("published")))
        lines += [Line(row, printed=printed[row.method, one.base]) for row in paper_rows(2, one)]
    return lines


def _solved(results: Sequence[Result], method: str) -> dict[str, float] | None:
    """Return by property the seconds of what a method has solved; None where it was not run."""
    mine = [r for r in results if r.method == method]
    return {r.vnnlib: r.total for r in mine if r.solved} if mine else None


def published_times(of: PaperSet) -> dict[str, float] | None:
    """Return by property BaBSR's published seconds where it solved it; None without figures of these boxes."""
    if not of.published:
        return None
    pairs = zip(of.instances, of.published[BASELINE], strict=True)
    return {instance.names[1]: run.seconds for instance, run in pairs if run.solved}


def speedup(base: Mapping[str, float], mine: Mapping[str, float] | None) -> Speedup:
    """Compare both sides over the properties that both have solved."""
    both = base.keys() & (mine or {}).keys()
    spent = sum((mine or {})[name] for name in both)
    return Speedup(sum(base[name] for name in both) / spent if spent > 0 else None, len(both))


def order(lines: Sequence[Line], name: str, source: str) -> list[str]:
    """Return the three methods from fastest to slowest, as one source has them."""
    mine = [
        line.row for line in lines if line.row.set == name and line.row.source == source and line.row.method in ROWS
    ]
    return [row.method for row in sorted(mine, key=lambda row: row.mean_s or 0.0) if row.mean_s is not None]


def differences(lines: Sequence[Line], sets: Mapping[str, PaperSet]) -> list[str]:
    """Return the sets on which our order is not the paper's, both orders given."""
    found = []
    for name, one in sets.items():
        ours, paper = order(lines, name, "ours"), order(lines, name, "paper")
        if ours and ours != paper:
            found.append(f"{one.title}: here {' < '.join(ours)}; in the paper {' < '.join(paper)} (mean time)")
    return found


WHY = (
    "Why the order may differ: on the wide and deep networks optimised slopes cost most of their time at the root,"
    " where all intermediate bounds are optimised. Fixed slopes start to split at once and pay with many"
    " times the branches, each far cheaper. Where some thousand such branches finish a proof, they win by the clock"
    " though they lose by the count; where the bound stays far from a proof they do not finish at all. The paper has"
    " unoptimised slopes slower than BaBSR on every set; it does not say how the intermediate bounds of that row are"
    " computed."
)


def write(output: Output, results: Sequence[Result], sets: Mapping[str, PaperSet], profile: str) -> Path:
    """Write table2.{csv,png,pdf,html}; return the path of the page."""
    lines = lines_of(results, sets, profile)
    output.csv(HEADER2, [line.cells for line in lines])
    pictures = output.panels(_panels(lines, sets))
    differ = differences(lines, sets)
    methods = {BASELINE: MEASURED, **OURS[profile]}
    meaning = [f"{name}: {MEANING[name]} ({method})" for name, method in methods.items()]
    sections = [
        Section("The rows", NOTE, items=[*meaning, *boxes_said(sets), BRANCHES, FLOOR]),
        Section("Overview", warnings=warnings(results), pictures=pictures),
        *(Section(one.title, tables=[table([x for x in lines if x.row.set == one.name])]) for one in sets.values()),
        Section("Order", WHY if differ else "The order of the three is the paper's on every set.", items=differ),
        how(results),
    ]
    return output.page("Table 2: the ablation", sections, f"{len(results)} runs.")


TITLES = (
    *("set", "boxes", "source", "row", "mean s"),
    *("speed-up, measured", "speed-up, published", "branches", "two per split", "% solved"),
)


def shown_line(line: Line) -> tuple[str, ...]:
    """Return a line as the terminal has it, under TITLES."""
    row = line.row
    rest = figures(row, "branches", "tree", "solved")
    return (row.set, row.boxes, row.source, row.method, *figures(row, "mean_s"), *speedups(line), *rest)


def speedups(line: Line) -> tuple[str, str]:
    """Return both speed-ups in words; the paper's, made on one machine, stands with the measured ones."""
    if line.row.source == "paper":
        return shown(line.printed), "–"
    return (
        "–" if line.measured is None else str(line.measured),
        "–" if line.published is None else str(line.published),
    )


def table(lines: Sequence[Line]) -> Table:
    """Return the table of one set."""
    header = (
        *("row", "source", "boxes", "mean s", "speed-up, measured", "speed-up, published"),
        *("mean branches", "two per split", "% solved", "properties", "limit s"),
    )
    rows = [
        (
            line.row.method,
            SOURCES[line.row.source],
            line.row.boxes,
            *figures(line.row, "mean_s"),
            *speedups(line),
            *figures(line.row, "branches", "tree", "solved", "properties", "limit"),
        )
        for line in lines
    ]
    return Table(header, rows, names=3)


def _panels(lines: Sequence[Line], sets: Mapping[str, PaperSet]) -> list[Panel]:
    """Return times and speed-ups, ours and the paper's; a speed-up is of what both sides solved, or is not drawn."""
    ours = [line for line in lines if line.row.source != "paper"]
    paper = [line for line in lines if line.row.source == "paper"]
    panels = [
        _panel("Mean time, measured here", ours, sets, "time"),
        _panel("Mean time, the paper's", paper, sets, "time"),
    ]
    for what in ("measured", "published"):
        mine = [line for line in ours if _value(line, what) is not None]
        if mine:
            panels.append(_panel(f"Speed-up over BaBSR, {what}", mine, sets, what))
    return [*panels, _panel("Speed-up over BaBSR, the paper's", paper, sets, "printed")]


def _value(line: Line, what: str) -> float | None:
    if what == "time":
        return line.row.mean_s
    if what == "printed":
        return line.printed
    found = line.measured if what == "measured" else line.published
    return None if found is None else found.times


def _panel(title: str, lines: Sequence[Line], sets: Mapping[str, PaperSet], what: str) -> Panel:
    names = ", ".join(dict.fromkeys(line.row.label for line in lines))
    words = f"{title}: by set, on a logarithm, the rows {names}; hollow marks where not all was solved"
    return Panel(title, words, partial(_draw, lines=lines, sets=sets, what=what), 4.8)


def _draw(axes: Axes, lines: Sequence[Line], sets: Mapping[str, PaperSet], what: str) -> None:
    draw_rows(axes, [(line.row, _value(line, what)) for line in lines], sets)
    axes.set_ylabel("mean time, seconds (log)" if what == "time" else "times faster than BaBSR (log)")
    if what != "time":
        axes.axhline(1, color="#555555", linewidth=1)
