"""The columns of a campaign's results, each once: the page, summary.csv and the table on stdout choose from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netproof.campaign.scores import Score
from netproof.campaign.summary import VERDICTS, Summary


@dataclass(frozen=True)
class Column:
    """A figure of a score, and what it is called."""

    key: str  # in CSV
    title: str  # for people
    get: Callable[[Score], Any]
    digits: int | None = None  # behind the point; None: a count or a name

    def shown(self, score: Score, missing: str = "–") -> str:
        """Return the cell for people."""
        value = self.get(score)
        return missing if value is None else str(value) if self.digits is None else f"{value:.{self.digits}f}"


def _counted(verdict: str) -> Column:
    return Column(verdict, verdict, lambda score: score.summary.counts[verdict])


_ALL = (
    Column("benchmark", "benchmark", lambda score: score.summary.benchmark),
    Column("method", "method", lambda score: score.summary.method),
    Column("instances", "instances", lambda score: score.summary.instances),
    Column("solved", "solved", lambda score: score.summary.solved),
    *map(_counted, VERDICTS),
    Column("checked", "checked", lambda score: score.summary.checked),
    Column("wrong", "wrong", lambda score: score.summary.wrong),
    Column("mean_s", "mean\u00a0s", lambda score: score.summary.mean, 2),
    Column("median_s", "median\u00a0s", lambda score: score.summary.median, 2),
    Column("longest_s", "longest\u00a0s", lambda score: score.summary.longest, 2),
    Column("mean_domains", "mean domains", lambda score: score.summary.domains, 0),
    Column("points", "points", lambda score: score.points),
    Column("score_percent", "score\u00a0%", lambda score: score.share, 1),
    Column("par2_s", "PAR\u20112\u00a0s", lambda score: score.par2, 2),
)


def _chosen(keys: str) -> tuple[Column, ...]:
    by = {column.key: column for column in _ALL}
    return tuple(by[key] for key in keys.split())


_VERDICTS = " ".join(VERDICTS)
IN_CSV = _ALL
IN_PAGE = _chosen(
    f"benchmark method instances solved wrong points score_percent par2_s mean_s median_s {_VERDICTS} mean_domains"
)
ON_STDOUT = _chosen(f"benchmark method instances solved {_VERDICTS} wrong mean_s median_s mean_domains")
HEADINGS = tuple(column.title.replace("\u00a0", " ") for column in ON_STDOUT)


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """Make a line of the table on stdout, under HEADINGS."""
    score = Score(summary, 0, None, None)
    return tuple(column.shown(score, "-") for column in ON_STDOUT)
