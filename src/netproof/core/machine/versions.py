"""Versions of what an answer rests on, read from the installation: importing would take seconds."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from pathlib import Path

from netproof._version import __version__

PACKAGE = Path(__file__).parents[2]
NO_ANSWERS = ("demo", "report")  # what answers look like, and where examples are, changes none


@functools.cache
def code() -> str:
    """Return a hash of netproof's own sources, those that an answer may depend on.

    Between two releases the version stays, and what it answers, and how fast, does not.
    """
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.parts[0] not in NO_ANSWERS:
            found.update(f"{name.as_posix()}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:8]


def build() -> str:
    """Name this very netproof: its version and its sources, as 0.2.0+1a2b3c4d."""
    return f"{__version__}+{code()}"


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
