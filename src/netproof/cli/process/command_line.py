"""The command line that netproof obeys, whether a shell or Python gave it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

_given: ContextVar[tuple[str, ...]] = ContextVar("given", default=())


def note_arguments(arguments: Sequence[str]) -> None:
    """Keep what is obeyed from now on."""
    _given.set(tuple(arguments))


def command_line() -> str:
    """Return the command as a shell takes it."""
    return shlex.join(["netproof", *_given.get()])
