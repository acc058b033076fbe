"""The runs of a campaign as the page's script reads them: by column, each text once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netproof.campaign.names import not_default
from netproof.campaign.store import Result
from netproof.campaign.summary import Run, is_wrong, truths
from netproof.report.counterexamples import picture_of, place_of
from netproof.report.page import Explorer, Table, data_uri

PLAIN = 1000  # runs that those without JavaScript see
PICTURES, BYTES = 400, 6_000_000  # counterexamples that are drawn in the page, and the room that they may take
SHORT = 1500  # characters of a counterexample that is shown as text
PHASES = ("network", "load", "attack", "root", "search", "leaf", "confirm", "other")
DIGITS = 6


def explorer(runs: Sequence[Run]) -> Explorer:
    """Make the part of the page in which the runs are found, sorted, filtered and plotted."""
    pictures: list[dict[str, Any]] = []
    columns = [*_columns(runs), _pictures(runs, pictures)]
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
        "pictures": pictures,
        "drawn": "Counterexample as a picture",
        "plots": True,
        "side": len({run.label for run in runs}) > 1,
    }
    return Explorer(data, _plain(runs))


def _columns(runs: Sequence[Run]) -> list[dict[str, Any]]:
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
        make.number("upper", "best value found", lambda run: run.result.upper_bound, hidden=True),
        make.text("decided", "decided by", lambda run: run.result.decided_by, hidden=True),
        make.number("split", "sub-domains split", lambda run: run.result.split, hidden=True),
        make.number("rounds", "rounds", lambda run: None if run.rival else run.result.rounds, hidden=True),
        make.number("leaf_lps", "LPs of leaves", lambda run: None if run.rival else run.result.leaf_lps, hidden=True),
        make.text("peak", "peak memory", lambda run: _memory(run.result), hidden=True),
        make.number("limit", "time limit, s", lambda run: run.result.timeout, hidden=True),
        make.text("ran", "ran on", _where, hidden=True),
        make.text("started", "started", lambda run: run.result.started[:19].replace("T", " "), hidden=True),
        make.text("file", "counterexample", _file, hidden=True, kind="file"),
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

    def text(self, key: str, title: str, get: Callable[[Run], str], **more: Any) -> dict[str, Any]:
        places: dict[str, int] = {}
        data = [places.setdefault(get(run), len(places)) for run in self._runs]
        common = {"kind": "text", "search": bool(title) and not more.get("hidden")}
        return {"key": key, "title": title, **common, **more, "values": list(places), "data": data}

    def number(self, key: str, title: str, get: Callable[[Run], float | None], **more: Any) -> dict[str, Any]:
        data = [short(get(run)) for run in self._runs]
        return {"key": key, "title": title, "kind": "number", **more, "data": data}

    def plain(self, key: str, get: Callable[[Run], Any]) -> dict[str, Any]:
        return {"key": key, "title": "", "kind": key, "hidden": True, "data": [get(run) for run in self._runs]}


def model_name(result: Result) -> str:
    """Return the file's name; of several networks each as NAME=FILE."""
    pairs = [part.partition("=") for part in result.onnx.split(" ")]
    if not all(equals for _, equals, _ in pairs):
        return Path(result.onnx).name
    return " ".join(f"{name}={Path(path).name}" for name, _, path in pairs)


def short(value: float | None) -> float | None:
    """Round to the digits that the page needs; JSON has no word for what is not finite."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _phases(result: Result) -> list[float | None] | None:
    found = [short(result.seconds.get(phase, 0.0)) for phase in PHASES]
    return found if any(found) else None


def _memory(result: Result) -> str:
    on_gpu = result.peak_memory if result.device.startswith("cuda") else 0
    of = ((on_gpu, "of the GPU"), (result.peak_host_memory or (0 if on_gpu else result.peak_memory), "of the host"))
    return ", ".join(f"{size / (1 << 20):.0f} MiB {where}" for size, where in of if size)


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


def _pictures(runs: Sequence[Run], pictures: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw the first counterexamples that are images; return the column of their places in `pictures`."""
    data: list[int | None] = []
    size = 0
    for run in runs:
        place = None
        if len(pictures) < PICTURES and size < BYTES and run.result.verdict == "sat" and run.result.witness:
            png = picture_of(run.result)
            if png is not None:
                place, size = len(pictures), size + len(png)
                pictures.append({"source": data_uri(png, "image/png"), "small": True})
        data.append(place)
    return {"key": "picture", "title": "", "kind": "picture", "hidden": True, "data": data}


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
    rows, marked = [], set()
    for place, run in enumerate(runs[:PLAIN]):
        result = run.result
        if is_wrong(result, truth):
            marked.add((place, 5))
        names = (result.benchmark, model_name(result), Path(result.vnnlib).name, run.label, result.truth or "")
        rows.append((*names, result.verdict, result.error or result.reason, f"{result.total:.2f}"))
    header = ("benchmark", "model", "property", "method", "known", "verdict", "reason", "seconds")
    more = f"the first {PLAIN} of {len(runs)} runs; runs.csv has all" if len(runs) > PLAIN else f"{len(runs)} runs"
    return Table(header, rows, names=7, caption=more, marked=frozenset(marked))
