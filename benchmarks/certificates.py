"""What certificates cost: leaves, bytes and CPU seconds of searching, writing and checking, by set.

Every instance is searched, and where it is proved the certificate is written and checked. Reading the files is in no
column. A proof without a certificate that npcheck accepts is named; then the exit code is 1. "alone" are sub-domains of
searches that no certificate was asked of, with --alone: of the same instances.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import instances
import options
from tables import say, short, table

import netproof
import npcheck.check
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.errors import NetproofError
from npcheck.errors import Invalid, Refused
from npcheck.files import read
from npcheck.onnx_file import read_network
from npcheck.vnnlib_file import read_question


@dataclass(frozen=True)
class Row:
    """One instance. Seconds are of the processor."""

    set: str
    model: str
    spec: str
    verdict: str
    domains: int = 0
    search: float = 0.0
    leaves: int = 0
    bytes: int = 0
    write: float = 0.0
    check: float = 0.0
    wrong: str = ""  # why a proof has no certificate
    alone: str = ""  # the verdict of a search without a certificate, with --alone
    domains_alone: int = 0


def measure(instance: instances.Instance, timeout: float, given: argparse.Namespace, folder: Path) -> Row:
    model, spec = instances.unpacked(instance, folder)
    request = Request(
        folder / "proof.npcert", model, spec, folder / "hints", given.certificate_timeout, check=False, at_once=False
    )
    recording, wrong = None, ""
    try:
        recording = Recording.of(request)
    except NetproofError as error:
        wrong = str(error)
    network, property = instances.load(instance)
    engine = {"method": given.method, "device": "cpu", "threads": 1, "seed": given.seed, "timeout": timeout}
    began = time.process_time()
    verdict = netproof.verify(network, property, certificate=recording, **engine)
    search = time.process_time() - began
    names = instance.benchmark, model.name, spec.name
    row = Row(*names, str(verdict.status), verdict.stats.domains, search, wrong=wrong)
    if given.alone:
        without = netproof.verify(network, property, **engine)
        row = replace(row, alone=str(without.status), domains_alone=without.stats.domains)
    return row if wrong or not verdict.proved else certified(row, request)


def certified(row: Row, request: Request) -> Row:
    """Write and check the certificate of a proof."""
    subject = request.subject()
    began = time.process_time()
    state = request.finish(subject)
    row = replace(row, leaves=state.leaves, bytes=state.bytes, write=time.process_time() - began, wrong=state.reason)
    if not state.written:
        return row
    began = time.process_time()
    read(request.model, read_network)
    read(request.spec, read_question)
    reading = time.process_time() - began
    began = time.process_time()
    try:
        npcheck.check.check(request.path, request.model, request.spec)
    except (Invalid, Refused) as fault:
        return replace(row, wrong=f"npcheck: {fault}")
    return replace(row, check=max(0.0, time.process_time() - began - reading))


def summary(name: str, rows: Sequence[Row]) -> list[str]:
    proofs = [row for row in rows if row.verdict == "unsat"]
    good = [row for row in proofs if not row.wrong]

    def middle(column: str) -> str:
        return short(statistics.median(float(getattr(row, column)) for row in good)) if good else "-"

    columns = ("domains_alone", "domains", "leaves", "bytes", "search", "write", "check")
    return [name, str(len(rows)), str(len(proofs)), str(len(good)), *map(middle, columns)]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help="folders with an instances.csv")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N of each set")
    parser.add_argument("--timeout", type=options.above_zero, default=30.0, metavar="S", help="(default: 30)")
    parser.add_argument("--certificate-timeout", type=options.above_zero, default=300.0, metavar="S")
    parser.add_argument("--method", default="auto", metavar="NAME", help="(default: auto)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument("--alone", action="store_true", help="search each instance without a certificate, too")
    parser.add_argument("--csv", type=options.writable, metavar="FILE", help="write every instance")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    by_set: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for instance, timeout in instances.read_sets(given.sets, given.first, given.timeout):
            row = measure(instance, timeout, given, Path(folder))
            by_set.setdefault(row.set, []).append(row)
            say(
                f"{row.set} {row.model} {row.spec}: {row.verdict}, {row.leaves} leaves, {row.bytes} bytes,"
                f" {row.search:.2f} s + {row.write:.2f} s, check {row.check:.2f} s {row.wrong}"
                + (f" (alone: {row.alone}, {row.domains_alone} of {row.domains} sub-domains)" if given.alone else "")
            )
            if given.csv:
                write_csv(given.csv, by_set)
    header = ["set", "instances", "proved", "certified", "alone", "domains", "leaves", "bytes"]
    header += ["search s", "write s", "check s"]
    print(table([header, *(summary(name, rows) for name, rows in by_set.items())]))
    missing = [row for rows in by_set.values() for row in rows if row.verdict == "unsat" and row.wrong]
    for row in missing:
        print(f"\nno certificate: {row.set} {row.model} {row.spec}: {row.wrong}")
    return 1 if missing else 0


def write_csv(path: Path, by_set: dict[str, list[Row]]) -> None:
    rows = [asdict(row) for rows in by_set.values() for row in rows]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    options.run(main)
