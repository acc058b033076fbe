"""The public function `largest_eps`: how far an input may be changed before its label can be lost."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from netproof import arguments
from netproof.api import attack, verify
from netproof.certificate.destination import Destination
from netproof.certificate.room import Room
from netproof.certificate.state import Certificate
from netproof.core.about import About
from netproof.core.deadline import Deadline
from netproof.core.reasons import INTERRUPTED
from netproof.core.verdict import Status, Verdict, Witness
from netproof.dataset.bracket import PRECISION, Bracket, close_in, share, why_none_certified
from netproof.dataset.images import BALLS, read_norm, real_array
from netproof.dataset.prediction import predicted_class
from netproof.errors import UsageError
from netproof.model.combined import about
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.problem.specs import Clip, InputRegion, Number, exact

STEPS = 255  # without a first radius, the search begins at one step of so many of the range of values


@dataclass(frozen=True)
class Probe:
    """One radius that was asked about: by an attack alone, or by a proof."""

    eps: float
    by: str  # "attack" or "proof"
    verdict: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Radius:
    """The largest radius within which the label is kept: at least `certified`, below `broken`."""

    label: int
    predicted: int
    norm: str
    certified: float | None  # None: nothing is
    broken: float | None  # None: no counterexample was found; 0: the input itself is one
    witness: Witness | None = None  # of the smallest radius that was broken
    probes: tuple[Probe, ...] = ()
    seconds: float = 0.0
    reason: str = ""  # why nothing is certified, or what else is to be known of the two
    about: About | None = None  # the network
    certificate: Mapping[str, Any] | None = None  # of `certified`, what became of it, where one was asked for

    @property
    def bracket(self) -> tuple[float, float]:
        """Return between which two numbers it lies."""
        return self.certified or 0.0, math.inf if self.broken is None else self.broken

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the witness's arrays, as plain values for JSON."""
        plain = {name: value for name, value in vars(self).items() if name not in ("witness", "probes", "about")}
        about = None if self.about is None else self.about.to_dict()
        return {**plain, "probes": [vars(probe) for probe in self.probes], "about": about}

    def __repr__(self) -> str:
        low, high = ("none" if side is None else f"{side:.6g}" for side in (self.certified, self.broken))
        return f"Radius(certified {low}, broken {high}, norm {self.norm}, {self.seconds:.1f} s)"


@dataclass
class _Asking:
    """Asks the engine about one input, radius by radius."""

    network: Network
    region: Callable[[Fraction], InputRegion]
    label: int
    engine: dict[str, Any]
    deadline: Deadline
    probes: list[Probe] = field(default_factory=list)
    witnesses: dict[Fraction, Witness] = field(default_factory=dict)
    left_open: dict[Fraction, str] = field(default_factory=dict)  # why, by radius that a proof was tried for
    certificate: Destination | None = None  # of the largest radius that is proved
    proved: Destination | None = None  # the same, once there is one, with its own folder

    def attack(self, eps: Fraction, seconds: float | None) -> bool:
        engine = {name: value for name, value in self.engine.items() if name in ("device", "threads", "seed")}
        return self._ask(eps, "attack", attack, seconds, engine).broken

    def prove(self, eps: Fraction, seconds: float | None) -> str:
        where = self._where(eps)
        certificate = {} if where is None else {"certificate": where}
        found = self._ask(eps, "proof", verify, seconds, {**self.engine, **certificate})
        if where is not None:
            self._keep(where, proved=found.status == Status.UNSAT)
        if found.status not in (Status.UNSAT, Status.SAT):
            self.left_open[eps] = found.reason
        return str(found.status)

    def _where(self, eps: Fraction) -> Destination | None:
        if self.certificate is None:
            return None
        return replace(self.certificate, folder=self.certificate.folder / f"{eps.numerator}-{eps.denominator}")

    def _keep(self, where: Destination, *, proved: bool) -> None:
        """Keep hints of a proof: each is of a larger radius than the one before."""
        gone = self.proved if proved else where
        if gone is not None:
            shutil.rmtree(gone.folder, ignore_errors=True)
        self.proved = where if proved else self.proved

    def certified(self) -> dict[str, Any] | None:
        """Write and check the certificate, where one is asked for; return what became of it."""
        if self.certificate is None:
            return None
        if self.proved is None:
            return Certificate(str(self.certificate.path), reason="no radius is proved").to_dict()
        request = self.proved.request()
        try:
            return request.finish(request.subject()).to_dict()
        except KeyboardInterrupt:  # the radius stands
            return Certificate(str(request.path), reason=INTERRUPTED).to_dict()

    def _ask(
        self, eps: Fraction, by: str, how: Callable[..., Verdict], seconds: float | None, engine: dict[str, Any]
    ) -> Verdict:
        began = time.monotonic()
        left = min(self.deadline.remaining(), math.inf if seconds is None else seconds)
        timeout = left if math.isfinite(left) else None
        found = how(self.network, self.region(eps), label=self.label, timeout=timeout, **engine)
        self.probes.append(Probe(float(eps), by, str(found.status), time.monotonic() - began))
        if found.witness is not None:
            self.witnesses[eps] = found.witness
        return found


