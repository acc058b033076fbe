"""How much fits: the one place that turns free memory into chunk sizes, within what the run allows itself."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from netproof.bounds.windows.plan import widest
from netproof.core.machine import host
from netproof.core.machine.allowance import allowance, is_out_of_memory
from netproof.errors import OutOfMemory
from netproof.model.graph import Graph

CPU_BUDGET = 1 << 27  # bytes for the tensors of one pass on a CPU; more gains nothing and delays a deadline
GPU_SHARE = 0.4  # of the free memory, for one pass
GPU_ENOUGH = 1 << 31  # bytes of a pass for many neurons that keep a GPU busy; more gains nothing
AT_HAND = 0.4  # of the device's free memory, for sub-domains as they are searched
CPU_AT_HAND = 1 << 28  # bytes of these on a CPU, where those that wait are in the same memory
A_SLICE = {"cpu": 1 << 20, "cuda": 1 << 26}  # numbers of many that are computed with one after the other: a tenth of a
# second on a CPU core, so that the deadline is seen in time, and enough to keep a GPU busy
A_CLIMB = 1 << 28  # entries of all nodes that are climbed at once, at most: more gains nothing and delays a deadline
MOVED = 1 << 26  # bytes of sub-domains that are moved at a time
WAITING = 0.4  # of the host's memory that is free or theirs, for sub-domains that wait
OWN = 3 << 27  # bytes of the host that Python, torch and onnxruntime take by themselves
# Of a GPU's memory, where to run out costs no more than the attempt, of a cap on the host's beyond OWN, or of what is
# left of the host's.
A_WHILE = 0.75
SPARE, SPARE_PART = 1 << 29, 32  # bytes of the host's memory that stay free, or one in so many of all there are

T = TypeVar("T")


def budget(device: torch.device) -> int:
    """Return the bytes that one pass may hold."""
    given = allowance()
    if device.type == "cuda":
        return int(gpu_memory(device) * GPU_SHARE * given.share)
    cap = given.caps.host
    most = CPU_BUDGET if cap is None else min(CPU_BUDGET, max(cap // 64, (cap - OWN) // 4))
    return int(most * given.share)


def entries_at_once(device: torch.device) -> int:
    """Return how many float64 of a large batch to compute with at once, where several as large are held."""
    return max(1, min(A_SLICE[device.type], budget(device) // (8 * torch.float64.itemsize)))


def pieces(count: int, each: int, device: torch.device) -> list[slice]:
    """Return slices of `count` things of `each` bytes, of so many as are moved at a time."""
    size = max(1, min(MOVED, budget(device)) // max(1, each))
    return [slice(begin, begin + size) for begin in range(0, count, size)]


def gpu_memory(device: torch.device) -> int:
    """Return the bytes of a GPU's memory that this process may still fill, with what torch holds of it unused."""
    free, _ = torch.cuda.mem_get_info(device)
    stats = torch.cuda.memory_stats_as_nested_dict(device)  # to ask for each by its name takes ten times as long
    reserved, used = (int(stats[kind]["all"]["current"]) for kind in ("reserved_bytes", "allocated_bytes"))
    cap = allowance().caps.gpu
    return free + reserved - used if cap is None else max(0, min(free + reserved, cap) - used)


def host_memory() -> int:
    """Return the bytes of the host's memory that this process may still take without harm."""
    cap = allowance().caps.host
    return host.left() if cap is None else max(0, min(host.left(), cap - host.taken()))


