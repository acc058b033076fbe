"""The public functions `verify` and `bounds`: read, compare, reduce, gather evidence, say what follows from it.

>>> import netproof
>>> verdict = netproof.verify("model.onnx", "spec.vnnlib", timeout=60)     # doctest: +SKIP
>>> verdict.status, verdict.lower_bound                                    # doctest: +SKIP
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netproof import arguments
from netproof.bounds.linear.memory import numbers_in_rows, release, with_less
from netproof.bounds.record import NOTHING, Recorder
from netproof.core.cpu import available_cpus, look_around, threads_for
from netproof.core.deadline import Deadline
from netproof.core.machine import gpu, host
from netproof.core.machine.allowance import allowance, allowing, read_caps, said_plainly
from netproof.core.reasons import CONTRADICTION
from netproof.core.torch_state import engine_state
from netproof.core.verdict import Stats, Verdict, add_up
from netproof.errors import UsageError
from netproof.methods.build import build_method
from netproof.methods.device import resolve_device
from netproof.methods.registry import Options, method_info
from netproof.model.combined import AnyNetwork, LinearMap, Mapped, about
from netproof.model.load import FEWEST, check, check_module, is_from_module, points_of_module, probes, read_network
from netproof.model.network import Network
from netproof.numerics import generator
from netproof.problem.ask.compile import regions_of, violations
from netproof.problem.ask.conditions import Condition, condition
from netproof.problem.last.ends import within_ends
from netproof.problem.last.places import by_place
from netproof.problem.last.ties import without_ties
from netproof.problem.networks.bind import bind
from netproof.problem.problem import InputSet, Problem
from netproof.problem.property import Disjunct, Property
from netproof.problem.reduce import Parts, reduce
from netproof.problem.specs import InputRegion, classification
from netproof.problem.vnnlib.reader import load_property
from netproof.run.case import save_case
from netproof.run.conclude import Evidence
from netproof.run.gather import Gather
from netproof.run.ranges import OutputBounds, output_ranges
from netproof.search.attack import places
from netproof.search.method import Work

if TYPE_CHECKING:
    from netproof.certificate.destination import Destination
    from netproof.certificate.record import Recording

COMPARED = 4  # input sets on which a network is compared with onnxruntime
Record = Callable[[tuple[int, ...]], Recorder]  # makes a recorder of a problem with these disjuncts
WITH_MODULE = 256  # those of one question on which it is compared with the module that it is made from


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told: at every phase, and again and again during a search."""

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
    note: str = ""  # what people should know before the search goes on


@engine_state()
def verify(
    model: Any,
    spec: str | Path | Property | InputRegion | Sequence[InputRegion],
    holds: Condition | None = None,
    *,
    label: int | None = None,
    targets: Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    timeout: float | None = None,
    method: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    attack: bool | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    deadline: Deadline | None = None,
    memory: str | int | Mapping[str, Any] | None = None,
    certificate: str | Path | Destination | Recording | None = None,
) -> Verdict:
    """Decide whether the network satisfies the property on the whole input set.

    model: an ONNX path, a torch module, or what `load_network` returned; of a VNN-LIB 2.0 query with several networks
    a dictionary of these by name. spec: a VNN-LIB path, a Property, or an input region such as `linf_ball(x, eps)`,
    then with the `label` that must win (against `targets`, or all others), or with what `holds`: a condition on
    `variables(model)`, or on those of several `runs`, which then may have a list of models and one of regions.
    outputs: the tensors by name that Y_0, Y_1, … are, one after the other; without it, all outputs of the file.
    attack: whether to look for counterexamples first; None: yes, but not with lirpa and the rivals.
    `deadline` (or `timeout` in seconds) ends the run; `deadline.cancel()` from another thread does so at once.
    memory: bytes that the run may take, as "8G", or by place as "gpu=16G,host=8G"; None: what is free.
    certificate: where to write a certificate of a proof, for `npcheck`. It is about the paths that model and spec are;
    where they are none, what was searched is written beside it. What became of it is in the verdict's `certificate`.
    """
    attack = None if attack is None else arguments.flag(attack, "attack")
    with ExitStack() as until_the_end:
        until_the_end.enter_context(within(memory))
        run = Run(method, options, device, threads, seed, _limit(timeout, deadline), progress)
        network, asked = _question(model, spec, outputs, holds)
        property = as_property(network, asked, label, targets)
        recording = None
        if certificate is not None:
            before = run.elapsed()
            recording = until_the_end.enter_context(recorded(certificate, model, spec, network, property))
            run.leave_out(run.elapsed() - before)
            if recording.hears:
                run.record = recording.recorder
                run.be_certifiable()
        property = _asked(network, property)
        parts = Parts(network, property, numbers_in_rows(run.device))
        run.prepare(network, parts.input_sets(WITH_MODULE), loaded=isinstance(model, Network))
        run.stats.seconds["load"] = run.elapsed()
        verdict = run.decide(network, property, parts, run.info.attacks if attack is None else attack)
        return verdict if recording is None else recording.certified(verdict)


