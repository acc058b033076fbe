"""The way from problems to evidence: a first look, an attack, then the search that the method is for.

The first look is over boxes where inputs are split, and by intervals where the root may be late, so that there is some
bound.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeVar

import torch

from netproof.bounds.linear.memory import release, with_less
from netproof.bounds.linear.rows import bounds_by_intervals
from netproof.bounds.neurons import worth
from netproof.bounds.record import NOTHING, Recorder
from netproof.core.deadline import Deadline, Early
from netproof.core.machine.allowance import said_plainly
from netproof.core.reasons import INTERVALS_ONLY, ROOT_LATE
from netproof.core.verdict import Stats, Witness
from netproof.errors import OutOfMemory, Unbounded
from netproof.methods.build import build_method
from netproof.methods.declared import BOX_BATCHES
from netproof.methods.plan import Strategy, choose_strategy
from netproof.methods.registry import MethodInfo, Options
from netproof.model.combined import AnyNetwork
from netproof.problem.joined import join
from netproof.problem.problem import Problem
from netproof.problem.property import Property
from netproof.problem.witness import confirm
from netproof.relax import without_lp_form
from netproof.run.beside import Beside, is_large
from netproof.run.conclude import Evidence
from netproof.search.attack import QUICK, Pgd
from netproof.search.boxes.loop import BATCH, InputSplit, SplitOptions
from netproof.search.boxes.parts import SplitResult, alike
from netproof.search.boxes.remainder import hand_over
from netproof.search.evidence import Outcome
from netproof.search.goals import Decide
from netproof.search.loop import Search
from netproof.search.method import Meanwhile, Report, SecondLook, Work

T = TypeVar("T")

FIRST, FIRST_SHARE = 300.0, 0.5  # seconds, or share of the time that is left, of a search with the first options
AHEAD = 8  # input sets that are attacked before all of them are bounded: that may take long, and one witness is enough


class Setting(Protocol):
    """What a run was asked for, its clock and its counters."""

    info: MethodInfo
    options: Options
    first: Options | None  # of a search before that with these; None: there is none
    device: torch.device
    threads: int
    seed: int
    deadline: Deadline
    stats: Stats

    def report(self, index: int, count: int) -> Callable[[str, float, int], None]:
        """Make what a search of one of `count` problems calls to say where it is."""

    def recorder(self, problem: Problem) -> Recorder:
        """Return what hears of the sub-domains that a search of a problem closes."""

    def is_left_out(self, problem: Problem) -> bool:
        """Say whether the first search of a problem does without what the other may use."""

    def tell(self, phase: str, *, problem: int, problems: int) -> None:
        """Say where the run is."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Asks onnxruntime whether a point breaks a target's disjunct."""

    network: AnyNetwork
    property: Property
    disjuncts: tuple[int, ...]  # by target

    def __call__(self, point: torch.Tensor, target: int) -> Witness | None:
        return confirm(self.network, self.property, self.disjuncts[target], point.detach().cpu().numpy())


