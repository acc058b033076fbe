"""The devices of a campaign, found without importing torch into this process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from netproof.campaign.jobs import Job
from netproof.core.cpu import POOLS, affinity_cpus, available_cpus
from netproof.errors import DeviceError, UsageError

PROBE = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


@functools.cache
def gpus() -> tuple[str, ...]:
    """Return the GPUs that torch sees, each as CUDA_VISIBLE_DEVICES names it; DeviceError if torch does not start."""
    done = subprocess.run([sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise DeviceError(f"torch does not start: {last}", remedy="run `netproof doctor`")
    count = int(done.stdout.split()[-1])
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple(named[:count]) if len(named) >= count else tuple(str(index) for index in range(count))


def resolve(device: str) -> str:
    """Find the kind of device that is meant: "auto" is the GPU where there is one."""
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device: unknown device {device!r}", remedy="use auto, cpu or cuda")
    if device == "cpu" or (device == "auto" and not gpus()):
        return "cpu"
    if not gpus():
        raise DeviceError("no CUDA device is available", remedy="use --device cpu, or run `netproof doctor`")
    return "cuda"


def default_workers(device: str, threads: int | None) -> int:
    """Return one worker per GPU; on the CPU one per group of `threads` processors, or one that has them all."""
    if device == "cuda":
        return len(gpus())
    return 1 if threads is None else max(1, available_cpus() // threads)


def core_groups(workers: int, threads: int) -> list[tuple[int, ...] | None]:
    """Give each worker processors of its own, so that one's runs do not slow another's.

    None where there are too few for all, or where a quota grants time rather than certain processors.
    """
    if (
        not hasattr(os, "sched_getaffinity")
        or workers * threads > affinity_cpus()
        or available_cpus() < affinity_cpus()
    ):
        return [None] * workers
    cores = sorted(os.sched_getaffinity(0))
    return [tuple(cores[i * threads : (i + 1) * threads]) for i in range(workers)]


@dataclass(frozen=True)
class Setup:
    """What a worker is given when it starts."""

    device: str
    threads: int
    gpu: str | None = None  # as CUDA_VISIBLE_DEVICES names it
    cores: tuple[int, ...] | None = None  # processors that it is bound to

    def environment(self) -> dict[str, str]:
        """Make the environment of its process: thread pools are sized once, when the libraries are loaded."""
        own = dict.fromkeys(POOLS, str(self.threads)) | {"PYTHONUNBUFFERED": "1"}
        if self.gpu is not None:
            own["CUDA_VISIBLE_DEVICES"] = self.gpu
        return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **own}


def setups(jobs: Sequence[Job], workers: int) -> list[Setup]:
    """Share out what each worker is given: a GPU in turn where one is wanted, and its share of the processors."""
    device = "cuda" if any(job.device == "cuda" for job in jobs) else "cpu"
    asked = [job.threads for job in jobs if job.threads is not None]
    threads = max(asked, default=max(1, available_cpus() // workers))
    cards = gpus() if device == "cuda" else ()
    groups = core_groups(workers, threads)
    return [Setup(device, threads, cards[i % len(cards)] if cards else None, groups[i]) for i in range(workers)]
