"""`--certificate FILE`: the search's process keeps hints, and this one makes the certificate once the verdict is told.

No numpy here before there is a proof: what starts the search must be light.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netproof.certificate.state import Certificate
from netproof.cli.show.output import print_err
from netproof.core.cpu import POOLS
from netproof.core.reasons import INTERRUPTED
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.certificate.record import Recording
    from netproof.certificate.request import Request
    from netproof.workers.worker import Job

EVERY = 2.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Wanted:
    """A certificate that a command was asked for."""

    path: str
    model: str
    spec: str
    seconds: float
    check: bool
    spool: str

    @classmethod
    def of(cls, path: str | None, asked: Sequence[str], seconds: float, check: bool, *, plain: bool) -> Wanted | None:
        """Take what was asked for, None for nothing, and choose where hints are kept: beside the certificate."""
        if path is None:
            return None
        if not plain:
            raise UsageError(
                "--certificate is about one model and all of its outputs, as VNN-LIB 1.0 speaks of them",
                remedy="leave out --network and --output",
            )
        (model, spec, *_), place = asked, Path(path)
        return cls(path, model, spec, seconds, check, str(place.with_name(f".{place.name}.{os.getpid()}.hints")))

    def recording(self, job: Job) -> Recording:
        """Begin to keep hints, in the search's process; UsageError where no certificate can be about the question."""
        from netproof.certificate.installed import require_npcheck

        require_npcheck()
        from netproof.certificate.record import Recording

        return Recording.of(self._request(), lambda line: job.tell({"note": line}))

    def unfinished(self, verdict: str) -> dict[str, Any]:
        """Return what is known of the certificate before it is made."""
        return self._state("it was not finished") if verdict == "unsat" else self._without_proof(verdict)

    def finish(self, verdict: str, quiet: bool) -> dict[str, Any]:
        """Write and check the certificate of a proof, and say what became of it; return the same."""
        try:
            if verdict != "unsat":
                return self._without_proof(verdict)
            for pool in POOLS:  # the matrices are small
                os.environ.setdefault(pool, "1")
            request = self._request()
            state = request.finish(request.subject(), _Progress(quiet))
            if not quiet:
                print_err(f"  {state.line}")
            return state.to_dict()
        except KeyboardInterrupt:
            print_err("  no certificate: interrupted; the verdict stands")
            return self._state(INTERRUPTED)
        finally:
            Path(self.spool).unlink(missing_ok=True)

    def _request(self) -> Request:
        from netproof.certificate.request import Request

        path, model, spec, spool = (Path(part) for part in (self.path, self.model, self.spec, self.spool))
        return Request(path, model, spec, spool, self.seconds, self.check, at_once=False)

    def _without_proof(self, verdict: str) -> dict[str, Any]:
        return Certificate.without_proof(self.path, verdict).to_dict()

    def _state(self, reason: str) -> dict[str, Any]:
        return Certificate(self.path, reason=reason).to_dict()


class _Progress:
    """A line on stderr every now and then."""

    def __init__(self, quiet: bool) -> None:
        self._said = float("inf") if quiet else time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        if time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            print_err(f"  certificate: disjunct {done + 1} of {count}")
