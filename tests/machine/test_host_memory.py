"""The host's memory: limits wherever they stand, what is left of them, and caps that a run is given."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

from netproof.bounds.linear import memory
from netproof.core.machine import host
from netproof.core.machine.allowance import Caps, allowance, allowing, is_out_of_memory, read_caps
from netproof.core.machine.gpu import lift_caps, obey_cap
from netproof.errors import DeviceError, UsageError

G, CPU = 1 << 30, torch.device("cpu")
MEMINFO = f"MemTotal: {64 * G // 1024} kB\nMemFree: {20 * G // 1024} kB\nMemAvailable: {40 * G // 1024} kB\n"


def machine(root: Path, membership: str = "0::/\n", **files: object) -> tuple[Path, Path]:
    """/proc and /sys/fs/cgroup with these files, slashes written as __ and dots as they are."""
    proc, groups = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self/cgroup").write_text(membership)
    (proc / "self/status").write_text("Name:\tpython\nVmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\nVmSize:\t 4096 kB\n")
    for name, content in files.items():
        path = groups / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return proc, groups


LIMITED: list[tuple[str, dict[str, object], int, int]] = [
    ("0::/\n", {}, 64 * G, 40 * G),
    ("0::/\n", {"memory-max": "max", "memory-current": 3 * G}, 64 * G, 40 * G),
    ("0::/\n", {"memory-max": 8 * G, "memory-current": 3 * G}, 8 * G, 5 * G),
    # Pages of files are given back when they are asked for.
    (
        "0::/\n",
        {"memory-max": 8 * G, "memory-current": 7 * G, "memory-stat": f"anon 1\ninactive_file {2 * G}"},
        8 * G,
        3 * G,
    ),
    # The limit of a group above.
    ("0::/a/b\n", {"a__b__memory-max": "max", "a__memory-max": 4 * G, "a__memory-current": 3 * G}, 4 * G, G),
    ("0::/../b\n", {"memory-max": 4 * G, "memory-current": G}, 4 * G, 3 * G),
    # Version 1, of this group and of those above; what is larger than the machine is no limit.
    (
        "4:memory:/docker/x\n0::/\n",
        {
            "memory__docker__x__memory-limit_in_bytes": 16 * G,
            "memory__docker__x__memory-usage_in_bytes": 9 * G,
            "memory__memory-limit_in_bytes": (1 << 63) - 4096,
            "memory__memory-usage_in_bytes": 9 * G,
        },
        16 * G,
        7 * G,
    ),
    # A container that sees its own group as the root of the mount, and another name in its membership.
    (
        "4:memory:/docker/x\n",
        {"memory__memory-limit_in_bytes": 2 * G, "memory__memory-usage_in_bytes": 3 * G},
        2 * G,
        0,
    ),
]


@pytest.mark.parametrize(("membership", "files", "most", "left"), LIMITED)
def test_the_least_limit_counts(
    tmp_path: Path, membership: str, files: dict[str, object], most: int, left: int
) -> None:
    where = machine(tmp_path, membership, **files)
    assert host.most(*where) == most
    assert host.left(*where) == left


def test_limits_of_the_process_itself_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = machine(tmp_path)
    real = resource.getrlimit

    def limited(which: int) -> tuple[int, int]:
        return (G, G) if which == resource.RLIMIT_AS else real(which)

    monkeypatch.setattr(resource, "getrlimit", limited)
    assert host.most(*where) == G
    assert host.left(*where) == G - 4096 * 1024


def test_what_the_process_has(tmp_path: Path) -> None:
    proc, _ = machine(tmp_path)
    assert (host.taken(proc), host.peak(proc)) == (1 << 20, 2 << 20)
    now = host.taken()  # first: to ask takes memory
    assert host.peak() >= now > 1 << 20


def test_a_machine_that_says_nothing_has_memory(tmp_path: Path) -> None:
    assert host.most(tmp_path, tmp_path) > 0
    assert host.left(tmp_path, tmp_path) > 0


# --- caps ---


@pytest.mark.parametrize(
    ("given", "caps"),
    [
        (None, Caps()),
        ("8G", Caps(8 * G, 8 * G)),
        ("8 GB", Caps(8 * G, 8 * G)),
        ("8gib", Caps(8 * G, 8 * G)),
        ("0.5g", Caps(G // 2, G // 2)),
        (1 << 20, Caps(1 << 20, 1 << 20)),
        ("gpu=16G, host=500M", Caps(16 * G, 500 << 20)),
        ("host=8G", Caps(None, 8 * G)),
        ({"gpu": "2G", "host": None}, Caps(2 * G, None)),
    ],
)
def test_caps_are_read(given: Any, caps: Caps) -> None:
    assert read_caps(given) == caps
    assert read_caps(read_caps(given)) == caps


@pytest.mark.parametrize(
    "given", ["", "G", "-1G", "0", "8X", "1e3", "8G,4G", "cpu=8G", "gpu=8G,gpu=4G", "gpu=", True, -1, 0, 1.5j, {}, []]
)
def test_what_is_no_cap_is_refused_with_a_remedy(given: Any) -> None:
    with pytest.raises(UsageError, match=r"memory: .* \(give a size as 8G or 500M"):
        read_caps(given)


def test_what_fits_follows_from_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "left", lambda: 100 * G)
    monkeypatch.setattr(host, "most", lambda: 128 * G)
    monkeypatch.setattr(host, "taken", lambda: G)
    free = memory.budget(CPU), memory.domains_that_fit(1 << 20, CPU)
    assert memory.may_wait(30 * G)
    assert memory.holds(10 * G, CPU)
    with allowing(Caps(host=G + G // 8)):
        assert memory.host_memory() == G // 8
        assert memory.budget(CPU) <= free[0]
        assert 0 < memory.domains_that_fit(1 << 20, CPU) < free[1]
        assert not memory.may_wait(G)
        assert not memory.holds(10 * G, CPU)
        assert not memory.is_short()
    with allowing(Caps(host=G + (1 << 20))):
        assert memory.is_short()
    assert memory.budget(CPU) == free[0]


def test_what_is_held_for_a_while_leaves_the_process_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "left", lambda: 100 * G)
    monkeypatch.setattr(host, "most", lambda: 128 * G)
    monkeypatch.setattr(host, "taken", lambda: memory.OWN)
    assert memory.holds_for_a_while(32 * G, CPU)
    assert not memory.holds_for_a_while(33 * G, CPU)
    with allowing(Caps(host=2 * G)) as given:
        most = int(memory.A_WHILE * (2 * G - memory.OWN))
        assert memory.holds_for_a_while(most, CPU)
        assert not memory.holds_for_a_while(most + 2, CPU)
        given.halve()
        assert not memory.holds_for_a_while(most, CPU)
    with allowing(Caps(host=memory.OWN)):  # nothing is left, and passes are as small as they get
        assert not memory.holds_for_a_while(1, CPU)
        assert memory.budget(CPU) == memory.OWN // 64
    monkeypatch.setattr(host, "left", lambda: G)
    assert not memory.holds_for_a_while(G, CPU)
    assert memory.holds_for_a_while(G, CPU, held=G // 2)


def test_many_that_share_the_memory_leave_some_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks before it takes more, and none more once it may not."""
    whole, step, held = 16 * G, 16 << 20, [0] * 16
    monkeypatch.setattr(host, "most", lambda: whole)
    monkeypatch.setattr(host, "left", lambda: whole - sum(held))
    for _ in range(1000):
        for i in range(len(held)):
            held[i] += step if memory.may_wait(held[i] + step) else 0
    assert sum(held) > whole // 2
    assert not memory.is_short()


