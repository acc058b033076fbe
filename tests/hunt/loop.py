"""The hunt itself: seeds in turn until the time or the count is up, and a tally of what came of them."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hunt.certificates.campaign import Counts
from hunt.generate import Case, make
from hunt.judge import DEFINITE, Asked, Finding, Run, judge
from hunt.runs import runs_of


@dataclass
class Tally:
    """Runs by method and by status, apart where the question is a tie for float32; and the faults."""

    statuses: Counter[tuple[str, str, bool]] = field(default_factory=Counter)  # (method, status, near)
    families: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)  # (family, near, definite)
    faults: Counter[str] = field(default_factory=Counter)
    seeds: int = 0
    certificates: Counts = field(default_factory=Counts)
    plants: Counter[tuple[str, str]] = field(default_factory=Counter)  # (plant, what came of a search with it)

    def add(self, family: str, run: Run, finding: Finding) -> None:
        self.statuses[run.method, finding.status, finding.near] += 1
        if not run.method.startswith("bounds:"):
            self.families[family, finding.near, finding.status in DEFINITE] += 1
        if finding.fault:
            self.faults[finding.fault] += 1

    def merge(self, other: Tally) -> None:
        self.statuses += other.statuses
        self.families += other.families
        self.faults += other.faults
        self.seeds += other.seeds
        self.certificates.merge(other.certificates)
        self.plants += other.plants

    @property
    def runs(self) -> int:
        return sum(self.statuses.values())

    def definite(self) -> tuple[int, int]:
        """Runs away from ties: those that ended with sat or unsat, and all."""
        away = {key: n for key, n in self.families.items() if not key[1]}
        return sum(n for key, n in away.items() if key[2]), sum(away.values())

    def table(self) -> str:
        lines = self._searches() if self.runs else []
        counts = self.certificates
        if counts.certificates:  # beside other questions they are too few for a table
            lines.append(counts.line() if self.runs else counts.table())
        lines += [f"{plant:20} {outcome:50} {n:>7}" for (plant, outcome), n in sorted(self.plants.items())]
        return "\n".join([*lines, f"faults: {dict(self.faults) or 'none'}"])

    def _searches(self) -> list[str]:
        columns = sorted({status for _, status, _ in self.statuses})
        lines = [" ".join([f"{'method':14}", *(f"{c:>9}" for c in columns), f"{'all':>9}"])]
        for method in sorted({m for m, _, _ in self.statuses}):
            counts = [sum(self.statuses[method, c, near] for near in (False, True)) for c in columns]
            lines.append(" ".join([f"{method:14}", *(f"{n:>9}" for n in counts), f"{sum(counts):>9}"]))
        for family in sorted({f for f, _, _ in self.families}):
            away = [self.families[family, False, d] for d in (True, False)]
            near = [self.families[family, True, d] for d in (True, False)]
            lines.append(f"{family:14} away from ties {away[0]} of {sum(away)} definite, near {near[0]} of {sum(near)}")
        good, away_all = self.definite()
        share = 100 * good / away_all if away_all else 100.0
        lines.append(
            f"{self.seeds} questions, {self.runs} runs; away from ties {good} of {away_all} definite ({share:.1f} %)"
        )
        return lines


OnFault = Callable[[Case, Run, Finding], bool]  # whether to go on


def hunt(seeds: Iterable[int], on_fault: OnFault, *, until: float = float("inf"), timeout: float = 3.0) -> Tally:
    """Every run of every seed, until the monotonic clock says `until`."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            if time.monotonic() >= until:
                break
            case = make(seed)
            asked = Asked(case.question, case.oracle, Path(folder))
            tally.seeds += 1
            for run in runs_of(case, timeout=timeout):
                finding = judge(asked, run)
                tally.add(case.family, run, finding)
                if finding.fault and not on_fault(case, run, finding):
                    return tally
    return tally
