"""The near end of a worker: start it, give it work, hear what it says, end it with all that it started."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from typing import IO

from netproof.workers.worker import CANCEL, Message, Work, live_forked

COMMAND = (sys.executable, "-P", "-m", "netproof.workers")
TAIL = 4000  # bytes of what a lost worker printed that are kept, the last ones


class Process:
    """A worker. It sends the messages of `netproof.workers.worker`, and once it has ended, `died` and how."""

    def __init__(
        self, pid: int, exit_code: Callable[[], int | None], connection: Connection, log: IO[bytes] | None = None
    ) -> None:
        self.pid, self.connection = pid, connection
        self._exit_code, self._log = exit_code, log

    @staticmethod
    def fork() -> Process:
        """Start a worker that has this process's imports already, and prints where this one does."""
        ours, theirs = Pipe()
        process = multiprocessing.get_context("fork").Process(target=live_forked, args=(ours, theirs))
        process.start()
        theirs.close()
        assert process.pid is not None
        return Process(process.pid, lambda: process.exitcode, ours)

    @staticmethod
    def start(environment: Mapping[str, str] | None = None) -> Process:
        """Start a worker as a new program, and keep what it prints."""
        ours, theirs = Pipe()
        log = tempfile.TemporaryFile("a+b")  # noqa: SIM115  (closed with the process)
        process = subprocess.Popen(
            [*COMMAND, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone; and all that the worker starts ends with it
        )
        theirs.close()
        return Process(process.pid, process.poll, ours, log)

    def give(self, work: Work, seconds: float | None, started: float | None = None) -> None:
        """Let it do a work within so many seconds, from `started` on or from when it receives the work."""
        with contextlib.suppress(BrokenPipeError):  # it is gone, which `hear` says
            self.connection.send((work, seconds, started))

    def cancel(self) -> None:
        """Ask it to end the work under way."""
        with contextlib.suppress(BrokenPipeError):
            self.connection.send_bytes(CANCEL)

    def hear(self, seconds: float) -> list[Message]:
        """Return all that it has said, as soon as it says something, or nothing once the time is up."""
        gone = self._exit_code() is not None  # asked before the last look, so that no message can slip in between
        messages: list[Message] = []
        try:
            while self.connection.poll(0.0 if gone or messages else seconds):
                messages.append(self.connection.recv())
        except (EOFError, OSError):
            if not gone:
                time.sleep(max(seconds, 0.01))  # it is about to end
        return [("died", self._how_it_ended())] if gone and not messages else messages

    def _how_it_ended(self) -> str:
        """Say in one line by which signal or with which exit code, and what it printed last."""
        code = self._exit_code()
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            how = f"the worker process was killed by {name}" + ", perhaps for want of memory" * (name == "SIGKILL")
        else:
            how = f"the worker process ended without an answer (exit code {code})"
        last = self.log().strip().splitlines()[-1:]
        return " ".join(f"{how}: {last[0]}".split()) if last else how

    def log(self) -> str:
        """Return the end of what it printed, where that is kept."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - TAIL))
        return self._log.read().decode(errors="replace")

    def signal_all(self, number: int) -> None:
        """Signal it and everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses on a group of zombies
            os.killpg(self.pid, number)

    def kill(self, patience: float) -> None:
        """End it and everything that it started; wait for it, but not for ever: a GPU's driver may hold it."""
        self.signal_all(signal.SIGKILL)
        if self._exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # it may not lead a group yet
        give_up_at = time.monotonic() + patience
        while self._exit_code() is None and time.monotonic() < give_up_at:
            time.sleep(0.005)
        self.connection.close()
        if self._log is not None:
            self._log.close()
