"""The one place where a verdict is made, from evidence alone.

`unsat` needs, for every disjunct of the property, an input set that is empty as written, or a cover of it by
sub-domains that are each proved. `sat` needs a replayed witness. Everything else is `timeout` or `unknown`. Evidence
that contradicts itself is never an answer: the verdict is `unknown`, its reason `contradiction`, the case is kept.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from numpy.typing import NDArray

from netproof.core.reasons import CONTRADICTION, EMPTY, INTERRUPTED, NOTHING, ROUNDING, pinned
from netproof.core.verdict import Stats, Status, Verdict, Witness, finite
from netproof.model.combined import AnyNetwork
from netproof.model.graph import Graph
from netproof.model.load import FEWEST, check_module, is_from_module, points_of_module
from netproof.numerics import few_roundings, float_down
from netproof.problem.last.order import before_last_map
from netproof.problem.last.places import margin_of_places, places_at
from netproof.problem.problem import Problem
from netproof.problem.property import Disjunct, Property
from netproof.problem.witness import Gap, confirmed, in_set, project, rounding_gaps, violations, without_points
from netproof.search.evidence import RANKS, Outcome
from netproof.search.goals import Decide, Lowest

LOOKS = 4  # points that are looked at most closely and compared with a module, by the points of one kind
WEIGHING = 16  # roundings in the weights of rows beyond one per row: their exponentials, their sum, and the quotient


@dataclass(frozen=True)
class Evaluated:
    """What the real-valued network is known to do at one point of a disjunct's input set."""

    upper: float  # the largest row, as problems ask it, is at most this
    violates: bool  # every row is on its side for certain, rounding included
    disjunct: int
    point: tuple[float, ...]


