"""A line on the terminal that says how far a long computation is."""

from __future__ import annotations

import sys
import time


class Line:
    """A line that is written over, on a terminal."""

    def __init__(self, title: str, quiet: bool) -> None:
        self._title, self._last = title, 0.0
        self._live = sys.stderr.isatty() and not quiet

    def show(self, phase: str, done: int, total: int) -> None:
        if self._live and time.monotonic() - self._last > 0.1:
            self._last = time.monotonic()
            sys.stderr.write(f"\r\x1b[K{self._title}  {phase} {done}/{total}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
