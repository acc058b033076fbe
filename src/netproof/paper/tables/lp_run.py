"""Which properties `netproof reproduce lp` times where, and what is kept of each, so that a rerun goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.cli.options import Engine
from netproof.cli.show.output import print_err
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.errors import UsageError
from netproof.paper.line import Line
from netproof.paper.sets import PaperSet
from netproof.paper.tables.cpu import Place
from netproof.paper.tables.output import Output, keep, read_kept, shown

if TYPE_CHECKING:
    from netproof.campaign.instances import Instance
    from netproof.methods.registry import Options
    from netproof.paper.tables.lp_solves import Progress
    from netproof.paper.tables.lp_times import Times

# What is timed: in words, the field of Times, and the method whose look it has in every figure.
KINDS = (
    ("LP, from nothing", "lp", "LP of a leaf"),
    ("LP, from the parent's basis", "warm", "babsr-lp"),
    ("LiRPA, one at a time", "single", "lirpa-single"),
    ("LiRPA, batch", "batch", "lirpa"),
)


@dataclass(frozen=True)
class Measured:
    """One property in one place; why: a reason why there are no times, or not of all sub-domains."""

    set: str
    boxes: str
    property: str
    place: str
    times: Times | None
    why: str = ""


@dataclass(frozen=True)
class Ask:
    """What the command was asked: n by network, and the rest for all properties."""

    n: Mapping[str, int]
    rounds: int
    engine: Engine  # of Algorithm 1 in one of its profiles

    @property
    def options(self) -> Options:
        """Return every field of the method but n."""
        from netproof.methods.registry import method_info

        every = method_info(self.engine.method).options(self.engine.options)
        return {name: value for name, value in every.items() if name != "batch"}

    def __str__(self) -> str:
        n = ", ".join(f"{value} ({name})" for name, value in self.n.items())
        fields = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.engine.method}, n = {n}, at most {self.rounds} rounds, {self.engine.threads} threads, {fields}."


def places(device: str, threads: int) -> list[Place]:
    """Return where to measure: on the CPU always, and on the GPU where that is meant."""
    return [Place("cpu", threads), *([Place("cuda", None)] if device == "cuda" else [])]


def measure_all(
    output: Output, sets: Mapping[str, PaperSet], where: Sequence[Place], ask: Ask, quiet: bool
) -> list[Measured] | None:
    """Time every property everywhere, each as it comes on stderr; None when it was interrupted."""
    asked = [(one, instance, place) for one in sets.values() for instance in one.instances for place in where]
    found: list[Measured] = []
    try:
        for one, instance, place in asked:
            title = f"{len(found) + 1}/{len(asked)}  {one.name}: {Path(instance.names[1]).name}, {place}"
            line = Line(title, quiet)
            found.append(measure(output, one, instance, place, ask, line.show))
            line.clear()
            if not quiet:
                print_err(f"{title}  {_course(found[-1])}")
    except KeyboardInterrupt:
        kept = f"{len(found)} of {len(asked)} measurements are kept in {output.folder}"
        print_err(f"netproof: interrupted: {kept}; the same command goes on with the rest")
        return None
    if all(m.times is None for m in found):
        why = "; ".join(dict.fromkeys(m.why for m in found))
        raise UsageError(f"nothing could be timed: {why}", remedy="give more --timeout, other sets or --first")
    return found


def _course(m: Measured) -> str:
    if m.times is None:
        return m.why
    times = ", ".join(f"{name} {time_said(getattr(m.times, field), ' ms')}" for name, field, _ in KINDS)
    return f"{m.times.domains} sub-domains: {times}{f'; {m.why}' if m.why else ''}"


def time_said(seconds: float | None, unit: str = "") -> str:
    """Return milliseconds, as a page has them."""
    return "–" if seconds is None else f"{shown(1000 * seconds)}{unit}"


def measure(output: Output, of: PaperSet, instance: Instance, place: Place, ask: Ask, progress: Progress) -> Measured:
    """Time one property, or return what an earlier call kept of it; with more time what was cut short is timed anew."""
    from netproof.campaign.jobs import file_hash, model_hash
    from netproof.paper.tables.lp_times import Times

    n = ask.n[of.base.split("_")[1]]
    files = (model_hash(instance.onnx), file_hash(instance.vnnlib))
    path = output.kept(*files, n, ask.rounds, sorted(ask.options.items()), place.device, ask.engine.threads)
    known, limit = read_kept(path), ask.engine.timeout
    named = (of.name, of.boxes.kind, instance.names[1], str(place))
    if known is None or (known["limit"] is not None and (limit is None or limit > known["limit"])):
        try:
            times = _compute(instance, place, ask, n, progress)
        except DeadlineExpired:
            if known is None:
                return Measured(*named, None, f"not finished in {limit:g} s")
        else:
            cut = times is not None and bool(times.short)
            known = {"times": None if times is None else dataclasses.asdict(times), "limit": limit if cut else None}
            keep(path, known)
    if known["times"] is None:
        return Measured(*named, None, "nothing was open after a round")
    times = Times(**known["times"])
    return Measured(*named, times, _cut_said(times, known["limit"]))


def _cut_said(times: Times, limit: float | None) -> str:
    """Return on how many sub-domains each was timed where the clock ended it; "" where all were."""
    if limit is None:
        return ""
    counts = (f"{name} on {times.timed(field)}" for name, field, _ in KINDS if field in times.short)
    return f"ended by the limit of {limit:g} s, of {times.domains} sub-domains {', '.join(counts)}"


def _compute(instance: Instance, place: Place, ask: Ask, n: int, progress: Progress) -> Times | None:
    import torch

    from netproof.core.torch_state import engine_state
    from netproof.methods.device import resolve_device
    from netproof.model.load import load_network
    from netproof.paper.tables.lp_times import Asked, times_of
    from netproof.problem.reduce import reduce
    from netproof.problem.vnnlib.reader import load_property

    with engine_state():
        deadline = Deadline(ask.engine.timeout)
        network, property = load_network(instance.onnx), load_property(instance.vnnlib)
        torch.set_num_threads(ask.engine.threads)
        problems = reduce(network, property)
        if len(problems) != 1:
            what = "the property has several input sets" if problems else "the property excludes nothing"
            raise UsageError(what, file=str(instance.vnnlib), remedy="give a property with one input set")
        asked = Asked(ask.engine.method, ask.options, n, ask.rounds, resolve_device(place.device), ask.engine.threads)
        return times_of(network, property, problems[0], asked, deadline, progress)
