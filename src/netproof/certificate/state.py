"""What became of a certificate, as plain values. No numpy here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from netproof.core.reasons import INTERRUPTED
from netproof.errors import NetproofError

SECONDS = 300.0  # for the pass and for the check, each


WITHOUT = "without a certificate there may be an answer"  # the remedy of a refusal
REFUSED = "no certificate can be written: "  # as a refusal begins


def reason_of(error: NetproofError) -> str:
    """Say why there is none, where that is no answer to a command."""
    return f"{error.file}: {error.message}" if error.file else error.message.removeprefix(REFUSED)


@dataclass(frozen=True)
class Certificate:
    """What became of a certificate."""

    path: str
    model: str = ""  # the files that it is about, once it is written
    spec: str = ""
    written: bool = False
    leaves: int = 0
    bytes: int = 0
    seconds: float = 0.0  # of writing
    checked: bool | None = None  # None: it was not checked
    reason: str = ""  # why it was not written, or not checked
    limit: float = SECONDS  # of writing

    @classmethod
    def without_proof(cls, path: str, verdict: str) -> Certificate:
        """Say that there is none for this verdict."""
        return cls(path, reason=f"the verdict is {verdict}, and only a proof has one")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @staticmethod
    def was_interrupted(state: Mapping[str, Any]) -> bool:
        """Say of plain values whether it was stopped before it was finished."""
        return bool(state["reason"] == INTERRUPTED)

    @property
    def line(self) -> str:
        """Say it in one line for people."""
        if not self.written:
            return f"no certificate: {self.reason}"
        size = f"{self.bytes} bytes" if self.bytes < 10_000 else f"{self.bytes / 1000:.0f} kB"
        leaves = f"{self.leaves} lea{'f' if self.leaves == 1 else 'ves'}"
        seen = "checked: valid" if self.checked else f"not checked{self._why}"
        stem = os.path.splitext(self.path)[0]
        also = [os.path.basename(file) for file in (self.model, self.spec) if os.path.splitext(file)[0] == stem]
        names = " with ".join([self.path, *([" and ".join(also)] if also else [])])
        return f"certificate: {names}, {leaves}, {size}, {seen}"

    @property
    def _why(self) -> str:
        return f": {self.reason}" if self.reason else ""
