"""The public functions: load, reduce, attack, search, replay, and the verdict that comes of it.

>>> import netproof
>>> verdict = netproof.verify("model.onnx", "spec.vnnlib", timeout=60)     # doctest: +SKIP
>>> verdict.status, verdict.lower_bound                                    # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netproof import arguments
from netproof.build import build_method, resolve_device, search_of
from netproof.core.cpu import available_cpus, threads_for
from netproof.core.deadline import Deadline
from netproof.core.torch_state import engine_state
from netproof.core.verdict import Stats, Status, Verdict, Witness
from netproof.errors import UsageError
from netproof.methods import method_info
from netproof.model.evaluate import cross_check
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.numerics import generator
from netproof.plan import TRY, Way, way, with_targets
from netproof.problem.problem import Problem
from netproof.problem.property import Disjunct, Property
from netproof.problem.reduce import reduce
from netproof.problem.specs import InputRegion, classification
from netproof.problem.vnnlib import load_property
from netproof.problem.witness import confirm, confirmed, rounding_gap, violated
from netproof.ranges import OutputBounds, output_ranges
from netproof.search.attack import QUICK, Pgd
from netproof.search.goals import Decide
from netproof.search.hand_over import OpenBoxes, hand_over
from netproof.search.input_split import BATCH, InputSplit, SplitOptions, SplitResult
from netproof.search.loop import Outcome, SecondLook

LONG_SEARCH = {"cpu": 512, "cuda": 4096}  # sub-domains after which a second, longer attack has its turn


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told, a few times a second at most."""

    phase: str  # "load", "attack", "root", "search" or "leaf"
    lower_bound: float | None = None
    upper_bound: float | None = None
    domains: int = 0
    frontier: int = 0
    rounds: int = 0
    seconds: float = 0.0
    remaining: float | None = None
    problem: int = 0
    problems: int = 0


@engine_state()
def verify(
    model: Any,
    spec: str | Path | Property | InputRegion,
    *,
    label: int | None = None,
    targets: Sequence[int] | None = None,
    timeout: float | None = None,
    method: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    attack: bool = True,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    deadline: Deadline | None = None,
) -> Verdict:
    """Does the network satisfy the property on the whole input set?

    model: an ONNX path, a torch module, or what `load_network` returned. spec: a VNN-LIB path, a Property, or an
    input region such as `linf_ball(x, eps)`, then with the `label` that must win (against `targets`, or all others).
    `deadline` (or `timeout` in seconds) ends the run; `deadline.cancel()` from another thread does so at once.
    """
    attack = arguments.flag(attack, "attack")
    run = _Run(method, options, device, threads, seed, _limit(timeout, deadline), progress)
    network, property = run.load(model, spec, label, targets)
    problems = reduce(network, property)
    run.prepare(network, problems)
    run.stats.seconds["load"] = run.elapsed()
    if not problems:
        empty = "input set is empty" if property.disjuncts else "no output can violate the property"
        return run.verdict(Status.UNSAT, empty, decided_by="input set")
    return run.decide(network, property, problems, attack)