@engine_state()
def attack(
    model: Any,
    spec: str | Path | Property | InputRegion,
    *,
    label: int | None = None,
    targets: Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    timeout: float | None = None,
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    deadline: Deadline | None = None,
) -> Verdict:
    """Look for a counterexample, and prove nothing: `sat` with a replayed witness, else `unknown`."""
    with within(None):
        run = Run("auto", None, device, threads, seed, _limit(timeout, deadline), None)
        network, asked = _question(model, spec, outputs)
        property = _asked(network, as_property(network, asked, label, targets))
        parts = Parts(network, property, numbers_in_rows(run.device))
        run.prepare(network, parts.input_sets(WITH_MODULE), loaded=isinstance(model, Network))
        return run.decide(network, property, parts, attack=True, only_attack=True)


@engine_state()
def bounds(
    model: Any,
    spec: str | Path | Property | InputRegion,
    *,
    outputs: Sequence[str] | None = None,
    method: str = "alpha",
    device: str = "auto",
    threads: int | None = None,
    timeout: float | None = None,
    deadline: Deadline | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory: str | int | Mapping[str, Any] | None = None,
) -> OutputBounds:
    """Bound both sides of every output over the input set; what the specification says of outputs plays no part.

    What it says of several inputs together plays no part either: the set is a box, or a ball.
    method: "ibp", "crown", "alpha", "lp", or "exact" (the true minimum and maximum, by the complete search).
    memory: as `verify` takes it.
    """
    method = arguments.word(method, "method", "alpha")
    with within(memory):
        run = Run("auto", options, device, threads, 0, _limit(timeout, deadline), progress)
        return run.ranges(model, spec, outputs, method)


@contextmanager
def recorded(certificate: Any, model: Any, spec: Any, network: AnyNetwork, property: Property) -> Iterator[Recording]:
    """Keep what the search tells for a certificate; refuse before it what no certificate can be about.

    certificate: a path, or who has asked for it; model, spec: as they were given; network, property: as they were read.
    """
    from netproof.certificate.destination import Destination
    from netproof.certificate.installed import require_npcheck

    require_npcheck()
    from netproof.certificate.record import Recording
    from netproof.certificate.room import Room

    with ExitStack() as until_the_end:
        if isinstance(certificate, str | Path):
            room = until_the_end.enter_context(closing(Room.beside(Path(certificate))))
            certificate = Destination(Path(certificate), room.path)
        if isinstance(certificate, Destination):
            certificate = certificate.begin(model, spec, network, property)
        if not isinstance(certificate, Recording):
            raise UsageError(
                f"certificate cannot be {arguments.shown(certificate)}", remedy="give the name of a file for it"
            )
        yield until_the_end.enter_context(closing(certificate))


@contextmanager
def within(memory: Any) -> Iterator[None]:
    """Keep what is done within caps on memory, of which nothing is left afterwards; say plainly where it runs out."""
    with allowing(read_caps(memory)) as given, said_plainly():
        if given.caps.host is not None:  # what earlier calls left behind does not count
            gc.collect()
            host.trim()
        try:
            yield
        finally:
            gpu.lift_caps()


