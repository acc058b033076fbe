"""The runs of a campaign as the page's script reads them: by column, each text once."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netproof.campaign.names import not_default
from netproof.campaign.store import Result
from netproof.campaign.summary import Run, is_wrong, truths
from netproof.certificate.state import Certificate
from netproof.core.verdict import PHASES as ALL_PHASES
from netproof.report.counterexamples import picture_of, place_of, words_of
from netproof.report.explorer import Column, Pictures, hidden_column, number_column, plain_table, short, text_column
from netproof.report.page import Explorer, Table

PICTURES, BYTES = 400, 6_000_000  # counterexamples that are drawn in the page, and the room that they may take
SHORT = 1500  # characters of a counterexample that is shown as text
PHASES = ("network", *(phase for phase in ALL_PHASES if phase != "total"))  # in a campaign the network may be kept


def explorer(runs: Sequence[Run]) -> Explorer:
    """Make the part of the page in which the runs are found, sorted, filtered and plotted."""
    pictures = Pictures(PICTURES, BYTES, "image/svg+xml")
    columns = [*_columns(runs), pictures.column([functools.partial(_drawn, run.result) for run in runs])]
    data = {
        "caption": "Every run: benchmark, model, property, method, verdict and seconds",
        "noun": "runs",
        "columns": columns,
        "facets": [
            {"key": "benchmark", "title": "Benchmark"},
            {"key": "method", "title": "Method"},
            {"key": "verdict", "title": "Verdict"},
        ],
        "title": ["benchmark", "model", "property", "method"],
        "phases": PHASES,
        "pictures": pictures.drawn,
        "one": "Counterexample as a picture",
        "plots": True,
        "side": len({run.label for run in runs}) > 1,
    }
    return Explorer(data, _plain(runs))


def _columns(runs: Sequence[Run]) -> list[Column]:
    """Return what is known of the runs, column by column; the hidden ones are shown of a run that is opened."""
    truth = truths(runs)
    instances = {instance: place for place, instance in enumerate(dict.fromkeys(run.result.instance for run in runs))}
    make = _Maker(runs)
    return [
        make.text("benchmark", "benchmark", lambda run: run.result.benchmark, level=2),
        make.text("model", "model", lambda run: model_name(run.result), level=2),
        make.text("property", "property", lambda run: Path(run.result.vnnlib).name, link=True),
        make.text("method", "method", lambda run: run.label),
        make.text("verdict", "verdict", lambda run: run.result.verdict, kind="verdict"),
        make.number("seconds", "seconds", lambda run: run.result.total, kind="seconds"),
        make.text("known", "known", lambda run: run.result.truth or "", level=3),
        make.number("lower", "proved bound", lambda run: run.result.lower_bound, level=3),
        make.number("domains", "domains", lambda run: None if run.rival else run.result.domains, level=2),
        make.text("reason", "reason", lambda run: run.result.error or run.result.reason, level=3),
        make.text("certificate", "certificate", lambda run: _certificate(run.result), hidden=True),
        make.number("upper", "best value found", lambda run: run.result.upper_bound, hidden=True),
        make.text("decided", "decided by", lambda run: run.result.decided_by, hidden=True),
        make.number("split", "sub-domains split", lambda run: run.result.split, hidden=True),
        make.number("rounds", "rounds", lambda run: None if run.rival else run.result.rounds, hidden=True),
        make.number("leaf_lps", "LPs of leaves", lambda run: None if run.rival else run.result.leaf_lps, hidden=True),
        make.text("peak", "peak memory", lambda run: _memory(run.result), hidden=True),
        make.number("limit", "time limit, s", lambda run: run.result.timeout, hidden=True),
        make.text("ran", "ran on", _where, hidden=True),
        make.text("started", "started", lambda run: run.result.started[:19].replace("T", " "), hidden=True),
        make.text("seen", "counterexample", lambda run: words_of(run.result), hidden=True),
        make.text("file", "counterexample as a file", _file, hidden=True, kind="file"),
        make.text("witness", "", lambda run: _short(run.result), hidden=True, kind="text-block"),
        make.text("log", "last words of the worker", lambda run: run.result.log[-400:], hidden=True),
        make.text("onnx", "", lambda run: run.result.onnx, hidden=True),
        make.text("vnnlib", "", lambda run: run.result.vnnlib, hidden=True),
        make.text("folder", "", lambda run: run.result.folder, hidden=True),
        make.text("tail", "", lambda run: "" if run.rival else asked(run.result), hidden=True),
        make.plain("phases", lambda run: _phases(run.result)),
        make.plain("wrong", lambda run: int(is_wrong(run.result, truth))),
        make.plain("instance", lambda run: instances[run.result.instance]),
    ]


class _Maker:
    """Makes columns of the runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def text(self, key: str, title: str, get: Callable[[Run], str], **more: Any) -> Column:
        return text_column(key, title, [get(run) for run in self._runs], **more)

    def number(self, key: str, title: str, get: Callable[[Run], float | None], **more: Any) -> Column:
        return number_column(key, title, [get(run) for run in self._runs], **more)

    def plain(self, key: str, get: Callable[[Run], Any]) -> Column:
        return hidden_column(key, [get(run) for run in self._runs])


