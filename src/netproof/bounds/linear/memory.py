"""How much fits: the one place that turns free memory into chunk sizes."""

from __future__ import annotations

import os

import torch

from netproof.bounds.windows.plan import widest
from netproof.model.graph import Graph

CPU_BUDGET = 1 << 27  # bytes for the tensors of one pass on a CPU; more gains nothing and delays a deadline
GPU_SHARE = 0.4  # of the free memory, for one pass
GPU_ENOUGH = 1 << 31  # bytes of a pass for many neurons that keep a GPU busy; more gains nothing
FRONTIER_SHARE = 0.4  # of the free memory, on the device and on the host, for sub-domains that wait


def budget(device: torch.device) -> int:
    """Return the bytes that one pass may hold."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int((free + cached) * GPU_SHARE)
    return CPU_BUDGET


def rows_that_fit(graph: Graph, start: int, device: torch.device, dtype: torch.dtype, *, grad: bool) -> int:
    """Return how many rows a backward pass from `start` may carry at once.

    A pass without gradients holds a few tensors of the widest node; with gradients, a few of every node.
    """
    sizes = [graph.nodes[i].size for i in graph.ancestors[start]]
    entries = 4 * sum(sizes) if grad else 8 * max(sizes)
    return max(1, budget(device) // (entries * dtype.itemsize))


def places_that_fit(graph: Graph, start: int, device: torch.device, dtype: torch.dtype) -> int:
    """Return how many forms, each of one entry of node `start`, a backward pass may carry at once.

    As `rows_that_fit` without gradients, by what such a form is kept as.
    """
    enough = budget(device) if device.type == "cpu" else min(budget(device), GPU_ENOUGH)
    return max(1, enough // (8 * widest(graph, start) * dtype.itemsize))


def more_than_a_pass(device: torch.device, rows: int) -> int:
    """Return how many rows may be held at once where it must be many, for so many that one pass is given by choice."""
    return max(rows, rows * _most(device) // max(1, budget(device)))


def holds(size: int, device: torch.device) -> bool:
    """Say whether something of `size` bytes may stay in memory for as long as a search lasts.

    By all the memory there is, not by what is free, so that the same question takes the same way again.
    """
    return size <= _most(device)


def _most(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1] // 4
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _control_group(taken=False)) // 8


def climbs_that_fit(neurons: int, columns: int, trunk: int, device: torch.device) -> int:
    """Return how many condensed bounds may be climbed at once: parameters, moments, coefficients and values of each."""
    entries = 24 * neurons + 6 * columns + 6 * trunk
    return max(1, budget(device) // (entries * torch.float32.itemsize))


def domains_that_fit(each: int, device: torch.device) -> tuple[int | None, int]:
    """Return how many sub-domains of `each` bytes may wait on the device (None: it is the host), and on the host."""
    host = max(1, int(host_memory() * FRONTIER_SHARE) // max(1, each))
    if device.type != "cuda":
        return None, host
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, int(free * FRONTIER_SHARE) // max(1, each) // 2), host  # growing takes a second copy


def host_memory() -> int:
    """Return the bytes that a process may still take without harm."""
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        try:
            available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        except (AttributeError, ValueError, OSError):
            available = 4 << 30
    return min(available, _control_group(taken=True))


def _control_group(*, taken: bool) -> int:
    """Return what a container may take in all, or less what is taken; no limit where there is none to be read."""
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            most = int(file.read())
        if not taken:
            return most
        with open("/sys/fs/cgroup/memory.current") as file:
            return max(0, most - int(file.read()))
    except (OSError, ValueError):
        return 1 << 62
