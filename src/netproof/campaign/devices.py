"""What a campaign may compute on, found out without importing torch into this process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

from netproof.core.cpu import affinity_cpus, available_cpus
from netproof.errors import DeviceError, UsageError

PROBE = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


@functools.cache
def gpus() -> tuple[str, ...]:
    """The GPUs that torch sees, each as CUDA_VISIBLE_DEVICES names it."""
    done = subprocess.run([sys.executable, "-P", "-c", PROBE], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
        raise DeviceError(f"torch does not start: {last}", remedy="run `netproof doctor`")
    count = int(done.stdout.split()[-1])
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple(named[:count]) if len(named) >= count else tuple(str(index) for index in range(count))


def resolve(device: str) -> str:
    """The kind of device that is meant: "auto" is the GPU where there is one."""
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device: unknown device {device!r}", remedy="use auto, cpu or cuda")
    if device == "cpu" or (device == "auto" and not gpus()):
        return "cpu"
    if not gpus():
        raise DeviceError("no CUDA device is available", remedy="use --device cpu, or run `netproof doctor`")
    return "cuda"


def default_workers(device: str, threads: int | None) -> int:
    """One for each GPU; on the CPU one for each group of `threads` processors, or one that has them all."""
    if device == "cuda":
        return len(gpus())
    return 1 if threads is None else max(1, available_cpus() // threads)


def core_groups(workers: int, threads: int) -> list[tuple[int, ...] | None]:
    """Processors of its own for each worker, so that one's runs do not slow another's.

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