class Evidence:
    """Gathers what the steps of a run establish; `verdict` is what follows from it."""

    def __init__(self, network: AnyNetwork, property: Property) -> None:
        self._network, self._property = network, property
        self._asked = before_last_map(network, property)  # what bounds are of; violations are the whole network's
        empty = [disjunct.box.empty for disjunct in property.disjuncts]
        self._proved = [Fraction(int(e)) for e in empty]  # by disjunct, the share of its input set that is proved
        self._bounds = [math.inf if e else -math.inf for e in empty]  # by disjunct, the bound proved on all of its set
        self._nothing = all(empty)  # whether there is nothing to search
        self._witness: Witness | None = None
        self._lowest: dict[int, Lowest] = {}  # by disjunct, the lowest point that was evaluated
        # The last points that came nearest to a violation, at which a module must do what its graph does.
        self.look: Callable[[torch.Tensor], None] | None = None
        self._looked_at: deque[torch.Tensor] = deque(maxlen=LOOKS * points_of_module(network))
        if is_from_module(network):
            self.look = lambda points: self._looked_at.extend(points.detach().cpu())
        self._odd = ""  # what cannot be true of an outcome
        self._reason, self._stopped, self._decided_by = "", False, "root"
        self.upper = math.inf  # the least value seen, in float32: shown as progress, no evidence

    def add(self, problem: Problem, outcome: Outcome) -> None:
        """Add what a search of a problem established; its shares are added once."""
        for disjunct, share, bound in zip(problem.disjuncts, outcome.proved, outcome.bounds, strict=True):
            self._proved[disjunct] += share
            self._bounds[disjunct] = max(self._bounds[disjunct], self._of_largest_row(disjunct, bound))
        self._keep(outcome)
        if outcome.witness is None and outcome.covers and (outcome.reason or outcome.stopped):
            self._odd = self._odd or "everything is proved, yet something is open"
        self._reason = self._reason or outcome.reason
        self._stopped |= outcome.stopped

    def _of_largest_row(self, disjunct: int, bound: float) -> float:
        """Lower a bound of Σ λ r by what the float32 weights λ may exceed 1 in sum: it then bounds the largest row."""
        rows = len(self._asked[1].disjuncts[disjunct].rows)
        if rows <= 1 or not math.isfinite(bound):
            return bound
        return bound - few_roundings(abs(bound), rows + WEIGHING, torch.float32)

    def add_whole(self, problem: Problem, outcome: Outcome) -> None:
        """Add a first look; of its shares only those of wholly proved targets count: the others are searched again."""
        whole = tuple(share if share == 1 else Fraction(0) for share in outcome.proved)
        reason = outcome.reason if outcome.covers else ""
        self.add(problem, Outcome(whole, outcome.bounds, outcome.witness, reason, decided_by=outcome.decided_by))

    def bounds_all(self, problem: Problem) -> bool:
        """Say whether some bound is known of every target of a problem."""
        return all(self._bounds[disjunct] > -math.inf for disjunct in problem.disjuncts)

    def see(self, problem: Problem, goal: Decide) -> None:
        """Note what the goal of a problem saw at evaluated points."""
        self.see_points(float(goal.upper.min()), {problem.disjuncts[t]: lowest for t, lowest in goal.lowest.items()})

    def see_points(self, upper: float, points: Mapping[int, Lowest]) -> None:
        """Note the least value seen, and by disjunct the lowest point."""
        self.upper = min(self.upper, upper)
        for disjunct, lowest in points.items():
            if disjunct not in self._lowest or lowest.value < self._lowest[disjunct].value:
                self._lowest[disjunct] = lowest

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
        """Note that it ended before everything was searched: the time was up, or the memory."""
        self._stopped = True
        self._reason = self._reason or reason

    @property
    def is_over(self) -> bool:
        """Say whether nothing may be searched any more: there is a witness, or no time."""
        return self._witness is not None or self._stopped

    @property
    def is_settled(self) -> bool:
        """Say whether it is over, or everything is proved."""
        return self.is_over or self._all_proved

    @property
    def _all_proved(self) -> bool:
        return all(share == 1 for share in self._proved)

    @property
    def lower(self) -> float:
        """Return the bound that is proved of every disjunct."""
        return min(self._bounds, default=math.inf)

    @property
    def margin(self) -> float:
        """Return the bound that is proved of every case of a violation, those included that no input can be.

        Of places of a last ArgMax, whose bounds are of scores, there is none before all is proved.
        """
        spare = self._property.spare
        if self._property.written is not None:
            found = margin_of_places(self._network, self._property.written) if self._all_proved else None
            return math.nan if found is None else float_down(found if spare is None else min(found, spare))
        of_inputs = any(not row.coefs for disjunct in self._property.disjuncts for row in disjunct.rows)
        if not math.isfinite(self.lower):
            return self.lower
        if self._asked[0] is not self._network.graph and (spare is not None or of_inputs):
            return math.nan  # bounds are of what the last map reads: not in one unit with those of inputs, or `spare`
        return self.lower if spare is None else min(self.lower, float_down(spare))

    def verdict(self, stats: Stats, *, cancelled: bool) -> Verdict:
        """Return what follows from the evidence: `sat`, a contradiction, `unsat`, or why nothing is decided.

        A ModelError says that a module does something else than its graph, at a point that this rests on.
        """
        self._compare_with_module()
        if self._witness is not None:
            return self._sat(self._witness, stats)
        seen = self._evaluated()
        wrong = self._contradiction(seen)
        if wrong:
            return self._contradicted(wrong, seen, stats)
        of_scores = self._property.written is not None
        upper = None if of_scores else finite(min((point.upper for point in seen), default=math.inf))
        status, reason, decided_by = self._answer(cancelled)
        return Verdict(status, reason, None, finite(self.margin), upper, stats, decided_by)

    def _compare_with_module(self) -> None:
        """Compare a module with its graph where the evidence comes nearest to a violation.

        That is at the witness, the lowest point of every disjunct, every candidate that was replayed, and the lowest
        points of the last rounds. Where the time is up, little is spent on it: nothing is answered.
        """
        if self.look is None:
            return
        lowest = sorted(self._lowest.values(), key=lambda seen: seen.value)
        points = [*(seen.point for seen in lowest[: self._looked_at.maxlen]), *self._looked_at]
        if self._witness is not None:
            points.insert(0, torch.from_numpy(self._witness.input))
        elif not self._all_proved:
            points = points[:FEWEST]
        if points:
            shape = self._network.input_shape
            check_module(self._network, torch.stack([point.double().reshape(shape) for point in points]))

    def _answer(self, cancelled: bool) -> tuple[Status, str, str]:
        """Return the status, its reason and what decided, where there is no witness and no contradiction."""
        if self._all_proved and self._nothing:
            empty = EMPTY if self._property.disjuncts else self._property.vacuous or NOTHING
            return Status.UNSAT, empty, "input set"
        if self._all_proved:
            return Status.UNSAT, "", self._decided_by
        if self._stopped and cancelled:
            return Status.UNKNOWN, INTERRUPTED, ""
        return (Status.TIMEOUT if self._stopped else Status.UNKNOWN), self._unbreakable() or self._reason, ""

    def _unbreakable(self) -> str:
        """Say why no counterexample can be shown, where none can in any set that is open; empty where one may be."""
        why = ""
        for disjunct, share in zip(self._property.disjuncts, self._proved, strict=True):
            if share != 1:
                why = without_points(self._property, disjunct, self._network.input_dtype)
                if not why:
                    return ""
        return why

    def _sat(self, witness: Witness, stats: Stats) -> Verdict:
        written = self._property.written or self._property
        cases = [written.disjuncts[i] for i in violations(written, witness.input, witness.output)]
        if not cases:
            return self._contradicted("a witness violates nothing", [], stats)
        gaps = self._gaps(self._network.graph, cases, witness.input)
        sure = any(confirmed(case, high) for case, (_, high) in zip(cases, gaps, strict=True))
        low, high = min(gaps, key=lambda gap: max(gap[1], default=0.0))
        return Verdict(
            Status.SAT,
            "; ".join(([] if sure else [ROUNDING]) + ([pinned(str(witness.input.dtype))] if witness.note else [])),
            witness,
            upper_bound=finite(max(high, default=0.0)),
            stats=stats,
            decided_by=self._decided_by,
            # A violation that exact arithmetic does not confirm is onnxruntime's alone.
            arithmetic="real" if sure else "float32",
            details={} if sure else {"real_rows": {"lower": list(low), "upper": list(high)}},
        )

    def _evaluated(self) -> list[Evaluated]:
        """Evaluate the points that may contradict: the lowest, and the lowest against its disjunct's proved bound."""
        if not self._lowest:
            return []
        lowest = min(self._lowest, key=lambda i: self._lowest[i].value)
        nearest = min(self._lowest, key=lambda i: self._lowest[i].value - self._bounds[i])
        found = (self._evaluate(index) for index in dict.fromkeys((lowest, nearest)))
        return [point for point in found if point is not None]

    def _evaluate(self, index: int) -> Evaluated | None:
        """Move a disjunct's lowest point into the set as written and evaluate it, with its rounding bounded."""
        disjunct = self._property.disjuncts[index]
        point = project(self._lowest[index].point.numpy(), disjunct, self._network.input_dtype)
        if not in_set(point, disjunct):  # a ball may hold no float
            return None
        graph, asked = self._asked
        high = whole = self._gaps(graph, [asked.disjuncts[index]], point)[0][1]
        if graph is not self._network.graph:
            whole = self._gaps(self._network.graph, [disjunct], point)[0][1]
        return Evaluated(max(high, default=0.0), confirmed(disjunct, whole), index, tuple(point.tolist()))

    def _gaps(self, graph: Graph, disjuncts: Sequence[Disjunct], point: NDArray[Any]) -> list[Gap]:
        """Bound the rows of disjuncts at a point, for the real-valued graph."""
        known = places_at(self._network, point) if graph is self._network.graph else None
        return rounding_gaps(graph, disjuncts, point, self._property.derived, known)

    def _contradiction(self, seen: Sequence[Evaluated]) -> str:
        """Say what in the evidence cannot be true; empty where nothing is."""
        if self._odd:
            return self._odd
        over = next((i for i, share in enumerate(self._proved) if share > 1), None)
        if over is not None:
            return f"of disjunct {over} more is proved than there is: {float(self._proved[over]):.17g} of its input set"
        if self._all_proved and self.lower < 0:
            return f"everything is proved, with a bound of {self.lower:.17g}"
        for point in seen:
            if self._proved[point.disjunct] == 1 and point.violates:
                return f"disjunct {point.disjunct} is proved, and a point violates it"
            if self._bounds[point.disjunct] > point.upper:
                bound = self._bounds[point.disjunct]
                return f"the proved bound is {bound:.17g}, the value at a point at most {point.upper:.17g}"
        if not self._all_proved and not self._stopped and not self._reason:
            return "nothing is open, yet not everything is proved"
        return ""

    def _contradicted(self, wrong: str, seen: Sequence[Evaluated], stats: Stats) -> Verdict:
        details: dict[str, Any] = {
            "what": wrong,
            "lower_bound": finite(self.lower),
            "proved": [str(share) for share in self._proved],
            "points": [
                {"disjunct": point.disjunct, "input": point.point, "upper": finite(point.upper)} for point in seen
            ],
        }
        return Verdict(Status.UNKNOWN, CONTRADICTION, stats=stats, details={CONTRADICTION: details})