def test_less_is_tried_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    def attempt() -> str:
        tried.append(allowance().share)
        if len(tried) < 4:
            raise torch.OutOfMemoryError("a full device")
        return "done"

    with allowing(Caps()):
        assert memory.with_less(attempt, CPU) == "done"
        assert tried == [1.0, 0.5, 0.25, 0.125]
        assert memory.budget(CPU) == memory.CPU_BUDGET // 8


def test_halving_ends() -> None:
    calls = []

    def attempt() -> None:
        calls.append(1)
        raise MemoryError

    with allowing(Caps()), pytest.raises(DeviceError, match="out of memory"):
        memory.with_less(attempt, CPU)
    assert len(calls) == 9
    with pytest.raises(ZeroDivisionError):
        memory.with_less(lambda: 1 // 0, CPU)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeException("Failed to allocate memory for requested buffer of size 8"), True),
        (RuntimeException("std::bad_alloc"), True),
        (torch.AcceleratorError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeException("invalid axis"), False),
        (RuntimeError("shapes"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_torch_is_told_of_a_cap_on_a_gpu_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, int]] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(total_memory=64 * G))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, index: told.append((share, index)))
    for device, cap in (("cuda", None), ("cpu", 8 * G), ("cuda", 8 * G), ("cuda:0", 128 * G)):
        with allowing(Caps(gpu=cap)):
            obey_cap(torch.device(device))
    assert told == [(0.125, 1), (1.0, 0)]
    lift_caps()
    assert sorted(told[2:]) == [(1.0, 0), (1.0, 1)]
    lift_caps()
    assert len(told) == 4


def test_what_fits_on_a_gpu_follows_from_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 * G, 64 * G))
    stats = {"reserved_bytes": {"all": {"current": 10 * G}}, "allocated_bytes": {"all": {"current": 2 * G}}}
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: stats)
    assert memory.gpu_memory(cuda) == 48 * G
    assert memory.holds(16 * G, cuda)
    with allowing(Caps(gpu=8 * G)):
        assert memory.gpu_memory(cuda) == 6 * G
        assert memory.budget(cuda) == int(6 * G * memory.GPU_SHARE)
        assert memory.domains_that_fit(G, cuda) == 1
        assert not memory.holds(3 * G, cuda)
        assert memory.holds(2 * G, cuda)
