"""Runs a command's work where it can be stopped: on time, on Ctrl-C, and without leaving anything behind.

The process forks before the heavy imports. The parent stays light: it waits, shows progress, and alone writes
stdout and the result files, so there is one writer whatever becomes of the child. The child works and sends
messages. A third, idle process outlives the parent by an instant if that is killed outright, and ends the
child's group then.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import Any, Protocol

from netproof.cli.process.worker import HEADER, Job, Message, Work, run_forked, run_job
from netproof.core.deadline import Deadline
from netproof.errors import NetproofError

TICK = 0.05  # seconds between looks at the clock
LATE = 0.3  # how long after the time limit the child may still answer
INTERRUPT_GRACE = 0.7  # how long after Ctrl-C the child may still answer
REAP = 0.3  # how long to wait for a killed process to go


class Ending(StrEnum):
    FINISHED = "finished"
    TIMEOUT = "timeout"  # the child did not keep its own deadline and was ended
    INTERRUPTED = "interrupted"
    DIED = "died"


@dataclass(frozen=True)
class Outcome:
    """How the work ended. `result` is also there when an interrupted child answered in time."""

    ending: Ending
    result: Any = None
    reason: str = ""


class WorkerBug(Exception):
    """Something in the child raised what no user can mend."""

    def __init__(self, summary: str, trace: str) -> None:
        super().__init__(summary)
        self.trace = trace


class _Worker(Protocol):
    def poll(self, seconds: float) -> list[Message]: ...
    def cancel(self) -> None: ...
    def kill(self) -> None: ...
    def ended(self) -> str | None:
        """None while it runs, then how it ended."""


def soft_limit(timeout: float | None) -> float | None:
    """The child's own limit: early enough to round off and answer by the real one."""
    return None if timeout is None else max(timeout - 0.2, 0.9 * timeout)


def supervise(
    work: Work,
    *,
    started: float,
    timeout: float | None = None,
    on_event: Callable[[Any], None] = lambda event: None,
    on_tick: Callable[[], None] = lambda: None,
    fork: bool = hasattr(os, "fork"),
) -> Outcome:
    """Run `work` to its end or to the limit. `started` and the limit are on the monotonic clock.

    Raises NetproofError for what the user can mend and WorkerBug for what they cannot.
    """
    signals = _Signals()
    end_at = math.inf if timeout is None else started + timeout + LATE
    if time.monotonic() >= end_at:  # the start-up took it all
        return Outcome(Ending.TIMEOUT)
    deadline = Deadline(soft_limit(timeout), started=started)
    worker: _Worker = _Forked(work, deadline) if fork else _Threaded(work, deadline)
    signals.worker = worker
    try:
        return _watch(worker, signals, end_at, on_event, on_tick)
    finally:
        worker.kill()


def _watch(
    worker: _Worker,
    signals: _Signals,
    end_at: float,
    on_event: Callable[[Any], None],
    on_tick: Callable[[], None],
) -> Outcome:
    give_up_at = math.inf
    while True:
        gone = worker.ended()  # asked before the last poll, so that no message can slip in between
        for kind, payload in worker.poll(0.0 if gone else TICK):
            if kind == "event":
                on_event(payload)
            else:
                return _last_message(kind, payload, interrupted=signals.count > 0)
        now = time.monotonic()
        if signals.count > 0 and give_up_at == math.inf:
            worker.cancel()
            give_up_at = now + INTERRUPT_GRACE
        if signals.count > 1 or now >= give_up_at or (gone and signals.count):
            return Outcome(Ending.INTERRUPTED)
        if now >= end_at:
            return Outcome(Ending.TIMEOUT)
        if gone:
            return Outcome(Ending.DIED, reason=gone)
        on_tick()


def _last_message(kind: str, payload: Any, *, interrupted: bool) -> Outcome:
    if kind == "result":
        return Outcome(Ending.INTERRUPTED if interrupted else Ending.FINISHED, payload)
    if interrupted:  # whatever fell over while being stopped is no news
        return Outcome(Ending.INTERRUPTED)
    if kind == "error":
        raise NetproofError(payload)
    if kind == "memory":
        return Outcome(Ending.DIED, reason=payload)
    raise WorkerBug(*payload)


