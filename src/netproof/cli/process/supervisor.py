"""A command's work, run where it can be stopped: on time, on Ctrl-C, and with all that it started.

The process forks before the heavy imports. The parent stays light: it waits, shows progress, and alone writes
stdout and the result files, so there is one writer whatever happens to the child. The child works and sends messages.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import Any

from netproof.core.reasons import INTERRUPTED
from netproof.errors import NetproofError
from netproof.workers.process import Process
from netproof.workers.worker import Work

TICK = 0.05  # seconds between two looks at the clock
LATE = 0.3  # seconds after the time limit in which a child that has begun may still answer
INTERRUPT_GRACE = 0.7  # seconds after Ctrl-C in which the child may still answer
REAP = 0.3  # seconds to wait for a killed process to end


class Ending(StrEnum):
    FINISHED = "finished"
    TIMEOUT = "timeout"  # the child did not keep its own deadline and was ended
    INTERRUPTED = "interrupted"
    DIED = "died"


@dataclass(frozen=True)
class Outcome:
    """How the work ended, and, where it did not finish, why. An interrupted child may have answered in time."""

    ending: Ending
    result: Any = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Name the verdict of a work that has not finished."""
        return "timeout" if self.ending == Ending.TIMEOUT else "unknown"


class WorkerBug(Exception):
    """Something in the child raised what no user can mend."""

    def __init__(self, summary: str, trace: str) -> None:
        super().__init__(summary)
        self.trace = trace


def soft_limit(timeout: float | None) -> float | None:
    """Return the child's own limit: early enough to finish and answer before the real one."""
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
    end_at = math.inf if timeout is None else started + timeout
    too_late = Outcome(Ending.TIMEOUT, reason=f"the time limit of {timeout:g} s was reached" if timeout else "")
    if time.monotonic() >= end_at:  # the start-up took it all
        return too_late
    worker = signals.worker = Process.fork() if fork else Process.start()
    try:
        worker.give(work, soft_limit(timeout), started)
        return _watch(worker, signals, end_at, on_event, on_tick) or too_late
    finally:
        worker.kill(REAP)


def _watch(
    worker: Process,
    signals: _Signals,
    end_at: float,
    on_event: Callable[[Any], None],
    on_tick: Callable[[], None],
) -> Outcome | None:
    """Wait for the last message; None where it does not come in time.

    One that has said nothing by then is still at its imports, which have nothing to tell: it is not waited for.
    """
    give_up_at, late = math.inf, 0.0
    while True:
        for kind, payload in worker.hear(max(0.0, min(TICK, end_at + late - time.monotonic()))):
            if kind == "event":
                late = LATE
                on_event(payload)
            else:
                return _last_message(kind, payload, interrupted=signals.count > 0)
        now = time.monotonic()
        if signals.count > 0 and give_up_at == math.inf:
            worker.cancel()
            give_up_at = now + INTERRUPT_GRACE
        if signals.count > 1 or now >= give_up_at:
            return Outcome(Ending.INTERRUPTED, reason=INTERRUPTED)
        if now >= end_at + late:
            return None
        on_tick()


def _last_message(kind: str, payload: Any, *, interrupted: bool) -> Outcome:
    if interrupted:  # what fails while it is being stopped is not reported
        return Outcome(Ending.INTERRUPTED, payload if kind == "result" else None, INTERRUPTED)
    if kind == "result":
        return Outcome(Ending.FINISHED, payload)
    if kind == "error":
        raise NetproofError(payload)
    if kind == "bug":
        raise WorkerBug(*payload)
    return Outcome(Ending.DIED, reason=payload)  # "memory" or "died"


class _Signals:
    """The number of requests to stop. The handlers stay, since results are still to be written then."""

    def __init__(self) -> None:
        self.count = 0
        self.worker: Process | None = None
        for number in stop_signals():
            signal.signal(number, self._stop)
        signal.signal(signal.SIGTSTP, self._pause)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.count += 1

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Stop this process and the child on Ctrl-Z, and let the child go on: it is in a group of its own."""
        if self.worker is not None:
            self.worker.signal_all(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        if self.worker is not None:
            self.worker.signal_all(signal.SIGCONT)


def stop_signals() -> list[signal.Signals]:
    """List the signals that ask to stop: nohup ignores one of them."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM] if ignored else [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