class Gather:
    """One question's steps. Each adds what it establishes to the evidence."""

    def __init__(self, run: Setting, evidence: Evidence, network: AnyNetwork, property: Property) -> None:
        self._run, self._evidence, self._network, self._property = run, evidence, network, property
        self._who = "search"  # looks for a counterexample now
        self._attacks_beside = False  # whether the first attack is made while the root is bounded

    def run(self, problems: Sequence[Problem], attack: bool, *, attacked: bool = False) -> None:
        """Go on until what is known settles the question; attacked: whether the first attack was made already."""
        self._tried(lambda: self._go_on(problems, attack, attacked), problems)

    def _go_on(self, problems: Sequence[Problem], attack: bool, attacked: bool) -> None:
        missing = without_lp_form(problems[0].graph)
        if missing is not None and build_method(self._run.info.name, self._run.options, self._run.device).needs_lp_form:
            self._leave_open(problems, f"no LP form for {missing}")
            return
        problems = self._bound_early(problems)
        if not problems:
            return
        how = choose_strategy(self._run.info, problems)
        if how is not Strategy.NEURONS and len(problems) > 1:
            if attack:
                self._attack_all(problems[:AHEAD])
            if not self._evidence.is_settled:
                problems = self._first_look(problems, limit=0)
        if not problems:  # of other parts of the question something is open
            return
        first = attack and not attacked and not self._evidence.is_settled
        self._attacks_beside = first and how is Strategy.NEURONS and self._may_be_beside(problems)
        if first and not self._attacks_beside:
            self._attack_all(problems)
        if self._evidence.is_settled:
            return
        # Boxes rest on intervals of the whole set, a root on better bounds of it.
        if how is Strategy.INPUTS and self._tried(lambda: self._over_inputs(problems)):
            return
        # A method without the option comes here where there is no LP form: splitting neurons alone need not end there.
        batches = int(self._run.options.get(BOX_BATCHES.name, BOX_BATCHES.default) or 0)
        if how is Strategy.INPUTS_FIRST and batches > 0:
            problems = self._first_look(problems, limit=batches * self._boxes_at_once)
        if not self._evidence.is_settled:
            self._search_all(problems, attack)

    def only_attack(self, problems: Sequence[Problem]) -> None:
        """Attack, and prove nothing: what has no counterexample is open."""
        self._tried(lambda: self._attack_all(problems), problems)
        if not self._evidence.is_over:
            self._leave_open(problems, "no counterexample was found")

    def _leave_open(self, problems: Sequence[Problem], reason: str) -> None:
        for problem in problems:
            self._evidence.add(problem, Outcome.nothing(len(problem.disjuncts), reason))

    def _tried(self, step: Callable[[], T], problems: Sequence[Problem] = ()) -> T | None:
        """Do a step; where bounds overflow or memory runs out, None, and its problems are open for that reason."""
        try:
            with said_plainly():
                return step()
        except (Unbounded, OutOfMemory) as error:
            reason = error.message if isinstance(error, OutOfMemory) else str(error)
        gc.collect()  # outside of the handler, as an error holds what its frames held; a search holds itself
        release(self._run.device)
        self._leave_open(problems, reason)
        return None

    @property
    def _boxes_at_once(self) -> int:
        """Return how many boxes a batch is: of n picked, both halves."""
        picked = self._run.options.get("batch")
        return BATCH[self._run.device.type] if picked is None else 2 * int(picked)

    def _over_boxes(self, joined: Problem, limit: int | None) -> SplitResult:
        """Search boxes of all input sets in one batch."""
        goal = self._goal(joined)
        options = SplitOptions(batch=self._boxes_at_once, limit=limit, seed=self._run.seed)
        try:
            return InputSplit(joined, goal, self._work(self._run.report(0, 1)), options).run()
        finally:
            self._see(joined, goal)

    def _first_look(self, problems: Sequence[Problem], limit: int) -> Sequence[Problem]:
        """Search over boxes up to a limit; return the problems that are left, with the targets that are open."""
        left = self._tried(lambda: self._looked(problems, limit))
        return problems if left is None else left

    def _looked(self, problems: Sequence[Problem], limit: int) -> list[Problem]:
        joined = join(problems)
        result = self._over_boxes(joined, limit)
        left = [joined.select(targets) for targets in alike(result.open, joined.boxes.home)]
        self._evidence.add_whole(joined, result.outcome)  # last: if memory runs out before, all are searched again
        if result.outcome.stopped:
            self._evidence.stop(result.outcome.reason)
        return left

    def _over_inputs(self, problems: Sequence[Problem]) -> bool:
        """Split boxes of the input until that decides no more, then the neurons on those that are left: done."""
        joined = join(problems)
        result = self._over_boxes(joined, limit=None)
        outcome = result.outcome
        if outcome.status == "undecided":
            method = build_method(self._run.info.name, self._run.options, self._run.device)
            work = self._work(self._run.report(0, 1))
            outcome = hand_over(joined, result, method, self._goal, self._see, work)
        self._evidence.add(joined, outcome)
        return True

    def _work(self, report: Report) -> Work:
        run = self._run
        return Work(run.device, run.threads, run.deadline, run.stats, report)

    def _bound_early(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        """Bound by intervals, before anything that takes long, what a root may be late for; return what stays open."""
        left = list[Problem]()
        for problem in problems:
            late = worth.may_be_late(problem.graph, self._run.device, self._run.deadline.remaining())
            left += self._by_intervals(problem, self._run.deadline) if late else [problem]
        return left

    def _by_intervals(self, problem: Problem, deadline: Deadline) -> list[Problem]:
        """Add what intervals prove of a problem's targets; return what is left of it: nothing, or those still open."""
        began, device = time.monotonic(), self._run.device
        left = [problem]
        with suppress(Unbounded, OutOfMemory):  # better bounds may be to be had, or less memory is enough for them
            found = with_less(lambda: bounds_by_intervals(problem, device, deadline), device)
            if found is not None:
                # A row that is strict holds at 0 too; the search sees to that.
                shares = tuple(Fraction(int(bound > 0)) for bound in found.tolist())
                self._evidence.add(problem, Outcome(shares, tuple(found.tolist()), decided_by="root"))
                still_open = (~(found > 0)).nonzero()[:, 0].cpu()
                left = [problem.select(still_open)] if len(still_open) else []
        self._run.stats.seconds["root"] += time.monotonic() - began
        return left

    def _at_least_by_intervals(self, problem: Problem, outcome: Outcome) -> Outcome:
        """Say of a root that was late that intervals are there, if they are or take no time."""
        if outcome.reason != ROOT_LATE or outcome.witness is not None:
            return outcome
        little = problem.graph.entries <= worth.AFTERWARDS and not self._run.deadline.cancelled
        if little and not self._evidence.bounds_all(problem):
            self._by_intervals(problem, Deadline(worth.AT_THE_END))
        return replace(outcome, reason=INTERVALS_ONLY) if self._evidence.bounds_all(problem) else outcome

    def _attack_all(self, problems: Sequence[Problem]) -> None:
        seconds = self._run.stats.seconds
        began = time.monotonic() - seconds["attack"]
        for i, problem in enumerate(problems):
            self._run.tell("attack", problem=i, problems=len(problems))
            goal = self._goal(problem)
            with suppress(OutOfMemory):  # not found is all that follows
                self._attack(problem, goal, self._run.deadline)
            self._see(problem, goal)
            seconds["attack"] = time.monotonic() - began
            if self._evidence.is_over or self._run.deadline.expired:
                break

    def _search_all(self, problems: Sequence[Problem], attack: bool) -> None:
        """Search one problem after the other; every problem that is not reached stays as open as it was."""
        for i, whole in enumerate(problems):
            problem = self._searched_first(whole, i, len(problems), attack)
            if problem is None:
                if self._evidence.is_over:
                    break
                continue
            found = self._tried(partial(self._search, problem, i, len(problems), attack), [problem])
            if found is not None:
                self._evidence.add(problem, self._at_least_by_intervals(problem, found))
            if self._evidence.is_over:
                break
            if found is None and not self._evidence.bounds_all(problem):
                self._by_intervals(problem, self._run.deadline)

    def _searched_first(self, problem: Problem, index: int, count: int, attack: bool) -> Problem | None:
        """Search a problem with the first options where these matter; return it with the targets that are left."""
        run = self._run
        if run.first is None or not run.is_left_out(problem):
            return problem
        deadline = Early(run.deadline, min(FIRST, FIRST_SHARE * run.deadline.remaining()))
        found = self._tried(lambda: self._search(problem, index, count, attack, run.first, deadline))
        self._attacks_beside = False
        if found is None:
            return problem
        self._evidence.add_whole(problem, found)
        left = torch.tensor([target for target, share in enumerate(found.proved) if share < 1], dtype=torch.int64)
        if self._evidence.is_over or not len(left):
            return None
        if run.deadline.expired:
            self._evidence.stop(found.reason)
        return problem.select(left)

    def _search(
        self,
        problem: Problem,
        index: int,
        count: int,
        attack: bool,
        options: Options | None = None,
        deadline: Deadline | None = None,
    ) -> Outcome:
        run, goal = self._run, self._goal(problem)
        method = build_method(run.info.name, options or run.options, run.device)
        look = self._second_look(problem, goal) if attack else None
        recorder = run.recorder(problem)
        if recorder is not NOTHING:  # of an earlier search of it, nothing is of use
            recorder.restarted(torch.arange(len(problem.disjuncts)))
        work = replace(self._work(run.report(index, count)), recorder=recorder, deadline=deadline or run.deadline)
        if self._attacks_beside:
            work = replace(work, meanwhile=self._attack_beside(problem, goal))
        search = (method.search or Search)(problem, method, goal, work, look)
        try:
            return search.run()
        finally:
            search.discard()
            self._see(problem, goal)

    def _see(self, problem: Problem, goal: Decide) -> None:
        """Note what a goal saw at points; no answer hangs on it, so that it is left out where it has no room."""
        with suppress(OutOfMemory):
            with_less(lambda: self._evidence.see(problem, goal), self._run.device)

    def _may_be_beside(self, problems: Sequence[Problem]) -> bool:
        """Say whether the first attack may be made while the root is bounded, and is worth a thread."""
        if len(problems) > 1 or not is_large(problems[0].graph, self._run.device):
            return False
        search = build_method(self._run.info.name, self._run.options, self._run.device).search or Search
        return isinstance(search, type) and issubclass(search, Search)  # others may bound no root

    def _attack_beside(self, problem: Problem, goal: Decide) -> Meanwhile:
        """Make the first attack beside the root; its witness is the goal's when both have ended."""
        seen = self._goal(problem)  # its own: two threads must not write to one

        def after() -> None:
            goal.witness = seen.witness
            self._see(problem, seen)

        return Beside(partial(self._attack, problem, seen), after, self._run.stats, self._run.device)

    def _attack(self, problem: Problem, goal: Decide, deadline: Deadline) -> bool:
        with self._attacking():
            return QUICK.find(problem, goal, self._run.device, self._run.seed, deadline)

    def _second_look(self, problem: Problem, goal: Decide) -> SecondLook:
        """Make the long attack, with another seed so that it goes other ways, for when the search has cost as much."""

        def find(targets: list[int]) -> bool:
            with self._attacking(), suppress(OutOfMemory):
                Pgd().find(problem, goal, self._run.device, self._run.seed + 1, self._run.deadline, targets)
            return goal.witness is not None

        return find

    @contextmanager
    def _attacking(self) -> Iterator[None]:
        self._who = "attack"
        try:
            yield
        finally:
            self._who = "search"

    def _goal(self, problem: Problem) -> Decide:
        replay = Replay(self._network, self._property, problem.disjuncts)

        def noted(point: torch.Tensor, target: int) -> Witness | None:
            """Keep a witness at once: who looked for it may not come to its end."""
            witness = replay(point, target)
            if witness is not None:
                self._evidence.found(witness, self._who)
            return witness

        return Decide(problem, noted, self._evidence.look)
