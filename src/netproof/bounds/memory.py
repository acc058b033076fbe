"""How much fits: the one place that turns free memory into chunk sizes."""

from __future__ import annotations

import torch

from netproof.model.graph import Graph

CPU_BUDGET = 1 << 27  # bytes for the tensors of one pass on a CPU; more gains nothing and delays a deadline
GPU_SHARE = 0.4  # of the free memory


def budget(device: torch.device) -> int:
    """Bytes that one pass may hold."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int((free + cached) * GPU_SHARE)
    return CPU_BUDGET


def rows_that_fit(graph: Graph, start: int, device: torch.device, dtype: torch.dtype, *, grad: bool) -> int:
    """How many rows a backward pass from `start` may carry at once.

    A pass without gradients holds a few tensors of the widest node; with gradients, a few of every node.
    """
    sizes = [graph.nodes[i].size for i in graph.ancestors[start]]
    entries = 4 * sum(sizes) if grad else 8 * max(sizes)
    return max(1, budget(device) // (entries * dtype.itemsize))
