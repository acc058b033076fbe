"""Sub-domains per second by batch and network, beside the rate that the machine's own peaks would allow.

Give instances as MODEL.onnx SPEC.vnnlib, or as SET:ROW (rows of instances.csv from 1; a set is a folder or a name in
$NETPROOF_BENCHMARKS). Each runs for the given seconds at each batch, attacks off, in one process after one warm-up.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import instances
import options
import torch
from floor import Peak, Work, describe, measured_peak, work_of
from tables import count, say, short, table

import netproof
from netproof.bounds.base import Bounds
from netproof.bounds.beta import Beta
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains
from netproof.bounds.net import Net
from netproof.bounds.neurons.root import Root
from netproof.campaign.instances import Instance
from netproof.core.cpu import available_cpus
from netproof.methods.device import resolve_device
from netproof.methods.registry import method_info

REFERENCE = ("beta", {"steps": "20"})
WARM_UP = 2.0  # seconds
COLUMNS = "instance method batch verdict unstable domains domains/s of_all/s floor/s of_floor limit bound frontier"


@dataclass
class Tally:
    """The sub-domains bounded under one root, whose network is kept and not the root, which is large."""

    net: Net
    domains: int = 0


@dataclass
class Run:
    name: str
    method: str
    options: dict[str, str]
    verdict: netproof.Verdict
    frontier: int  # sub-domains open when last told
    tallies: list[Tally] = field(default_factory=list)

    @property
    def search_seconds(self) -> float:
        """Those of the rounds, confirmation and leaves included: all but loading and bounding roots."""
        spent = self.verdict.stats.seconds
        return spent["total"] - spent["load"] - spent["attack"] - spent["root"]

    def work(self) -> Work | None:
        """Of a sub-domain, on average over the roots; None where the network is not condensed."""
        condensed = [(tally.net, tally.domains) for tally in self.tallies if isinstance(tally.net, Condensed)]
        bounded = sum(tally.domains for tally in self.tallies)
        if not bounded or len(condensed) < len(self.tallies) or condensed[0][0].count == 0:
            return None
        fields = method_info(self.method).options(self.options)
        steps, probes, batch = (int(fields[name] or 0) for name in ("steps", "probes", "batch"))
        total = Work(0.0, 0.0, 0.0)
        for net, domains in condensed:
            total = total + work_of(net, steps, probes, 2 * batch) * domains
        return total * (1 / bounded)

    def row(self, peak: Peak) -> list[str]:
        domains, spent = self.verdict.stats.domains, self.verdict.stats.seconds["total"]
        rate = domains / self.search_seconds if self.search_seconds > 0 else math.nan
        work, most = self.work(), max(self.tallies, key=lambda tally: tally.domains, default=None)
        least, limit = (math.nan, "-") if work is None else peak.seconds(work)
        extra = {name: value for name, value in self.options.items() if name != "batch"}
        return [
            self.name,
            ", ".join([self.method, *(f"{name}={value}" for name, value in extra.items())]),
            self.options["batch"],
            str(self.verdict.status),
            "-" if most is None else str(most.net.count),
            count(domains),
            count(rate) if domains else "-",
            count(domains / spent) if domains else "-",
            "-" if work is None else count(1 / least),
            "-" if work is None or not domains else f"{rate * least:.1%}",
            limit,
            short(self.verdict.lower_bound),
            count(self.frontier),
        ]


@contextmanager
def tallied() -> Iterator[list[Tally]]:
    """Which roots the search bounds sub-domains under, and how many: a tighter root has fewer unstable neurons."""
    tallies: list[Tally] = []
    plain = Beta.bound

    def bound(self: Beta, root: Root, domains: Domains, *rest: Any, **named: Any) -> Bounds:
        if not tallies or tallies[-1].net is not root.net32:
            tallies.append(Tally(root.net32))
        tallies[-1].domains += len(domains)
        return plain(self, root, domains, *rest, **named)

    with mock.patch.object(Beta, "bound", bound):
        yield tallies


def measure(
    given: argparse.Namespace, name: str, loaded: tuple[Any, Any], method: str, fields: dict[str, str], seconds: float
) -> Run:
    latest = [0]

    def progress(told: Any) -> None:
        if told.phase == "search":
            latest[0] = told.frontier

    with tallied() as tallies:
        verdict = netproof.verify(
            *loaded,
            method=method,
            timeout=seconds,
            device=given.device,
            threads=given.threads,
            seed=given.seed,
            attack=False,
            options=fields,
            progress=progress,
        )
    return Run(name, method, fields, verdict, latest[0], tallies)


def no_lower(run: Run, reference: Run) -> str:
    """Whether the bound that was reached is at least the reference's; a proof is more than any bound."""
    mine, other = run.verdict, reference.verdict
    if "sat" in (mine.status, other.status):
        return "-"
    if "unsat" in (mine.status, other.status):
        return "yes" if mine.status == "unsat" else "no"
    if mine.lower_bound is None or other.lower_bound is None:
        return "-"
    return "yes" if mine.lower_bound >= other.lower_bound else "no"


