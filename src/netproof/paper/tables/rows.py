"""A line of a table: who says it, of which method on which set, and the figures.

Three sources are kept apart everywhere: `ours` was measured here, `published` is what GNN_branching published for
the very same properties (published.csv), `paper` is what the paper prints for its own, larger sets.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from netproof.campaign.instances import Instance, read_bytes
from netproof.campaign.store import Result
from netproof.errors import UsageError
from netproof.paper.tables.output import shown

SETS = {
    "oval_base_easy": "Base, easy",
    "oval_base_med": "Base, medium",
    "oval_base_hard": "Base, hard",
    "oval_wide": "Wide",
    "oval_deep": "Deep",
}
# published.csv's columns by the paper's name of the method.
PUBLISHED = {"BaBSR": "babsr", "MIPplanet": "mipplanet", "GNN": "gnn", "GNN-online": "gnn_online"}
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


@dataclass(frozen=True)
class Row:
    source: str  # a key of SOURCES
    method: str
    set: str  # a key of SETS
    properties: int | None  # None: the paper does not say
    mean_s: float | None  # what was not solved counts at its limit
    branches: float | None
    timed_out: float | None  # percent
    solved: float | None  # percent
    limit: float | None = None  # seconds

    @property
    def label(self) -> str:
        return f"{self.method} ({SOURCES[self.source]})"


def our_row(method: str, name: str, results: Sequence[Result]) -> Row:
    """A run that did not decide counts at its limit, whatever ended it."""
    if not results:
        return Row("ours", method, name, 0, None, None, None, None)
    seconds = [r.total if r.solved or r.timeout is None else max(r.timeout, r.total) for r in results]
    limits = {r.timeout for r in results}
    return Row(
        "ours",
        method,
        name,
        len(results),
        statistics.fmean(seconds),
        statistics.fmean(r.domains for r in results),
        100.0 * sum(r.verdict == "timeout" for r in results) / len(results),
        100.0 * sum(r.solved for r in results) / len(results),
        limits.pop() if len(limits) == 1 else None,
    )


@dataclass(frozen=True)
class Published:
    """One published run; branches are not known of one that timed out."""

    solved: bool
    seconds: float
    branches: float | None


def read_published(instances: Sequence[Instance]) -> dict[str, list[Published]]:
    """By the paper's name of the method, the published runs of these instances, which share a folder."""
    folder = instances[0].folder
    assert folder is not None
    file = folder / "published.csv"
    try:
        rows = {row["vnnlib"]: row for row in csv.DictReader(read_bytes(file).decode("utf-8-sig").splitlines())}
        wanted = [rows[instance.names[1]] for instance in instances]
        return {name: [_published(row, column) for row in wanted] for name, column in PUBLISHED.items()}
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"not the published figures of these instances: {error} is missing or is no figure",
            file=str(file),
            remedy="its columns are vnnlib and, for babsr, mipplanet, gnn and gnn_online, result, branches and s",
        ) from error


def _published(row: dict[str, str], column: str) -> Published:
    branches = row.get(f"{column}_branches", "") if column != "mipplanet" else ""
    solved = row[f"{column}_result"].lower() != "timeout"
    return Published(solved, float(row[f"{column}_s"]), float(branches) if branches else None)


def published_row(method: str, name: str, runs: Sequence[Published]) -> Row:
    known = [run.branches for run in runs if run.branches is not None]
    solved = 100.0 * sum(run.solved for run in runs) / len(runs)
    mean = statistics.fmean(run.seconds for run in runs)
    return Row(
        "published", method, name, len(runs), mean, statistics.fmean(known) if known else None, 100 - solved, solved
    )


def paper_rows(table: int) -> list[Row]:
    """Table 1 or 2 as the paper prints it."""
    return [
        Row(
            "paper",
            row["method"],
            row["set"],
            None,
            _number(row["time_s"]),
            _number(row.get("branches")),
            _number(row.get("timed_out_percent")),
            None if not row.get("timed_out_percent") else 100 - float(row["timed_out_percent"]),
            3600.0,
        )
        for row in _paper_table(table)
    ]


def paper_speedups() -> dict[tuple[str, str], float | None]:
    """(method, set) → the speed-up that Table 2 prints; not always the ratio of the times that it prints."""
    return {(row["method"], row["set"]): _number(row["speedup"]) for row in _paper_table(2)}


def _paper_table(table: int) -> list[dict[str, str]]:
    text = (files("netproof.paper.tables") / "data" / f"table{table}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(cell: str | None) -> float | None:
    return float(cell) if cell else None


def find_sets(data: str | Path, names: Sequence[str], first: int | None) -> dict[str, list[Instance]]:
    """The (first) instances of each set in the folder `data`."""
    from netproof.campaign.instances import read_folder
    from netproof.core.files import find_file

    data = Path(data)
    if not data.is_dir():
        raise UsageError("--data: no such folder", file=str(data), remedy="give the folder that holds oval_base_easy …")
    for name in names:
        if name not in SETS:
            raise UsageError(f"--set-name: unknown set {name!r}", remedy="one of " + ", ".join(SETS))
        if not find_file(data / name / "instances.csv"):
            remedy = f"give a folder with {', '.join(SETS)} in it, or choose sets with --set-name"
            raise UsageError(f"--data: no {name}/instances.csv in it", file=str(data), remedy=remedy)
    return {name: read_folder(data / name)[:first] for name in names}


HEADER = (
    "set",
    "source",
    "method",
    "properties",
    "mean_s",
    "mean_branches",
    "timed_out_percent",
    "solved_percent",
    "limit_s",
)


def figures(row: Row, *names: str) -> tuple[str, ...]:
    """Figures of a row as a page has them."""
    return tuple(shown(getattr(row, name), DIGITS[name]) for name in names)


def cells(row: Row) -> tuple[object, ...]:
    """Under HEADER."""
    figures = (row.properties, row.mean_s, row.branches, row.timed_out, row.solved, row.limit)
    return (row.set, row.source, row.method, *figures)
