"""The chart of docs/paper.md: mean seconds on the five sets, of the paper's method, of BaBSR, of `lirpa` and of `auto`.

Drawn from the table1.csv that `netproof reproduce table1` has written, and from nothing else; from several of them
where rows were measured with different limits or devices.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from options import Parser, run, writable
from tables import say, table

from netproof.errors import UsageError
from netproof.paper.sets import SETS, base_name
from netproof.paper.tables.drawing import GRID, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The series in the order of the legend: for each, what to look for, the first that a set has (source, method).
SERIES = (
    (("paper", "Fast and Complete"),),
    (("ours", "babsr-lp"), ("published", "BaBSR")),
    (("ours", "lirpa"),),
    (("ours", "auto"),),
)
WORDS = {
    ("paper", "Fast and Complete"): "Fast and Complete, as the paper prints it",
    ("ours", "babsr-lp"): "BaBSR with LPs, netproof's babsr-lp",
    ("published", "BaBSR"): "BaBSR with LPs, as published",
    ("ours", "lirpa"): "the paper's method, netproof's lirpa",
    ("ours", "auto"): "netproof's auto",
}
SHAPES = {"paper": "D", "published": "s", "ours": "o"}


@dataclass(frozen=True)
class Dot:
    """A mean of one set; `solved` in percent, None where the source does not say."""

    set: str
    source: str
    method: str
    seconds: float
    solved: float | None
    properties: str
    limit: str

    @property
    def hollow(self) -> bool:
        return self.solved is not None and self.solved < 100


def read(path: Path) -> list[Dot]:
    """All rows of the CSV that have a mean time; where a set has boxes of both kinds, those of x ± ε."""
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        whole = {base_name(row["set"]) for row in rows if row["boxes"] == "unclipped"}
        clipped = {row["set"] for row in rows if row["boxes"].startswith("clipped") and base_name(row["set"]) in whole}
        return [
            Dot(
                base_name(row["set"]),
                row["source"],
                row["method"],
                float(row["mean_s"]),
                float(row["solved_percent"]) if row["solved_percent"] else None,
                row["properties"] or "–",
                row["limit_s"] or "–",
            )
            for row in rows
            if row["mean_s"] and row["set"] not in clipped
        ]
    except (OSError, UnicodeDecodeError, KeyError, ValueError) as error:
        what = f"not a table1.csv: {error} is missing or is no figure" if not isinstance(error, OSError) else str(error)
        remedy = "give the table1.csv that `netproof reproduce table1` has written"
        raise UsageError(what, file=str(path), remedy=remedy) from error


def chosen(dots: list[Dot]) -> list[Dot]:
    """By set and series the dot to draw; a series may have none.

    A measured BaBSR that solved nothing would stand at its limit, whatever that was: the published one says more.
    """
    found = []
    for name in SETS:
        here = {(dot.source, dot.method): dot for dot in reversed(dots) if dot.set == name}
        tried = here.get(("ours", "babsr-lp"))
        if tried is not None and tried.solved == 0 and ("published", "BaBSR") in here:
            del here["ours", "babsr-lp"]
        for names in SERIES:
            found += [here[key] for key in names if key in here][:1]
    return found


def draw(dots: list[Dot], title: str) -> Figure:
    """One line per set; hollow where not all was solved, so that the mean is a lower bound."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from netproof.report.plots import SETTINGS

    names = [name for name in SETS if any(dot.set == name for dot in dots)]
    with mpl.rc_context({**SETTINGS, "font.size": 12}):
        figure = Figure(figsize=(8.0, 1.9 + 0.52 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        for place in range(len(names)):
            axes.axhline(place, color=GRID, linewidth=1, zorder=0)
        for key, words in WORDS.items():
            colour, shape = style(key[1], key[0])[0], SHAPES[key[0]]
            mine = [dot for dot in dots if (dot.source, dot.method) == key]
            for at, dot in enumerate(mine):
                fill = "white" if dot.hollow else colour
                look = {"color": colour, "markerfacecolor": fill, "markersize": 9, "markeredgewidth": 1.8}
                y = names.index(dot.set)
                axes.plot([dot.seconds], [y], shape, zorder=3, label=words if at == 0 else None, **look)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_yticks(range(len(names)), [SETS[name] for name in names])
        axes.set(
            ylim=(len(names) - 0.5, -0.5), xlabel="mean seconds per property (log); hollow: not all solved in time"
        )
        axes.grid(visible=True, axis="x", color=GRID, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=10.5, handletextpad=0.3)
        if title:
            axes.set_title(title, loc="left", fontsize=12)
    return figure


def main() -> int:
    parser = Parser(description=__doc__, prog="chart.py")
    text = "what `netproof reproduce table1` has written; of several, the first that has a row counts"
    parser.add_argument("csv", type=Path, nargs="+", metavar="TABLE1.csv", help=text)
    parser.add_argument("--out", type=writable, required=True, metavar="PNG", help="the picture")
    parser.add_argument("--title", default="", help="one line above it, such as the machine (default: none)")
    arguments = parser.parse_args()
    dots = chosen([dot for path in arguments.csv for dot in read(path)])
    if not dots:
        remedy = "run table1 with --method lirpa and auto"
        raise UsageError("no row to draw", file=", ".join(map(str, arguments.csv)), remedy=remedy)
    draw(dots, arguments.title).savefig(arguments.out, dpi=150, metadata={"Software": None})
    header = ("set", "source", "method", "mean s", "% solved", "properties", "limit s")
    rows = [(dot.set, dot.source, dot.method, f"{dot.seconds:.2f}", *_rest(dot)) for dot in dots]
    print(table([header, *rows], names=3))
    say(f"picture: {arguments.out}")
    return 0


def _rest(dot: Dot) -> tuple[str, str, str]:
    return "–" if dot.solved is None else f"{dot.solved:g}", dot.properties, dot.limit


if __name__ == "__main__":
    run(main)
