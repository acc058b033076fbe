"""When to stop: a wall-clock limit and a flag that another thread may raise."""

from __future__ import annotations

import math
import threading
import time


class DeadlineExpired(Exception):
    """Raised by `Deadline.check` to stop work that is of no use if it is half done."""


class Deadline:
    """Counts down from `seconds` (None: for ever); `cancel()` ends it at once.

    `started` lets start-up that ran before this object existed be counted in.
    """

    def __init__(self, seconds: float | None = None, *, started: float | None = None) -> None:
        self._start = time.monotonic() if started is None else started
        self._end = math.inf if seconds is None else self._start + seconds
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def expired(self) -> bool:
        return self.cancelled or time.monotonic() >= self._end

    def check(self) -> None:
        if self.expired:
            raise DeadlineExpired

    def remaining(self) -> float:
        """Return the seconds left, never negative; infinite without a limit."""
        return 0.0 if self.cancelled else max(0.0, self._end - time.monotonic())

    def elapsed(self) -> float:
        return time.monotonic() - self._start
