"""Run methods over VNN-COMP folders in one process: one table, and every verdict checked against what is known.

    python benchmarks/sets.py FOLDER... --method lirpa --method lirpa-fixed --first 8 --timeout 20 --csv rows.csv

A folder holds instances.csv (onnx,vnnlib,timeout) and perhaps known.csv (with a column `truth`); see README.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import statistics
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from netproof import Verdict

GRACE = 1.0  # seconds past its limit that a run may take
SAMPLES = 10_000
FIELDS = (
    *("set", "onnx", "vnnlib", "method", "verdict", "reason", "seconds", "branches", "rounds"),
    *("leaf_lps", "lps", "lower_bound", "upper_bound", "truth"),
)
HEADS = (
    *("set", "method", "instances", "solved", "unsat", "sat", "timeout", "unknown", "error", "checked"),
    *("mean s", "median s", "max s", "branches", "confirm"),
)


@dataclass(frozen=True)
class Instance:
    folder: Path
    onnx: str
    vnnlib: str
    timeout: float
    truths: tuple[tuple[str, str], ...]  # (who says so, "sat" or "unsat")

    @property
    def truth(self) -> str:
        return "/".join(sorted({truth for _, truth in self.truths}))

    def __str__(self) -> str:
        return f"{self.folder.name}: {self.onnx} {self.vnnlib}"


@dataclass
class Result:
    instance: Instance
    method: str
    seconds: float = 0.0
    verdict: Verdict | None = None  # None: it raised
    error: str = ""
    phase: str = ""  # the last one reported
    late: str = ""  # where it was when it had passed its limit

    @property
    def status(self) -> str:
        return "error" if self.verdict is None else str(self.verdict.status)


def read_set(folder: Path, first: int | None) -> list[Instance]:
    known = defaultdict(set)
    if any(found(folder / "known.csv")):
        for row in csv.DictReader(lines(folder / "known.csv")):
            known[row["onnx"], row["vnnlib"]].add(row["truth"].strip())
    instances = []
    for onnx, vnnlib, timeout in (row[:3] for row in csv.reader(lines(folder / "instances.csv")) if row):
        if onnx == "onnx":
            continue  # a header
        truths = [("known.csv", truth) for truth in sorted(known[onnx, vnnlib]) if truth in ("sat", "unsat")]
        names = {Path(name).name.split("_")[0] for name in (onnx, vnnlib)} & {"sat", "unsat"}
        truths += [("file name", name) for name in sorted(names)]
        instances.append(Instance(folder, onnx, vnnlib, float(timeout), tuple(truths)))
    return instances[:first]


def found(path: Path) -> Iterator[Path]:
    return (p for p in (path, path.with_name(f"{path.name}.gz")) if p.is_file())


def lines(path: Path) -> list[str]:
    real = next(found(path), path)
    with gzip.open(real, "rt") if real.suffix == ".gz" else real.open() as file:
        return file.read().splitlines()


@dataclass
class Runner:
    """Runs in a thread of its own, so that the main one sees where a run is that has passed its limit."""

    arguments: dict[str, Any]  # of netproof.verify
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    thread: int = 0

    def run(self, instance: Instance, method: str, limit: float) -> Result:
        import netproof

        result, deadline = Result(instance, method), netproof.Deadline(limit)
        began = time.perf_counter()
        future = self.worker.submit(self._verify, result, deadline)
        try:
            error = future.exception(limit + GRACE)
        except TimeoutError:
            frames = traceback.extract_stack(sys._current_frames()[self.thread])
            result.late = f"in phase {result.phase}, at {places(frames)}"
            say(f"    past its {limit:g} s: {result.late}")
            error = future.exception()
        except KeyboardInterrupt:
            deadline.cancel()
            raise
        result.seconds = time.perf_counter() - began
        if error is None:
            result.verdict = future.result()
        else:
            result.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
            say(f"    {result.error}, at {places(traceback.extract_tb(error.__traceback__))}")
        return result

    def _verify(self, result: Result, deadline: Any) -> Verdict:
        import netproof

        self.thread = threading.get_ident()
        paths = (result.instance.folder / name for name in (result.instance.onnx, result.instance.vnnlib))
        return netproof.verify(
            *paths,
            method=result.method,
            deadline=deadline,
            progress=lambda told: setattr(result, "phase", told.phase),
            **self.arguments,
        )


def places(frames: Iterable[traceback.FrameSummary]) -> str:
    """The innermost frames, innermost first."""
    inner = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames][::-1]
    return " < ".join(inner[:5])


# Checks.


def contradictions(results: list[Result]) -> Iterator[str]:
    """Verdicts against replays, against what is known, and of methods against each other."""
    verdicts: dict[Instance, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result.verdict is not None and result.status in ("sat", "unsat"):
            verdicts[result.instance][result.status].append(result.method)
            if result.status == "sat" and not replayed(result.instance, result.verdict):
                yield f"{result.instance}: {result.method}'s counterexample does not replay"
    for instance in dict.fromkeys(result.instance for result in results):
        if len({truth for _, truth in instance.truths}) > 1:
            yield f"{instance}: the sources disagree: {', '.join(' says '.join(t) for t in instance.truths)}"
        if len(verdicts[instance]) > 1:
            words = (f"{status} by {', '.join(methods)}" for status, methods in verdicts[instance].items())
            yield f"{instance}: methods disagree: {'; '.join(words)}"
        for source, truth in instance.truths:
            for status, methods in verdicts[instance].items():
                if status != truth:
                    look = f"; {second_look(instance)}" if source == "known.csv" else ""
                    yield f"{instance}: {status} by {', '.join(methods)}, {truth} by {source}{look}"


def replayed(instance: Instance, verdict: Verdict) -> bool:
    import netproof

    network = netproof.load_network(instance.folder / instance.onnx)
    property = netproof.load_property(instance.folder / instance.vnnlib)
    x = verdict.witness.input
    y = network.replay(x)
    return any(inside(d.box, x.ravel()) and margin(d, y) <= 0 and strictly(d, y) for d in property.disjuncts)


def single(values: Iterable[Fraction]) -> np.ndarray:
    return np.array([float(v) for v in values], dtype=np.float32)


def inside(box: Any, x: np.ndarray) -> bool:
    """In the box with its ends rounded to the nearest float32, so that a pinned input has a value."""
    return bool(((single(box.lower) <= x) & (x <= single(box.upper))).all())


def margin(disjunct: Any, y: np.ndarray) -> Fraction:
    """How far y is from satisfying every row; not positive where it does, but for strict rows."""
    exact = [Fraction(v) for v in y.ravel().tolist()]
    return max((row.value(exact) - row.rhs for row in disjunct.rows), default=Fraction(0))


def strictly(disjunct: Any, y: np.ndarray) -> bool:
    return all(row.holds([Fraction(v) for v in y.ravel().tolist()]) for row in disjunct.rows)


def second_look(instance: Instance) -> str:
    """Random points and corners of the input boxes through onnxruntime: can the known truth be right?"""
    import netproof

    network = netproof.load_network(instance.folder / instance.onnx)
    disjuncts = netproof.load_property(instance.folder / instance.vnnlib).disjuncts
    boxes: dict[Any, list[Any]] = defaultdict(list)
    for disjunct in disjuncts:
        if not disjunct.box.empty:
            boxes[disjunct.box].append(disjunct)
    if not boxes:
        return "every input box is empty: no sat can be right"
    ends = {box: (single(box.lower), single(box.upper)) for box in boxes}
    draw, rng = random.Random(0), np.random.default_rng(0)
    hits, least = 0, float("inf")
    for i in range(SAMPLES):
        box = draw.choice(list(boxes))
        lower, upper = ends[box]
        share = rng.integers(0, 2, lower.shape) if i % 2 else rng.random(lower.shape)
        x = np.clip((lower + share * (upper - lower)).astype(np.float32), lower, upper)
        y = network.replay(x)
        least = min(least, *(float(margin(d, y)) for d in boxes[box]))
        hits += any(strictly(d, y) for d in boxes[box])
    if hits:
        return f"{hits} of {SAMPLES} sampled points violate the property: sat is right"
    return f"none of {SAMPLES} sampled points violates it (nearest miss {least:.3g}): a known sat may be wrong"


# What is printed.


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def live(result: Result, limit: float) -> str:
    stats = result.verdict.stats if result.verdict else None
    counts = f"{stats.domains} branches, {stats.rounds} rounds" if stats else result.error
    reason = f" ({result.verdict.reason})" if result.verdict and result.verdict.reason else ""
    clocks = " ".join(f"{k} {v:.1f}" for k, v in stats.seconds.items() if v >= 0.05) if stats else ""
    return (
        f"{result.instance} · {result.method}: {result.status}{reason} in {result.seconds:.2f} of {limit:g} s, "
        f"{counts} [{clocks}]"
    )


def csv_row(result: Result) -> tuple[Any, ...]:
    i, v = result.instance, result.verdict
    start = (i.folder.name, i.onnx, i.vnnlib, result.method, result.status)
    if v is None:
        return (*start, result.error, f"{result.seconds:.3f}", *[""] * 6, i.truth)
    counts = (v.stats.domains, v.stats.rounds, v.stats.leaf_lps, v.stats.lps)
    return (*start, v.reason, f"{result.seconds:.3f}", *counts, v.lower_bound, v.upper_bound, i.truth)


def table(results: list[Result]) -> str:
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.instance.folder.name, result.method].append(result)
    rows = [HEADS, *((*key, *summary(group)) for key, group in groups.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    text = [" | ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))) for row in rows]
    return "\n".join(f"| {line} |" for line in (text[0], " | ".join("-" * w for w in widths), *text[1:]))


def summary(group: list[Result]) -> list[str]:
    """Means are over the instances that gave a verdict, time-outs included at the seconds they took."""
    count = Counter(result.status for result in group)
    solved = [r for r in group if r.status in ("sat", "unsat")]
    numbers = [len(group), len(solved), *(count[s] for s in ("unsat", "sat", "timeout", "unknown", "error"))]
    cells = [str(n) for n in (*numbers, sum(bool(r.instance.truths) for r in solved))]
    stats = [r.verdict.stats for r in group if r.verdict is not None]
    seconds = [r.seconds for r in group if r.verdict is not None]
    if not stats:
        return [*cells, *["-"] * 5]
    share = sum(s.seconds["confirm"] for s in stats) / sum(seconds)
    times = (statistics.mean(seconds), statistics.median(seconds), max(seconds))
    branches = statistics.mean(s.domains for s in stats)
    return [*cells, *(f"{t:.2f}" for t in times), f"{branches:.0f}", f"{share:.0%}"]
