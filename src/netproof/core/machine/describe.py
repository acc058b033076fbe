"""The machine in words, for those who read a measurement later: processor, cores, memory and system."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from netproof.core.cpu import available_cpus
from netproof.core.machine.control_groups import PROC, read
from netproof.core.machine.host import most

MODEL = ("model name", "Hardware", "cpu model")  # what /proc/cpuinfo calls a processor's name, by architecture


@functools.cache
def describe(proc: Path = PROC) -> dict[str, str]:
    """Say what this process runs on; a container's share of it where there is one."""
    logical = os.cpu_count() or 1
    usable = available_cpus()
    cores = f"{usable}" if usable == logical else f"{usable} of {logical}"
    return {
        "cpu": processor(read(proc / "cpuinfo")) or platform.processor() or platform.machine(),
        "cores": cores,
        "memory": f"{most(proc) / (1 << 30):.1f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def in_words(machine: Mapping[str, str | None]) -> str:
    """Say a machine in one line: the GPU where one was used, the processor, cores, memory and system."""
    cores, memory = machine.get("cores"), machine.get("memory")
    counted = f"{cores} core{'s' * (cores != '1')}" if cores else None
    sized = f"{memory} of memory" if memory else None
    parts = (machine.get("gpu"), machine.get("cpu"), counted, sized, machine.get("system"))
    return ", ".join(part for part in parts if part)


def processor(cpuinfo: str) -> str:
    """Find the processor's name in the text of /proc/cpuinfo; "" where it has none."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in MODEL and value.strip():
            return " ".join(value.split())
    return ""
