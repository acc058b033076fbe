"""Runs netproof as a user does, in a process of its own, with a stand-in for the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
HANG = 120  # seconds: far beyond any right behaviour


def environment(engine: str = "unsat", **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE / "fake"), str(SOURCE)])
    return {**os.environ, "PYTHONPATH": path, "FAKE_ENGINE": engine, "COLUMNS": "200", **more}


def start(*arguments: str, engine: str = "unsat", cwd: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "netproof", *arguments],
        cwd=cwd,
        env=environment(engine, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_hangups,
    )


def _hear_hangups() -> None:
    """The tests may themselves run under nohup, which children inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def run(*arguments: str, engine: str = "unsat", cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    with start(*arguments, engine=engine, cwd=cwd, **more) as process:
        out, err = process.communicate(timeout=HANG)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Running, not merely a zombie that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