def model_name(result: Result) -> str:
    """Return the file's name; of several networks each as NAME=FILE."""
    pairs = [part.partition("=") for part in result.onnx.split(" ")]
    if not all(equals for _, equals, _ in pairs):
        return Path(result.onnx).name
    return " ".join(f"{name}={Path(path).name}" for name, _, path in pairs)


def _phases(result: Result) -> list[float | None] | None:
    found = [short(result.seconds.get(phase, 0.0)) for phase in PHASES]
    return found if any(found) else None


def _memory(result: Result) -> str:
    on_gpu = result.peak_memory if result.device.startswith("cuda") else 0
    of = ((on_gpu, "of the GPU"), (result.peak_host_memory or (0 if on_gpu else result.peak_memory), "of the host"))
    return ", ".join(f"{size / (1 << 20):.0f} MiB {where}" for size, where in of if size)


def _certificate(result: Result) -> str:
    if result.certificate is None:
        return ""
    return Certificate(**result.certificate).line.removeprefix("certificate: ")


def _where(run: Run) -> str:
    if run.rival:
        return "another verifier's own figures"
    result = run.result
    machine = result.machine or {}
    name = machine.get("gpu") if result.device.startswith("cuda") else machine.get("cpu")
    threads = "" if result.threads is None else f", {result.threads} thread{'s' * (result.threads != 1)}"
    return f"{name or result.device}{threads}"


def _file(run: Run) -> str:
    return f"../{place_of(run)}" if run.result.verdict == "sat" and run.result.witness else ""


def _short(result: Result) -> str:
    return result.witness if len(result.witness) <= SHORT else ""


def _drawn(result: Result) -> bytes | None:
    return picture_of(result) if result.verdict == "sat" and result.witness else None


def asked(result: Result) -> str:
    """Return the options of `netproof verify` that ask as this run was asked."""
    words = ["--method", result.method]
    for name, value in not_default(result).items():
        words += ["--set", f"{name}={'none' if value is None else str(value).lower()}"]
    if result.timeout is not None:
        words += ["--timeout", f"{result.timeout:g}"]
    words += ["--device", result.device]
    if result.threads is not None:
        words += ["--threads", str(result.threads)]
    if result.seed:
        words += ["--seed", str(result.seed)]
    words.append("--attack" if result.attack else "--no-attack")
    if result.memory:
        words += ["--memory", result.memory]
    return shlex.join(words)


def _plain(runs: Sequence[Run]) -> Table:
    """Make the table for those without JavaScript."""
    truth = truths(runs)
    header = ("benchmark", "model", "property", "method", "known", "verdict", "reason", "seconds")
    rows = []
    for run in runs:
        result = run.result
        names = (result.benchmark, model_name(result), Path(result.vnnlib).name, run.label, result.truth or "")
        rows.append((*names, result.verdict, result.error or result.reason, f"{result.total:.2f}"))
    marked = {(k, header.index("verdict")) for k, run in enumerate(runs) if is_wrong(run.result, truth)}
    return plain_table(header, rows, noun="runs", file="runs.csv", names=7, marked=marked)
