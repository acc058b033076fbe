"""Versions of what an answer rests on, read from the installation: importing would take seconds."""

from __future__ import annotations

import contextlib
import sys

from netproof._version import __version__


def versions() -> dict[str, str | None]:
    """List the versions of what every answer rests on."""
    return {"netproof": __version__, **{name: installed(name) for name in ("torch", "onnxruntime", "highspy")}}


def installed(name: str) -> str | None:
    """Find the version of an installed distribution; onnxruntime has a second name with GPU support."""
    import importlib.metadata  # a sixth of the start of the command line, which needs it seldom

    for candidate in (name, f"{name}-gpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(candidate)
    return None


def accelerator(device: str) -> dict[str, str | None]:
    """Name the CUDA version that torch was built with, and the GPU that was used, once the engine has run."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"cuda": None, "gpu": None}
    used = device.startswith("cuda")
    return {"cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(device) if used else None}
