"""From a device's name to a device."""

from __future__ import annotations

import torch

from netproof.errors import DeviceError, UsageError


def resolve_device(name: str) -> torch.device:
    """Find the device that is meant: "auto" is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"no device {name!r}", remedy="one of: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("no CUDA device is available", remedy="use --device cpu, or run `netproof doctor`")
    return torch.device(name)
