"""Run methods over VNN-COMP folders in one process: a table, and every verdict checked against what is known.

A folder holds instances.csv (onnx,vnnlib,timeout) and perhaps known.csv (with a column `truth`); see README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import os
import statistics
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances import Instance, lines, read_set, replays, second_look

import netproof
from netproof.errors import NetproofError

GRACE = 1.0  # seconds past its limit that a run may take
STATUSES = ("unsat", "sat", "timeout", "unknown", "error")
COLUMNS = ("mean s", "median s", "max s", "branches", "confirm")
CSV = "set onnx vnnlib method verdict reason seconds branches rounds leaf_lps lps lower_bound upper_bound truth"


@dataclass
class Result:
    instance: Instance
    method: str
    seconds: float = 0.0
    verdict: netproof.Verdict | None = None  # None: it raised
    reason: str = ""  # the verdict's, or the error and where it was raised
    phase: str = ""  # the last one reported
    late: str = ""  # where it was when it had passed its limit

    @property
    def status(self) -> str:
        return "error" if self.verdict is None else str(self.verdict.status)

    @property
    def decided(self) -> bool:
        return self.status in ("sat", "unsat")

    def __str__(self) -> str:
        reason = self.reason and f" ({self.reason})"
        said = f"{self.instance} · {self.method}: {self.status}{reason} in {self.seconds:.2f} s"
        if self.verdict is None:
            return said
        clocks = (f"{k} {v:.2f}" for k, v in self.verdict.stats.seconds.items() if v > 0 and k != "total")
        return f"{said}, {self.verdict.stats.domains} branches; {', '.join(clocks)}"

    def row(self) -> tuple[Any, ...]:
        """Of --csv."""
        at, truth = self.instance, "/".join(sorted({truth for _, truth in self.instance.truths}))
        start = (at.folder.name, at.onnx, at.vnnlib, self.method, self.status, self.reason, f"{self.seconds:.3f}")
        if self.verdict is None:
            return (*start, *[""] * 6, truth)
        stats, bounds = self.verdict.stats, (self.verdict.lower_bound, self.verdict.upper_bound)
        return (*start, stats.domains, stats.rounds, stats.leaf_lps, stats.lps, *bounds, truth)


class Runner:
    """Runs verify in a thread of its own, so that the main one sees where a run is that passed its limit."""

    def __init__(self, **arguments: Any) -> None:
        self._arguments, self._worker, self._thread = arguments, ThreadPoolExecutor(1), 0

    def run(self, instance: Instance, method: str, limit: float) -> Result:
        result, deadline = Result(instance, method), netproof.Deadline(limit)
        began = time.perf_counter()
        future = self._worker.submit(self._verify, result, deadline)
        try:
            error = future.exception(limit + GRACE)
        except TimeoutError:
            frames = traceback.extract_stack(sys._current_frames()[self._thread])
            result.late = f"after {limit + GRACE:g} s in phase {result.phase}, at {places(frames)}"
            error = future.exception()
        except KeyboardInterrupt:
            deadline.cancel()
            raise
        result.seconds = time.perf_counter() - began
        if error is None:
            result.verdict = future.result()
            result.reason = result.verdict.reason
        else:
            where = places(traceback.extract_tb(error.__traceback__))
            result.reason = f"{type(error).__name__}: {' '.join(str(error).split())}, at {where}"
        return result

    def _verify(self, result: Result, deadline: netproof.Deadline) -> netproof.Verdict:
        self._thread = threading.get_ident()
        files = (result.instance.folder / name for name in (result.instance.onnx, result.instance.vnnlib))
        told = {"progress": lambda progress: setattr(result, "phase", progress.phase)}
        return netproof.verify(*files, method=result.method, deadline=deadline, **told, **self._arguments)


def places(frames: Iterable[traceback.FrameSummary]) -> str:
    """The innermost frames, innermost first."""
    return " < ".join([f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames][:-7:-1])


def contradictions(results: list[Result]) -> Iterator[str]:
    """Counterexamples that do not replay, and verdicts against what is known and against each other."""
    by: dict[tuple[Instance, str], list[str]] = defaultdict(list)
    for result in results:
        by[result.instance, result.status].append(result.method)
        verdict = result.verdict
        if verdict is not None and verdict.witness and not replays(result.instance, verdict.witness.input):
            yield f"{result.instance}: the counterexample of {result.method} does not replay"
    for instance in dict.fromkeys(result.instance for result in results):
        methods = {"sat": ", ".join(by[instance, "sat"]), "unsat": ", ".join(by[instance, "unsat"])}
        said = [f"{truth} by {who}" for who, truth in instance.truths]
        if all(methods.values()):
            yield f"{instance}: the methods disagree: sat by {methods['sat']}, unsat by {methods['unsat']}"
        if len({truth for _, truth in instance.truths}) > 1:
            yield f"{instance}: what is known is contradictory: {', '.join(said)}"
        for who, truth in instance.truths:
            other = "unsat" if truth == "sat" else "sat"
            if methods[other]:
                look = f"; {second_look(instance)}" if who == "known.csv" else ""
                yield f"{instance}: {truth} by {who}, {other} by {methods[other]}{look}"


def table(results: list[Result]) -> str:
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.instance.folder.name, result.method].append(result)
    rows = [("set", "method", "instances", "solved", *STATUSES, "checked", *COLUMNS)]
    rows += [(*key, *summary(group)) for key, group in groups.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    slots = [f"{{:{'<' if i < 2 else '>'}{width}}}" for i, width in enumerate(widths)]  # names left, numbers right
    return "\n".join(f"| {' | '.join(slots)} |".format(*row) for row in rows)


def summary(group: list[Result]) -> list[str]:
    """Means are over the instances that gave a verdict, time-outs included at the seconds they took."""
    status = Counter(result.status for result in group)
    checked = sum(result.decided and bool(result.instance.truths) for result in group)
    counts = (len(group), status["sat"] + status["unsat"], *(status[s] for s in STATUSES), checked)
    seconds = [r.seconds for r in group if r.verdict is not None]
    stats = [r.verdict.stats for r in group if r.verdict is not None]
    if not stats:
        return [*map(str, counts), *["-"] * len(COLUMNS)]
    times = (statistics.mean(seconds), statistics.median(seconds), max(seconds))
    branches = statistics.mean(s.domains for s in stats)
    confirm = sum(s.seconds["confirm"] for s in stats) / sum(seconds)
    return [*map(str, counts), *(f"{t:.2f}" for t in times), f"{branches:.0f}", f"{confirm:.0%}"]


def field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    return name, value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="a folder with instances.csv")
    parser.add_argument("--method", action="append", help="may be repeated (default: auto)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N instances of each set")
    parser.add_argument("--timeout", type=float, metavar="S", help="for each instance (default: the csv's)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--no-attack", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", type=field, default=[], metavar="FIELD=VALUE", help="of every method")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="one row an instance and method")
    parser.add_argument("--warm-up", action="store_true", help="run one instance untimed first")
    given = parser.parse_args()
    for folder in given.folder:
        if not lines(folder / "instances.csv"):
            parser.error(f"{folder}: no instances.csv, or an empty one")
    return given


def run_all(given: argparse.Namespace, instances: list[Instance]) -> Iterator[Result]:
    runner = Runner(
        device=given.device,
        threads=given.threads,
        seed=given.seed,
        attack=not given.no_attack,
        options=dict(given.set),
    )
    methods = given.method or ["auto"]
    if given.warm_up:
        say(f"warm-up: {runner.run(instances[0], methods[0], given.timeout or instances[0].timeout)}")
    for instance, method in itertools.product(instances, methods):
        result = runner.run(instance, method, given.timeout or instance.timeout)
        say(str(result))
        yield result


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def listing(title: str, rows: Iterable[str]) -> None:
    rows = list(rows)
    print(f"\n{title}: {len(rows) or 'none'}", *(f"- {row}" for row in rows), sep="\n")


def start_up(instance: Instance) -> float:
    """Seconds of netproof's imports, which its first use does, and of loading one instance."""
    began = time.perf_counter()
    with contextlib.suppress(NetproofError):  # its run will say so
        _ = netproof.verify, instance.load()
    return time.perf_counter() - began


def main() -> int:
    given = arguments()
    instances = [instance for folder in given.folder for instance in read_set(folder.resolve(), given.first)]
    ready = start_up(instances[0])
    results, interrupted = [], False
    with given.csv.open("w", newline="") if given.csv else open(os.devnull, "w") as file:
        rows = csv.writer(file)
        rows.writerow(CSV.split())
        try:
            for result in run_all(given, instances):
                results.append(result)
                rows.writerow(result.row())
                file.flush()
        except KeyboardInterrupt:
            interrupted = True
    print(table(results), f"start-up (imports and first load): {ready:.2f} s", sep="\n\n")
    listing("errors", (str(r) for r in results if r.verdict is None))
    listing(f"more than {GRACE:g} s late", (f"{r}; {r.late}" for r in results if r.late))
    wrong = list(contradictions(results))
    listing("contradictions", wrong)
    return 130 if interrupted else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