def rows_that_fit(graph: Graph, start: int, device: torch.device, dtype: torch.dtype, *, grad: bool) -> int:
    """Return how many rows a backward pass from `start` may carry at once.

    A pass without gradients holds a few tensors of the widest node; with gradients, a few of every node.
    """
    sizes = [graph.nodes[i].size for i in graph.ancestors[start]]
    entries = 4 * sum(sizes) if grad else 8 * max(sizes)
    return max(1, budget(device) // (entries * dtype.itemsize))


def targets_that_fit(width: int, device: torch.device) -> int:
    """Return how many targets may be asked about in one pass, each with rows of `width` numbers in all.

    Several tensors are as large as all rows: what the widest node holds for them comes on top, some at a time.
    """
    return max(1, budget(device) // (8 * width * torch.float64.itemsize))


def numbers_in_rows(device: torch.device) -> int:
    """Return how many numbers the rows of all targets of a question may have: for each part there is a root."""
    return more_than_a_pass(device, targets_that_fit(1, device))


def graph_climbs_that_fit(graph: Graph, start: int, device: torch.device) -> int:
    """Return how many bounds of node `start` may be climbed at once by the graph itself."""
    entries = sum(graph.nodes[i].size for i in graph.ancestors[start])
    return max(1, min(rows_that_fit(graph, start, device, torch.float32, grad=True), A_CLIMB // entries))


def places_that_fit(graph: Graph, start: int, device: torch.device, dtype: torch.dtype) -> int:
    """Return how many forms, each of one entry of node `start`, a backward pass may carry at once.

    As `rows_that_fit` without gradients, by what such a form is kept as.
    """
    enough = budget(device) if device.type == "cpu" else min(budget(device), GPU_ENOUGH)
    return max(1, enough // (8 * widest(graph, start) * dtype.itemsize))


def points_that_fit(graph: Graph, device: torch.device, rows: int) -> int:
    """Return how many points may be evaluated at once with their gradients, float32: values of every node of each.

    rows: numbers in the rows that each is judged by, which may be more: a chain of constraints has the square of it.
    On a GPU by all the memory there is, as `holds` says.
    """
    most = _most(device) if device.type == "cuda" else budget(device)
    return max(1, most // (3 * max(graph.entries, rows) * torch.float32.itemsize))


def more_than_a_pass(device: torch.device, rows: int) -> int:
    """Return how many rows may be held at once where it must be many, for so many that one pass is given by choice."""
    return max(rows, rows * _most(device) // max(1, budget(device)))


def holds(size: int, device: torch.device) -> bool:
    """Say whether something of `size` bytes may stay in memory for as long as a search lasts.

    By all the memory there is, not by what is free, so that the same question takes the same way again.
    """
    return size <= _most(device)


def holds_for_a_while(size: int, device: torch.device, held: int = 0) -> bool:
    """Say whether `size` bytes may be in memory while a root is built and nothing else is large; `held`: that are."""
    given = allowance()
    if device.type == "cuda":
        whole = torch.cuda.mem_get_info(device)[1]
        return size <= A_WHILE * given.share * (whole if given.caps.gpu is None else min(whole, given.caps.gpu))
    most = host.most() // 4 if given.caps.host is None else A_WHILE * (given.caps.host - OWN)
    return size <= most * given.share and size - held <= A_WHILE * host_memory()


def _most(device: torch.device) -> int:
    caps, share = allowance().caps, allowance().share
    if device.type == "cuda":
        whole, cap, part = torch.cuda.mem_get_info(device)[1], caps.gpu, 4
    else:
        whole, cap, part = host.most(), caps.host, 8
    return int((whole if cap is None else min(whole, cap)) * share) // part


def climbs_that_fit(neurons: int, columns: int, trunk: int, device: torch.device) -> int:
    """Return how many condensed bounds may be climbed at once: parameters, moments, coefficients and values of each."""
    entries = 24 * neurons + 6 * columns + 6 * trunk
    return max(1, budget(device) // (entries * torch.float32.itemsize))


def domains_that_fit(each: int, device: torch.device) -> int:
    """Return how many sub-domains of `each` bytes may be at hand on the device, as they are searched."""
    if device.type != "cuda":
        return max(1, min(CPU_AT_HAND, int(host_memory() * AT_HAND)) // max(1, each))
    return max(1, int(gpu_memory(device) * AT_HAND) // max(1, each) // 2)  # growing takes a second copy


def may_wait(held: int) -> bool:
    """Say whether sub-domains of `held` bytes may wait in the host's memory, by what is free of it now.

    Others may take from the same memory, also after this was asked.
    """
    left = host_memory()
    return held <= WAITING * (left + held) and left > 2 * _spare()


def is_short() -> bool:
    """Say whether the host's memory is nearly used up, by whomever."""
    return host_memory() < _spare()


def _spare() -> int:
    """Return the bytes of the host's memory that are left to whatever else comes."""
    cap = allowance().caps.host
    return min(SPARE, (host.most() if cap is None else min(cap, host.most())) // SPARE_PART)


def attempted(attempt: Callable[[], T], device: torch.device) -> T | None:
    """Do something that returns anything but None; None where memory ran out, and what was held is given back.

    Every error of memory is caught here: outside of a handler, as an error holds what its frames held. Once in a run
    things that hold each other, as of earlier questions, are given back too: to look for them takes tenths of a second.
    """
    try:
        return attempt()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    if not allowance().tidied:
        allowance().tidied = True
        gc.collect()
    release(device)
    return None


def with_less(attempt: Callable[[], T], device: torch.device) -> T:
    """Do something; each time memory runs out once more, from the start, with half as much at once.

    Raises OutOfMemory once halving is of no use. What the attempt holds must not outlive it, nor anything that it did.
    """
    while True:
        done = attempted(lambda: (attempt(),), device)
        if done is not None:
            return done[0]
        if not allowance().halve():
            raise OutOfMemory


def release(device: torch.device) -> None:
    """Give back what is held of the device's memory unused: what is asked for next may be of another size."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    else:
        host.trim()
