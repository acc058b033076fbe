"""The plots of a campaign as PNG and PDF: a cactus plot of all and of each benchmark, a scatter plot of each pair.

A file's name says what it shows and depends on nothing else, so it stays when configurations join.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netproof.campaign.names import file_name, stable_name
from netproof.campaign.scores import pairs_of
from netproof.campaign.summary import Run, Truths, is_right, truths

FORMATS = ("png", "pdf")
OF_EACH = ("pdf",)  # of every benchmark: for a paper, since the page shows them by its filters


def write_plots(runs: Sequence[Run], folder: Path) -> list[tuple[str, str]]:
    """Draw all plots; return their names and what each shows. Those of an earlier call go."""
    for kind in ("cactus*", "scatter-*"):
        for suffix in FORMATS:
            for old in folder.glob(f"{kind}.{suffix}"):
                old.unlink()
    truth = truths(runs)
    benchmarks = list(dict.fromkeys(run.result.benchmark for run in runs))
    made = _cactus(runs, truth, "all instances" if len(benchmarks) > 1 else benchmarks[0], folder / "cactus")
    if len(benchmarks) > 1:
        for benchmark in benchmarks:
            some = [run for run in runs if run.result.benchmark == benchmark]
            made += _cactus(some, truth, benchmark, folder / f"cactus-{file_name(benchmark)}", OF_EACH)
    names = {run.label: file_name(run.label) if run.rival else stable_name(run.result) for run in runs}
    for first, second in pairs_of(list(names)):
        made += _scatter(runs, truth, (first, second), folder / f"scatter-{names[first]}-{names[second]}")
    return made


def _cactus(
    runs: Sequence[Run], truth: Truths, title: str, path: Path, formats: Sequence[str] = FORMATS
) -> list[tuple[str, str]]:
    from netproof.report.plots import cactus, save

    series: dict[str, list[float]] = {run.label: [] for run in runs}
    for run in runs:
        if is_right(run.result, truth):
            series[run.label].append(run.result.total)
    total = len({run.result.instance for run in runs})
    saved = save(cactus(series, total, title=title, limit=_limit(runs)), path, formats)
    return [(file.name, f"solved within a time, {title}") for file in saved]


def _scatter(runs: Sequence[Run], truth: Truths, labels: tuple[str, str], path: Path) -> list[tuple[str, str]]:
    from netproof.report.plots import save, scatter

    first, second = labels
    of = {label: {run.result.instance: run.result for run in runs if run.label == label} for label in (first, second)}
    both = [(of[first][instance], of[second][instance]) for instance in of[first] if instance in of[second]]
    if not both:
        return []
    pairs = []
    for pair in both:
        times = [one.total if is_right(one, truth) else None for one in pair]
        answer = next((one.verdict for one in pair if is_right(one, truth)), "")
        pairs.append((times[0], times[1], answer))
    saved = save(scatter(pairs, labels, limit=_limit(runs)), path, FORMATS)
    return [(file.name, f"seconds of {first} against {second}") for file in saved]


def _limit(runs: Sequence[Run]) -> float | None:
    """Return the longest time limit; None unless all runs had one."""
    limits = [run.result.timeout for run in runs]
    return max((limit for limit in limits if limit is not None), default=None) if None not in limits else None
