"""The far end: a process that does one work after another, and sends the outcome of each.

A work is a function of a `Job`. A message about it is a kind and a payload of plain values, so that it can be read
without numpy: any number of `event`s, then one of `result`, `error` (for the user to mend), `memory`, or `bug`.
"""

from __future__ import annotations

import math
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NoReturn

from netproof.core.deadline import Deadline
from netproof.core.files import is_of_path
from netproof.core.machine.allowance import is_out_of_memory
from netproof.errors import NetproofError, of_path

if TYPE_CHECKING:
    from netproof.api import Progress

Message = tuple[str, Any]
Work = Callable[["Job"], Any]
CANCEL = b""  # in place of a work: end the one under way
TELL_EVERY = 0.1  # seconds between two progress messages of one phase, at least


class Job:
    """What a work is given: a deadline to respect and a way to report progress."""

    def __init__(self, deadline: Deadline, send: Callable[[Message], None]) -> None:
        self.deadline = deadline
        self._send = send
        self._parts: list[Deadline] = []

    def tell(self, event: Any) -> None:
        """Send a message before the answer."""
        self._send(("event", event))

    def teller(self, **also: Any) -> Callable[[Progress], None]:
        """Make a progress callback for the engine that passes plain values on, not too often."""
        last, phase = -math.inf, ""

        def tell(progress: Progress) -> None:
            nonlocal last, phase
            now = time.monotonic()
            if now - last >= TELL_EVERY or progress.phase != phase or progress.note:
                last, phase = now, progress.phase
                self.tell({"progress": {name: _plain(value) for name, value in vars(progress).items()}, **also})

        return tell

    def part(self, seconds: float | None) -> Deadline:
        """Make a deadline for a part of the work, ended by an interrupt just as the whole one is."""
        left = self.deadline.remaining()
        part = Deadline(left if seconds is None else min(seconds, left))
        self._parts.append(part)
        if self.deadline.cancelled:
            part.cancel()
        return part

    def cancel(self) -> None:
        """End the deadline and all parts of it."""
        self.deadline.cancel()
        for part in self._parts:
            part.cancel()


def _plain(value: Any) -> Any:
    """Turn numpy's numbers into Python's, and what is not finite into None."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


class Worker:
    """Does the works that come over a connection, until the other side is gone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._works: queue.Queue[bytes] = queue.Queue()
        self._job: Job | None = None
        self._cancelled = False

    def live(self) -> NoReturn:
        """Do works for ever."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            self._obey(self._works.get())

    def cancel(self) -> None:
        """End the work under way; every later one ends as it begins."""
        self._cancelled = True
        if self._job is not None:
            self._job.cancel()

    def _listen(self) -> None:
        try:
            while True:
                data = self._connection.recv_bytes()
                if data == CANCEL:
                    self.cancel()
                else:
                    self._works.put(data)
        except (EOFError, OSError):
            _end_all()

    def _obey(self, data: bytes) -> None:
        """Do one work and send its last message, whatever happened; nothing is raised."""
        try:
            work, seconds, started = pickle.loads(data)
            self._job = Job(Deadline(seconds, started=started), self._send)
            if self._cancelled:
                self._job.cancel()
            last = ("result", work(self._job))
        except BaseException as error:
            last = _last_word(error)
        sys.stderr.flush()
        self._send(last)

    def _send(self, message: Message) -> None:
        try:
            with self._lock:
                self._connection.send(message)
        except OSError:  # no one is left to send to
            _end_all()


def _last_word(error: BaseException) -> Message:
    """Make a message of what a work raised."""
    if isinstance(error, NetproofError):
        return "error", str(error)
    if isinstance(error, OSError) and is_of_path(error):
        return "error", str(of_path(error))
    if is_out_of_memory(error):
        return "memory", "out of memory"
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    return "bug", (summary, "".join(traceback.format_exception(error)))


def _end_all() -> NoReturn:
    """End this process, which has nobody to work for, and all that it started."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def live_forked(parents: Connection, own: Connection) -> NoReturn:
    """Live as a fork. It leads its own group, so that all it starts can be ended with it.

    Its stdout becomes stderr: a library that prints cannot spoil an answer.
    """
    os.setsid()
    parents.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    worker = Worker(own)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: worker.cancel())
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    worker.live()
