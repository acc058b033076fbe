"""The number of processors that this process may really use: a container's share, not the machine's count."""

from __future__ import annotations

import collections
import math
import os
import time
from pathlib import Path

from netproof.core.machine.control_groups import files, read

MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")  # where version 1 of control groups may have its quotas
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # by which libraries size their pools of threads
SMALL = 2048  # entries over all nodes up to which a second thread costs more than it gains
LOOKS, LASTING = 5, 10.0  # the last so many looks at the machine's load count, if not older than so many seconds

_looks: collections.deque[tuple[float, int]] = collections.deque(maxlen=LOOKS)  # when, and what was running then


def available_cpus() -> int:
    """Return the lesser of the affinity mask and the cgroup quota (rounded up), at least one."""
    affinity = affinity_cpus()
    quota = cgroup_quota()
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def threads_for(entries: int, threads: int | None) -> int:
    """Return the threads for a network with so many entries over all nodes: 1 for a small one, else `threads` if given.

    Threads that wait for each other spin. Where other work wants the same processors, each such wait lasts until the
    scheduler's next turn: measured on two processors with ten other processes, two threads took 5 to 17 times as long
    as one. So by default only processors that are idle now are used.
    """
    if entries <= SMALL:
        return 1
    if threads is not None:
        return threads
    look_around()
    return max(1, min(available_cpus(), (os.cpu_count() or 1) - busy_elsewhere()))


def look_around(proc: Path = Path("/proc")) -> None:
    """Note how many threads of the whole machine run or want to, without the one that asks.

    Called at times while a run is prepared, so that no caller has to wait for several looks.
    """
    running = read(proc / "loadavg").split()[3:4]
    if running:
        _looks.append((time.monotonic(), int(running[0].partition("/")[0]) - 1))


def busy_elsewhere() -> int:
    """Return how many other threads the recent looks saw; 0 where the kernel does not say.

    The load average would not do: it includes a minute of this process's own work. One look is chance, so the middle
    one of several counts.
    """
    since = time.monotonic() - LASTING
    counts = sorted(count for when, count in _looks if when >= since)
    return max(0, counts[len(counts) // 2]) if counts else 0


def affinity_cpus() -> int:
    """Count the processors that the scheduler may put this process on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def cgroup_quota(proc: Path = Path("/proc"), sys: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return how many processors' time the control groups grant, None without a limit.

    Limits hold for the whole subtree, so the smallest one on the way to the root counts.
    """
    told = [read(file).strip().partition(" ")[::2] for file in files("cpu.max", "cpu", MOUNTS, proc, sys)]
    old = files("cpu.cfs_quota_us", "cpu", MOUNTS, proc, sys)
    told += [(read(file), read(file.with_name("cpu.cfs_period_us"))) for file in old]
    return min((quota for pair in told if (quota := _quota(*pair)) is not None), default=None)


def _quota(quota: str, period: str) -> float | None:
    """Return quota over period; None where there is no limit."""
    try:
        limit, every = int(quota), int(period)
    except ValueError:  # "max", or no such file
        return None
    return limit / every if limit > 0 and every > 0 else None
