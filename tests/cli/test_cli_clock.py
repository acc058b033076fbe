"""A time limit counts from the moment that the command was called, whatever held it up since."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import environment, start

from support.processes import HANG, wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

HOLD = 2.5  # seconds, and more than the limit
TICK = 1 / os.sysconf("SC_CLK_TCK")  # to which the kernel rounds the start of a process


def hold(*pids: int) -> None:
    """Stop processes for a while, as a machine that swaps does to all of them."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(HOLD)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_hold_of_the_start_up_counts(folder: Path) -> None:
    """The engine would answer at once; but the limit had passed before it was there."""
    process = start("verify", "m.onnx", "p.vnnlib", "--timeout", "2", "--json", "j.json", cwd=folder)
    hold(process.pid)
    out, _ = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (0, "timeout\n")
    assert json.loads((folder / "j.json").read_text())["seconds"]["total"] >= HOLD - TICK


@pytest.mark.parametrize("engine", ["slow", "deaf"])
def test_a_hold_of_the_whole_run_counts(folder: Path, engine: str) -> None:
    """Supervisor and worker have one deadline: each of them finds that it has passed."""
    arguments = ("verify", "m.onnx", "p.vnnlib", "--timeout", "60", "--json", "j.json")
    process = start(*arguments, engine=engine, cwd=folder, FAKE_PIDS=str(folder / "pids"))
    wait_for(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 2)
    worker = int((folder / "pids").read_text().split()[0])
    hold(process.pid, worker)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert json.loads((folder / "j.json").read_text())["seconds"]["total"] >= HOLD


COUNTED = """
import time
from netproof.cli.process import start_time
entered = time.monotonic()
start_time.start_clock(entered, whole_process=True)
age = start_time._age()
print(age - (time.monotonic() - start_time.command_started()))
"""


@pytest.mark.parametrize(("shell", "least"), [("sleep 2.1; exec", 2.1), ("exec", -TICK)])
def test_the_life_of_a_shell_that_was_replaced_does_not_count(shell: str, least: float, folder: Path) -> None:
    """What the process is older than what is counted: at least what the shell waited for another command."""
    done = subprocess.run(
        ["sh", "-c", f'{shell} "$0" -c "$1"', sys.executable, COUNTED],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert float(done.stdout) >= least - TICK
