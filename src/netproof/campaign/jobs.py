"""One run that is wanted: an instance, a method with its options, a limit, a device."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netproof._version import __version__
from netproof.campaign.instances import Instance
from netproof.errors import UsageError
from netproof.methods import method_info

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Job:
    """What is asked of a worker. A wrong method, field, value or device is refused when the job is made."""

    instance: Instance
    method: str
    options: tuple[tuple[str, str], ...] = ()  # fields of the method that were given, as text
    timeout: float | None = None  # seconds, loading included; None: no limit
    device: str = "cpu"  # "cpu" or "cuda": `campaign.devices.resolve` says what "auto" is
    threads: int | None = None  # None: the worker's share of the machine
    seed: int = 0
    attack: bool = True

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"a job needs a device, not {self.device!r}", remedy="use cpu or cuda")
        method_info(self.method).options(dict(self.options))

    @property
    def all_options(self) -> Mapping[str, Any]:
        """Every field of the method with its value: what was given, or the default."""
        return method_info(self.method).options(dict(self.options))

    @functools.cached_property
    def hashes(self) -> tuple[str, str]:
        """SHA-256 of model and property as they lie on disk; empty where there is no such file."""
        return file_hash(self.instance.onnx), file_hash(self.instance.vnnlib)

    @functools.cached_property
    def key(self) -> str:
        """The same for the same question asked in the same way, wherever its files lie; else different."""
        contents = {
            "hashes": self.hashes,
            "method": self.method,
            "options": self.all_options,
            "timeout": self.timeout,
            "device": self.device,
            "threads": self.threads,
            "seed": self.seed,
            "attack": self.attack,
            "netproof": __version__,
        }
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """Of the file, or of its .gz; files are hashed once while they stay as they are."""
    packed = path.with_name(f"{path.name}.gz")
    for file in (path, packed):
        if file.is_file():
            stat = os.stat(file)
            return _hash(file, stat.st_mtime_ns, stat.st_size)
    return ""


@functools.lru_cache(maxsize=4096)
def _hash(file: Path, modified: int, size: int) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
