"""CSV files: VNN-COMP's, and tables for a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from netproof.campaign.names import stable_name
from netproof.campaign.scores import Duel, Score
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.core.files import well_formed, write_whole
from netproof.report.columns import IN_CSV

LONG = ("certificate", "original", "witness", "log")  # which no table has
OF_CERTIFICATES = ("path", "written", "leaves", "bytes", "checked", "reason")
RUN_COLUMNS = tuple(field.name for field in dataclasses.fields(Result) if field.name not in LONG)
DUEL_COLUMNS = tuple(field.name for field in dataclasses.fields(Duel))


def write_vnncomp(runs: Iterable[Run], folder: Path) -> list[Path]:
    """Write a `results-CONFIGURATION.csv` for each configuration, and `results.csv` for the first that there was.

    Columns, as VNN-COMP's scoring reads them, without a header: category, onnx, vnnlib, seconds of preparation (there
    is none), result, seconds. What a configuration is called depends on nothing but itself.
    """
    groups: dict[str, dict[tuple[str, str, str], Result]] = {}
    for run in runs:
        groups.setdefault(stable_name(run.result), {})[run.result.instance] = run.result
    paths = []
    for place, (name, results) in enumerate(groups.items()):
        rows = [(r.benchmark, r.onnx, r.vnnlib, "0.0", r.verdict, f"{r.total:.6f}") for r in results.values()]
        names = (f"results-{name}.csv", *["results.csv"] * (place == 0))
        paths += [write_csv(folder / file, rows) for file in names]
    return paths


def write_runs(runs: Iterable[Run], path: Path) -> Path:
    """Write every run that counts, with all that is known of it but what is too long for a table."""
    header = ("configuration", *RUN_COLUMNS, *(f"certificate_{name}" for name in OF_CERTIFICATES))
    values = [(run.label, *map(run.result.__getattribute__, RUN_COLUMNS), *_of(run.result)) for run in runs]
    return write_csv(path, [header, *(list(map(_cell, row)) for row in values)])


def _of(result: Result) -> list[Any]:
    """Return what became of a proof's certificate."""
    return [(result.certificate or {}).get(name) for name in OF_CERTIFICATES]


def write_scores(scores: Iterable[Score], path: Path) -> Path:
    rows = [[_cell(column.get(score)) for column in IN_CSV] for score in scores]
    return write_csv(path, [[column.key for column in IN_CSV], *rows])


def write_duels(duels: Iterable[Duel], path: Path) -> Path:
    rows = [[_cell(getattr(duel, name)) for name in DUEL_COLUMNS] for duel in duels]
    return write_csv(path, [DUEL_COLUMNS, *rows])


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
    write_whole(path, well_formed(text).encode())
    return path
