"""The answer of a verification run. No torch and no numpy here: the command line's supervisor writes verdicts too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# As in the JSON contract; "other" is what is in none of them, so that all but "total" add up to it.
PHASES = ("load", "attack", "root", "search", "leaf", "confirm", "other", "total")


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

    def __post_init__(self) -> None:
        if (self.status == Status.SAT) != (self.witness is not None):
            raise ValueError("`sat` and a witness go together")

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a yes or no: compare verdict.status with 'unsat' or 'sat'")
