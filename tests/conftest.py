"""What all tests share: one thread each, repeatable examples, and tests that need a GPU or more files."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from netproof.core.machine.allowance import NO_CAPS, allowing
from netproof.demo import Instance, copy_data
from support import own_converters  # noqa: F401 (before a test module adds converters of its own)
from support.browser import Browser, browser, find_browser

BENCHMARKS = "NETPROOF_BENCHMARKS"

# Several workers run side by side; threads within each would only fight over the same cores.
torch.set_num_threads(1)

# CI must not fail by the luck of the draw; a developer's runs should keep looking elsewhere.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_gpu = pytest.mark.skip(reason="needs a CUDA device")
    no_benchmarks = pytest.mark.skip(reason=f"needs {BENCHMARKS}, the folder of the VNN-COMP instances")
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(no_gpu)
        if item.get_closest_marker("benchmark") and not os.environ.get(BENCHMARKS):
            item.add_marker(no_benchmarks)


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect() -> None:
    """Leave what lives as long as the worker out of the garbage collector's rounds.

    There are a million objects of libraries and of other tests. Looking at them all takes most of a second, and code
    that makes room after memory ran out collects: at every operation, where a test lets it run out at every one.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _memory_of_its_own() -> Iterator[None]:
    """Give each test a whole allowance: one that lets memory run out must not leave less to the next."""
    with allowing(NO_CAPS):
        yield


@pytest.fixture(scope="session")
def benchmarks() -> Path:
    """The folder that holds one folder for each VNN-COMP benchmark; for tests marked `benchmark`."""
    folder = Path(os.environ[BENCHMARKS])
    assert folder.is_dir(), f"{BENCHMARKS}={folder} is not a folder"
    return folder


@pytest.fixture(scope="session")
def tab() -> Iterator[Browser]:
    """One tab of one browser for all tests; where there is none they are skipped."""
    if find_browser() is None:
        pytest.skip("no Chromium here")
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, Instance]]:
    """The bundled instances by name: model, specification, and what is expected of them."""
    folder = tmp_path_factory.mktemp("demo")
    return {i.name: (folder / i.onnx, folder / i.vnnlib, i) for i in copy_data(folder)}