def read_instances(names: list[str]) -> dict[str, Instance]:
    """By the name that the table gives them: as typed, or the property's file."""
    found, rest = {}, list(names)
    while rest:
        name = rest.pop(0)
        if Path(name.removesuffix(".gz")).suffix == ".onnx" and rest:
            spec = rest.pop(0)
            found[Path(spec).name.split(".vnnlib")[0]] = Instance("", Path(name), Path(spec), None, None)
        else:
            found[name] = instances.read_row(name)
    return found


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("instance", nargs="+", help="MODEL.onnx SPEC.vnnlib, or SET:ROW as in oval21:3")
    parser.add_argument(
        "--seconds", type=options.above_zero, default=30.0, metavar="S", help="of each run (default: 30)"
    )
    parser.add_argument(
        "--batch", type=options.positives, default=[1024, 4096, 16384], metavar="N,N", help="(default: 1024,4096,16384)"
    )
    parser.add_argument("--method", default="auto", help="(default: auto)")
    parser.add_argument("--reference", action="store_true", help="run beta with steps=20 too, and compare the bounds")
    options.engine_options(parser)
    return parser.parse_args()


def load(given: argparse.Namespace) -> dict[str, tuple[Any, Any]]:
    """Networks and properties by name; what is wrong with the arguments is an error here, before anything has run."""
    for batch in given.batch:
        method_info(given.method).options({**dict(given.set), "batch": str(batch)})
    return {name: instances.load(instance) for name, instance in read_instances(given.instance).items()}


def runs(given: argparse.Namespace, loaded: dict[str, tuple[Any, Any]]) -> Iterator[tuple[Run, Run | None]]:
    """Each run and its reference."""
    first = next(iter(loaded))
    batch = {"batch": str(given.batch[0])}
    measure(given, first, loaded[first], given.method, {**dict(given.set), **batch}, min(WARM_UP, given.seconds))
    for name, files in loaded.items():
        for size in given.batch:
            batch = {"batch": str(size)}
            run = measure(given, name, files, given.method, {**dict(given.set), **batch}, given.seconds)
            method, fields = REFERENCE
            reference = (
                measure(given, name, files, method, {**fields, **batch}, given.seconds) if given.reference else None
            )
            say(f"{name}, batch {size}: {run.verdict.stats.domains} domains")
            yield run, reference


def main() -> int:
    given = arguments()
    device = resolve_device(given.device)
    loaded = load(given)
    torch.set_num_threads(given.threads or available_cpus())
    peak = measured_peak(device)
    machine = f"machine: {describe(device)}; {peak}"
    if device.type == "cuda":
        torch.cuda.empty_cache()
    header = [word.replace("_", " ") for word in COLUMNS.split()]
    rows = [[*header, "no lower"] if given.reference else header]
    for run, reference in runs(given, loaded):
        if reference is None:
            rows.append(run.row(peak))
        else:
            rows += [[*run.row(peak), no_lower(run, reference)], [*reference.row(peak), "reference"]]
    print(table(rows, names=2), machine, sep="\n\n")
    return 0


if __name__ == "__main__":
    options.run(main)