@engine_state()
def bounds(
    model: Any,
    spec: str | Path | Property | InputRegion,
    *,
    method: str = "alpha",
    device: str = "auto",
    threads: int | None = None,
    timeout: float | None = None,
    deadline: Deadline | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> OutputBounds:
    """Both sides of every output over the input set; what the specification says of the outputs plays no part.

    method: "ibp", "crown", "alpha", "lp", or "exact" (the true minimum and maximum, by the complete search).
    """
    method = arguments.word(method, "method", "alpha")
    run = _Run("auto", options, device, threads, 0, _limit(timeout, deadline), progress)
    network = load_network(model, example_shape=spec.shape if isinstance(spec, InputRegion) else None)
    if isinstance(spec, InputRegion):
        everything = Disjunct(spec.box, (), spec.ball)
        spec = Property((everything,), len(spec.box.lower), int(np.prod(network.output_shape)))
    problems = reduce(network, spec if isinstance(spec, Property) else _read_property(spec))
    run.prepare(network, problems)
    search = build_method("auto", run.options, run.device)
    return output_ranges(problems, method, search, run.device, run.threads, run.deadline, run.report(0, len(problems)))


class _Run:
    """One call of `verify`: its clock, its counters and the steps it is made of."""

    def __init__(
        self,
        method: str,
        options: Mapping[str, Any] | None,
        device: str,
        threads: int | None,
        seed: int,
        deadline: Deadline,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._began = time.monotonic()
        self.info = method_info(arguments.word(method, "method", "auto"))
        self.options = self.info.options(options)
        self.deadline = deadline
        self.seed = arguments.whole(seed, "seed", 0, 2**63 - 1)
        self._progress = arguments.callback(progress, "progress")
        self.stats = Stats()
        self._tell("load")
        self._asked = None if threads is None else arguments.whole(threads, "threads", 1)
        self.threads = self._asked or available_cpus()
        self.device = resolve_device(arguments.word(device, "device", "cpu"))
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self._upper = float("inf")
        self._lower = float("inf")  # proved of what was decided over boxes

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def load(self, model: Any, spec: Any, label: int | None, targets: Sequence[int] | None) -> tuple[Network, Property]:
        shape = spec.shape if isinstance(spec, InputRegion) else None
        network = load_network(model, example_shape=shape)
        return network, as_property(network, spec, label, targets)

    def prepare(self, network: Network, problems: Sequence[Problem]) -> None:
        """Threads for a network of this size; and it must agree with onnxruntime on the set itself, not only near 0."""
        torch.set_num_threads(threads_for(sum(node.size for node in network.graph.nodes), self._asked))
        for problem in problems[:4]:
            inputs = problem.input_set
            share = torch.rand((2, *inputs.lower.shape), generator=generator(self.seed), dtype=torch.float64)
            cross_check(network, inputs.lower + share * (inputs.upper - inputs.lower))

    def decide(self, network: Network, property: Property, problems: Sequence[Problem], attack: bool) -> Verdict:
        """The way that the method takes with such problems."""
        how = way(self.info.name, problems)
        if how is not Way.SIGNS and (how is Way.TOGETHER or len(problems) > 1):
            found = self._over_boxes(network, property, problems, limit=0)
            if isinstance(found, Verdict):
                return found
            problems = _still_open(problems, found.open)
        verdict = self._attack_all(network, property, problems) if attack else None
        if verdict is not None:
            return verdict
        if how in (Way.INPUTS, Way.INPUTS_FIRST):
            limit = None if how is Way.INPUTS else TRY * BATCH[self.device.type]
            found = self._over_boxes(network, property, problems, limit)
            if isinstance(found, Verdict):
                return found
            if how is Way.INPUTS:
                return self._hand_over(network, property, problems, found.open)
            problems = _still_open(problems, found.open)
        return self._search_all(network, property, problems, attack)

    def _over_boxes(
        self, network: Network, property: Property, problems: Sequence[Problem], limit: int | None
    ) -> Verdict | SplitResult:
        """Boxes of all input sets in one batch; a result where some stay open that more splitting will not decide."""
        goals = [Decide(problem, self._replay(network, property, problem)) for problem in problems]
        picked = self.options["batch"]  # of n boxes picked, 2n halves are bounded
        options = SplitOptions(batch=None if picked is None else 2 * int(picked), limit=limit, seed=self.seed)
        report = self.report(0, len(problems))
        result = InputSplit(problems, goals, self.device, self.deadline, self.stats, report, options).run()
        self._upper = min(self._upper, *(float(goal.upper.min()) for goal in goals))
        if result.found is not None:
            witness = goals[result.found].witness
            assert witness is not None
            return self._sat(network, property, witness, result.outcome.decided_by)
        if result.outcome.status == "timeout":
            return self._stopped(result.outcome.reason, result.outcome.lower_bound)
        if result.outcome.status == "proved":
            return self.verdict(Status.UNSAT, lower=result.outcome.lower_bound, decided_by=result.outcome.decided_by)
        self._lower = min(self._lower, result.proved)
        return result

    def _hand_over(self, network: Network, property: Property, problems: Sequence[Problem], left: OpenBoxes) -> Verdict:
        """What splitting the input left open, box by box over the signs of neurons."""

        def goal_of(problem: Problem) -> Decide:
            return Decide(problem, self._replay(network, property, problem))

        method = build_method(self.info.name, self.options, self.device)
        report = self.report(0, len(problems))
        outcome, goal = hand_over(
            problems, left, method, goal_of, self.device, self.threads, self.deadline, self.stats, report
        )
        if isinstance(goal, Decide) and goal.witness is not None:
            return self._sat(network, property, goal.witness, outcome.decided_by)
        if outcome.status == "timeout":
            return self._stopped(outcome.reason, outcome.lower_bound)
        if outcome.status == "undecided":
            return self.verdict(Status.UNKNOWN, outcome.reason, lower=outcome.lower_bound)
        return self.verdict(Status.UNSAT, lower=outcome.lower_bound, decided_by=outcome.decided_by)

    def _attack_all(self, network: Network, property: Property, problems: Sequence[Problem]) -> Verdict | None:
        began = time.monotonic()
        for i, problem in enumerate(problems):
            self._tell("attack", problem=i, problems=len(problems))
            goal = Decide(problem, self._replay(network, property, problem))
            found = QUICK.find(problem, goal, self.device, self.seed, self.deadline)
            self._upper = min(self._upper, float(goal.upper.min()))
            self.stats.seconds["attack"] = time.monotonic() - began
            if found and goal.witness is not None:
                return self._sat(network, property, goal.witness, "attack")
            if self.deadline.expired:
                break
        return None

    def _search_all(self, network: Network, property: Property, problems: Sequence[Problem], attack: bool) -> Verdict:
        lower, decided_by = float("inf"), "root"
        undecided = ""
        for i, problem in enumerate(problems):
            goal = Decide(problem, self._replay(network, property, problem))
            outcome = self._search(problem, goal, i, len(problems), attack)
            self._upper = min(self._upper, float(goal.upper.min()))
            lower = min(lower, outcome.lower_bound)
            if goal.witness is not None:
                return self._sat(network, property, goal.witness, outcome.decided_by)
            if outcome.status == "timeout":
                # Every problem not reached is as open as this one.
                return self._stopped(outcome.reason, outcome.lower_bound if len(problems) == 1 else None)
            if outcome.status == "undecided":
                undecided = undecided or outcome.reason
            ranks = ("root", "search", "leaf")
            decided_by = max(decided_by, outcome.decided_by or "leaf", key=ranks.index)
        if undecided:
            return self.verdict(Status.UNKNOWN, undecided, lower=lower)
        return self.verdict(Status.UNSAT, lower=lower, decided_by=decided_by)

    def _search(self, problem: Problem, goal: Decide, index: int, count: int, attack: bool) -> Outcome:
        method = build_method(self.info.name, self.options, self.device)
        report = self.report(index, count)
        look = self._second_look(problem, goal) if attack else None
        search = search_of(self.info.name)(
            problem, method, goal, self.device, self.threads, self.deadline, self.stats, report, look
        )
        outcome = search.run()
        search.discard()
        return outcome

    def _second_look(self, problem: Problem, goal: Decide) -> SecondLook:
        """The long attack, with another seed so that it goes other ways, once the search has cost about as much."""

        def find(targets: list[int]) -> bool:
            return Pgd().find(problem, goal, self.device, self.seed + 1, self.deadline, targets)

        return SecondLook(find, LONG_SEARCH[self.device.type])

    def report(self, index: int, count: int) -> Callable[[str, float, int], None]:
        """What a search of one of the problems calls to say where it is."""

        def report(phase: str, bound: float, frontier: int) -> None:
            self._tell(phase, bound, frontier, problem=index, problems=count)

        return report

    def _replay(
        self, network: Network, property: Property, problem: Problem
    ) -> Callable[[torch.Tensor, int], Witness | None]:
        def replay(point: torch.Tensor, target: int) -> Witness | None:
            return confirm(network, property, problem.disjuncts[target], point.detach().cpu().numpy())

        return replay

    def _sat(self, network: Network, property: Property, witness: Witness, decided_by: str) -> Verdict:
        index = _violated_disjunct(property, witness)
        low, high = rounding_gap(network, property.disjuncts[index], witness)
        sure = confirmed(property.disjuncts[index], high)
        details = {} if sure else {"real_rows": {"lower": list(low), "upper": list(high)}}
        reason = "" if sure else "within rounding"
        return self.verdict(Status.SAT, reason, witness=witness, decided_by=decided_by, details=details)

    def _stopped(self, reason: str, lower: float | None) -> Verdict:
        if self.deadline.cancelled:
            return self.verdict(Status.UNKNOWN, "interrupted", lower=lower)
        return self.verdict(Status.TIMEOUT, reason, lower=lower)

    def verdict(
        self,
        status: Status,
        reason: str = "",
        *,
        lower: float | None = None,
        witness: Witness | None = None,
        decided_by: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Verdict:
        self.stats.seconds["total"] = self.elapsed()
        self.stats.peak_memory = _peak_memory(self.device)
        upper = self._upper if np.isfinite(self._upper) else None
        lower = None if lower is None else min(lower, self._lower)
        lower = lower if lower is not None and np.isfinite(lower) else None
        # A violation that exact arithmetic does not confirm is onnxruntime's alone.
        arithmetic = "float32" if details else "real"
        return Verdict(status, reason, witness, lower, upper, self.stats, decided_by, arithmetic, details or {})

    def _tell(
        self, phase: str, lower: float = float("nan"), frontier: int = 0, problem: int = 0, problems: int = 0
    ) -> None:
        if self._progress is None:
            return
        remaining = self.deadline.remaining()
        self._progress(
            Progress(
                phase,
                lower if np.isfinite(lower) else None,
                self._upper if phase != "load" and np.isfinite(self._upper) else None,
                self.stats.domains,
                frontier,
                self.stats.rounds,
                self.elapsed(),
                remaining if np.isfinite(remaining) else None,
                problem,
                problems,
            )
        )


def as_property(network: Network, spec: Any, label: int | None, targets: Sequence[int] | None) -> Property:
    """What `verify` accepts as a specification, as a Property of this network."""
    if isinstance(spec, InputRegion):
        if label is None:
            raise UsageError("an input region needs the label that must win", remedy="pass label=K")
        outputs = int(np.prod(network.output_shape))
        return classification(spec, label, outputs, targets)
    if label is not None or targets is not None:
        raise UsageError("label and targets go with an input region, not with a specification")
    return spec if isinstance(spec, Property) else _read_property(spec)


def _read_property(spec: Any) -> Property:
    return load_property(arguments.path(spec, "spec", "a Property, or an input region such as linf_ball(x, eps)"))


def _limit(timeout: float | None, deadline: Deadline | None) -> Deadline:
    seconds = arguments.seconds(timeout)
    if deadline is not None and not isinstance(deadline, Deadline):
        raise UsageError(
            f"deadline cannot be {arguments.shown(deadline)}", remedy="give a netproof.Deadline, or timeout=S"
        )
    return deadline or Deadline(seconds)


def _still_open(problems: Sequence[Problem], boxes: OpenBoxes) -> list[Problem]:
    """The problems that a pass over whole input sets left open, with the targets that it did."""
    pairs = sorted({(int(p), int(t)) for p, t in zip(boxes.problem, boxes.target, strict=True)})
    return [
        with_targets(problems[index], [target for _, target in group])
        for index, group in itertools.groupby(pairs, key=lambda pair: pair[0])
    ]


def _violated_disjunct(property: Property, witness: Witness) -> int:
    index = violated(property, witness.input, witness.output)
    if index is None:
        raise AssertionError("a witness that violates nothing was reported")
    return index


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
