"""The command line that netproof obeys, whether a shell or Python gave it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from contextvars import ContextVar

_given: ContextVar[tuple[str, ...]] = ContextVar("given", default=())


def note_arguments(arguments: Sequence[str]) -> None:
    """Keep what is obeyed from now on."""
    _given.set(tuple(arguments))


def command_line(without: Collection[str] = ()) -> str:
    """Return the command as a shell takes it; without: options that are left out, each with its value."""
    words, kept = iter(_given.get()), ["netproof"]
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in without:
            kept.append(word)
        elif not equals:
            next(words, None)
    return shlex.join(kept)