class _Signals:
    """Counts requests to stop. The handlers stay for good: results are yet to be written then."""

    def __init__(self) -> None:
        self.count = 0
        self.worker: _Worker | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(signal.SIGHUP, self._stop)
        if hasattr(signal, "SIGTSTP"):
            signal.signal(signal.SIGTSTP, self._pause)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the child is in another group, so it must be told to stop and to go on."""
        child = self.worker.pid if isinstance(self.worker, _Forked) else None
        if child is not None:
            _signal_group(child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        if child is not None:
            _signal_group(child, signal.SIGCONT)


def _signal_group(pid: int, number: int) -> bool:
    """Signal a whole process group; False when there is none."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS refuses on a group of zombies
        return False
    return True


class _Forked:
    """A child in its own process group, and a pipe from it."""

    def __init__(self, work: Work, deadline: Deadline) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._pipe, write_end = os.pipe()
        self._buffer = bytearray()
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            run_forked(work, deadline, write_end)
        os.close(write_end)
        self._guard = _Guard(self.pid)

    def poll(self, seconds: float) -> list[Message]:
        messages: list[Message] = []
        while select.select([self._pipe], [], [], seconds)[0]:
            data = os.read(self._pipe, 1 << 20)
            if not data:
                if not messages and seconds:
                    time.sleep(seconds)  # the pipe is closed: do not spin until the child is reaped
                break
            self._buffer += data
            messages += self._complete_messages()
            seconds = 0.0
        return messages

    def _complete_messages(self) -> list[Message]:
        messages: list[Message] = []
        while len(self._buffer) >= HEADER:
            end = HEADER + int.from_bytes(self._buffer[:HEADER], "big")
            if len(self._buffer) < end:
                break
            messages.append(pickle.loads(self._buffer[HEADER:end]))
            del self._buffer[:end]
        return messages

    def cancel(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGINT)

    def ended(self) -> str | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return None
            self._status = os.waitstatus_to_exitcode(status)
        if self._status >= 0:
            return f"the worker process ended without an answer (exit code {self._status})"
        name = signal.Signals(-self._status).name
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return f"the worker process was killed by {name}{hint}"

    def kill(self) -> None:
        """End the child and everything it started; wait for the child, but not for ever."""
        if not _signal_group(self.pid, signal.SIGKILL) and self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # it was not yet the leader of a group
        give_up_at = time.monotonic() + REAP
        while self.ended() is None and time.monotonic() < give_up_at:
            time.sleep(0.005)
        self._guard.dismiss()
        os.close(self._pipe)


class _Guard:
    """A process that waits for the parent's end of a pipe to close, and then ends the child's group.

    PR_SET_PDEATHSIG would end the child alone; what the child started would stay.
    """

    def __init__(self, group: int) -> None:
        read_end, self._lifeline = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._keep_watch(read_end, group)
        os.close(read_end)

    def _keep_watch(self, read_end: int, group: int) -> None:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(read_end, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.closerange(3, 1024)  # whoever reads our stdout must not wait for this process
        if os.read(0, 1) == b"":
            _signal_group(group, signal.SIGKILL)
        os._exit(0)

    def dismiss(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._lifeline, b"x")
        os.close(self._lifeline)
        os.waitpid(self._pid, 0)


class _Threaded:
    """Where there is no fork: the work runs in a thread, and ending it means leaving the process."""

    def __init__(self, work: Work, deadline: Deadline) -> None:
        self._messages: queue.Queue[Message] = queue.Queue()
        self._job = Job(deadline, self._messages.put)
        self._thread = threading.Thread(target=run_job, args=(work, self._job, self._messages.put), daemon=True)
        self._thread.start()

    def poll(self, seconds: float) -> list[Message]:
        try:
            return [self._messages.get(timeout=seconds) if seconds else self._messages.get_nowait()]
        except queue.Empty:
            return []

    def cancel(self) -> None:
        self._job.cancel()

    def ended(self) -> str | None:
        if self._thread.is_alive() or not self._messages.empty():
            return None
        return "the worker thread ended without an answer"

    def kill(self) -> None:
        self._job.cancel()
