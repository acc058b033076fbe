"""The one protocol of workers, whether they are forked or started afresh."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netproof.errors import UsageError
from netproof.workers.process import Process
from netproof.workers.worker import Job, Message
from support.processes import HANG, alive, wait_for

HERE = str(Path(__file__).parent)


def work(job: Job, how: str) -> str:
    job.tell(how)
    if how == "wait":
        while not job.deadline.expired:
            time.sleep(0.01)
        return "cancelled" if job.deadline.cancelled else "late"
    if how == "refuse":
        raise UsageError("no", remedy="yes")
    if how == "memory":
        raise MemoryError
    if how == "fall":
        raise ZeroDivisionError("over")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        print("the last word", flush=True)
        os._exit(3)
    return str(os.getpid())


def last_of(process: Process) -> Message:
    """What it says once it says more than how far it is."""
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        for message in process.hear(0.1):
            if message[0] != "event":
                return message
    raise AssertionError("waited in vain")


def afresh() -> Process:
    return Process.start({**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (HERE, *sys.path)))})


@pytest.fixture(params=[Process.fork, afresh], ids=["forked", "afresh"])
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    make: Callable[[], Process] = request.param
    found = make()
    yield found
    found.kill(HANG)


def test_one_process_does_one_work_after_another(process: Process) -> None:
    for how, said in (
        ("answer", ("result", str(process.pid))),
        ("refuse", ("error", "no (yes)")),
        ("memory", ("memory", "out of memory")),
        ("answer", ("result", str(process.pid))),
    ):
        process.give(functools.partial(work, how=how), None)
        assert last_of(process) == said
    process.give(functools.partial(work, how="fall"), None)
    kind, (summary, trace) = last_of(process)
    assert (kind, summary) == ("bug", "ZeroDivisionError: over")
    assert trace.startswith("Traceback")


def test_events_come_before_the_answer(process: Process) -> None:
    process.give(functools.partial(work, how="answer"), None)
    heard: list[Message] = []
    while len(heard) < 2:
        heard += process.hear(HANG)
    assert heard == [("event", "answer"), ("result", str(process.pid))]
    assert process.hear(0.0) == []


@pytest.mark.parametrize(("seconds", "said"), [(0.1, "late"), (None, "cancelled")])
def test_a_work_ends_by_its_deadline_or_when_it_is_cancelled(
    process: Process, seconds: float | None, said: str
) -> None:
    process.give(functools.partial(work, how="wait"), seconds)
    if seconds is None:
        process.cancel()
    assert last_of(process) == ("result", said)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "the worker process was killed by SIGKILL, perhaps for want of memory"),
        ("exit", "the worker process ended without an answer (exit code 3)"),
    ],
)
def test_how_a_worker_died(process: Process, how: str, said: str) -> None:
    process.give(functools.partial(work, how=how), None)
    kind, line = last_of(process)
    assert kind == "died"
    assert line.startswith(said)
    process.give(functools.partial(work, how="answer"), None)  # nobody hears it
    assert last_of(process) == (kind, line)


def test_what_a_worker_printed_is_kept() -> None:
    process = afresh()
    process.give(functools.partial(work, how="exit"), None)
    assert last_of(process)[1].endswith("(exit code 3): the last word")
    assert process.log() == "the last word\n"
    process.kill(HANG)


ALONE = """
import functools, os, sys, time
from test_workers import afresh, work
from netproof.workers.process import Process
process = Process.fork() if sys.argv[1] == "fork" else afresh()
process.give(functools.partial(work, how="wait"), None)
while not process.hear(0.1):
    pass
print(process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("how", ["fork", "afresh"])
def test_a_worker_does_not_outlive_whom_it_works_for(how: str) -> None:
    path = os.pathsep.join(filter(None, (HERE, *sys.path)))
    with subprocess.Popen(
        [sys.executable, "-c", ALONE, how], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    wait_for(lambda: not alive(worker))
