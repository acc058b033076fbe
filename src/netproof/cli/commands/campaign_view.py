"""A campaign as people see it: one line per run that ended, and on a terminal a live table below."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from netproof.campaign.jobs import Job
from netproof.campaign.run import Event
from netproof.campaign.store import Result
from netproof.campaign.summary import VERDICTS, is_wrong
from netproof.certificate.state import Certificate
from netproof.cli.show.layout import (
    BETWEEN,
    EDGES,
    Column,
    ending,
    fitting_table,
)
from netproof.core.shown.line import bar, duration, fitting_line

INSTANCE = 16  # characters of the end of an instance's name that are shown wherever possible
COLOURS = {"unsat": "green", "sat": "magenta", "timeout": "yellow", "unknown": "yellow", "error": "red"}
OPPOSITE = {"sat": "unsat", "unsat": "sat"}


class View:
    """Watches a campaign: `with view.live: run(…, on_event=view.on_event)`."""

    def __init__(self, *, total: int, methods: list[str], quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._began = time.monotonic()
        self._counts: dict[str, Counter[str]] = {method: Counter() for method in methods}
        self._at: dict[int, tuple[str, Job | None, float]] = {}  # worker → what it does, which job, since when
        self._said: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)  # instance → verdict → method
        self.ended = self.kept = 0
        self._console = Console(stderr=True, highlight=False, emoji=False)
        shown = not quiet and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.live: contextlib.AbstractContextManager[object] = (
            Live(get_renderable=self.tables, console=self._console, refresh_per_second=4, transient=True)
            if shown
            else contextlib.nullcontext()
        )

    def on_event(self, event: Event) -> None:
        if event.worker is not None:
            self._at[event.worker] = self._where(event)
        if event.kind == "kept" and event.result is not None:
            self.kept += 1
            self._count(event.result)
        elif event.kind == "finished" and event.result is not None:
            self.ended += 1
            self._count(event.result)
            self._say(self._line(event.result))
            state = event.result.certificate
            if state is not None and not Certificate.was_interrupted(state):  # refused before the search
                self._say(self._certificate(state))
        elif event.kind == "certified" and event.result is not None and event.result.certificate is not None:
            self._say(self._certificate(event.result.certificate))
        elif event.kind == "lost":
            self._say(f"[yellow]worker {(event.worker or 0) + 1}: {escape(event.text)}; a new one takes its place[/]")
        if event.result is not None and event.kind != "certified":
            self._check(event.result)

    def note(self, text: str) -> None:
        """Print a line about the whole campaign."""
        self._say(f"netproof: {escape(text)}")

    def _where(self, event: Event) -> tuple[str, Job | None, float]:
        if event.kind == "progress":
            _, job, since = self._at[event.worker or 0]
            domains = event.progress.get("domains") or 0
            return event.progress["phase"] + (f", {domains} domains" if domains else ""), job, since
        does = {"starting": "starting", "started": "reading", "lost": "lost", "certifying": "certificate"}
        job = event.job if event.kind in ("started", "certifying") else None
        return does.get(event.kind, "waiting"), job, time.monotonic()

    def _count(self, result: Result) -> None:
        counts = self._counts[result.method]
        counts[result.verdict] += 1
        counts["solved"] += result.solved
        counts["wrong"] += is_wrong(result)

    def _line(self, result: Result) -> str:
        """Make a line such as `3/18  auto  demo: digits-fc.onnx fc-5-breaks.vnnlib  sat  0.01 s`."""
        done = f"{self.ended + self.kept:>{len(str(self._total))}}/{self._total}"
        files = escape(f"{result.benchmark}: {Path(result.onnx).name} {Path(result.vnnlib).name}")
        why = result.error or (result.reason if not result.solved else "")
        why = f"  ({escape(why)})" if why else ""
        verdict = f"[{COLOURS[result.verdict]}]{result.verdict}[/]"
        return f"{done}  {result.method}  {files}  {verdict}  {result.total:.2f} s{why}"

    def _certificate(self, state: Mapping[str, Any]) -> str:
        """Make a line such as `      certificate: DIR/…npcert, 37 leaves, 494 bytes, checked: valid`."""
        line, indent = escape(Certificate(**state).line), " " * (2 * len(str(self._total)) + 3)
        return f"{indent}[bold red]{line}[/]" if state["checked"] is False else f"{indent}{line}"

    def _check(self, result: Result) -> None:
        """Print a red line where an answer contradicts what is known, or another method's."""
        if not result.solved:
            return
        name = escape(f"{result.benchmark}: {result.onnx} {result.vnnlib}")
        if is_wrong(result):
            self._say(
                f"[bold red]CONTRADICTION: {name}: known to be {result.truth}, {result.verdict} by {result.method}[/]"
            )
        self._said[result.instance][result.verdict] = result.method
        other = OPPOSITE[result.verdict]
        if other in self._said[result.instance]:
            by = self._said[result.instance][other]
            self._say(f"[bold red]CONTRADICTION: {name}: {other} by {by}, {result.verdict} by {result.method}[/]")

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True, highlight=False)

    def tables(self) -> Group:
        """Make the tables of what each worker does, and of the counts of each method so far, and the bar below."""
        width = self._console.width
        return Group(self._workers(width), self._methods(width), self.line(width))

    def line(self, width: int) -> str:
        """Make the line, such as `████░░░░ · 7 of 18 runs · 12 s · about 20 s left`."""
        done, now = self.ended + self.kept, time.monotonic()
        each = (now - self._began) / self.ended if self.ended else None
        left = "" if each is None else f"about {duration(each * (self._total - done))} left"
        parts = [
            (2, bar(done, self._total)),
            (0, f"{done} of {self._total} runs"),
            (3, duration(now - self._began)),
            (1, left),
        ]
        return fitting_line(parts, width)

    def _workers(self, width: int) -> Table:
        rows = []
        for number, (phase, job, since) in self._at.items():
            took = f"{time.monotonic() - since:.0f}"
            if job is None:
                rows.append([str(number + 1), "", "", phase, took])
            else:
                limit = f" of {job.timeout:g}" if job.timeout is not None else ""
                files = f"{job.instance.onnx.name} {job.instance.vnnlib.name}"
                rows.append([str(number + 1), job.method, files, phase, took + limit])
        columns = [
            Column("worker", 3),
            Column("method"),
            Column("instance"),
            Column("at", 1),
            Column("seconds", 2, right=True),
        ]
        # The instance takes what the others leave, but not less than its end; then others go.
        others = sum(
            max([len(column.name), *(len(row[k]) for row in rows)]) for k, column in enumerate(columns) if k != 2
        )
        room = max(INSTANCE, width - others - BETWEEN * (len(columns) - 1) - EDGES)
        for row in rows:
            row[2] = escape(ending(row[2], room))
        return fitting_table(columns, rows, width)

    def _methods(self, width: int) -> RenderableType:
        """Make the counts: as a table, or where that is too wide, a line for each method with those that are not 0."""
        names = ("solved", *VERDICTS, "wrong")
        longest = max(map(len, self._counts), default=0)
        if longest + sum(map(len, names)) + BETWEEN * len(names) + EDGES <= width:
            columns = [Column("method"), *(Column(name, right=True) for name in names)]
            rows = [
                [method, *(_count(name, counts[name]) for name in names)] for method, counts in self._counts.items()
            ]
            return fitting_table(columns, rows, width)
        lines = []
        for method, counts in self._counts.items():
            said = [f"{counts[name]} {name}" for name in names if counts[name]] or ["nothing yet"]
            lines.append(f"[bold]{escape(method)}[/]: {', '.join(said)}")
        return Group(*lines)


def _count(name: str, count: int) -> str:
    return f"[bold red]{count}[/]" if name == "wrong" and count else str(count)
