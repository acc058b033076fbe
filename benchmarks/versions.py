"""Two versions of netproof on the same instances, taking turns in one run: verdicts, and the ratio of their times.

Each version is a source folder (the `src` of a checkout). In every repeat each answers all instances once, in a process
of its own, while the other has none: one process may be 40 % slower than the next for as long as it lives, and two
take a GPU's memory from each other. Who goes first alternates. What counts is one number per repeat and set: the
geometric mean over the instances of new seconds over old seconds. The 95 % interval is Student's, of their logarithms.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import options
from instances import read_sets
from tables import say, table

from netproof.errors import UsageError

ANSWER = Path(__file__).with_name("answer.py")
WORST = 1.05  # a ratio whose interval lies above this is a regression
DECIDED = ("unsat", "sat")
# Student's t, 97.5 %, by degrees of freedom up to 30; above that the normal's is near enough.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Version:
    """One version's process."""

    def __init__(self, name: str, source: Path, script: Path = ANSWER) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            # This script's own packages may not be installed where the other interpreter looks for them.
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *sys.path[1:]])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )
        where = Path(self._read()["version"])
        if where.parent.resolve() != source.resolve():
            raise UsageError(f"{source} was asked for, but {where.parent} is used", remedy="give the folder `src`")

    def ask(self, question: Mapping[str, Any]) -> tuple[str, float]:
        """The verdict and its seconds."""
        found = self.tell(question)
        return found["verdict"], found["seconds"]

    def tell(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """All that is answered."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UsageError(f"the process of {self.name!r} ended; what it said stands above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """The mean ratio and its 95 % interval, from the logarithms of one ratio a repeat."""
    middle = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    t = STUDENT[len(logs) - 2] if len(logs) - 2 < len(STUDENT) else 1.96
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


class Tally:
    """What was measured: seconds by set, repeat, instance and version; and every verdict."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[dict[str, dict[str, float]]]] = defaultdict(list)
        self.verdicts: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add(self, repeat: int, version: str, where: str, key: str, verdict: str, seconds: float) -> None:
        """Add an answer: of which repeat, version, set and instance it is."""
        repeats = self.seconds[where]
        if len(repeats) <= repeat:
            repeats.append({"old": {}, "new": {}})
        repeats[repeat][version][key] = seconds
        self.verdicts[where, key][version].add(verdict)

    def complete(self) -> None:
        """Leave out repeats that an interrupt cut short, and sets that none is left of."""
        for name, repeats in list(self.seconds.items()):
            whole = [r for r in repeats if repeats[0]["old"].keys() == r["old"].keys() == r["new"].keys()]
            self.seconds[name] = whole
            if not whole:
                del self.seconds[name]

    def row(self, name: str) -> tuple[list[str], bool]:
        """A set's line of the table, and whether the new version is slower than it may be."""
        repeats = self.seconds[name]
        means = {
            version: statistics.fmean(statistics.fmean(times.values()) for times in (r[version] for r in repeats))
            for version in ("old", "new")
        }
        logs = [
            statistics.fmean(math.log(new / r["old"][instance]) for instance, new in r["new"].items()) for r in repeats
        ]
        ratio, low, high = interval(logs)
        solved = [
            sum(said[version] <= set(DECIDED) for (where, _), said in self.verdicts.items() if where == name)
            for version in ("old", "new")
        ]
        cells = [name, str(len(repeats[0]["new"])), *map(str, solved), f"{means['old']:.3f}", f"{means['new']:.3f}"]
        return [*cells, f"{ratio:.3f}", f"{low:.3f}–{high:.3f}"], low > WORST

    def changed(self) -> list[str]:
        """Instances on which the versions, or the repeats of one, say different things."""
        return [
            f"{where}: {instance}: old {'/'.join(sorted(said['old']))}, new {'/'.join(sorted(said['new']))}"
            for (where, instance), said in self.verdicts.items()
            if said["old"] and said["new"] and (said["old"] != said["new"] or len(said["new"]) > 1)
        ]


def measure(given: argparse.Namespace, tally: Tally) -> None:
    instances = read_sets(given.folder, given.first, given.timeout)
    how = {"method": given.method, "device": given.device, "threads": given.threads, "seed": given.seed}
    how |= {"cpu": True} if given.cpu else {}
    asked = [{"onnx": str(i.onnx), "vnnlib": str(i.vnnlib), "timeout": limit, **how} for i, limit in instances]
    places = [(i.benchmark, f"{i.onnx.name} {i.vnnlib.name}") for i, _ in instances]
    first = {where: question for (where, _), question in reversed(list(zip(places, asked, strict=True)))}
    for repeat in range(given.repeats):
        for name, source in [("old", given.old), ("new", given.new)][:: 1 if repeat % 2 else -1]:
            version = Version(name, source)
            try:
                for question in first.values():
                    version.ask(question)  # not counted: it warms the process up
                for (where, key), question in zip(places, asked, strict=True):
                    tally.add(repeat, name, where, key, *version.ask(question))
            finally:
                version.close()
        say(f"repeat {repeat + 1} of {given.repeats}")


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("folder", nargs="*", help="a set, or a folder of sets (default: all in $NETPROOF_BENCHMARKS)")
    parser.add_argument("--old", type=Path, required=True, metavar="SRC", help="the `src` of the version before")
    parser.add_argument("--new", type=Path, required=True, metavar="SRC", help="the `src` of the version after")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N instances of each set")
    parser.add_argument("--repeats", type=options.positive, default=7, metavar="R", help="(default: 7)")
    parser.add_argument("--timeout", type=options.above_zero, metavar="S", help="(default: that of instances.csv)")
    parser.add_argument("--method", default="auto", help="(default: auto)")
    parser.add_argument("--cpu", action="store_true", help="seconds of the processor, on a machine with other work")
    options.engine_options(parser)
    return parser.parse_args()


def main() -> int:
    given, tally, interrupted = arguments(), Tally(), False
    try:
        measure(given, tally)
    except KeyboardInterrupt:  # what was measured is told all the same
        interrupted = True
        tally.complete()
    rows = [tally.row(name) for name in tally.seconds]
    header = ["set", "instances", "old solved", "new solved", "old mean s", "new mean s", "new/old", "95 %"]
    print(table([header, *(row for row, _ in rows)]))
    for line in tally.changed():
        print(f"\nverdict changed: {line}")
    if interrupted:
        return 130
    return 1 if any(slower for _, slower in rows) or tally.changed() else 0


if __name__ == "__main__":
    options.run(main)
