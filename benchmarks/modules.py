"""What it costs to read a torch module, in two versions of netproof that take turns.

Each version is a source folder (the `src` of a checkout). In every repeat each reads, in a new process, a small module
first and then ten architectures; who goes first alternates. What counts of an architecture is the ratio of new seconds
over old in one repeat. torch itself is imported before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

import options
from architectures import ARCHITECTURES
from tables import say, table
from versions import Version

FIRST = "first of a process"
COLUMNS = ["module", "old s", "new s", "new − old", "new/old", "least–most"]


def measure(given: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Return seconds by module, version and repeat."""
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for repeat in range(given.repeats):
        for name, source in [("old", given.old), ("new", given.new)][:: 1 if repeat % 2 else -1]:
            version = Version(name, source)
            try:
                for label, architecture in [(FIRST, "mlp"), *((name, name) for name in ARCHITECTURES)]:
                    _, taken = version.ask({"module": architecture})
                    seconds[label][name].append(taken)
            finally:
                version.close()
        say(f"repeat {repeat + 1} of {given.repeats}")
    return seconds


def ratios(times: dict[str, list[float]]) -> list[float]:
    return [new / old for old, new in zip(times["old"], times["new"], strict=True)]


def row(label: str, times: dict[str, list[float]]) -> list[str]:
    old, new = (statistics.median(times[version]) for version in ("old", "new"))
    each = ratios(times)
    spread = f"{min(each):.2f}–{max(each):.2f}"
    return [label, f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}", f"{statistics.median(each):.2f}", spread]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("--old", type=Path, required=True, metavar="SRC", help="the `src` of the version before")
    parser.add_argument("--new", type=Path, required=True, metavar="SRC", help="the `src` of the version after")
    parser.add_argument("--repeats", type=options.positive, default=7, metavar="R", help="(default: 7)")
    return parser.parse_args()


def main() -> int:
    seconds = measure(arguments())
    print(table([COLUMNS, *(row(label, times) for label, times in seconds.items())]))
    middle = statistics.median(statistics.median(ratios(seconds[name])) for name in ARCHITECTURES)
    print(f"\nmedian over {len(ARCHITECTURES)} architectures: {middle:.2f}")
    return 0


if __name__ == "__main__":
    options.run(main)
