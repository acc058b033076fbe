"""Branching rules in the same search with the same bounder: how many branches does each need?

A branch is a sub-domain bounded below the root, two a binary split. What a rule spends on choosing is not counted, but
is in the seconds.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import options
import torch
from instances import Instance, find_sets, load, read_folder
from tables import say, table

from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher
from netproof.branching.random import Random
from netproof.core.cpu import available_cpus
from netproof.core.deadline import Deadline
from netproof.core.verdict import Stats
from netproof.errors import UsageError
from netproof.methods.build import build_method
from netproof.methods.device import resolve_device
from netproof.methods.registry import method_info
from netproof.numerics import use_strict_float32
from netproof.paper.rivals.gnn.net import WEIGHTS
from netproof.paper.rivals.gnn.rule import Gnn
from netproof.problem.problem import Problem
from netproof.problem.reduce import reduce
from netproof.problem.witness import confirm
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Method, Work

COLUMNS = "set vnnlib rule status branches seconds failures"
RULES = ("babsr", "gnn", "gnn-online", "random")


@dataclass(frozen=True)
class Result:
    instance: Instance
    rule: str
    status: str  # "unsat", "sat", or what a search says that did not end
    branches: int
    seconds: float
    failures: float | None  # the share of sub-domains where the network's choice was not followed

    @property
    def solved(self) -> bool:
        return self.status in ("unsat", "sat")


class Runner:
    """Runs one instance with one rule; everything but the rule is the method's."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._device = resolve_device(given.device)
        self._threads = available_cpus() if given.threads is None else given.threads
        torch.set_num_threads(self._threads)
        use_strict_float32()

    def run(self, instance: Instance, rule: str) -> Result:
        network, property = load(instance)
        deadline, stats = Deadline(self._given.timeout), Stats()
        began, statuses = time.perf_counter(), []
        brancher = self._rule(rule)
        for problem in reduce(network, property):
            goal = Decide(problem, lambda x, t, p=problem: confirm(network, property, p.disjuncts[t], x.cpu().numpy()))
            statuses.append(self._search(problem, goal, brancher(), deadline, stats))
            if statuses[-1] != "unsat":
                break
        memory = brancher.last.memory if isinstance(brancher.last, Gnn) else None
        failures = None if memory is None else memory.failed / max(1, memory.asked)
        seconds = time.perf_counter() - began
        return Result(instance, rule, statuses[-1] if statuses else "unsat", stats.domains, seconds, failures)

    def _search(self, problem: Problem, goal: Decide, rule: Brancher, deadline: Deadline, stats: Stats) -> str:
        method = replace(self._method(), brancher=rule)
        outcome = Search(problem, method, goal, Work(self._device, self._threads, deadline, stats)).run()
        return {"proved": "unsat", "found": "sat"}.get(outcome.status, outcome.status)

    def _method(self) -> Method:
        chosen = method_info(self._given.method).options(dict(self._given.set))
        return build_method(self._given.method, chosen, self._device)

    def _rule(self, name: str) -> Fresh:
        given = self._given
        rules: dict[str, Callable[[], Brancher]] = {
            "babsr": Babsr,
            "gnn": lambda: Gnn(given.weights, given.weak),
            "gnn-online": lambda: Gnn(given.weights, given.weak, online=True),
            "random": lambda: Random(given.seed),
        }
        return Fresh(rules[name])


class Fresh:
    """A new rule for every search, as the methods have."""

    def __init__(self, make: Callable[[], Brancher]) -> None:
        self._make = make
        self.last: Brancher | None = None

    def __call__(self) -> Brancher:
        self.last = self._make()
        return self.last


def summaries(results: list[Result], rules: list[str]) -> str:
    """One line a set and rule, and one a rule for all sets; means over the instances that every rule solves."""
    unsolved = {result.instance for result in results if not result.solved}
    groups = [*dict.fromkeys(result.instance.benchmark for result in results)]
    header = ["set", "rule", "solved", "compared", "mean branches", "median", f"of {rules[0]}", "mean s", "followed"]
    lines = [header]
    for name in [*groups, *(["all"] if len(groups) > 1 else [])]:
        mine = [result for result in results if name in (result.instance.benchmark, "all")]
        lines.extend(line(name, rule, rules[0], mine, unsolved) for rule in rules)
    return table(lines, names=2)


def line(name: str, rule: str, first: str, results: list[Result], unsolved: set[Instance]) -> list[str]:
    own = [result for result in results if result.rule == rule]
    fair = [result for result in own if result.instance not in unsolved]
    start = [name, rule, f"{sum(result.solved for result in own)} of {len(own)}", str(len(fair))]
    if not fair:
        return [*start, *["-"] * 5]
    branches = [result.branches for result in fair]
    base = sum(r.branches for r in results if r.rule == first and r.instance not in unsolved)
    shares = [result.failures for result in fair if result.failures is not None]
    return [
        *start,
        f"{statistics.mean(branches):.1f}",
        f"{statistics.median(branches):.0f}",
        f"{sum(branches) / base:.3f}" if base else "-",
        f"{statistics.mean(result.seconds for result in fair):.2f}",
        f"{1 - statistics.mean(shares):.0%}" if shares else "-",
    ]


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("folder", nargs="+", help="a set, or a folder of sets")
    parser.add_argument("--rule", action="append", choices=RULES, help="may be repeated; the first is the measure")
    parser.add_argument("--method", default="lirpa-tight", help="whose bounder and search (default: lirpa-tight)")
    parser.add_argument("--skip", type=options.positive, default=0, metavar="N", help="leave out a set's first N")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N instances of each set")
    parser.add_argument("--timeout", type=options.above_zero, default=60.0, metavar="S", help="(default: 60)")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="FILE", help="(default: the package's)")
    parser.add_argument("--weak", type=float, default=Gnn.weak, metavar="SHARE", help=f"(default: {Gnn.weak})")
    parser.add_argument("--csv", type=options.writable, metavar="FILE", help="write one row an instance and rule")
    options.engine_options(parser)
    given = parser.parse_args()
    given.rule = list(dict.fromkeys(given.rule or RULES[:3]))
    if not given.weights.is_file():
        raise UsageError("no such file", file=str(given.weights), remedy="train one with train_gnn.py")
    return given


def main() -> int:
    given = arguments()
    runner = Runner(given)
    instances = [
        instance for folder in find_sets(given.folder) for instance in read_folder(folder)[given.skip :][: given.first]
    ]
    results: list[Result] = []
    with given.csv.open("w", newline="") if given.csv else open(os.devnull, "w") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS.split())
        for instance in instances:
            for rule in given.rule:
                result = runner.run(instance, rule)
                results.append(result)
                at = (instance.benchmark, instance.names[1], rule, result.status)
                rows.writerow((*at, result.branches, f"{result.seconds:.3f}", result.failures))
                say(f"{instance} · {rule}: {result.status}, {result.branches} branches in {result.seconds:.2f} s")
    print(summaries(results, given.rule))
    return 0


if __name__ == "__main__":
    options.run(main)