class Run:
    """One call of `verify`, `bounds` or `certify`: what was asked, its clock and its counters."""

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
        self.options: Options = self.info.options(options)
        self.first: Options | None = None  # of a search before that with the others; None: there is none
        self.deadline = deadline
        self.seed = arguments.whole(seed, "seed", 0, 2**63 - 1)
        self._progress = arguments.callback(progress, "progress")
        self.stats = Stats()
        self.evidence: Evidence | None = None  # once there is a question
        self.record: Record | None = None  # makes what hears of closed sub-domains, where a certificate is asked for
        self._told: set[str] = set()
        self._part = 0, 1  # of the question, which is asked now, and of how many
        self.tell("load")
        look_around()
        self.asked = None if threads is None else arguments.whole(threads, "threads", 1)
        self.threads = self.asked or available_cpus()
        self.device = resolve_device(arguments.word(device, "device", "cpu"))
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        gpu.obey_cap(self.device)
        host.refuse_if_taken(allowance().caps.host)

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def leave_out(self, seconds: float) -> None:
        """Do not count seconds that passed for something else than the answer."""
        self._began += seconds

    def prepare(self, network: AnyNetwork, sets: Sequence[InputSet], *, loaded: bool) -> None:
        """Choose threads for a network of this size, and compare it with onnxruntime on the first sets themselves.

        One that was loaded before was compared near 0 too; any other is now, at a point of [−1, 1] and one of [0, 1].
        One that is made from a module is compared with that on all sets.
        """
        torch.set_num_threads(threads_for(network.graph.entries, self.asked))
        points = [] if loaded else [probes(network)[:3:2] if sets else probes(network)]
        for inputs in sets[:COMPARED]:
            share = torch.rand((2, *inputs.lower.shape), generator=generator(self.seed), dtype=torch.float64)
            points.append(inputs.lower + share * (inputs.upper - inputs.lower))
        if points:
            check(network, torch.cat(points))
        if is_from_module(network):
            for inputs in sets:
                count = max(FEWEST, points_of_module(network) // len(sets))
                check_module(network, places(inputs, count, self.seed).to(torch.float64))
        host.refuse_if_taken(allowance().caps.host)  # with the network and onnxruntime, before anything is bounded

    def decide(
        self,
        network: AnyNetwork,
        property: Property,
        parts: Sequence[Sequence[Problem]],
        attack: bool,
        *,
        only_attack: bool = False,
    ) -> Verdict:
        """Gather evidence the way the method does, or by an attack alone, and say what follows from it."""
        evidence = self.evidence = Evidence(network, property)
        subject = about(network)  # before the search, so that the deadline counts it
        gather = Gather(self, evidence, network, property)
        for part, problems in enumerate(parts):
            self._part = part, len(parts)
            if only_attack:
                gather.only_attack(problems)
            else:
                gather.run(problems, attack)
            if evidence.is_over:
                break
            if len(parts) > 1:
                gc.collect()  # a search holds itself
                release(self.device)
        cancelled = self.deadline.cancelled
        verdict = with_less(lambda: evidence.verdict(self.stats, cancelled=cancelled), torch.device("cpu"))
        verdict = replace(verdict, about=subject)
        if verdict.reason == CONTRADICTION:
            verdict = save_case(verdict, network, property, self.info.name, self.options, self.seed)
        add_up(self.stats.seconds, self.elapsed())
        self.stats.peak_host_memory = host.peak()
        on_gpu = gpu.peak(self.device)
        self.stats.peak_memory = self.stats.peak_host_memory if on_gpu is None else on_gpu
        return verdict

    def ranges(self, model: Any, spec: Any, outputs: Sequence[str] | None, method: str) -> OutputBounds:
        """Bound both sides of every output over the input set."""
        network, asked = _question(model, spec, outputs)
        if isinstance(asked, InputRegion):
            everything = Disjunct(asked.box, (), asked.ball)
            asked = Property((everything,), len(asked.box.lower), int(np.prod(network.output_shape)), map=asked.map)
        property = asked
        problems = reduce(network, property.without_rows())
        sets = [problem.input_set for problem in problems]
        self.prepare(network, sets[:WITH_MODULE], loaded=isinstance(model, Network))
        search = build_method("auto", self.options, self.device)
        report, look = self.report(0, len(problems)), partial(check_module, network)
        work = Work(self.device, self.threads, self.deadline, self.stats, report, look=look)
        found = output_ranges(problems, method, search, work)
        if any(row.inputs and not row.coefs for disjunct in property.disjuncts for row in disjunct.rows):
            found = replace(found, exact=False, reason=found.reason or "constraints among inputs play no part")
        return replace(found, about=about(network))

    def recorder(self, problem: Problem) -> Recorder:
        """Return what hears of the sub-domains that a search of a problem closes."""
        return NOTHING if self.record is None else self.record(problem.disjuncts)

    def be_certifiable(self) -> None:
        """Do without bounds that no certificate can state, as long as there is time."""
        from netproof.run.stated import stated

        self.first = stated(self.options)

    def is_left_out(self, problem: Problem) -> bool:
        """Say whether the first search of a problem does without what the other may use; if so, tell of it once."""
        if self.first is None:
            return False
        from netproof.run.stated import left_out

        names = " and ".join(left_out(self.options, problem))
        if names and names not in self._told:
            self._told.add(names)
            self.tell("root", note=f"certificates cannot state {names}: the search does without at first")
        return bool(names)

    def report(self, index: int, count: int) -> Callable[[str, float, int], None]:
        """Return what a search of one of the problems calls to report its progress."""

        def report(phase: str, bound: float, frontier: int) -> None:
            self.tell(phase, bound, frontier, problem=index, problems=count)

        return report

    def tell(
        self,
        phase: str,
        lower: float = float("nan"),
        frontier: int = 0,
        problem: int = 0,
        problems: int = 0,
        note: str = "",
    ) -> None:
        if self._progress is None:
            return
        if self._part[1] > 1:  # bounds of a part are not those of the whole
            problem, problems = self._part
        remaining = self.deadline.remaining()
        upper = float("inf") if self.evidence is None else self.evidence.upper
        if not np.isfinite(lower) and self.evidence is not None:
            lower = self.evidence.margin  # what earlier steps proved
        self._progress(
            Progress(
                phase,
                lower if np.isfinite(lower) else None,
                upper if np.isfinite(upper) else None,
                self.stats.domains,
                frontier,
                self.stats.rounds,
                self.elapsed(),
                remaining if np.isfinite(remaining) else None,
                problem,
                problems,
                note,
            )
        )


def _question(
    model: Any, spec: Any, outputs: Sequence[str] | None, holds: Any = None
) -> tuple[AnyNetwork, Property | InputRegion]:
    """Read the specification, and the network or networks that it is about."""
    if holds is not None:
        return _condition(model, spec, outputs, condition(holds, "holds"))
    if not isinstance(spec, InputRegion | Property):
        spec = _read_property(spec)
    if isinstance(spec, Property) and spec.interface is not None:
        if outputs is not None:
            raise UsageError("a VNN-LIB 2.0 query declares its outputs", remedy="leave outputs out")
        return bind(spec.interface, model, spec.source), spec
    if isinstance(model, Mapping):
        if len(model) != 1:
            raise UsageError("several networks go with a VNN-LIB 2.0 query", remedy="give one model")
        (model,) = model.values()  # a name says nothing more of the only one
    network = read_network(model, _shape(spec), outputs)
    return (network if spec.map is None else _behind(network, spec.map)), spec


def _condition(model: Any, region: Any, outputs: Sequence[str] | None, holds: Condition) -> tuple[AnyNetwork, Property]:
    """Read the networks that a condition is about, and make a property of the condition on a region."""
    space = holds.space
    regions = regions_of(space, region)
    models = list(model.values()) if isinstance(model, Mapping) else model
    models = list(models) if isinstance(models, list | tuple) else [models]
    models = models * space.runs if len(models) == 1 else models
    if len(models) != space.runs:
        raise UsageError(
            f"{len(models)} networks for {space.runs} runs", remedy="give the networks that netproof.runs was given"
        )
    known: dict[int, Network] = {}  # by id: a network that is run again is read once
    for run, (one, its) in enumerate(zip(models, regions, strict=True)):
        if id(one) not in known:
            known[id(one)] = read_network(one, its.shape, space.outputs if outputs is None else outputs)
        space.check(run, one, known[id(one)])
    networks = [known[id(one)] for one in models]
    property = violations(holds, region)
    if property.interface is not None:
        named = zip(property.interface.networks, networks, strict=True)
        return bind(property.interface, {use.name: own for use, own in named if not use.equal_to}), property
    first = regions[0].map
    return (networks[0] if first is None else _behind(networks[0], first)), property


def _behind(network: Network, map: LinearMap) -> Mapped:
    if len(map.centre) != network.graph.input.size:
        raise UsageError(
            f"the region has inputs of {len(map.centre)} numbers, the network takes {network.graph.input.size}",
            remedy="give a region of the network's input shape",
        )
    return Mapped(network, map)


def as_property(network: AnyNetwork, spec: Any, label: int | None, targets: Sequence[int] | None) -> Property:
    """Turn what `verify` accepts as a specification into a Property of this network; UsageError if it cannot."""
    if isinstance(spec, InputRegion):
        if label is None:
            raise UsageError(
                "an input region needs the label that must win, or a condition that must hold",
                remedy="pass label=K, or a condition on netproof.variables(model)",
            )
        outputs = int(np.prod(network.output_shape))
        return classification(spec, label, outputs, targets)
    if label is not None or targets is not None:
        raise UsageError("label and targets go with an input region, not with a specification or a condition")
    return spec if isinstance(spec, Property) else _read_property(spec)


def _shape(spec: Any) -> tuple[int, ...] | None:
    """Return the shape of one input, which a torch module must be told; None where the specification has none."""
    return spec.shape if isinstance(spec, InputRegion) else None


def _read_property(spec: Any) -> Property:
    return load_property(arguments.path(spec, "spec", "a Property, or an input region such as linf_ball(x, eps)"))


def _asked(network: AnyNetwork, property: Property) -> Property:
    """Return the property as it is searched: by places of an ArgMax, without what no input can do."""
    return within_ends(network, without_ties(network, by_place(network, property)))


def _limit(timeout: float | None, deadline: Deadline | None) -> Deadline:
    seconds = arguments.seconds(timeout)
    if deadline is not None and not isinstance(deadline, Deadline):
        raise UsageError(
            f"deadline cannot be {arguments.shown(deadline)}", remedy="give a netproof.Deadline, or timeout=S"
        )
    return deadline or Deadline(seconds)
