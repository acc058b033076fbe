"""The tables of a campaign's report: scores, speed-ups, errors by kind, and how each configuration was run."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from netproof.campaign.scores import ALL, Duel, Score
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.report.columns import IN_PAGE
from netproof.report.page import Table

DUELS = (
    *("method", "against", "both solved", "speed-up", "median", "of total time"),
    *("faster on", "only it", "only the other"),
)
SHOWN = 16  # rows of a table that is shown without being asked for


def score_table(scores: Sequence[Score]) -> Table:
    """Make a line per benchmark and configuration; those over all benchmarks come last."""
    titles = tuple(column.title for column in IN_PAGE)
    column = titles.index("wrong")
    marked = frozenset((place, column) for place, score in enumerate(scores) if score.summary.wrong)
    totals = frozenset(place for place, score in enumerate(scores) if score.summary.benchmark == ALL)
    rows = [tuple(column.shown(score) for column in IN_PAGE) for score in scores]
    return Table(titles, rows, names=2, marked=marked, totals=totals)


def score_tables(scores: Sequence[Score]) -> list[Table]:
    """Make the tables of the page: of several benchmarks, first over all of them, then by benchmark."""
    totals = [score for score in scores if score.summary.benchmark == ALL]
    single = [score for score in scores if score.summary.benchmark != ALL]
    by = score_table(single)
    if not totals:
        return [by]
    whole = score_table(totals)
    rows = [row[1:] for row in whole.rows]
    marked = frozenset((row, column - 1) for row, column in whole.marked)
    count = len({score.summary.benchmark for score in single})
    over = Table(whole.header[1:], rows, caption=f"Over all {count} benchmarks", marked=marked)
    return [over, dataclasses.replace(by, caption=f"By benchmark: {len(by.rows)} rows", folded=len(by.rows) > SHOWN)]


def duel_table(duels: Sequence[Duel]) -> Table:
    """Make a line per pair of configurations."""
    rows = [
        (
            *(duel.first, duel.second, str(duel.both)),
            *(_times(ratio) for ratio in (duel.mean, duel.median, duel.total)),
            *(str(duel.faster), str(duel.only_first), str(duel.only_second)),
        )
        for duel in duels
    ]
    return Table(DUELS, rows, names=2)


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×" if ratio < 100 else f"{ratio:.0f}×"


def error_table(runs: Sequence[Run]) -> Table | None:
    """Make a line per benchmark and kind of error of our own runs, the most frequent first; None without any."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.result.verdict == "error" and not run.rival:
            groups[run.result.benchmark, kind_of(run.result)].append(run)
    rows = []
    for (benchmark, kind), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        methods = ", ".join(dict.fromkeys(run.label for run in group))
        rows.append((benchmark, kind, methods, group[0].result.error, str(len(group))))
    return Table(("benchmark", "error", "methods", "the first in full", "runs"), rows, names=4) if rows else None


def kind_of(result: Result) -> str:
    """Say what sort of error it is: the operator that is not supported, or its words without the names of files."""
    if result.refused is not None:
        return f"unsupported operator {result.refused}"
    text = result.error
    for name in (result.onnx, result.vnnlib):
        text = re.sub(rf"\S*{re.escape(Path(name).name)}(\.gz)?:?\s*", "", text)
    return re.sub(r"\s*\([^()]*\)$", "", text).strip()[:160] or "no reason given"


def errors_said(runs: Sequence[Run]) -> list[str]:
    """Return a line per kind of error, such as `dist_shift_2023: unsupported operator Sigmoid, 6 runs`."""
    table = error_table(runs)
    rows = [] if table is None else table.rows
    return [f"{benchmark}: {kind}, {count} run{'s' * (count != '1')}" for benchmark, kind, _, _, count in rows]


def configurations(runs: Sequence[Run]) -> list[str]:
    """Say of each configuration what somebody else needs to run it again."""
    by: dict[str, list[Result]] = defaultdict(list)
    for run in runs:
        if not run.rival:
            by[run.label].append(run.result)
    items = []
    for label, some in by.items():
        one = some[0]
        options = ", ".join(f"{name}={value}" for name, value in one.options.items())
        threads = ", ".join(sorted({str(result.threads) for result in some}))
        attack = "with attack" if one.attack else "without attack"
        items.append(
            f"{label}: method {one.method} ({options}), {one.device}, threads {threads}, seed {one.seed}, {attack}, "
            f"time limit {limits(some)}"
        )
    return items


def limits(results: Sequence[Result]) -> str:
    """Say the time limits of some runs, in few words."""
    found = sorted({result.timeout for result in results if result.timeout is not None})
    words = [f"{limit:g} s" for limit in found]
    if len(words) > 4:
        words = [f"{words[0]} to {words[-1]}, by instance"]
    return ", ".join([*words, *["none"] * any(result.timeout is None for result in results)])
