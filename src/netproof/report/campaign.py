"""The report of a campaign: a page, its plots as PNG, its tables as CSV."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netproof._version import __version__
from netproof.campaign.store import Result
from netproof.campaign.summary import VERDICTS, Run, Summary, contradictions, latest, summaries
from netproof.errors import UsageError
from netproof.report import files
from netproof.report.page import Picture, Section, Table, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PAIRS = 10  # scatter plots; with more pairs, only those of the first method with the others
HEADINGS = ("benchmark", "method", "instances", "solved", *VERDICTS, "wrong", "mean s", "median s", "mean domains")


def write_report(results: Sequence[Result], folder: Path, *, title: str = "netproof bench") -> Path:
    """Write index.html, *.png and *.csv into `folder`; return the path of the page."""
    runs = latest(results)
    if not runs:
        raise UsageError("no results yet", file=str(folder.parent), remedy="run `netproof bench` first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("cactus*.png"), *folder.glob("scatter-*.png")):
            old.unlink()
        files.write_runs(runs, folder / "runs.csv")
        files.write_summary(summaries(runs), folder / "summary.csv")
        return files.write_text(folder / "index.html", page(title, sections(runs, folder), text=_about(runs)))
    except OSError as error:
        remedy = "choose a writable place, or free the disk"
        raise UsageError(f"cannot be written: {error.strerror}", file=str(folder), remedy=remedy) from error


def sections(runs: Sequence[Run], folder: Path) -> list[Section]:
    """Make all parts of the page; the plots are also saved in `folder`."""
    wrong = contradictions(runs)
    found = [_overview(runs, wrong), Section("Solved against time", pictures=_cactuses(runs, folder))]
    scatters = _scatters(runs, folder)
    if scatters:
        found.append(
            Section(
                "Method against method",
                "Below the diagonal, the method on the vertical axis is the faster one.",
                pictures=scatters,
            )
        )
    found.append(Section("Every instance", tables=[_instances(runs)]))
    errors = [run for run in runs if run.result.verdict == "error"]
    if errors:
        rows = [(run.result.benchmark, _question(run.result), run.label, run.result.error) for run in errors]
        table = Table(("benchmark", "instance", "method", "error"), rows, names=4)
        found.append(Section("Errors", "These count as not solved, and the next run tries them again.", tables=[table]))
    return [*found, _how(runs)]


def _about(runs: Sequence[Run]) -> str:
    first = min((run.result.started for run in runs), default="")
    last = max((run.result.finished for run in runs), default="")
    instances = len({run.result.instance for run in runs})
    span = f"{instances} instances, {len(runs)} runs, from {first[:16]} to {last[:16]} UTC."
    ran = list(dict.fromkeys(run.result.version for run in runs if run.result.version is not None))
    by = "" if ran in ([], [__version__]) else f" Run by netproof {', '.join(ran)}; this page:"
    return f"{span}{by} netproof {__version__}."


def _overview(runs: Sequence[Run], wrong: Sequence[str]) -> Section:
    text = (
        "unsat: the property holds for every input; sat: a counterexample was found and replayed. Means are over all"
        " runs without error, a timeout at the seconds that it took."
    )
    return Section("Results", text, warnings=[f"Contradiction: {line}" for line in wrong], tables=[_totals(runs)])


def _totals(runs: Sequence[Run]) -> Table:
    found = summaries(runs)
    column = HEADINGS.index("wrong")
    marked = frozenset((place, column) for place, summary in enumerate(found) if summary.wrong)
    return Table(HEADINGS, [summary_cells(summary) for summary in found], names=2, marked=marked)


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """Make a line of the table, under HEADINGS."""
    counts = (summary.instances, summary.solved, *(summary.counts[verdict] for verdict in VERDICTS), summary.wrong)
    times = ("-" if seconds is None else f"{seconds:.2f}" for seconds in (summary.mean, summary.median))
    domains = "-" if summary.domains is None else f"{summary.domains:.0f}"
    return (summary.benchmark, summary.method, *map(str, counts), *times, domains)


def _cactuses(runs: Sequence[Run], folder: Path) -> list[Picture]:
    """Draw a cactus plot of everything, and of each benchmark where there are several."""
    benchmarks = list(dict.fromkeys(run.result.benchmark for run in runs))
    pictures = [_cactus(runs, "all instances" if len(benchmarks) > 1 else benchmarks[0], folder / "cactus")]
    if len(benchmarks) > 1:
        for benchmark in benchmarks:
            some = [run for run in runs if run.result.benchmark == benchmark]
            pictures.append(_cactus(some, benchmark, folder / f"cactus-{files.file_name(benchmark)}"))
    return pictures


def _cactus(runs: Sequence[Run], title: str, path: Path) -> Picture:
    from netproof.report.plots import cactus

    labels = dict.fromkeys(run.label for run in runs)
    series = {label: [r.result.total for r in runs if r.label == label and r.result.solved] for label in labels}
    total = len({run.result.instance for run in runs})
    solved = ", ".join(f"{label} {len(times)}" for label, times in series.items())
    words = f"Cactus plot, {title}: solved of {total}: {solved}"
    return _saved(cactus(series, total, title=title, limit=_limit(runs)), path, words)


def _scatters(runs: Sequence[Run], folder: Path) -> list[Picture]:
    labels = list(dict.fromkeys(run.label for run in runs))
    pairs = list(itertools.combinations(labels, 2))
    if len(pairs) > MOST_PAIRS:
        pairs = [(labels[0], other) for other in labels[1:]]
    drawn = (_scatter(runs, first, second, folder) for first, second in pairs)
    return [picture for picture in drawn if picture is not None]


def _scatter(runs: Sequence[Run], first: str, second: str, folder: Path) -> Picture | None:
    from netproof.report.plots import scatter

    of = {label: {run.result.instance: run.result for run in runs if run.label == label} for label in (first, second)}
    both = [(of[first][instance], of[second][instance]) for instance in of[first] if instance in of[second]]
    if not both:
        return None
    pairs = [
        (x.total if x.solved else None, y.total if y.solved else None, x.verdict if x.solved else y.verdict * y.solved)
        for x, y in both
    ]
    name = f"scatter-{files.file_name(first)}-{files.file_name(second)}"
    words = f"Scatter plot of {len(pairs)} instances: seconds of {first} against {second}"
    return _saved(scatter(pairs, (first, second), limit=_limit(runs)), folder / name, words)


def _saved(figure: Figure, path: Path, words: str) -> Picture:
    from netproof.report.plots import render, save

    save(figure, path, ("png",))
    return Picture(render(figure, "svg"), words)


def _limit(runs: Sequence[Run]) -> float | None:
    """Return the longest time limit; None unless all runs had one."""
    limits = [run.result.timeout for run in runs]
    return max((limit for limit in limits if limit is not None), default=None) if None not in limits else None


def _question(result: Result) -> str:
    return f"{Path(result.onnx).name} {Path(result.vnnlib).name}"


def _instances(runs: Sequence[Run]) -> Table:
    """Make a table with one line per instance and one column per method."""
    labels = list(dict.fromkeys(run.label for run in runs))
    of: dict[tuple[str, str, str], dict[str, Result]] = {}
    for run in runs:
        of.setdefault(run.result.instance, {})[run.label] = run.result
    rows, marked = [], set()
    for place, results in enumerate(of.values()):
        one = next(iter(results.values()))
        verdicts = {result.verdict for result in results.values() if result.solved}
        for column, label in enumerate(labels, 3):
            if label in results and (results[label].wrong or (results[label].solved and len(verdicts) > 1)):
                marked.add((place, column))
        cells = (f"{r.verdict} {r.total:.2f} s" if (r := results.get(label)) else "" for label in labels)
        rows.append((one.benchmark, _question(one), one.truth or "", *cells))
    header = ("benchmark", "instance", "known", *labels)
    return Table(
        header, rows, names=3, caption=f"{len(rows)} instances", folded=len(rows) > 40, marked=frozenset(marked)
    )


def _how(runs: Sequence[Run]) -> Section:
    """Say what somebody else needs to run it again."""
    items = []
    for label in dict.fromkeys(run.label for run in runs):
        some = [run.result for run in runs if run.label == label]
        one = some[0]
        options = ", ".join(f"{name}={value}" for name, value in one.options.items())
        limits = sorted({"none" if r.timeout is None else f"{r.timeout:g} s" for r in some})
        threads = ", ".join(sorted({str(result.threads) for result in some}))
        attack = "with attack" if one.attack else "without attack"
        items.append(
            f"{label}: method {one.method} ({options}), {one.device}, threads {threads}, seed {one.seed}, {attack}, "
            f"time limit {', '.join(limits[:4])}{', …' if len(limits) > 4 else ''}"
        )
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in run.result.versions.items() if version) for run in runs
    )
    text = "Hashes of all files, options and versions stand beside each run in runs.csv."
    return Section("How it was run", text, items=[*items, *(f"versions: {line}" for line in versions if line)])
