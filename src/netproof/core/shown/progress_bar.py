"""Progress for scripts and notebooks: `with netproof.progress_bar() as bar: netproof.verify(…, progress=bar)`."""

from __future__ import annotations

import dataclasses
import importlib
import math
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

from netproof.core.shown.line import Pace, fitting_line

EVERY = 0.1  # seconds between two looks at a terminal or a notebook
PLAIN = 5.0  # seconds between two lines elsewhere
WIDE = 100  # characters of a line in a notebook


def progress_bar(file: IO[str] | None = None) -> ProgressBar:
    """Return what shows progress as it goes: a line that changes in a terminal or a notebook, a line now and then else.

    Give it to `verify`, `bounds` or `certify` as `progress`, within a `with` block, which clears the line at its end.
    file: where it is written, stderr unless given.
    """
    return ProgressBar(file)


class ProgressBar:
    """Shows each progress that it is called with; one of `verify` as well as one of `certify`."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._began = time.monotonic()
        self._pace = Pace(self._began)
        self._next = 0.0
        self._width = 0  # of the line that stands on the terminal
        self._handle: Any = None  # of the line in a notebook
        self._latest: dict[str, Any] | None = None

    def __call__(self, progress: Any) -> None:
        told = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in dataclasses.asdict(progress).items()
        }
        if self._latest is None or told.get("seconds", 0.0) < self._latest.get("seconds", 0.0):
            self._began = time.monotonic()  # another run begins
            self._pace = Pace(self._began)
        self._latest = told
        self._pace.note(told)
        if time.monotonic() >= self._next:
            self._show()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Clear the line; in a notebook it stays, as the last that was said."""
        if self._latest is not None and self._handle is not None:
            self._show()
        if self._width:
            self._write(f"\r{' ' * self._width}\r")
            self._width = 0

    def line(self, width: int | None = None) -> str:
        """Return what there is to say."""
        latest = self._latest or {"phase": "load"}
        remaining = latest.get("remaining")
        ends = None if remaining is None else time.monotonic() + remaining
        return fitting_line(self._pace.parts(latest, ends=ends), width)

    def _show(self) -> None:
        notebook = _notebook()
        if notebook is not None and self._file is None:
            self._next = time.monotonic() + EVERY
            shown = {"text/plain": self.line(WIDE)}
            if self._handle is None:
                self._handle = notebook(shown, raw=True, display_id=True)
            else:
                self._handle.update(shown, raw=True)
        elif self._stream.isatty():
            self._next = time.monotonic() + EVERY
            line = self.line(shutil.get_terminal_size().columns - 1)
            self._write(f"\r{line.ljust(self._width)}")
            self._width = len(line)
        elif time.monotonic() >= self._began + PLAIN:
            self._next = time.monotonic() + PLAIN
            self._write(f"netproof: {self.line()}\n")

    @property
    def _stream(self) -> IO[str]:
        return sys.stderr if self._file is None else self._file

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _notebook() -> Callable[..., Any] | None:
    """Return what displays something in a notebook; None where there is none."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    found: Callable[..., Any] = importlib.import_module("IPython.display").display
    return found
