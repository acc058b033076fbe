"""The report of a campaign: a page, its plots as PNG and PDF, its tables as CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netproof._version import __version__
from netproof.campaign.rivals import Rival
from netproof.campaign.scores import Duel, Score, duels, scores
from netproof.campaign.store import Result
from netproof.campaign.summary import Run, contradictions, latest
from netproof.core.machine.describe import in_words
from netproof.core.machine.versions import build
from netproof.errors import UsageError
from netproof.report import files
from netproof.report.drawings import write_plots
from netproof.report.latex import latex
from netproof.report.page import Section, page
from netproof.report.rows import explorer
from netproof.report.tables import (
    configurations,
    duel_table,
    error_table,
    errors_said,
    limits,
    score_table,
    score_tables,
)

FILES = (
    ("runs.csv", "every run with all that is known of it"),
    ("summary.csv", "the table of results"),
    ("summary.tex", "the same for LaTeX"),
    ("speedups.csv", "how much faster each is than another"),
    ("speedups.tex", "the same for LaTeX"),
)


def write_report(
    results: Sequence[Result], folder: Path, *, title: str = "netproof bench", rivals: Sequence[Rival] = ()
) -> Path:
    """Write index.html, plots (PNG and PDF) and tables (CSV and LaTeX) into `folder`; return the path of the page."""
    runs = latest(results)
    if not runs:
        raise UsageError("no results yet", file=str(folder.parent), remedy="run `netproof bench` first")
    shown = [*runs, *(run for rival in rivals for run in rival.runs)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = Found(shown, scores(shown), duels(shown), rivals)
        made = _write_tables(found, folder) + write_plots(shown, folder)
        text = page(title, sections(found, made), text=_about(runs), facts=_facts(runs))
        return files.write_text(folder / "index.html", text)
    except OSError as error:
        remedy = "choose a writable place, or free the disk"
        raise UsageError(f"cannot be written: {error.strerror}", file=str(folder), remedy=remedy) from error


@dataclass(frozen=True)
class Found:
    """What the report shows: the runs, those of rivals too, and what follows from them."""

    runs: Sequence[Run]
    scores: Sequence[Score]
    duels: Sequence[Duel]
    rivals: Sequence[Rival]


def _write_tables(found: Found, folder: Path) -> list[tuple[str, str]]:
    """Write the tables beside the page; return their names, and what each is."""
    files.write_runs(found.runs, folder / "runs.csv")
    files.write_scores(found.scores, folder / "summary.csv")
    files.write_text(folder / "summary.tex", latex(score_table(found.scores)))
    for name in ("speedups.csv", "speedups.tex"):
        (folder / name).unlink(missing_ok=True)
    if not found.duels:
        return [(name, what) for name, what in FILES if not name.startswith("speedups")]
    files.write_duels(found.duels, folder / "speedups.csv")
    files.write_text(folder / "speedups.tex", latex(duel_table(found.duels)))
    return list(FILES)


def sections(found: Found, made: Sequence[tuple[str, str]]) -> list[Section]:
    """Make all parts of the page; made: the files beside it, and what each is."""
    parts = [_overview(found)]
    if found.duels:
        text = (
            "Only instances count that both solved with the same answer. The speed-up is the geometric mean of how many"
            " times longer the other took; above 1× the first is the faster one."
        )
        said = [rival.said for rival in found.rivals]
        parts.append(Section("Speed-ups", text, items=said, tables=[duel_table(found.duels)]))
    parts.append(Section("Runs", explorer=explorer(found.runs)))
    errors = error_table(found.runs)
    if errors is not None:
        text = "They count as not solved. The next run tries them again, but for operators that are not supported."
        parts.append(Section("Errors", text, items=errors_said(found.runs), tables=[errors]))
    return [*parts, _how(found.runs), Section("Files", "Beside this page lie:", links=made)]


def _overview(found: Found) -> Section:
    text = (
        "unsat: the property holds for every input; sat: a counterexample was found and replayed. Points are those of"
        " VNN-COMP, 10 for an answer and −150 for a wrong one; the score is their share of the best method's, added up"
        " over benchmarks. PAR-2 is the mean time where what is not solved counts twice its limit. Other means are over"
        " all runs without error, a timeout at the seconds that it took."
    )
    wrong = [f"Contradiction: {line}" for line in contradictions(found.runs)]
    return Section("Results", text, warnings=wrong, tables=score_tables(found.scores))


def _about(runs: Sequence[Run]) -> str:
    first = min((run.result.started for run in runs), default="")
    last = max((run.result.finished for run in runs), default="")
    instances = len({run.result.instance for run in runs})
    began, ended = (time[:16].replace("T", " ") for time in (first, last))
    span = f"{instances} instances, {len(runs)} runs, from {began} to {ended} UTC."
    ran = list(dict.fromkeys(run.result.version for run in runs if run.result.version is not None))
    by = "" if ran in ([], [build()]) else f" Run by netproof {', '.join(ran)}; this page:"
    return f"{span}{by} netproof {__version__}."


def _facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return what stands at the top: the machine, the versions, the limits and the commands."""
    results = [run.result for run in runs]
    machines = _distinct(in_words(result.machine) for result in results if result.machine)
    versions = _distinct(
        ", ".join(f"{name} {version}" for name, version in result.versions.items() if version and name != "gpu")
        for result in results
    )
    commands = _distinct(f"`{result.command}`" for result in results if result.command)
    facts = [("Machine", machines), ("Versions", versions), ("Time limit for each run", [limits(results)])]
    return [(name, "; ".join(found)) for name, found in [*facts, ("Command", commands)] if found]


def _distinct(words: Iterable[str], most: int = 4) -> list[str]:
    found = [word for word in dict.fromkeys(words) if word]
    return found if len(found) <= most else [*found[:most], f"and {len(found) - most} more"]


def _how(runs: Sequence[Run]) -> Section:
    """Say what somebody else needs to run it again."""
    text = "Hashes of all files, options and versions stand beside each run in runs.csv."
    return Section("How it was run", text, items=configurations(runs))
