"""A line of a table: who says it, of which method on which set, and the figures.

Three sources are kept apart everywhere: `ours` was measured here, `published` is what GNN_branching published
(published.csv) for these properties with the boxes x ± ε, `paper` is what the paper prints for its own, larger sets.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean

from netproof.campaign.store import Result
from netproof.paper.sets import LIMIT, PaperSet, Published
from netproof.paper.tables.output import shown

# The paper's name of what a method of ours stands for.
COUNTERPART = {
    "lirpa": "Fast and Complete",
    "babsr-lp": "BaBSR",
    "mip": "MIPplanet",
    "gnn": "GNN",
    "gnn-online": "GNN-online",
    "bdd": "BDD+ BaBSR",
}
# Digits that a page shows.
DIGITS = {"properties": 0, "mean_s": 2, "branches": 0, "tree": 0, "timed_out": 1, "in_lp": 0, "solved": 1, "limit": 0}
SOURCES = {"ours": "measured here", "published": "published", "paper": "paper"}
NOT_SAID = "not said"  # which boxes the paper's own rows are of


@dataclass(frozen=True)
class Row:
    """Figures of one method on one set, as one source has them."""

    source: str  # a key of SOURCES
    method: str
    set: str  # the name of the set's folder
    boxes: str  # their kind
    properties: int | None  # None: the paper does not say
    mean_s: float | None  # what was not solved counts at its limit
    branches: float | None
    timed_out: float | None  # percent
    solved: float | None  # percent
    limit: float | None = None  # seconds
    tree: float | None = None  # branches with two for every split
    in_lp: int | None = None  # of those timed out, the properties whose time ended inside a turn of the LP

    @property
    def label(self) -> str:
        return f"{self.method} ({SOURCES[self.source]})"

    @property
    def all_solved(self) -> bool:
        """Say whether the mean time is one of answers alone; the paper's ablation does not say."""
        return self.solved is None or self.solved == 100.0


def our_row(method: str, of: PaperSet, results: Sequence[Result]) -> Row:
    """Make a row of runs; one that did not decide counts at its limit, whatever ended it."""
    if not results:
        return Row("ours", method, of.name, of.boxes.kind, 0, None, None, None, None)
    limits = {r.timeout for r in results}
    trees = [tree_branches(r) for r in results]
    late = [r.cut_in_lp for r in results if r.verdict == "timeout"]
    return Row(
        "ours",
        method,
        of.name,
        of.boxes.kind,
        len(results),
        fmean(charged(r) for r in results),
        fmean(r.domains for r in results),
        100.0 * sum(r.verdict == "timeout" for r in results) / len(results),
        100.0 * sum(r.solved for r in results) / len(results),
        limits.pop() if len(limits) == 1 else None,
        fmean(tree for tree in trees if tree is not None) if None not in trees else None,
        sum(map(bool, late)) if None not in late else None,
    )


def charged(result: Result) -> float:
    """Return the seconds that a run counts with."""
    return result.total if result.solved or result.timeout is None else max(result.timeout, result.total)


def tree_branches(result: Result) -> int | None:
    """Return how many branches there are when every split counts two, as published; None where that is not known.

    A sub-domain that is split on k neurons at once makes 2^k, which we count; split on one after the other it would
    make 2^(k+1) − 2. So the number is 2 (ours − sub-domains split). Not known for methods that bound sub-domains again
    under a tighter root, as those are no splits, and for runs that were ended from outside.
    """
    if "tighter_roots" in result.options or result.split is None:
        return None
    return 2 * (result.domains - result.split)


def published_row(method: str, of: PaperSet, runs: Sequence[Published]) -> Row:
    """Make a row of published runs, which are capped at the paper's limit."""
    known = [run.branches for run in runs if run.branches is not None]
    solved = 100.0 * sum(run.solved for run in runs) / len(runs)
    mean = fmean(run.seconds for run in runs)
    branches = fmean(known) if known else None
    figures = (len(runs), mean, branches, 100 - solved, solved, LIMIT, branches)  # they split one neuron at a time
    return Row("published", method, of.name, of.boxes.kind, *figures)


def paper_rows(table: int, of: PaperSet) -> list[Row]:
    """Return the rows of a set in Table 1 or 2 as the paper prints them."""
    return [
        Row(
            "paper",
            row["method"],
            of.name,
            NOT_SAID,
            None,
            _number(row["time_s"]),
            _number(row.get("branches")),
            _number(row.get("timed_out_percent")),
            None if not row.get("timed_out_percent") else 100 - float(row["timed_out_percent"]),
            LIMIT,
        )
        for row in _paper_table(table)
        if row["set"] == of.base
    ]


def paper_speedups() -> dict[tuple[str, str], float | None]:
    """Return by method and set the speed-up that Table 2 prints; not always the ratio of the times that it prints."""
    return {(row["method"], row["set"]): _number(row["speedup"]) for row in _paper_table(2)}


def _paper_table(table: int) -> list[dict[str, str]]:
    text = (files("netproof.paper.tables") / "data" / f"table{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(cell: str | None) -> float | None:
    return float(cell) if cell else None


HEADER = (
    "set",
    "boxes",
    "source",
    "method",
    "properties",
    "mean_s",
    "mean_branches",
    "mean_branches_two_per_split",
    "timed_out_percent",
    "timed_out_in_lp",
    "solved_percent",
    "limit_s",
)


def figures(row: Row, *names: str) -> tuple[str, ...]:
    """Return figures of a row as a page has them."""
    return tuple(shown(getattr(row, name), DIGITS[name]) for name in names)


def cells(row: Row) -> tuple[object, ...]:
    """Return a row under HEADER."""
    return (
        *(row.set, row.boxes, row.source, row.method, row.properties, row.mean_s, row.branches, row.tree),
        *(row.timed_out, row.in_lp, row.solved, row.limit),
    )
