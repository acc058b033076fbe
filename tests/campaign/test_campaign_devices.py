"""What a campaign may compute on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from netproof.campaign import devices
from netproof.errors import DeviceError, UsageError


@pytest.fixture(autouse=True)
def _ask_anew() -> Iterator[None]:
    devices.gpus.cache_clear()
    yield
    devices.gpus.cache_clear()


def torch_says(monkeypatch: pytest.MonkeyPatch, out: str, code: int = 0, err: str = "") -> None:
    done = SimpleNamespace(returncode=code, stdout=out, stderr=err)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)


@pytest.mark.parametrize(
    ("visible", "count", "found"), [(None, 2, ("0", "1")), ("3, 5", 2, ("3", "5")), ("", 0, ()), (None, 0, ())]
)
def test_cards(monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int, found: tuple[str, ...]) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    torch_says(monkeypatch, f"{count}\n")
    assert devices.gpus() == found
    assert devices.resolve("auto") == ("cuda" if found else "cpu")
    assert devices.resolve("cpu") == "cpu"
    if found:
        assert devices.default_workers(devices.resolve("cuda"), None) == len(found)
    else:
        with pytest.raises(DeviceError, match="no CUDA device"):
            devices.resolve("cuda")


def test_torch_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_says(monkeypatch, "", 1, "Traceback\nImportError: libcuda.so\n")
    with pytest.raises(DeviceError, match=r"ImportError: libcuda\.so"):
        devices.resolve("auto")
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        devices.resolve("tpu")


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 8, 9}, raising=False)
    monkeypatch.setattr(devices, "affinity_cpus", lambda: 6)
    monkeypatch.setattr(devices, "available_cpus", lambda: 6)
    assert devices.core_groups(3, 2) == [(0, 1), (2, 3), (8, 9)]
    assert devices.core_groups(4, 2) == [None] * 4, "too few for all"
    assert devices.default_workers("cpu", 2) == 3
    assert devices.default_workers("cpu", None) == 1
    monkeypatch.setattr(devices, "available_cpus", lambda: 3)
    assert devices.core_groups(3, 2) == [None] * 3, "a quota binds to no certain processors"
