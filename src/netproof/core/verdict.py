"""The answer of a verification run. No torch and no numpy here: the command line's supervisor writes verdicts too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from netproof.core.about import About
from netproof.core.reasons import CONTRADICTION
from netproof.core.shown.words import line, page

if TYPE_CHECKING:
    import numpy as np

# As in the JSON contract; "other" is what is in none of them, so that all but "total" add up to it.
PHASES = ("load", "attack", "root", "search", "leaf", "confirm", "other", "total")


def add_up(seconds: dict[str, float], total: float) -> None:
    """Enter the seconds of all of it among those of phases; what is in none of them is "other"."""
    known = sum(spent for phase, spent in seconds.items() if phase not in ("total", "other"))
    seconds.update(other=max(0.0, total - known), total=total)


def finite(value: float | None) -> float | None:
    """Return a bound as verdicts hold it: None where there is none, or an infinite one."""
    return float(value) if value is not None and math.isfinite(value) else None


class Status(StrEnum):
    """VNN-COMP's words. `unsat`: no violation exists, so the property holds."""

    UNSAT = "unsat"
    SAT = "sat"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A tensor of a witness, as a VNN-LIB 2.0 query declares it."""

    name: str
    dtype: str  # as declared: "real", "float32", ...
    array: np.ndarray  # of the shape that is declared


@dataclass(frozen=True, eq=False)
class Witness:
    """A float32 counterexample, or a float64 one of a network that takes float64, and onnxruntime's answer on the CPU.

    Both arrays have the shapes that the model file declares (a symbolic batch counts as 1).
    `note` is not empty when the point needs an explanation, such as a pinned input that no float32 equals.
    """

    input: np.ndarray
    output: np.ndarray
    note: str = ""
    tensors: tuple[TensorValue, ...] = ()  # of a VNN-LIB 2.0 query: every tensor that it declares, in its order

    @property
    def given(self) -> np.ndarray:
        """Return the input that the network was given: of tied inputs, or behind a map, more numbers than `input`."""
        first = self.tensors[0].array if self.tensors else self.input
        return first.reshape(self.input.shape) if first.size == self.input.size else first


@dataclass
class Stats:
    """Counters and clocks of one run; `seconds` by phase."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    domains: int = 0  # sub-domains bounded below the root: two per binary split
    rounds: int = 0
    split: int = 0  # sub-domains that were split; 2 (domains − split) is two for every split on one neuron
    leaf_lps: int = 0
    lps: int = 0  # LPs on domains that still had something to split
    lp_parents_proved: int = 0
    lp_pruned: int = 0  # frontier domains dropped because an LP proved an ancestor
    cut_in_lp: bool = False  # the deadline came inside a turn of the LP
    peak_memory: int = 0  # bytes, on the device of the search
    peak_host_memory: int = 0  # bytes that the process had of the host's memory


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer. `lower_bound` is proved; `upper_bound` is a value at an evaluated point."""

    status: Status
    reason: str = ""
    witness: Witness | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    stats: Stats = field(default_factory=Stats)
    decided_by: str = ""  # "attack", "root", "search", "leaf" or "input set"
    arithmetic: str = "real"
    details: Mapping[str, Any] = field(default_factory=dict)
    about: About | None = None  # which network it is about
    certificate: Mapping[str, Any] | None = None  # what became of it, where one was asked for

    def __post_init__(self) -> None:
        if (self.status == Status.SAT) != (self.witness is not None):
            raise ValueError("`sat` and a witness go together")

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a yes or no: ask verdict.proved or verdict.broken")

    @property
    def proved(self) -> bool:
        """Say whether the property is proved for every input; False also where the answer is open."""
        return self.status == Status.UNSAT

    @property
    def broken(self) -> bool:
        """Say whether there is a counterexample; False also where the answer is open."""
        return self.status == Status.SAT

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which json can write."""
        stats = self.stats
        return {
            "verdict": str(self.status),
            "reason": self.reason,
            "decided_by": self.decided_by,
            "arithmetic": self.arithmetic,
            "seconds": {phase: float(stats.seconds.get(phase, 0.0)) for phase in PHASES},
            "lower_bound": finite(self.lower_bound),
            "upper_bound": finite(self.upper_bound),
            "domains": int(stats.domains),
            "peak_memory": int(stats.peak_memory),
            "peak_host_memory": int(stats.peak_host_memory),
            "leaf_lps": int(stats.leaf_lps),
            "rounds": int(stats.rounds),
            "split": int(stats.split),
            "cut_in_lp": bool(stats.cut_in_lp),
            CONTRADICTION: self.details.get(CONTRADICTION),
            "witness": self._plain_witness(),
            "about": None if self.about is None else self.about.to_dict(),
            "certificate": self.certificate,
        }

    def _plain_witness(self) -> dict[str, Any] | None:
        """Take the point and its output; within rounding, also what exact arithmetic says of the rows."""
        witness = self.witness
        if witness is None:
            return None
        more: dict[str, Any] = {"note": witness.note} if witness.note else {}
        if witness.tensors:
            more["tensors"] = {tensor.name: tensor.array.tolist() for tensor in witness.tensors}
        return {"input": witness.input.tolist(), "output": witness.output.tolist(), **more, **self.details}

    def __repr__(self) -> str:
        return line(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return page(self)
