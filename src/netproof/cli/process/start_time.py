"""The time when the command began, so that a time limit counts all of its start-up, however long that took.

The kernel knows when it made this process, and that is when the command began, except in two cases. A program that
calls the command from Python ran before it: there the clock starts with the call. And a process that
replaced a shell (exec) is as old as the shell: it shows in children that this process has waited for although
netproof has started none yet.
"""

from __future__ import annotations

import os
import time

# Seconds: where this process had children already, a longer age is that of a shell that it replaced: not counted.
SHORT_LIFE = 2.0

_began: float | None = None  # of the command that is this process, on the clock of `time.monotonic()`


def start_clock(entered: float, *, whole_process: bool) -> None:
    """Let the clock start with this process, or where that is not the command, with its call: `entered`."""
    global _began
    age = _age() if whole_process else 0.0
    counts = age > 0.0 and (age <= SHORT_LIFE or not _had_children())
    _began = min(entered, time.monotonic() - age) if counts else entered


def command_started() -> float:
    """Return when the command began, on the clock of `time.monotonic()`: now, where no clock was started."""
    return time.monotonic() if _began is None else _began


def _age() -> float:
    """Return the seconds since the kernel made this process; 0 where it does not say."""
    try:
        with open("/proc/self/stat") as file:
            stat = file.read()
        ticks = int(stat.rpartition(")")[2].split()[19])  # field 22; the name before it may hold spaces
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


def _had_children() -> bool:
    """Say whether this process has waited for a child already; the kernel still knows after exec."""
    try:
        import resource
    except ImportError:  # no such count, and no exec that keeps the process
        return False
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