def largest_eps(
    model: Any,
    x: Any,
    label: int | None = None,
    norm: str | float = "inf",
    clip: Clip | None = None,
    *,
    first: Number | None = None,
    within: Number = PRECISION,
    timeout: float | None = None,
    method: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    certificate: str | Path | None = None,
) -> Radius:
    """Find the largest radius around x within which the label is kept, from both sides.

    label: the output that must win; None: the one that does at x. first: the radius to begin with; None: 1/255 of the
    range of values. within: the share of what is broken by which what is certified may stay below it, which ends the
    search. timeout: seconds in all; None: 30 for each radius that a proof is tried for.
    certificate: where to write a certificate for the largest radius that is certified.
    """
    began, seconds = time.monotonic(), arguments.seconds(timeout)
    values, name = real_array(x, "x"), read_norm(norm)
    network = load_network(model, example_shape=values.shape)
    if values.size != int(np.prod(network.input_shape)):
        raise UsageError(
            f"x has shape {list(values.shape)}, the network's input {list(network.input_shape)}",
            remedy="give one input",
        )
    predicted = predicted_class(network, values.reshape(network.input_shape))
    wanted = predicted if label is None else arguments.whole(label, "label")
    start, close = _first(first, values, clip), share(exact(within, "within"), "within")
    deadline = Deadline(seconds)
    engine = {"method": method, "device": device, "threads": threads, "seed": seed}
    asking = _Asking(network, lambda eps: BALLS[name](values, eps, clip=clip), wanted, engine, deadline)
    with _wanted(certificate, network) as asking.certificate:
        if predicted != wanted and asking.prove(Fraction(0), None) == Status.SAT:
            found = Bracket(broken=Fraction(0))
        else:
            found = close_in(asking, start, deadline, limited=seconds is not None, within=close)
        state = asking.certified()
    certified, broken = found.certified, found.broken
    low, high = (None if side is None else float(side) for side in (certified, broken))
    reason = ""
    if broken == 0:
        reason = f"the network reads x itself as {predicted}"
    elif low is None:
        reason = why_none_certified(asking.left_open)
    if low is not None and high is not None and low >= high:
        # A proof is of real arithmetic, a counterexample of onnxruntime's: within rounding of a tie both may hold.
        reason = f"{low:.6g} is proved in real arithmetic; onnxruntime's rounding breaks {high:.6g}"
        low = max((p.eps for p in asking.probes if p.verdict == Status.UNSAT and p.eps < high), default=None)
    witness = None if broken is None else asking.witnesses[broken]
    probes = tuple(asking.probes)
    took, subject = time.monotonic() - began, about(network)
    return Radius(wanted, predicted, name, low, high, witness, probes, took, reason, subject, state)


@contextmanager
def _wanted(certificate: Any, network: Network) -> Iterator[Destination | None]:
    """Return where a certificate goes, if one is asked for; in the end remove what is not finished."""
    if certificate is None:
        yield None
        return
    path = arguments.path(certificate, "certificate", "None")
    with closing(Room.beside(path)) as room:
        yield Destination(path, room.path, at_once=False, model=Path(network.path))


def _first(given: Number | None, values: np.ndarray, clip: Clip | None) -> Fraction:
    """Return the radius to begin with, a short decimal."""
    if given is not None:
        eps = exact(given, "first")
        if eps <= 0:
            raise UsageError(f"first is {given}", remedy="give a radius above 0, as 1/255")
        return eps
    low, high = (float(values.min()), float(values.max())) if clip is None else map(_number, clip)
    span = high - low if high > low else max(1.0, abs(high))
    return Fraction(f"{span / STEPS:.3g}")


def _number(side: Any) -> float:
    return float(np.max(np.abs(np.asarray(side, dtype=np.float64)))) if np.ndim(side) else float(exact(side, "clip"))
