"""`netproof reproduce lp`: how many times longer an LP takes than optimised LiRPA, bound by bound (section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from netproof.paper.sets import PaperSet
from netproof.paper.tables.drawing import Mark, Panel, draw_marks, mark_categories, style
from netproof.paper.tables.lp_run import KINDS, Ask, Measured, time_said
from netproof.paper.tables.output import Output, shown
from netproof.paper.tables.table1 import boxes_said
from netproof.report.page import Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAME = 1e-6  # of 1 + |bound|: by less than this the LP's bound is no better
HEADER = (
    *("set", "boxes", "property", "place", "rounds", "sub_domains"),
    *("lp_s_per_bound", "lp_warm_s_per_bound", "lirpa_single_s_per_bound", "lirpa_batch_s_per_bound"),
    *("lp_over_single", "lp_over_batch", "lp_warm_over_single", "lp_warm_over_batch"),
    *("lp_proves", "lirpa_proves", "lp_higher", "median_lp_minus_lirpa"),
    *("lp_timed_on", "lp_warm_timed_on", "lirpa_single_timed_on", "lirpa_batch_timed_on", "why_not"),
)
TITLES = (
    *("set", "boxes", "place", "properties", "sub-domains", "LP, ms", "LP warm, ms", "one, ms", "batch, ms"),
    *("LP / one", "LP / batch", "warm / one", "warm / batch", "LP proves", "LiRPA proves", "LP higher", "LP − LiRPA"),
)


# --- what the times say together ---


@dataclass(frozen=True)
class Line:
    """Several properties in one place; seconds per bound over the sub-domains that were timed, None where none was."""

    set: str
    boxes: str
    place: str
    properties: int
    domains: int
    seconds: Mapping[str, float | None]  # by field of Times
    timed: Mapping[str, int]  # by field of Times, over how many sub-domains
    proved: tuple[int, int]  # by the LP, by LiRPA
    higher: int  # sub-domains on which the LP's bound is higher
    gap: float | None  # the middle one of LP − LiRPA, where both are numbers

    @property
    def over(self) -> tuple[float | None, ...]:
        """Return how many times longer an LP takes than LiRPA: from nothing than one alone and of a batch, and warm."""
        seconds = ((self.seconds[lp], self.seconds[lirpa]) for lp in ("lp", "warm") for lirpa in ("single", "batch"))
        return tuple(None if lp is None or lirpa is None else lp / lirpa for lp, lirpa in seconds)


def line_of(of: PaperSet | Measured, place: str, found: Sequence[Measured]) -> Line | None:
    """Sum up properties of a set in one place; None where none has times."""
    every = [m.times for m in found if m.times is not None]
    if not every:
        return None
    timed = {field: sum(t.timed(field) for t in every) for _, field, _ in KINDS}
    spent = {field: sum((getattr(t, field) or 0.0) * t.timed(field) for t in every) for field in timed}
    seconds = {field: spent[field] / timed[field] if timed[field] else None for field in timed}
    pairs = [pair for t in every for pair in t.pairs]
    gaps = [lp - lirpa for lp, lirpa in pairs if math.isfinite(lp) and math.isfinite(lirpa)]
    boxes = of.boxes if isinstance(of, Measured) else of.boxes.kind
    return Line(
        of.set if isinstance(of, Measured) else of.name,
        boxes,
        place,
        len(every),
        sum(times.domains for times in every),
        seconds,
        timed,
        (sum(lp > 0 for lp, _ in pairs), sum(lirpa > 0 for _, lirpa in pairs)),
        sum(lp > lirpa + SAME * (1 + abs(lirpa)) for lp, lirpa in pairs if lirpa < math.inf),
        median(gaps) if gaps else None,
    )


def lines_of(found: Sequence[Measured], sets: Mapping[str, PaperSet]) -> list[Line]:
    """Sum up by set and place."""
    places = dict.fromkeys(m.place for m in found)
    lines = (
        line_of(one, place, [m for m in found if (m.set, m.place) == (name, place)])
        for name, one in sets.items()
        for place in places
    )
    return [line for line in lines if line is not None]


def shown_line(line: Line) -> tuple[str, ...]:
    """Return a line under TITLES."""
    return (
        *(line.set, line.boxes, line.place, str(line.properties), str(line.domains)),
        *(_time_shown(line, field) for _, field, _ in KINDS),
        *(shown(times, 1) for times in line.over),
        *map(str, line.proved),
        str(line.higher),
        shown(line.gap, 4),
    )


def _time_shown(line: Line, field: str) -> str:
    """Return milliseconds, and over how many sub-domains where the clock did not let it be all."""
    few = 0 < line.timed[field] < line.domains
    return time_said(line.seconds[field]) + (f" ({line.timed[field]} of {line.domains})" if few else "")


def said(lines: Sequence[Line]) -> list[str]:
    """Return the result in words, for each place."""
    found = []
    for place in dict.fromkeys(line.place for line in lines):
        here = [line for line in lines if line.place == place]
        alone, batch, warm_alone, warm_batch = (_span(times) for times in zip(*(x.over for x in here), strict=True))
        basis = _over_said("an LP from the parent's basis", warm_batch, warm_alone)
        found.append(f"{place}: {basis}; {_over_said('an LP from nothing', batch, alone)}.")
    return found


def _over_said(what: str, batch: str, alone: str) -> str:
    """Say how many times longer an LP takes than LiRPA in a batch and alone; "": the clock ended it before."""
    if not batch:
        return f"{what} was not timed"
    more = f", {alone} times as long as one alone" if alone else ""
    return f"{what} takes {batch} times as long as a bound of LiRPA in a batch{more}"


def _span(times: Sequence[float | None]) -> str:
    known = [one for one in times if one is not None]
    if not known:
        return ""
    least, most = (shown(end(known), 1) for end in (min, max))
    return least if least == most else f"{least} to {most}"


# --- files ---


def write(output: Output, found: Sequence[Measured], sets: Mapping[str, PaperSet], ask: Ask) -> Path:
    """Write lp.{csv,png,pdf,html} and lp-bounds.csv; return the path of the page."""
    lines = lines_of(found, sets)
    output.csv(HEADER, [_cells(m) for m in found])
    output.csv(
        ("set", "boxes", "property", "place", "sub_domain", "lp_bound", "lirpa_bound"),
        [
            (m.set, m.boxes, m.property, m.place, place, *pair)
            for m in found
            if m.times is not None
            for place, pair in enumerate(
                zip(m.times.lp_bounds, m.times.lirpa_bounds, strict=True)
            )  # None: no LP in time
        ],
        "bounds",
    )
    places = list(dict.fromkeys(line.place for line in lines))
    panels = [_panel(place, [line for line in lines if line.place == place], sets) for place in places]
    pictures = output.panels([*panels, _bounds_panel(found, sets)], columns=len(panels) + 1)
    missing, cut = (
        [f"{m.set}: {m.property}, {m.place}: {m.why}" for m in found if m.why and (m.times is None) == nothing]
        for nothing in (True, False)
    )
    return output.page(
        "LiRPA against the LP",
        [
            Section("What is shown", items=[*_about(), *boxes_said(sets), str(ask)]),
            Section("Result", " ".join(said(lines)), tables=[_table(lines)], pictures=pictures),
            Section("The paper", PAPER),
            *([Section("Not timed on all sub-domains", items=cut)] if cut else []),
            *([Section("Left out", items=missing)] if missing else []),
        ],
        f"{sum(line.properties for line in lines)} properties, {sum(line.domains for line in lines)} sub-domains.",
    )


PAPER = (
    "Section 3.1 says that LiRPA is one or two orders of magnitude faster than an LP, and prints no numbers for it. Its"
    " LPs were solved by Gurobi, these by HiGHS."
)


def _about() -> list[str]:
    return [
        "A search of Algorithm 1 is stopped after a round that leaves sub-domains open, and the worst of them are split"
        " once more, as its next round would do. These halves are bounded in three ways.",
        "LiRPA, batch: all of them at once; LiRPA, one at a time: each alone. Both by as many steps as below the root,"
        " the neurons that a split moves bounded again, everything confirmed in float64. No climb stops because its"
        " sub-domain is proved; one that rises no more stops, as in a search.",
        "LP: HiGHS, on the triangle relaxation of the same sub-domains with the intermediate bounds that LiRPA left."
        " They cost LiRPA its time, and the LP nothing. From nothing: the whole network's program, as on leaves; warm:"
        " the condensed network's, by dual simplex from the basis of the parent's LP, as babsr-lp. Neither building"
        " what all LPs share nor the parent's LP is in the time. Bounds are certified from the duals; the better of"
        " both counts.",
        "Seconds are wall-clock; with several threads LiRPA uses all for a batch, and so many LPs run at a time.",
        "A number in brackets says on how many of the sub-domains something was timed before the time limit (--timeout)"
        " ended it. What the LP and LiRPA prove is then counted where the LP was solved.",
        "LP higher: on so many sub-domains the LP's bound is higher, by LP − LiRPA in the middle one of all. The LP has"
        " the splits as constraints, LiRPA only the bounds that they give.",
    ]


def _cells(m: Measured) -> tuple[object, ...]:
    """Return a property under HEADER."""
    line = line_of(m, m.place, [m])
    named = (m.set, m.boxes, m.property, m.place)
    if line is None or m.times is None:
        return (*named, *[None] * (len(HEADER) - len(named) - 1), m.why)
    figures, timed = ([of[field] for _, field, _ in KINDS] for of in (line.seconds, line.timed))
    most = (*named, m.times.rounds, line.domains, *figures, *line.over)
    return (*most, *line.proved, line.higher, line.gap, *timed, m.why)


def _table(lines: Sequence[Line]) -> Table:
    return Table(TITLES, [shown_line(line) for line in lines], names=3)


def _panel(place: str, lines: Sequence[Line], sets: Mapping[str, PaperSet]) -> Panel:
    words = f"Milliseconds per bound on a logarithm, by set, on {place}: " + "; ".join(
        f"{line.set}: " + ", ".join(f"{name} {_time_shown(line, field)}" for name, field, _ in KINDS) for line in lines
    )
    return Panel(f"Time per bound, {place}", words, partial(_draw, lines=lines, sets=sets), 4.8)


def _draw(axes: Axes, lines: Sequence[Line], sets: Mapping[str, PaperSet]) -> None:
    names = list(sets)
    for index, (name, field, method) in enumerate(KINDS):
        colour, _, shape = style(method, "ours")
        known = [(x, x.seconds[field]) for x in lines]
        marks = [
            Mark(names.index(x.set), 1000 * seconds, x.timed[field] == x.domains, colour, shape, name)
            for x, seconds in known
            if seconds is not None
        ]
        if marks:
            draw_marks(axes, marks, index, len(KINDS))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    mark_categories(axes, [one.short for one in sets.values()], "set of properties; hollow: not timed on all")
    axes.set_ylabel("milliseconds per bound (log)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.26), ncols=2, frameon=False)


def _bounds_panel(found: Sequence[Measured], sets: Mapping[str, PaperSet]) -> Panel:
    words = "Every sub-domain: LiRPA's bound against the LP's on the same sub-domain; on the diagonal they are equal"
    return Panel("Both bounds of each sub-domain", words, partial(_draw_bounds, found=found, sets=sets), 4.8)


def _draw_bounds(axes: Axes, found: Sequence[Measured], sets: Mapping[str, PaperSet]) -> None:
    every: list[float] = []
    colour = style("lirpa", "ours")[0]
    for marker, (name, one) in zip("os^x+" * len(sets), sets.items(), strict=False):
        pairs = [
            pair
            for m in found
            if m.set == name and m.times is not None
            for pair in m.times.pairs
            if all(map(math.isfinite, pair))
        ]
        if pairs:
            every += [value for pair in pairs for value in pair]
            label = one.short.replace("\n", " ")
            axes.plot(*zip(*pairs, strict=True), marker, color=colour, markersize=4, alpha=0.6, label=label)
    if every:
        ends = [min(every), max(every)]
        axes.plot(ends, ends, color="#999999", linewidth=0.8)
    axes.set(xlabel="the LP's bound (logits)", ylabel="LiRPA's bound (logits)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.26), ncols=2, frameon=False)
