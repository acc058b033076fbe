"""A GPU's memory: how much torch may take of it in this process."""

from __future__ import annotations

import torch

from netproof.core.machine.allowance import allowance

_capped: set[int] = set()  # devices on which a run of ours set a cap


def obey_cap(device: torch.device) -> None:
    """Let torch refuse what is beyond the run's cap, as it refuses what is not there; lift the cap of a run before.

    The driver's own share (some hundred megabytes for its context) is not torch's to count.
    """
    if device.type != "cuda":
        return
    index = torch.cuda.current_device() if device.index is None else device.index  # torch asks for a number here
    cap = allowance().caps.gpu
    if cap is not None:
        whole = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap / whole), index)
        _capped.add(index)
    elif index in _capped:
        torch.cuda.set_per_process_memory_fraction(1.0, index)
        _capped.discard(index)


def peak(device: torch.device) -> int | None:
    """Return the most bytes that tensors have taken of a GPU since the peak was last reset; None: it is no GPU."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
