"""The side that works: a forked process (or, without fork, a thread) that sends messages to the supervisor.

A message is a kind and a payload of plain Python values, so that the supervisor can read it without numpy:
`event` (progress), then one of `result`, `error` (the user's to mend), `memory`, or `bug`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from netproof.core.deadline import Deadline
from netproof.errors import NetproofError

Message = tuple[str, Any]
Work = Callable[["Job"], Any]
HEADER = 8  # bytes that give the length of the pickle after them


class Job:
    """What a command's work sees: a deadline to respect and a way to tell how far it is."""

    def __init__(self, deadline: Deadline, send: Callable[[Message], None]) -> None:
        self.deadline = deadline
        self._send = send
        self._parts: list[Deadline] = []

    def tell(self, event: Any) -> None:
        self._send(("event", event))

    def part(self, seconds: float | None) -> Deadline:
        """A deadline for a part of the work, ended by an interrupt just as the whole one is."""
        left = self.deadline.remaining()
        part = Deadline(left if seconds is None else min(seconds, left))
        self._parts.append(part)
        if self.deadline.cancelled:
            part.cancel()
        return part

    def cancel(self) -> None:
        self.deadline.cancel()
        for part in self._parts:
            part.cancel()


class _LastWord:
    """Runs the work and sends its one final message, whatever happened. Nothing passes this border."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, NetproofError):
            self._send(("error", str(error)))
        elif _out_of_memory(error):
            self._send(("memory", "out of memory"))
        else:
            summary = " ".join(f"{type(error).__name__}: {error}".split())
            self._send(("bug", (summary, "".join(traceback.format_exception(error)))))
        return True


def _out_of_memory(error: BaseException) -> bool:
    """torch has its own error on a GPU, and a plain RuntimeError on the CPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def run_job(work: Work, job: Job, send: Callable[[Message], None]) -> None:
    with _LastWord(send):
        send(("result", work(job)))


def run_forked(work: Work, deadline: Deadline, pipe: int) -> NoReturn:
    """The life of the forked process. It leads its own group, so that all it starts can be ended with it.

    Its stdout becomes stderr: a library that prints cannot spoil the verdict.
    """
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(message: Message) -> None:
        body = pickle.dumps(message)
        with lock:
            _write_all(pipe, len(body).to_bytes(HEADER, "big") + body)

    job = Job(deadline, send)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: job.cancel())
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    run_job(work, job, send)
    sys.stderr.flush()
    os._exit(0)  # no teardown: it is slow with a GPU, and the supervisor has all it needs


def _write_all(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(pipe, view) :]
    except BrokenPipeError:  # the supervisor is gone, and nobody is left to tell
        os._exit(1)
