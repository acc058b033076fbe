"""A certificate that was asked for, and what became of it.

The search only keeps hints in a file. The pass that makes the certificate comes after the
verdict, in this process or in another one, with a time limit of its own; then `npcheck` checks it in a new process.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from netproof.certificate.asking import Tell, ask
from netproof.certificate.destination import UNFINISHED, beside
from netproof.certificate.spool import Hints
from netproof.certificate.state import SECONDS, Certificate
from netproof.certificate.write import Progress, Subject, write_certificate
from netproof.core.deadline import Deadline
from netproof.core.reasons import INTERRUPTED
from netproof.errors import UsageError

EXIT_INTERRUPTED = 130  # of npcheck


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
    folder: Path | None = None  # for what is not finished; None: that of the certificate

    def subject(self) -> Subject:
        """Read the files as the checker will; UsageError where it cannot."""
        folder = self.path.parent
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}", file=str(self.path), remedy="make it, or name another")
        return Subject.read(self.model, self.spec)

    def finish(
        self,
        subject: Subject,
        progress: Progress = lambda done, count: None,
        hints: Hints | None = None,
        tell: Tell | None = None,
    ) -> Certificate:
        """Write the certificate, check it, and give it its name, with the files of its question beside it.

        tell: hears how far a long check is. A disk or a memory that is full takes the certificate, and no verdict.
        """
        try:
            return self._finished(subject, progress, hints, tell)
        except MemoryError:
            reason = "memory ran out"
        except OSError as error:
            reason = f"it cannot be written: {error.strerror or error}"
        return Certificate(str(self.path), reason=reason, limit=self.seconds)

    def _finished(self, subject: Subject, progress: Progress, hints: Hints | None, tell: Tell | None) -> Certificate:
        unfinished = self.path if self.folder is None else self.folder / UNFINISHED
        written = write_certificate(unfinished, subject, hints or self.spool, Deadline(self.seconds), progress)
        if written.reason:
            return Certificate(str(self.path), seconds=written.seconds, reason=written.reason, limit=self.seconds)
        model, spec = (str(self._name(file)) for file in (self.model, self.spec))
        size, seconds = written.size, written.seconds
        state = Certificate(str(self.path), model, spec, True, written.leaves, size, seconds, limit=self.seconds)
        try:
            state = self._checked(state, unfinished, tell) if self.check else state
        except KeyboardInterrupt:  # it is whole
            state = replace(state, reason=INTERRUPTED)
        return self._named(state, unfinished) if state.written else state

    def _checked(self, state: Certificate, unfinished: Path, tell: Tell | None) -> Certificate:
        """Ask npcheck, in a process of its own; one that it refuses does not stay."""
        try:
            answer = ask(unfinished, self.model, self.spec, self.seconds, tell)
        except subprocess.TimeoutExpired:
            return replace(state, reason=f"npcheck did not end in {self.seconds:g} s")
        except OSError as error:  # the certificate is whole
            return replace(state, reason=f"npcheck cannot be started: {error.strerror or error}")
        if answer.returncode == 0:
            return replace(state, checked=True)
        said = " ".join((answer.stdout + answer.stderr).split())
        if answer.returncode in (EXIT_INTERRUPTED, -signal.SIGINT):
            return replace(state, reason=INTERRUPTED)
        if answer.returncode != 1 or not answer.stdout.startswith(
            "invalid"
        ):  # nothing was decided: memory ran out, say
            return replace(state, reason=said)
        unfinished.unlink(missing_ok=True)
        why = f"npcheck does not accept it: {said}"
        return replace(state, model="", spec="", written=False, checked=False, reason=why)

    def _named(self, state: Certificate, unfinished: Path) -> Certificate:
        """Put the files of the question beside the certificate, those that were written of it, and then itself."""
        try:
            for file in (self.model, self.spec):
                if file != self._name(file):
                    file.replace(self._name(file))
            unfinished.replace(self.path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            return replace(
                state, model="", spec="", written=False, reason=f"it cannot be written: {error.strerror or error}"
            )
        return state

    def _name(self, file: Path) -> Path:
        """Return where a file of the question is in the end."""
        return beside(self.path, file.suffix) if file.parent == self.folder else file

    def clear(self) -> None:
        """Remove the hints."""
        self.spool.unlink(missing_ok=True)
