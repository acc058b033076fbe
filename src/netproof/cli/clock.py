"""When this process began, so that a time limit counts the start of the interpreter too."""

from __future__ import annotations

import os
import time
from pathlib import Path

# A process that replaced a shell (exec) is as old as the shell; an age beyond this is not start-up.
OLDEST_START_UP = 2.0


def process_started() -> float:
    """The start of this process on the clock of `time.monotonic()`."""
    age = _age()
    return time.monotonic() - (age if 0.0 <= age <= OLDEST_START_UP else 0.0)


def _age() -> float:
    """Seconds since the kernel made this process; 0 where it does not say."""
    try:
        stat = Path("/proc/self/stat").read_text()
        ticks = int(stat.rpartition(")")[2].split()[19])  # field 22; the name before it may hold spaces
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0
