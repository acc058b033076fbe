"""Progress, for people: a live line on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import collections
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netproof.cli.show.output import print_err

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY = 5.0  # seconds between two plain lines
RATED = 30  # messages over which domains per second are counted: about ten come per second

PHASES = {
    "load": "reading",
    "attack": "looking for a counterexample",
    "root": "bounding",
    "search": "branching",
    "leaf": "deciding leaves",
    "confirm": "confirming",
}


class Display:
    """Shows the latest progress on stderr. It runs in the supervisor, so its clock never stops."""

    def __init__(self, *, started: float, timeout: float | None, quiet: bool = False) -> None:
        self._started = started
        self._timeout = timeout
        self._latest: Mapping[str, Any] = {"phase": "load"}
        self._live: Live | None = None
        self._title = ""
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._quiet = quiet
        self._plain_at = started + PLAIN_EVERY
        self._counts: collections.deque[tuple[float, int]] = collections.deque(maxlen=RATED)  # when, and domains

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in a worker's progress, and the title of what it does."""
        self._title = event.get("title", "")
        self._latest = event["progress"]
        domains = self._latest.get("domains") or 0
        if self._counts and domains < self._counts[-1][1]:
            self._counts.clear()  # another problem began to count
        self._counts.append((time.monotonic(), domains))

    @property
    def latest(self) -> Mapping[str, Any]:
        """Return the last progress that arrived: what is known if the worker never answers."""
        return self._latest

    def tick(self) -> None:
        if self._quiet:
            return
        if self._terminal:
            self._draw()
        elif time.monotonic() >= self._plain_at and self._latest["phase"] != "load":
            # not while reading: a file that is refused gets one line
            self._plain_at = time.monotonic() + PLAIN_EVERY
            print_err(f"netproof: {self.line()}")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def line(self) -> str:
        """Make the line, such as `branching: bound -0.012, 1240 domains (800/s), 12.1 s, 47.9 s left`."""
        now, latest = time.monotonic(), self._latest
        parts = []
        if latest.get("lower_bound") is not None:
            parts.append(f"bound {latest['lower_bound']:.4g}")
        if latest.get("domains"):
            parts.append(f"{latest['domains']} domains ({self._rate():.0f}/s)")
        parts.append(f"{now - self._started:.1f} s")
        if self._timeout is not None:
            parts.append(f"{max(0.0, self._started + self._timeout - now):.1f} s left")
        phase = PHASES.get(latest["phase"], latest["phase"])
        if (latest.get("problems") or 1) > 1:
            phase += f" {latest['problem'] + 1} of {latest['problems']}"
        title = f"{self._title}: " if self._title else ""
        return f"{title}{phase}: " + ", ".join(parts)

    def _rate(self) -> float:
        """Return the domains per second over the last few seconds."""
        (since, fewer), (now, more) = self._counts[0], self._counts[-1]
        return (more - fewer) / (now - since) if now > since else 0.0

    def _draw(self) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        from rich.text import Text

        head, _, rest = self.line().partition(": ")
        text = Text.assemble((head, "bold cyan"), ": ", rest, no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)
