"""A verdict as plain values, for --json, a row of the store, tables and messages between processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netproof.core.verdict import PHASES, add_up

if TYPE_CHECKING:
    from netproof.core.verdict import Verdict


@dataclass(frozen=True)
class Record:
    """What is known of a question; by default nothing yet. No numpy here, so that readers need not import it."""

    verdict: str = "unknown"
    reason: str = ""
    decided_by: str = ""
    arithmetic: str = "real"
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    lower_bound: float | None = None
    upper_bound: float | None = None
    domains: int = 0
    peak_memory: int = 0
    peak_host_memory: int = 0
    leaf_lps: int = 0
    rounds: int = 0
    split: int | None = None  # None: not known of a run that was ended from outside
    cut_in_lp: bool | None = None
    contradiction: dict[str, Any] | None = None  # what in the evidence cannot be true, and where the case is saved
    witness: dict[str, Any] | None = None  # its input and output
    about: dict[str, Any] | None = None  # which network; None: the run ended before it was read
    certificate: Mapping[str, Any] | None = None  # what became of it, where one was asked for
    text: str = ""  # the witness in the property's own form

    @staticmethod
    def of(verdict: Verdict) -> Record:
        """Take all of a verdict that is written down."""
        return Record(**verdict.to_dict(), text=_text(verdict))

    @property
    def solved(self) -> bool:
        """Say whether it is an answer."""
        return self.verdict in ("unsat", "sat")

    def but(self, **changes: Any) -> Record:
        """Return it with some values changed."""
        return dataclasses.replace(self, **changes)

    def lasted(self, total: float) -> None:
        """Note the seconds of all of it, start-up included; what is in no phase is in "other"."""
        add_up(self.seconds, total)

    def undecided(self, verdict: str, reason: str) -> Record:
        """Return it without its answer: how far it went, and why there is none."""
        lower = unless_answer(self.lower_bound)
        return self.but(verdict=verdict, reason=reason, lower_bound=lower, decided_by="", witness=None, text="")


def unless_answer(lower_bound: float | None) -> float | None:
    """Return a bound that stands beside no answer: None for one above 0, which would be an answer."""
    return None if lower_bound is None or lower_bound > 0 else lower_bound


def known_so_far(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the last progress proves of the whole: its lower bound only if it is about the only problem.

    The best value seen is only shown: it need not be that of a point in the set.
    """
    known = {key: progress[key] for key in ("domains", "rounds") if key in progress}
    if progress.get("problems", 0) <= 1:
        known["lower_bound"] = unless_answer(progress.get("lower_bound"))
    return known


def _text(verdict: Verdict) -> str:
    if verdict.witness is None:
        return ""
    from netproof.problem.witness import format_witness

    return format_witness(verdict.witness).rstrip("\n") + "\n"
