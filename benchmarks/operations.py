"""Does a search ask more of torch than it did: operations, and waits for the device, in two versions of netproof?

A GPU is not always to be had. What a change does to its path is told by the number of operations that torch dispatches
and of waits: numbers, lists and arrays taken out of tensors, and results whose size depends on values. With
`--choices cuda` the tables by device have for the CPU what they have for a GPU, such as the size of a batch. Instances
are MODEL.onnx SPEC.vnnlib, or SET:ROW (rows of instances.csv from 1; a set is a folder or a name in
$NETPROOF_BENCHMARKS); each should end well within the time limit. A line of progress comes by the clock and takes a few
operations: where the counts differ, both versions are asked again. The exit code is 1 where they never agree.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import instances
import options
from tables import count, say, table
from throughput import read_instances
from versions import Version

COUNTED = Path(__file__).with_name("counted.py")
TRIES = 4
KINDS = ("operations", "waits")


def measured(name: str, source: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    """What one version says of an instance, in a process of its own."""
    version = Version(name, source, COUNTED)
    try:
        return version.tell(question)
    finally:
        version.close()


def compared(
    given: argparse.Namespace, question: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """An answer of each version, and in what they differ: nothing if they agreed once."""
    answers: dict[str, list[dict[str, Any]]] = {"old": [], "new": []}
    for _ in range(TRIES):
        for which in answers:
            answers[which].append(measured(which, getattr(given, which), question))
        for old, new in itertools.product(*answers.values()):
            if not differences(old, new):
                return old, new, []
    old, new = answers["old"][0], answers["new"][0]
    return old, new, differences(old, new)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """In what two answers differ: the verdict, the sub-domains, and each operation and wait by name."""
    found = [f"{what}: {old[what]} -> {new[what]}" for what in ("verdict", "domains") if old[what] != new[what]]
    for kind in KINDS:
        before, after = Counter(old[kind]), Counter(new[kind])
        found += [
            f"{name}: {before[name]} -> {after[name]}"
            for name in sorted(before.keys() | after.keys())
            if before[name] != after[name]
        ]
    return found


def cells(answer: Mapping[str, Any]) -> list[str]:
    totals = (sum(answer[kind].values()) for kind in KINDS)
    return [answer["verdict"], str(answer["domains"]), *(count(total) for total in totals)]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__, prog="operations.py")
    parser.add_argument("instance", nargs="+", help="MODEL.onnx SPEC.vnnlib, or SET:ROW as in oval21:3")
    parser.add_argument("--old", type=Path, required=True, metavar="SRC", help="the `src` of the version before")
    parser.add_argument(
        "--new", type=Path, default=Path(__file__).parents[1] / "src", metavar="SRC", help="(default: this version's)"
    )
    parser.add_argument("--choices", default="cpu", choices=("cpu", "cuda"), help="of which device (default: cpu)")
    parser.add_argument("--certificate", action="store_true", help="count the new version with a certificate too")
    parser.add_argument("--method", default="auto", help="(default: auto)")
    parser.add_argument("--timeout", type=options.above_zero, default=120.0, metavar="S", help="(default: 120)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    how = {"method": given.method, "timeout": given.timeout, "seed": given.seed, "choices": given.choices}
    rows, failed = [["instance", "version", "verdict", "sub-domains", *KINDS]], False
    with tempfile.TemporaryDirectory() as folder:
        for name, instance in read_instances(given.instance).items():
            model, spec = instances.unpacked(instance, Path(folder))
            question = {"onnx": str(model), "vnnlib": str(spec), "certificate": False, **how}
            old, new, differing = compared(given, question)
            rows += [[name, "old", *cells(old)], [name, "new", *cells(new)]]
            failed |= bool(differing)
            say("\n  ".join([f"{name}: {'the versions differ' if differing else 'equal'}", *differing]))
            if given.certificate:
                with_one = measured("new", given.new, {**question, "certificate": True})
                rows.append([name, "new, with a certificate", *cells(with_one)])
                say("\n  ".join([f"{name}: with a certificate", *differences(new, with_one)]))
    print(table(rows, names=3))
    return int(failed)


if __name__ == "__main__":
    options.run(main)
