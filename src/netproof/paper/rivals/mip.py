"""MIPplanet: the network as a mixed-integer program, decided by a solver; then its answer is checked.

A MIP solver computes in floating point with tolerances, and shows no tree that could be checked. So its word decides
nothing here. A solution is a point, evaluated and replayed as any other. "No solution" is a claim: the search that the
method is built with has to prove it in what is left of the time, and where it cannot, the verdict is not `unsat`. The
seconds of the solver count as `search`, those of the proof as `confirm`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from netproof.bounds.base import Bounds, Clock
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import DeadlineExpired
from netproof.core.reasons import ROOT_LATE
from netproof.core.verdict import Stats
from netproof.paper.rivals.babsr_lp import BabsrLP
from netproof.paper.rivals.mip_model import Watch, solve_mip
from netproof.problem.problem import Problem
from netproof.programs.condensed import CondensedLP
from netproof.programs.model import Floats
from netproof.search.evidence import Cover, Outcome
from netproof.search.goals import Goal, Judge
from netproof.search.loop import Search
from netproof.search.method import Method, SecondLook, Work
from netproof.search.rounds import REPORT_EVERY

CLAIMS = {
    "holds": "the MIP solver says that it holds",
    "violated": "the MIP solver says that it is violated, by a point that is no violation when replayed",
}

ENDS = {"found": "", "stopped": "the MIP solver was still at work", "failed": "the MIP solver gave up"}


@dataclass(frozen=True)
class Formulation:
    """How the solver is asked."""

    parallel: bool = True  # the neurons' bounds by parallel slopes, as MIPplanet has them; else by CROWN's
    minimise: bool = False  # for the minimum, as MIPplanet does; else for a violation


class MipSearch:
    """One problem, as a `Search` of it; `method` is the search that checks what the solver claims."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        goal: Goal,
        work: Work,
        second_look: SecondLook | None = None,
        how: Formulation | None = None,
    ) -> None:
        self._how = how or Formulation()
        self._problem, self._method, self._goal, self._work = problem, method, goal, work
        self._device, self._deadline, self._stats, self._report = work.device, work.deadline, work.stats, work.report
        self._clock = Clock()
        self._bounds = (float("-inf"),) * len(problem.disjuncts)  # proved at the root
        self._cover = Cover(len(problem.disjuncts))
        self._told = 0.0

    def run(self) -> Outcome:
        began = time.monotonic()
        self._report("root", min(self._bounds), 0)
        threshold = self._goal.thresholds(torch.arange(len(self._problem.disjuncts), device=self._device))
        first = BabsrLP(parallel=self._how.parallel).root(
            self._problem, threshold, self._device, self._deadline, self._clock
        )
        self._stats.seconds["root"] += time.monotonic() - began - self._clock.confirm
        self._stats.seconds["confirm"] += self._clock.confirm
        if first is None:
            return self._outcome(ROOT_LATE, stopped=True)
        root, bounds = first
        self._bounds = tuple(bounds.domains.bound.tolist())
        proved = self._goal.proved(bounds.domains)
        self._cover.close(bounds.domains.target[proved], bounds.domains.level[proved])
        still_open = bounds.select((~proved).nonzero()[:, 0])
        if len(still_open.domains) == 0:
            return self._outcome()
        began = time.monotonic()
        claim = self._solve(root, still_open)
        self._stats.seconds["search"] += time.monotonic() - began
        if claim in CLAIMS:
            return self._confirm(CLAIMS[claim])
        # Where the solver did not finish there is nothing to confirm: another search's answer would not be its own.
        return self._outcome(ENDS[claim], stopped=claim == "stopped")

    def _outcome(self, reason: str = "", *, stopped: bool = False) -> Outcome:
        """Return what the root alone has proved, and the witness if there is one."""
        witness = self._goal.witness
        how = "root" if witness is None else "search"
        return Outcome(self._cover.shares(), self._bounds, witness, reason, stopped, how)

    def discard(self) -> None:
        """Do nothing: nothing is kept."""

    def _solve(self, root: Root, bounds: Bounds) -> str:
        """Return what the solver claims of all targets together, or how it ended with the first that it left open."""
        judge, target = Judge(root.graph32.graph, root.rows), bounds.domains.target
        if self._goal.offer(judge, bounds.point, target):
            return "found"
        try:
            lp = CondensedLP(root, self._deadline)
        except DeadlineExpired:
            return "stopped"
        worst = "holds"
        for i, which in enumerate(target.tolist()):

            def offer(x: Floats, i: int = i) -> bool:
                point = torch.from_numpy(x).view(root.graph32.graph.input.shape).float().to(self._device)
                return self._goal.offer(judge, point[None], target[i : i + 1])

            sides = bounds.domains.lower[i], bounds.domains.upper[i]
            claim = solve_mip(lp, which, sides, Watch(offer, self._tick, self._deadline), minimise=self._how.minimise)
            self._stats.domains += claim.nodes
            if claim.status not in CLAIMS:
                return claim.status
            worst = claim.status if claim.status != "holds" else worst
        return worst

    def _tick(self, nodes: int) -> None:
        if time.monotonic() - self._told > REPORT_EVERY:
            self._told = time.monotonic()
            self._report("search", min(self._bounds), nodes)

    def _confirm(self, claim: str) -> Outcome:
        """Try to confirm the solver's claim, by a search whose every bound is checked."""
        began, stats = time.monotonic(), Stats()
        search = Search(self._problem, self._method, self._goal, replace(self._work, stats=stats))
        outcome = search.run()
        search.discard()
        self._stats.seconds["confirm"] += time.monotonic() - began
        self._stats.leaf_lps += stats.leaf_lps
        self._stats.lps += stats.lps
        self._stats.cut_in_lp |= stats.cut_in_lp
        if outcome.status == "timeout":
            return replace(outcome, reason=f"{claim}; there was no time to confirm it")
        if outcome.status == "undecided":
            return replace(outcome, reason=f"{claim}; it could not be confirmed: {outcome.reason}")
        return outcome
