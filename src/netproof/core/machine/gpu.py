"""A GPU's memory: how much torch may take of it in this process."""

from __future__ import annotations

import torch

from netproof.core.machine.allowance import allowance

_capped: set[int] = set()  # devices on which a run of ours set a cap


def obey_cap(device: torch.device) -> None:
    """Let torch refuse what is beyond the run's cap, as it refuses what is not there, until `lift_caps`.

    The driver's own share (some hundred megabytes for its context) is not torch's to count.
    """
    cap = allowance().caps.gpu
    if device.type == "cuda" and cap is not None:
        index = torch.cuda.current_device() if device.index is None else device.index  # torch asks for a number here
        whole = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap / whole), index)
        _capped.add(index)


def lift_caps() -> None:
    """Let torch take all there is again."""
    while _capped:
        torch.cuda.set_per_process_memory_fraction(1.0, _capped.pop())


def peak(device: torch.device) -> int | None:
    """Return the most bytes that tensors have taken of a GPU since the peak was last reset; None: it is no GPU."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
