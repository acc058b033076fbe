"""Algorithm 1 as released, against what the authors' own code took: verdicts, branches and root bounds, row by row.

COUNTS is a CSV file with the columns set, property, result, branches and root_bound, made by a run of that code without
its LP phase, with n = 32 on one CPU core. What was measured is appended to --out, and a rerun with the same method and
time limit goes on from there.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import options
import torch
from instances import Instance, load, read_folder
from tables import say, short, table

import netproof
from netproof.bounds.base import Clock
from netproof.core.deadline import Deadline
from netproof.errors import UsageError
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.numerics import use_strict_float32
from netproof.problem.reduce import reduce

CPU = torch.device("cpu")
N = 32
COLUMNS = ("set", "property", "method", "timeout", "status", "branches", "lps", "root_bound", "seconds")
THEIRS = ("set", "property", "result", "branches", "root_bound")
NEAR = 0.3  # of the authors' branches


def rows_of(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a CSV file that has these columns and counts; UsageError where it has not."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if any(row.get(name) is None for name in columns):
                raise ValueError("a row has fewer")
            if int(row["branches"]) < 0 or not math.isfinite(float(row["root_bound"])):
                raise ValueError("branches below 0, or a bound that is none")
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"not a CSV file with the columns {', '.join(columns)}: {error}", file=str(path)) from error
    return rows


def instance_of(data: Path, row: dict[str, str]) -> Instance:
    found = [one for one in read_folder(data / row["set"]) if row["property"] in one.vnnlib.name]
    if len(found) != 1:
        raise UsageError(f"{row['property']!r} names {len(found)} properties", file=str(data / row["set"]))
    return found[0]


def root_bound(instance: Instance, method: str) -> float:
    """Return the least bound of the whole input set, as the search begins with it."""
    network, property = load(instance)
    built = build_method(method, method_info(method).options({"batch": N}), CPU)
    (problem,) = reduce(network, property)
    never = torch.full((len(property.disjuncts),), torch.inf, dtype=torch.float64)
    found = built.bounder.root(problem, never, CPU, Deadline(None), Clock())
    assert found is not None
    return float(found[1].domains.bound.min())


def measure(instance: Instance, given: argparse.Namespace) -> dict[str, Any]:
    verdict = netproof.verify(
        instance.onnx,
        instance.vnnlib,
        method=given.method,
        options={"batch": N},
        device="cpu",
        threads=1,
        timeout=given.timeout,
    )
    return {
        "method": given.method,
        "timeout": f"{given.timeout:g}",
        "status": str(verdict.status),
        "branches": verdict.stats.domains,
        "lps": verdict.stats.lps,
        "root_bound": root_bound(instance, given.method),
        "seconds": round(verdict.stats.seconds["total"], 1),
    }


def kept(path: Path, given: argparse.Namespace) -> dict[tuple[str, str], dict[str, str]]:
    """Return what an earlier call measured with the same method and time limit."""
    rows = rows_of(path, COLUMNS) if path.is_file() else []
    asked = given.method, f"{given.timeout:g}"
    return {(row["set"], row["property"]): row for row in rows if (row["method"], row["timeout"]) == asked}


def keep(path: Path, row: dict[str, Any]) -> None:
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def ratio(theirs: dict[str, str], ours: dict[str, str]) -> float:
    """Return by what share of the authors' branches ours are more; a root that proves all has none."""
    authors, here = int(theirs["branches"]), int(ours["branches"])
    return here / authors - 1 if authors else float(here)


def compared(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    both = theirs["result"] == "proved" and ours["status"] == "unsat"
    difference = ratio(theirs, ours) if both else None
    shown = "-" if difference is None else f"{100 * difference:+.1f}"
    counts = [theirs["result"], theirs["branches"], ours["status"], ours["branches"], shown]
    return [
        theirs["set"],
        theirs["property"],
        *counts,
        ours["lps"],
        theirs["root_bound"],
        short(float(ours["root_bound"])),
    ]


def summary(rows: list[tuple[dict[str, str], dict[str, str]]]) -> str:
    proved = [(theirs, ours) for theirs, ours in rows if theirs["result"] == "proved"]
    both = [(theirs, ours) for theirs, ours in proved if ours["status"] == "unsat"]
    ratios = [abs(ratio(*pair)) for pair in both]
    more = sum(theirs["result"] != "proved" and ours["status"] == "unsat" for theirs, ours in rows)
    return (
        f"Of {len(proved)} that the authors' code proves {len(both)} are proved here, {ratios.count(0.0)} with the same"
        f" number of branches, {sum(share <= NEAR for share in ratios)} within {100 * NEAR:g} %; the middle difference"
        f" is {100 * statistics.median(ratios or [0.0]):.1f} %. Of {len(rows) - len(proved)} others {more} are proved"
        " here."
    )


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("counts", type=Path, metavar="COUNTS", help="what the authors' code took, as CSV")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds the OVAL sets")
    parser.add_argument("--out", type=options.writable, required=True, metavar="CSV", help="where counts are kept")
    parser.add_argument("--method", default="lirpa", metavar="NAME", help="(default: lirpa)")
    parser.add_argument(
        "--timeout", type=options.above_zero, default=150.0, metavar="S", help="for each property (default: 150)"
    )
    parser.add_argument("--set-name", action="append", metavar="NAME", help="only this set of COUNTS; repeatable")
    given = parser.parse_args()
    if not given.counts.is_file():
        parser.error(f"{given.counts} is not a file")
    return given


def main() -> int:
    given = arguments()
    use_strict_float32()
    torch.set_num_threads(1)
    known, rows = kept(given.out, given), []
    for theirs in rows_of(given.counts, THEIRS):
        if given.set_name and theirs["set"] not in given.set_name:
            continue
        named = theirs["set"], theirs["property"]
        if named not in known:
            found = {"set": named[0], "property": named[1], **measure(instance_of(given.data, theirs), given)}
            keep(given.out, found)
            known[named] = {name: str(value) for name, value in found.items()}
        rows.append((theirs, known[named]))
        say("  ".join(compared(*rows[-1])))
    if not rows:
        raise UsageError("no row of these sets", file=str(given.counts))
    header = ["set", "property", "authors", "branches", "here", "branches", "%", "LPs", "root, authors", "root"]
    print(table([header, *(compared(*row) for row in rows)], names=2))
    print(f"\n{summary(rows)}")
    return 0


if __name__ == "__main__":
    options.run(main)
