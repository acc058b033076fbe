"""Progress, for people: a live line on a terminal, an occasional plain line elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netproof.cli.show.output import print_err
from netproof.core.shown.line import Pace, fitting_line

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY = 5.0  # seconds between two plain lines


class Display:
    """Shows the latest progress on stderr. It runs in the supervisor, so its clock never stops."""

    def __init__(self, *, started: float, timeout: float | None, quiet: bool = False) -> None:
        self._started = started
        self._timeout = timeout
        self._latest: Mapping[str, Any] = {"phase": "load"}
        self._live: Live | None = None
        self._title = ""
        self._notes: set[str] = set()
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._quiet = quiet
        self._plain_at = started + PLAIN_EVERY
        self._pace = Pace(started)

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in a worker's progress, and the title of what it does."""
        self._title = event.get("title", "")
        self._latest = event["progress"]
        self._pace.note(self._latest)
        note = self._latest.get("note")
        if note and note not in self._notes:  # each of several searches may tell it
            self._notes.add(note)
            self._say(note)

    @property
    def latest(self) -> Mapping[str, Any]:
        """Return the last progress that arrived: what is known if the worker never answers."""
        return self._latest

    def _say(self, note: str) -> None:
        """Print a line that stays."""
        if self._quiet:
            return
        if self._live is None:
            print_err(f"  note: {note}")
        else:
            self._live.console.print(f"  note: {note}", markup=False, highlight=False)

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

    def line(self, width: int | None = None) -> str:
        """Make the line, no wider than that where it can be."""
        ends = None if self._timeout is None else self._started + self._timeout
        return fitting_line(self._pace.parts(self._latest, self._title, ends), width)

    def _draw(self) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True, emoji=False), auto_refresh=False, transient=True)
            self._live.start()
        from rich.text import Text

        head, mark, rest = self.line(self._live.console.width).partition(" · ")
        # NO_COLOR takes away colours alone; who sets it wants plain text.
        style = "" if self._live.console.no_color else "bold cyan"
        text = Text.assemble((head, style), mark, rest, overflow="fold")
        self._live.update(text, refresh=True)
