"""CSV files: VNN-COMP's, and tables for a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from netproof.campaign.store import Result
from netproof.campaign.summary import VERDICTS, Run, Summary
from netproof.core.files import write_whole

RUN_COLUMNS = tuple(field.name for field in dataclasses.fields(Result) if field.name not in ("witness", "log"))
COLUMNS = ("benchmark", "method", "instances", "solved", *VERDICTS, "checked", "wrong")
FIGURES = ("mean_s", "median_s", "longest_s", "mean_domains")


def write_vnncomp(runs: Iterable[Run], folder: Path) -> list[Path]:
    """Write `results.csv`, or with several methods a `results-METHOD.csv` each, as VNN-COMP's scoring reads them.

    Columns, without a header: category, onnx, vnnlib, seconds of preparation (there is none), result, seconds.
    A `results.csv` or `results-METHOD.csv` of an earlier call that is not written now is removed.
    """
    groups: dict[str, list[Result]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run.result)
    paths = []
    for label, results in groups.items():
        path = folder / ("results.csv" if len(groups) == 1 else f"results-{file_name(label)}.csv")
        rows = [(r.benchmark, r.onnx, r.vnnlib, "0.0", r.verdict, f"{r.total:.6f}") for r in results]
        paths.append(write_csv(path, rows))
    methods = {result.method for results in groups.values() for result in results}
    for stale in {folder / "results.csv", *(folder / f"results-{method}.csv" for method in methods)} - set(paths):
        stale.unlink(missing_ok=True)
    return paths


def write_runs(runs: Iterable[Run], path: Path) -> Path:
    """Write every run that counts, with all that is known of it but the witness and the log."""
    rows = [[run.label, *(_cell(getattr(run.result, name)) for name in RUN_COLUMNS)] for run in runs]
    return write_csv(path, [("configuration", *RUN_COLUMNS), *rows])


def write_summary(summaries: Iterable[Summary], path: Path) -> Path:
    return write_csv(path, [(*COLUMNS, *FIGURES), *(summary_row(summary) for summary in summaries)])


def summary_row(summary: Summary) -> list[Any]:
    counts = [summary.counts[verdict] for verdict in VERDICTS]
    figures = (summary.mean, summary.median, summary.longest, summary.domains)
    named = [summary.benchmark, summary.method, summary.instances, summary.solved, *counts]
    return [*named, summary.checked, summary.wrong, *(_cell(figure) for figure in figures)]


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> Path:
    """Write all or nothing: a reader sees the old file or the new one."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return write_text(path, buffer.getvalue())


def write_text(path: Path, text: str) -> Path:
    write_whole(path, text.encode())
    return path


def file_name(label: str) -> str:
    """Turn a label into a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", label).strip("_")
