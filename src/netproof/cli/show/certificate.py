"""`--certificate FILE`: the search's process keeps hints, and this one makes the certificate once the verdict is told.

No numpy here before there is a proof: what starts the search must be light.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from netproof.certificate.destination import Destination
from netproof.certificate.room import Room
from netproof.certificate.state import Certificate, reason_of
from netproof.cli.exits import EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE
from netproof.cli.process.supervisor import stop_signals
from netproof.cli.show.answer import Answer
from netproof.cli.show.output import STDOUT, Outputs, print_err, to_json
from netproof.core.cpu import POOLS
from netproof.core.reasons import INTERRUPTED
from netproof.errors import UsageError

EVERY = 2.0  # seconds between two lines of progress


@dataclass(frozen=True)
class Wanted:
    """A certificate that a command was asked for."""

    destination: Destination
    room: Room

    def unfinished(self, verdict: str) -> dict[str, Any]:
        """Return what is known of the certificate before it is made."""
        return self._state("it was not finished") if verdict == "unsat" else self._without_proof(verdict)

    def finish(self, verdict: str, quiet: bool, part: str = "") -> dict[str, Any]:
        """Write and check the certificate of a proof, and say what became of it; return the same.

        part: what the search's process called the folder of this proof, where it had several.
        """
        if verdict != "unsat":
            return self._without_proof(verdict)
        for pool in POOLS:  # the matrices are small
            os.environ.setdefault(pool, "1")
        try:
            with ended_by_signals():
                request = replace(self.destination, folder=self.room.path / part).request()
                state = request.finish(request.subject(), _Progress(quiet), tell=None if quiet else _indented)
        except KeyboardInterrupt:
            state = Certificate(str(self.destination.path), reason=INTERRUPTED)
        except UsageError as error:  # a file of the question is gone, say
            state = Certificate(str(self.destination.path), reason=reason_of(error))
        except MemoryError:  # while the files are read again
            state = Certificate(str(self.destination.path), reason="memory ran out")
        if state.reason == INTERRUPTED:
            print_err(f"  {state.line}; the verdict stands")
        elif not quiet:
            print_err(f"  {state.line}")
        return state.to_dict()

    def _without_proof(self, verdict: str) -> dict[str, Any]:
        return Certificate.without_proof(str(self.destination.path), verdict).to_dict()

    def _state(self, reason: str) -> dict[str, Any]:
        return Certificate(str(self.destination.path), reason=reason).to_dict()


@contextlib.contextmanager
def wanted_certificate(
    path: str | None, seconds: float, check: bool, *, model: str | None, spec: str | None = None
) -> Iterator[Wanted | None]:
    """Take what a command was asked for, if anything, and the files of its question; in the end tidy up."""
    if path is None:
        yield None
        return
    with contextlib.closing(Room.beside(Path(path))) as room:
        files = [None if file is None else Path(file) for file in (model, spec)]
        yield Wanted(Destination(Path(path), room.path, seconds, check, False, *files), room)


def tell_with(
    wanted: Wanted | None,
    found: Answer,
    outputs: Outputs,
    tell: Callable[[Answer], None],
    document: Callable[[Answer], Mapping[str, Any]],
    *,
    quiet: bool,
    part: str = "",
) -> int:
    """Tell an answer, and make its certificate, which may take long, after that; return the exit code for the latter.

    Where stdout is the JSON, it has to wait for the certificate; another file of JSON is written again.
    """
    if wanted is None:
        tell(found)
        return 0
    verdict, later = found.record.verdict, outputs.paths["--json"] != STDOUT
    state = wanted.unfinished(verdict) if later else wanted.finish(verdict, quiet, part)
    tell(replace(found, record=found.record.but(certificate=state)))
    if later:
        state = wanted.finish(verdict, quiet, part)
        if outputs.paths["--json"] is not None:
            again = replace(found, record=found.record.but(certificate=state))
            outputs.write_again("--json", to_json(document(again)))
    return certificate_code(state) if verdict == "unsat" else 0


def certificate_code(state: Mapping[str, Any]) -> int:
    """Return the exit code of a proof whose certificate is not there, or that npcheck does not accept."""
    if state["reason"] == INTERRUPTED:
        return EXIT_INTERRUPTED
    if state["checked"] is False:
        return EXIT_BUG
    return 0 if state["written"] else EXIT_USAGE


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt: while a search is under way it does not."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _indented(line: str) -> None:
    print_err(f"  {line}")


class _Progress:
    """A line on stderr every now and then."""

    def __init__(self, quiet: bool) -> None:
        self._said = float("inf") if quiet else time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        if time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            print_err(f"  certificate: disjunct {done + 1} of {count}")
