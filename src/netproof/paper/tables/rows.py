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
DIGITS = {"properties": 0, "mean_s": 2, "branches": 0, "timed_out": 1, "solved": 1, "limit": 0}  # that a page shows
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
    tree: tuple[float, float] | None = None  # branches with two for every split: at least, at most

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
    trees = [tree for tree in map(tree_branches, results) if tree is not None]
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
        (fmean(least for least, _ in trees), fmean(most for _, most in trees)) if trees else None,
    )


def charged(result: Result) -> float:
    """Return the seconds that a run counts with."""
    return result.total if result.solved or result.timeout is None else max(result.timeout, result.total)


def tree_branches(result: Result) -> tuple[int, int] | None:
    """Return at least and at most how many branches there are when every split counts two, as published.

    A sub-domain that is split on k neurons at once makes 2^k, which we count; split on one after the other it would
    make 2^(k+1) − 2. So the number is 2 (ours − sub-domains split). How many were split a result does not tell, but at
    least one in a round and at most one for every two children: exact with one round, or one sub-domain per round.
    None for methods that bound sub-domains again under a tighter root: those are no splits.
    """
    if "tighter_roots" in result.options:
        return None
    if result.domains == 0:
        return 0, 0
    most = 2 * (result.domains - max(1, result.rounds))
    return (most if result.rounds == 1 else min(result.domains, most)), most


def published_row(method: str, of: PaperSet, runs: Sequence[Published]) -> Row:
    """Make a row of published runs, which are capped at the paper's limit."""
    known = [run.branches for run in runs if run.branches is not None]
    solved = 100.0 * sum(run.solved for run in runs) / len(runs)
    mean = fmean(run.seconds for run in runs)
    branches = fmean(known) if known else None
    tree = None if branches is None else (branches, branches)
    figures = (len(runs), mean, branches, 100 - solved, solved, LIMIT, tree)
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
    "mean_branches_two_a_split_least",
    "mean_branches_two_a_split_most",
    "timed_out_percent",
    "solved_percent",
    "limit_s",
)


def figures(row: Row, *names: str) -> tuple[str, ...]:
    """Return figures of a row as a page has them."""
    return tuple(_tree(row) if name == "tree" else shown(getattr(row, name), DIGITS[name]) for name in names)


def _tree(row: Row) -> str:
    if row.tree is None:
        return "–"
    least, most = (f"{value:.0f}" for value in row.tree)
    return least if least == most else f"{least} to {most}"


def cells(row: Row) -> tuple[object, ...]:
    """Return a row under HEADER."""
    branches = (row.branches, *(row.tree or (None, None)))
    return (
        *(row.set, row.boxes, row.source, row.method, row.properties, row.mean_s),
        *branches,
        *(row.timed_out, row.solved, row.limit),
    )
