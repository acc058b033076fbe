"""A certificate that was asked for, and what became of it.

The search only keeps hints in a file beside the certificate. The pass that makes the certificate comes after the
verdict, in this process or in another one, with a time limit of its own; then `npcheck` checks it in a new process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netproof.certificate.state import SECONDS, Certificate
from netproof.certificate.write import Progress, Subject, write_certificate
from netproof.core.deadline import Deadline
from netproof.errors import UsageError


@dataclass(frozen=True)
class Request:
    """Where a certificate goes, and what it is about."""

    path: Path
    model: Path
    spec: Path
    spool: Path  # where the search keeps its hints
    seconds: float = SECONDS
    check: bool = True
    at_once: bool = True  # whether it is written by the process that searched, before that answers

    @classmethod
    def of(cls, path: Any, model: Any, spec: Any, *, plain: bool) -> Request:
        """Take what Python was given; a certificate is about files."""
        if not plain or not isinstance(model, str | Path) or not isinstance(spec, str | Path):
            raise UsageError(
                "a certificate is about a model and a specification in files",
                remedy="give the paths of an .onnx and a .vnnlib file",
            )
        if not isinstance(path, str | Path):
            raise UsageError(f"certificate: {path!r} is no path", remedy="give the name of a file")
        path = Path(path)
        return cls(path, Path(model), Path(spec), path.with_name(f".{path.name}.{os.getpid()}.hints"))

    def subject(self) -> Subject:
        """Read the files as the checker will; UsageError where it cannot."""
        folder = self.path.parent
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}", file=str(self.path), remedy="make it, or name another")
        return Subject.read(self.model, self.spec)

    def finish(self, subject: Subject, progress: Progress = lambda done, count: None) -> Certificate:
        """Write and check the certificate."""
        written = write_certificate(self.path, subject, self.spool, Deadline(self.seconds), progress)
        state = Certificate(
            str(self.path), not written.reason, written.leaves, written.size, written.seconds, reason=written.reason
        )
        return self._checked(state) if state.written and self.check else state

    def _checked(self, state: Certificate) -> Certificate:
        """Ask npcheck, in a process of its own; one that it refuses does not stay."""
        command = [sys.executable, "-m", "npcheck", "--quiet", str(self.path), str(self.model), str(self.spec)]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=self.seconds, check=False)
        except subprocess.TimeoutExpired:
            return replace(state, reason=f"npcheck did not end in {self.seconds:g} s")
        if answer.returncode == 0:
            return replace(state, checked=True)
        said = " ".join((answer.stdout + answer.stderr).split())
        if answer.returncode != 1:  # nothing was decided: memory ran out, say
            return replace(state, reason=said)
        self.path.unlink(missing_ok=True)
        return replace(state, written=False, checked=False, reason=f"npcheck does not accept it: {said}")

    def clear(self) -> None:
        """Remove the hints."""
        self.spool.unlink(missing_ok=True)
