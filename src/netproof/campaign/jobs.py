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

from netproof.campaign.instances import Instance
from netproof.certificate.wish import Wish
from netproof.core.files import find_file, sha256
from netproof.core.machine.allowance import read_caps
from netproof.core.machine.versions import build
from netproof.errors import NetproofError, UsageError
from netproof.methods.registry import method_info

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
    memory: str | None = None  # caps on the memory of a run, as `verify` takes them; None: what is free
    command: str | None = None  # the command line that asked for it, for the report
    wish: Wish | None = None  # for certificates of proofs

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"a job needs a device, not {self.device!r}", remedy="use cpu or cuda")
        method_info(self.method).options(dict(self.options))
        read_caps(self.memory)

    @property
    def all_options(self) -> Mapping[str, Any]:
        """Return every field of the method with its value: what was given, or the default."""
        return method_info(self.method).options(dict(self.options))

    @property
    def asked(self) -> dict[str, Any]:
        """Return how it is asked, without the files."""
        names = ("method", "timeout", "device", "threads", "seed", "attack")
        caps = {} if self.memory is None else {"memory": self.memory}  # without them a key is as it always was
        return {**{name: getattr(self, name) for name in names}, "options": self.all_options, **caps}

    @functools.cached_property
    def hashes(self) -> tuple[str, str]:
        """Hash model and property as they are on disk; empty where there is no such file.

        SHA-256 of the file; for a model with external data, and for several models, over the hashes of all files.
        """
        models = [model_hash(path) for _, path in self.instance.networks]
        several = hashlib.sha256(" ".join(models).encode()).hexdigest() if all(models) else ""
        return several if models else model_hash(self.instance.onnx), file_hash(self.instance.vnnlib)

    @functools.cached_property
    def key(self) -> str:
        """Return a key, the same only for the same question asked in the same way, wherever its files are."""
        contents = {"hashes": self.hashes, **self.asked, "netproof": build()}
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def model_hash(path: Path) -> str:
    """Hash a network as `Network.identity` does: over the file and those beside it that it needs; "" if missing."""
    file = find_file(path)
    if file is None:
        return ""
    from netproof.model.origin.external import ExternalFile, identity

    try:
        needed = _external(file, *_state(file))
    except NetproofError:  # it cannot be read, which the worker will say
        needed = ()
    return identity(file_hash(file), [ExternalFile(str(part), file_hash(part)) for part in needed])


def file_hash(path: Path) -> str:
    """Hash the file, or its .gz; a file is hashed once while it stays as it is; "" where there is none."""
    file = find_file(path)
    return "" if file is None else _hash(file, *_state(file))


def _state(file: Path) -> tuple[int, int]:
    stat = os.stat(file)
    return stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=4096)
def _hash(file: Path, modified: int, size: int) -> str:
    return sha256(file)


@functools.lru_cache(maxsize=4096)
def _external(file: Path, modified: int, size: int) -> tuple[Path, ...]:
    """Return the files beside a model that it needs."""
    from netproof.model.origin.external import external_files

    return tuple(Path(found.path) for found in external_files(file))
