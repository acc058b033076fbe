"""When to stop: a wall-clock limit and a flag that another thread may raise."""

from __future__ import annotations

import math
import threading
import time

SLOWER = 1.25  # times as long as the last that the next piece of a work may count for each of its parts


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

    def leave_out(self, seconds: float) -> None:
        """Do not count seconds that passed for something else."""
        self._start += seconds
        self._end += seconds

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


class Sooner(Deadline):
    """Ends with another deadline, or before it by `cancel()`, which does not end the other one."""

    def __init__(self, other: Deadline) -> None:
        super().__init__()
        self._other = other

    @property
    def cancelled(self) -> bool:
        return super().cancelled or self._other.cancelled

    @property
    def expired(self) -> bool:
        return super().cancelled or self._other.expired

    def remaining(self) -> float:
        return 0.0 if super().cancelled else self._other.remaining()

    def elapsed(self) -> float:
        return self._other.elapsed()


class Early(Sooner):
    """Ends with another deadline, or so many seconds from now."""

    def __init__(self, other: Deadline, seconds: float) -> None:
        super().__init__(other)
        self._end = self._start + seconds

    @property
    def expired(self) -> bool:
        return super().expired or time.monotonic() >= self._end

    def remaining(self) -> float:
        return min(super().remaining(), max(0.0, self._end - time.monotonic()))


class Pace:
    """How long pieces of a work take, so that none is begun that would last well beyond the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._each: float | None = None  # seconds for one more; None: none was measured

    def fit(self, wanted: int) -> int:
        """Return how many of so many may be begun: those that take up to half of the time that is left, at least one.

        As the deadline comes nearer pieces get smaller, and what is late in the end is a small one.
        """
        left = self._deadline.remaining()
        if not self._each or left == math.inf:
            return wanted
        return max(1, min(wanted, int(left / 2 / self._each)))

    def took(self, count: int, seconds: float) -> None:
        """Note what a piece of so many took. Small ones take more for each, so that it rises only little by little."""
        if count > 0:
            each = seconds / count
            self._each = each if self._each is None else min(each, SLOWER * self._each)
