"""Run methods over sets of instances in one process: a table, and every verdict checked against what is known.

A set is a folder that holds instances.csv (onnx,vnnlib,timeout) and perhaps known.csv (with a column `truth`), or the
name of one in $NETPROOF_BENCHMARKS.
"""

from __future__ import annotations

import argparse
import csv
import importlib
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

import options
from instances import read_sets, replays, second_look
from tables import say, table

import netproof
from netproof.campaign.instances import Instance
from netproof.cli.process.start_time import command_started, start_clock
from netproof.methods.registry import method_info

GRACE = 1.0  # seconds past its limit that a run may take
STATUSES = ("unsat", "sat", "timeout", "unknown", "error")
COLUMNS = ("mean s", "median s", "max s", "domains", "confirm")
CSV = "set onnx vnnlib method verdict reason seconds domains rounds leaf_lps lps lower_bound upper_bound truth"


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
        return f"{said}, {self.verdict.stats.domains} domains; {', '.join(clocks)}"

    def row(self) -> tuple[Any, ...]:
        """Of --csv."""
        at, truth = self.instance, self.instance.truth or ""
        start = (at.benchmark, *at.names, self.method, self.status, self.reason, f"{self.seconds:.3f}")
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
        files = (result.instance.onnx, result.instance.vnnlib)
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
        truth = instance.truth
        if all(methods.values()):
            yield f"{instance}: the methods disagree: sat by {methods['sat']}, unsat by {methods['unsat']}"
        if truth is None and instance.told_by:
            yield f"{instance}: what is known is {instance.told_by}"
        other = {"sat": "unsat", "unsat": "sat"}.get(truth or "", "")
        if other and methods[other]:
            look = f"; {second_look(instance)}" if instance.told_by == "known.csv" else ""
            yield f"{instance}: {truth} by {instance.told_by}, {other} by {methods[other]}{look}"


def summaries(results: list[Result]) -> str:
    """The table: one line a set and method."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.instance.benchmark, result.method].append(result)
    header = ("set", "method", "instances", "solved", *STATUSES, "checked", *COLUMNS)
    return table([header, *((*key, *summary(group)) for key, group in groups.items())], names=2)


def summary(group: list[Result]) -> list[str]:
    """Means are over the instances that gave a verdict, time-outs included at the seconds they took."""
    status = Counter(result.status for result in group)
    checked = sum(result.decided and result.instance.truth is not None for result in group)
    counts = (len(group), status["sat"] + status["unsat"], *(status[s] for s in STATUSES), checked)
    seconds = [r.seconds for r in group if r.verdict is not None]
    stats = [r.verdict.stats for r in group if r.verdict is not None]
    if not stats:
        return [*map(str, counts), *["-"] * len(COLUMNS)]
    times = (statistics.mean(seconds), statistics.median(seconds), max(seconds))
    domains = statistics.mean(s.domains for s in stats)
    confirm = sum(s.seconds["confirm"] for s in stats) / sum(seconds)
    return [*map(str, counts), *(f"{t:.2f}" for t in times), f"{domains:.0f}", f"{confirm:.0%}"]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("folder", nargs="*", help="a set, or a folder of sets (default: all in $NETPROOF_BENCHMARKS)")
    parser.add_argument("--method", action="append", help="may be repeated (default: auto)")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N instances of each set")
    parser.add_argument(
        "--timeout", type=options.above_zero, metavar="S", help="for each instance (default: that of instances.csv)"
    )
    parser.add_argument("--no-attack", action="store_true", help="leave every counterexample to the search")
    parser.add_argument("--csv", type=options.writable, metavar="FILE", help="write one row an instance and method")
    parser.add_argument("--warm-up", action="store_true", help="run one instance untimed first")
    options.engine_options(parser)
    given = parser.parse_args()
    given.method = given.method or ["auto"]
    return given


def run_all(given: argparse.Namespace, instances: list[tuple[Instance, float]]) -> Iterator[Result]:
    runner = Runner(
        device=given.device,
        threads=given.threads,
        seed=given.seed,
        attack=not given.no_attack,
        options=dict(given.set),
    )
    if given.warm_up:
        say(f"warm-up: {runner.run(instances[0][0], given.method[0], instances[0][1])}")
    for (instance, limit), method in itertools.product(instances, given.method):
        result = runner.run(instance, method, limit)
        say(str(result))
        yield result


def listing(title: str, rows: Iterable[str]) -> None:
    rows = list(rows)
    print(f"\n{title}: {len(rows) or 'none'}", *(f"- {row}" for row in rows), sep="\n")


def start_up(device: str) -> str:
    """What this process did once: Python and the imports since it began, then the first use of the device."""
    start_clock(time.monotonic(), whole_process=True)
    began = command_started()
    build = importlib.import_module("netproof.methods.device")
    importlib.import_module("netproof.api")
    imported = time.monotonic()
    torch, used = importlib.import_module("torch"), build.resolve_device(device)
    torch.zeros(1, device=used)
    if used.type != "cuda":
        return f"imports {imported - began:.2f} s"
    torch.cuda.synchronize(used)
    return f"imports {imported - began:.2f} s, CUDA context {time.monotonic() - imported:.2f} s"


def main() -> int:
    given = arguments()
    instances = read_sets(given.folder, given.first, given.timeout)
    for method in given.method:
        method_info(method).options(dict(given.set))  # a wrong field is an error before anything has run
    ready = start_up(given.device)
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
    print(summaries(results), f"start-up, in no column: {ready}", sep="\n\n")
    listing("errors", (str(r) for r in results if r.verdict is None))
    listing(f"more than {GRACE:g} s late", (f"{r}; {r.late}" for r in results if r.late))
    wrong = list(contradictions(results))
    listing("contradictions", wrong)
    return options.INTERRUPTED if interrupted else 1 if wrong else 0


if __name__ == "__main__":
    options.run(main)
