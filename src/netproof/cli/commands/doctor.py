"""`netproof doctor`: what is installed, what the machine grants, and whether a proof works."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from netproof._version import __version__
from netproof.cli.exits import EXIT_INTERRUPTED
from netproof.cli.process.start_time import command_started
from netproof.cli.process.supervisor import Ending, supervise
from netproof.cli.show.output import print_out
from netproof.core.cpu import affinity_cpus, available_cpus, cgroup_quota
from netproof.core.machine.versions import installed
from netproof.workers.worker import Job

PACKAGES = ("torch", "numpy", "onnx", "onnxruntime", "highspy", "typer", "rich", "pillow", "matplotlib", "jinja2")
GIB = 2**30


@dataclass(frozen=True)
class Check:
    """One line of the report; `advice` is not empty when something is to be done."""

    name: str
    value: str
    ok: bool = True
    advice: str = ""

    def __str__(self) -> str:
        mark = "ok  " if self.ok else "FAIL"
        return f"{mark} {self.name:<12} {self.value}" + (f"\n       -> {self.advice}" if self.advice else "")


def doctor() -> int:
    """Check the installation and the machine, and verify a bundled problem. Exit 1 if something is wrong."""
    healthy = True

    def show(check: Check) -> None:
        nonlocal healthy
        healthy = healthy and check.ok
        print_out(f"{check}\n")

    for check in (*_installed(), *_machine()):
        show(check)
    if not healthy:
        print_out("Something is missing: see the lines with FAIL.\n")
        return 1
    outcome = supervise(_work, started=command_started(), on_event=show)
    if outcome.ending == Ending.INTERRUPTED:
        return EXIT_INTERRUPTED
    if outcome.ending != Ending.FINISHED:
        show(Check("self-test", outcome.reason, False, "reinstall torch and onnxruntime for this machine"))
    print_out("All is well.\n" if healthy else "Something is wrong: see the lines with FAIL.\n")
    return 0 if healthy else 1


def _installed() -> Iterator[Check]:
    yield Check("netproof", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in PACKAGES:
        version = installed(name)
        yield Check(name, version) if version else Check(name, "not installed", False, f"pip install {name}")


def _machine() -> Iterator[Check]:
    quota = cgroup_quota()
    limit = "no quota" if quota is None else f"a quota of {quota:g}"
    yield Check(
        "threads",
        f"{available_cpus()} (of {os.cpu_count()}, {affinity_cpus()} for this process, {limit})",
    )
    memory = memory_limit()
    if memory is not None:
        small = memory < 2 * GIB
        advice = "large networks will need more" if small else ""
        yield Check("memory", f"{memory / GIB:.1f} GiB", advice=advice)


def memory_limit() -> int | None:
    """Return the bytes that this process may use: the machine's, or the control group's if that is less."""
    known = []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path):
            text = Path(path).read_text().strip()
            known += [int(text)] if text.isdigit() else []
    return min(known, default=None)


def _work(job: Job) -> None:
    for check in (_torch, _onnxruntime, _self_test):
        for line in _guarded(check, job):
            job.tell(line)


def _guarded(check: Callable[[Job], Iterator[Check]], job: Job) -> Iterator[Check]:
    """Run a check; a broken installation raises ImportError or OSError (a missing shared library), and fails it."""
    try:
        yield from check(job)
    except (ImportError, OSError) as error:
        name = check.__name__.strip("_").replace("_", "-")
        yield Check(name, f"{type(error).__name__}: {error}", False, "reinstall it for this machine")


def _torch(job: Job) -> Iterator[Check]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for index in range(count):
        gpu = torch.cuda.get_device_properties(index)
        yield Check("gpu", f"{gpu.name}, {gpu.total_memory / GIB:.0f} GiB, CUDA {torch.version.cuda}")
    if count == 0 and torch.version.cuda is None:
        advice = "for a GPU install a torch build with CUDA" if os.path.exists("/dev/nvidia0") else ""
        yield Check("gpu", "none: this torch is built for the CPU only", advice=advice)
    elif count == 0:
        yield Check("gpu", "none found: netproof will use the CPU", advice="check `nvidia-smi` if there should be one")


def _onnxruntime(job: Job) -> Iterator[Check]:
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    there = "CPUExecutionProvider" in providers
    yield Check("replay", ", ".join(providers), there, "" if there else "install the plain onnxruntime package")


def _self_test(job: Job) -> Iterator[Check]:
    """Verify one bundled question that holds and one that does not."""
    from netproof import api
    from netproof.demo import copy_data

    with tempfile.TemporaryDirectory() as folder:
        instances = copy_data(Path(folder))
        for expected in ("unsat", "sat"):
            instance = next(one for one in instances if one.expected == expected)
            began = time.monotonic()
            verdict = api.verify(
                str(Path(folder) / instance.onnx), str(Path(folder) / instance.vnnlib), deadline=job.deadline
            )
            right = verdict.status == expected
            yield Check(
                "self-test",
                f"{instance.name}: {verdict.status} in {time.monotonic() - began:.2f} s",
                right,
                "" if right else f"expected {expected}: please report this",
            )
