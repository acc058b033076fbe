"""The one place where a verdict is made, and evidence is all that it is made of.

`unsat` needs, for every disjunct of the property, an input set that is empty as written, or a cover of it by
sub-domains that are each proved. `sat` needs a replayed witness. Everything else is `timeout` or `unknown`. Evidence
that speaks against itself is never an answer: the verdict is `unknown`, its reason `contradiction`, the case is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from netproof.core.reasons import CONTRADICTION, EMPTY, INTERRUPTED, PINNED, ROUNDING
from netproof.core.verdict import Stats, Status, Verdict, Witness
from netproof.model.network import Network
from netproof.problem.problem import Problem
from netproof.problem.property import Property
from netproof.problem.witness import confirmed, in_set, project, rounding_gap, violated
from netproof.search.evidence import RANKS, Outcome
from netproof.search.goals import Decide, Lowest


@dataclass(frozen=True)
class Evaluated:
    """What the real-valued network is known to do at one point of a disjunct's input set."""

    upper: float  # the largest row is at most this
    violates: bool  # every row is on its side for certain, rounding included
    disjunct: int
    point: tuple[float, ...]


class Evidence:
    """Gathers what the steps of a run establish; `verdict` is what follows from it."""

    def __init__(self, network: Network, property: Property) -> None:
        self._network, self._property = network, property
        empty = [disjunct.box.empty for disjunct in property.disjuncts]
        self._proved = [Fraction(int(e)) for e in empty]  # by disjunct, the share of its input set that is proved
        self._bounds = [math.inf if e else -math.inf for e in empty]  # and what is proved of all of it
        self._nothing = all(empty)  # to search
        self._witness: Witness | None = None
        self._lowest: tuple[Lowest, int] | None = None  # the lowest point that was evaluated, and its disjunct
        self._reason, self._stopped, self._decided_by = "", False, "root"
        self.upper = math.inf  # the least value seen, in float32: for people to watch

    def add(self, problems: Sequence[Problem], outcome: Outcome) -> None:
        """Add what a search of these problems established, for good."""
        targets = [disjunct for problem in problems for disjunct in problem.disjuncts]
        for disjunct, share, bound in zip(targets, outcome.proved, outcome.bounds, strict=True):
            self._proved[disjunct] += share
            self._bounds[disjunct] = max(self._bounds[disjunct], bound)
        self._keep(outcome)
        self._reason = self._reason or outcome.reason
        self._stopped |= outcome.stopped

    def add_whole(self, problems: Sequence[Problem], outcome: Outcome) -> None:
        """Add a first look, of which only the targets count that it proved whole: the others are searched again."""
        whole = tuple(share if share == 1 else Fraction(0) for share in outcome.proved)
        self.add(problems, Outcome(whole, outcome.bounds, outcome.witness, decided_by=outcome.decided_by))

    def see(self, problem: Problem, goal: Decide) -> None:
        """Note what the goal of a problem saw at evaluated points."""
        self.upper = min(self.upper, float(goal.upper.min()))
        if goal.lowest is not None and (self._lowest is None or goal.lowest.value < self._lowest[0].value):
            self._lowest = goal.lowest, problem.disjuncts[goal.lowest.target]

    def found(self, witness: Witness, decided_by: str) -> None:
        """Keep a replayed witness; the first one stays."""
        if self._witness is None:
            self._witness, self._decided_by = witness, decided_by

    def _keep(self, outcome: Outcome) -> None:
        if outcome.witness is not None:
            self.found(outcome.witness, outcome.decided_by)
        elif self._witness is None and outcome.decided_by:
            self._decided_by = max(self._decided_by, outcome.decided_by, key=RANKS.index)

    def stop(self, reason: str = "") -> None:
        """Note that the deadline came before everything was searched."""
        self._stopped = True
        self._reason = self._reason or reason

    @property
    def is_over(self) -> bool:
        """Whether nothing may be searched any more: there is a witness, or no time."""
        return self._witness is not None or self._stopped

    @property
    def is_settled(self) -> bool:
        """Whether it is over, or everything is proved."""
        return self.is_over or self._all_proved

    @property
    def _all_proved(self) -> bool:
        return all(share == 1 for share in self._proved)

    @property
    def lower(self) -> float:
        """What is proved of every disjunct."""
        return min(self._bounds, default=math.inf)

    def verdict(self, stats: Stats, *, cancelled: bool) -> Verdict:
        """What follows from the evidence."""
        if self._witness is not None:
            return self._sat(self._witness, stats)
        seen = self._evaluated()
        wrong = self._contradiction(seen)
        if wrong:
            return self._contradicted(wrong, seen, stats)
        upper = None if seen is None else _finite(seen.upper)
        status, reason, decided_by = self._answer(cancelled)
        return Verdict(status, reason, None, _finite(self.lower), upper, stats, decided_by)

    def _answer(self, cancelled: bool) -> tuple[Status, str, str]:
        """The status, its reason and what decided, where there is no witness and no contradiction."""
        if self._all_proved and self._nothing:
            empty = EMPTY if self._property.disjuncts else "no output can violate the property"
            return Status.UNSAT, empty, "input set"
        if self._all_proved:
            return Status.UNSAT, "", self._decided_by
        if self._stopped and cancelled:
            return Status.UNKNOWN, INTERRUPTED, ""
        return (Status.TIMEOUT if self._stopped else Status.UNKNOWN), self._reason, ""

    def _sat(self, witness: Witness, stats: Stats) -> Verdict:
        index = violated(self._property, witness.input, witness.output)
        if index is None:
            return self._contradicted("a witness violates nothing", None, stats)
        disjunct = self._property.disjuncts[index]
        low, high = rounding_gap(self._network, disjunct, witness.input)
        sure = confirmed(disjunct, high)
        return Verdict(
            Status.SAT,
            "; ".join(([] if sure else [ROUNDING]) + ([PINNED] if witness.note else [])),
            witness,
            upper_bound=_finite(max(high, default=0.0)),
            stats=stats,
            decided_by=self._decided_by,
            # A violation that exact arithmetic does not confirm is onnxruntime's alone.
            arithmetic="real" if sure else "float32",
            details={} if sure else {"real_rows": {"lower": list(low), "upper": list(high)}},
        )

    def _evaluated(self) -> Evaluated | None:
        """The lowest point seen, moved into the set as written and evaluated with its rounding bounded."""
        if self._lowest is None:
            return None
        lowest, index = self._lowest
        disjunct = self._property.disjuncts[index]
        point = project(lowest.point.numpy(), disjunct)
        if not in_set(point, disjunct):  # a ball may hold no float32
            return None
        high = rounding_gap(self._network, disjunct, point)[1]
        return Evaluated(max(high, default=0.0), confirmed(disjunct, high), index, tuple(point.tolist()))

    def _contradiction(self, seen: Evaluated | None) -> str:
        """What in the evidence cannot be; empty where nothing is."""
        over = next((i for i, share in enumerate(self._proved) if share > 1), None)
        if over is not None:
            return f"of disjunct {over} more is proved than there is: {float(self._proved[over]):.17g} of its input set"
        if self._all_proved and self.lower < 0:
            return f"everything is proved, with a bound of {self.lower:.17g}"
        if seen is not None and self._all_proved and seen.violates:
            return f"everything is proved, and a point violates disjunct {seen.disjunct}"
        if seen is not None and self.lower > seen.upper:
            return f"the proved bound is {self.lower:.17g}, the value at a point at most {seen.upper:.17g}"
        if not self._all_proved and not self._stopped and not self._reason:
            return "nothing is open, yet not everything is proved"
        return ""

    def _contradicted(self, wrong: str, seen: Evaluated | None, stats: Stats) -> Verdict:
        details: dict[str, Any] = {
            "what": wrong,
            "lower_bound": _finite(self.lower),
            "proved": [str(share) for share in self._proved],
            "point": None if seen is None else {"disjunct": seen.disjunct, "input": seen.point, "upper": seen.upper},
        }
        return Verdict(Status.UNKNOWN, CONTRADICTION, stats=stats, details={CONTRADICTION: details})


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
