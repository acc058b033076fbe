"""How many processors this process may really use: a container's share, not the machine's count."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SMALL = 2048  # entries over all nodes: below this a second thread costs more than it brings


def available_cpus() -> int:
    """The lesser of the affinity mask and the cgroup quota (rounded up), at least one."""
    affinity = affinity_cpus()
    quota = cgroup_quota()
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def threads_for(entries: int, threads: int, asked: int | None) -> int:
    """How many threads are worth their while for a network with so many entries over all nodes."""
    return threads if entries > SMALL else 1


def affinity_cpus() -> int:
    """Processors that the scheduler may put this process on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def cgroup_quota(proc: Path = Path("/proc"), sys: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Processors' worth of time that the control groups grant, None without a limit.

    Limits hold for the whole subtree, so the smallest one on the way to the root counts.
    """
    quotas = [quota for folder in _cgroup_folders(proc, sys) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _cgroup_folders(proc: Path, sys: Path) -> Iterator[Path]:
    """This process's control group and its ancestors, under version 2 and version 1 mounts."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        if controllers == "":
            roots = [sys, sys / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [sys / "cpu", sys / "cpu,cpuacct", sys / "cpuacct,cpu"]
        else:
            continue
        parts = PurePosixPath(group).parts[1:]
        if ".." in parts:  # the group lies outside the namespace's root: only the root can be read
            parts = ()
        for root in roots:
            for depth in range(len(parts), -1, -1):
                yield root.joinpath(*parts[:depth])


def _quota_of(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    try:
        limit, every = int(quota), int(period)
    except ValueError:  # "max", or no such file
        return None
    return limit / every if limit > 0 and every > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
