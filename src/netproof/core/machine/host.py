"""The host's memory: what this process may take in all, what is left of that now, and what it has taken.

A container's limit may stand in a control group of version 1 or 2, in one above it, or in the process's own limits. It
is shared with other processes, so what is left is asked again whenever much is to be taken.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from netproof.core.machine.control_groups import PROC, SYS, files, read
from netproof.errors import UsageError

UNKNOWN = 4 << 30  # bytes that a machine is taken to have that does not say
LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))  # of versions 2 and 1
RECLAIMED = ("inactive_file", "total_inactive_file")  # pages of files: counted as taken, and given back when asked for


def most(proc: Path = PROC, groups: Path = SYS) -> int:
    """Return the bytes that this process may have at best, whatever others take now."""
    whole = _field(read(proc / "meminfo"), "MemTotal") or _physical()
    return min([whole, *(limit for limit, _ in _limits(proc, groups))])


def left(proc: Path = PROC, groups: Path = SYS) -> int:
    """Return the bytes that this process may still take now without harm."""
    told = read(proc / "meminfo")
    named = (_field(told, name) for name in ("MemAvailable", "MemFree"))
    available = next((size for size in named if size is not None), _physical() // 2)
    return max(0, min([available, *(limit - taken for limit, taken in _limits(proc, groups))]))


def taken(proc: Path = PROC) -> int:
    """Return the bytes of memory that this process has now; 0 where the system does not say."""
    return _field(read(proc / "self" / "status"), "VmRSS") or 0


def peak(proc: Path = PROC) -> int:
    """Return the most bytes of memory that this process has had; 0 where the system does not say."""
    found = _field(read(proc / "self" / "status"), "VmHWM") or 0
    if found or sys.platform == "win32":
        return found
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def trim() -> None:
    """Give back to the system what was freed of this process's heap, where its C library can do so."""
    give_back = _malloc_trim()
    if give_back is not None:
        give_back(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    return found


def refuse_if_taken(cap: int | None) -> None:
    """Raise UsageError where this process takes more than a cap on the host's memory before it has begun."""
    if cap is None:
        return
    have = taken()
    if cap <= have:
        mega = -(-have // (1 << 20))
        raise UsageError(
            f"memory: {cap} bytes of the host are less than the {mega} MiB that the process itself takes",
            remedy=f"give more, as host={2 * mega}M",
        )


def _limits(proc: Path, groups: Path) -> Iterator[tuple[int, int]]:
    """Yield each limit that holds for this process, and what is taken of it."""
    for name, current in LIMITS:
        for file in files(name, "memory", ("memory",), proc, groups):
            limit = _number(read(file))
            if limit is not None:
                used = _number(read(file.with_name(current))) or 0
                yield limit, max(0, used - _reclaimed(read(file.with_name("memory.stat"))))
    for limit, field in ((_own("RLIMIT_AS"), "VmSize"), (_own("RLIMIT_DATA"), "VmData")):
        if limit is not None:
            yield limit, _field(read(proc / "self" / "status"), field) or 0


def _reclaimed(stat: str) -> int:
    found = dict(line.split(maxsplit=1) for line in stat.splitlines() if " " in line)
    return max((int(found.get(name, 0)) for name in RECLAIMED), default=0)


def _own(name: str) -> int | None:
    """Return a limit of this process by its name; None where there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _field(text: str, name: str) -> int | None:
    """Read bytes off a line such as `MemTotal: 24684100 kB`; None where there is none of this name."""
    found = re.search(rf"^{name}:\s*(\d+) kB$", text, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _number(text: str) -> int | None:
    """Read a number; None for "max", or where there is no such file."""
    return int(text) if text.strip().isdigit() else None


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN
