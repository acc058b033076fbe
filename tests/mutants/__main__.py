"""Apply each mutant to a copy of the package and run the tests that should notice: `python -m mutants [NAME ...]`.

Names may hold wildcards. Each run is a fork of this process, in which the large libraries are loaded already but
netproof is not, so that a run costs little more than its tests.
"""

from __future__ import annotations

import fnmatch
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import highspy  # noqa: F401
import hypothesis
import onnx  # noqa: F401
import onnxruntime  # noqa: F401
import pytest
import scipy.optimize  # noqa: F401
import torch  # noqa: F401

from mutants import MUTANTS, PACKAGE, TESTS, Mutant

LIMIT = 300.0  # seconds: a search that a mutant keeps from ending has been noticed, too


class _Failures:
    """Collects the ids of what fails, for pytest."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.ids.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.ids.append(f"{report.nodeid} (not collected)")


def _child(sources: Path, tests: Sequence[str], first_only: bool, end: Connection) -> None:
    """Run tests on the package in `sources`, and send the exit code and the ids of what failed."""
    os.environ["PYTHONPATH"] = str(sources)
    sys.path.insert(0, str(sources))
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    import netproof

    assert Path(netproof.__file__).is_relative_to(sources), netproof.__file__
    # The same examples every time, and none made smaller: that one fails is all that is asked.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", derandomize=True, deadline=None, phases=phases)
    failures = _Failures()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutants"]
    options += ["-x"] if first_only else []
    code = pytest.main([*options, *(str(TESTS / test) for test in tests)], plugins=[failures])
    end.send((int(code), failures.ids))


def _run(sources: Path, tests: Sequence[str], limit: float | None, *, first_only: bool) -> tuple[int, list[str]]:
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(sources, tests, first_only, there))
    child.start()
    there.close()
    try:
        if here.poll(limit):
            return here.recv()
        child.kill()
        return -1, ["(did not end)"]
    except EOFError:
        return -1, ["(the process died)"]
    finally:
        child.join()


def _try(mutant: Mutant, sources: Path) -> tuple[str, str]:
    """How it ended, and the test that noticed."""
    path = sources / "netproof" / mutant.file
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(source), encoding="utf-8")
    try:
        code, failed = _run(sources, mutant.tests, LIMIT, first_only=True)
    finally:
        path.write_text(source, encoding="utf-8")
    if code == 0:
        return "SURVIVED", "-"
    if failed:
        return "killed", failed[0]
    return "error", f"pytest ended with {code}"


def main(names: Sequence[str]) -> int:
    chosen = [m for m in MUTANTS if not names or any(fnmatch.fnmatch(m.name, name) for name in names)]
    if not chosen:
        print(f"no mutant is called {' or '.join(names)}", file=sys.stderr)
        return 2
    real = [m for m in chosen if not m.equivalent]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        sources = Path(folder)
        shutil.copytree(PACKAGE, sources / "netproof", ignore=shutil.ignore_patterns("__pycache__"))
        sys.dont_write_bytecode = True  # a stale cache would hide a mutant
        tests = sorted({test for m in real for test in m.tests})
        code, failed = _run(sources, tests, None, first_only=False) if tests else (0, [])
        if code != 0:
            print("without any mutant these fail, so they can show nothing:", *failed, sep="\n  ", file=sys.stderr)
            return 2
        ends: dict[str, int] = {}
        for mutant in real:
            began = time.monotonic()
            status, test = _try(mutant, sources)
            ends[status] = ends.get(status, 0) + 1
            print(f"{status:8}  {mutant.name:34}  {test}  ({time.monotonic() - began:.0f} s)", flush=True)
    for mutant in chosen:
        if mutant.equivalent:
            print(f"{'same':8}  {mutant.name:34}  {mutant.equivalent}")
    print(", ".join(f"{count} {status}" for status, count in sorted(ends.items())))
    return 1 if set(ends) - {"killed"} else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
