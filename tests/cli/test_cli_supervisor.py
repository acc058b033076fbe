"""Timeouts, interrupts and crashes: valid files, the right exit code, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import environment, run, run_cold, start

from netproof.cli.process import supervisor
from support.processes import HANG, alive, wait_for

FILES = ("--json", "j.json", "--results-file", "r.txt")
VERIFY = ("verify", "m.onnx", "p.vnnlib", *FILES)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def results(folder: Path) -> tuple[dict[str, object], str]:
    assert not list(folder.glob(".*")), "a temporary file was left"
    return json.loads((folder / "j.json").read_text()), (folder / "r.txt").read_text()


def pids(folder: Path) -> list[int]:
    """The worker and the helper process that it started, once they are known."""
    wait_for(lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 2)
    return [int(word) for word in (folder / "pids").read_text().split()]


def begin(folder: Path, engine: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = start(*VERIFY, engine=engine, cwd=folder, FAKE_PIDS=str(folder / "pids"))
    return process, pids(folder)


def test_an_engine_that_keeps_its_deadline_answers_for_itself(folder: Path) -> None:
    done = run(*VERIFY, "--timeout", "2", engine="slow", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "timeout\n")
    found, text = results(folder)
    assert text == "timeout\n"
    assert (found["verdict"], found["reason"], found["lower_bound"]) == ("timeout", "time limit", -0.125)


@pytest.mark.parametrize("engine", ["deaf", "busy"])
def test_an_engine_that_does_not_is_ended(folder: Path, engine: str) -> None:
    done = run(*VERIFY, "--timeout", "2", engine=engine, cwd=folder, FAKE_PIDS=str(folder / "pids"))
    assert (done.returncode, done.stdout) == (0, "timeout\n")
    found, text = results(folder)
    assert text == "timeout\n"
    assert found["verdict"] == "timeout"
    assert found["reason"] == "the time limit of 2 s was reached"
    # the last progress is not lost
    assert (found["lower_bound"], found["upper_bound"], found["domains"]) == (-0.25, None, 40)
    started = pids(folder)
    wait_for(lambda: not any(map(alive, started)))


def test_a_limit_shorter_than_start_up_is_kept(folder: Path) -> None:
    done = run_cold(*VERIFY, "--timeout", "0.001", engine="deaf", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "timeout\n")
    assert results(folder)[0]["verdict"] == "timeout"


class Silent:
    """A worker that says something at some times, on a clock that only waiting for it moves."""

    def __init__(self, *events: float) -> None:
        self.now, self._events = 0.0, list(events)

    def hear(self, seconds: float) -> list[tuple[str, None]]:
        self.now += max(seconds, 2.0**-20)  # a look takes time
        due = [at for at in self._events if at <= self.now]
        self._events = self._events[len(due) :]
        return [("event", None) for _ in due]


@pytest.mark.parametrize(
    ("events", "ended"),
    [((), 1.0), ((2.0,), 1.0), ((0.1,), 1.0 + supervisor.LATE), ((0.1, 0.9), 1.0 + supervisor.LATE)],
)
def test_one_that_has_not_begun_ends_at_the_limit(
    events: tuple[float, ...], ended: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its imports it has nothing to tell; who has begun may have a bound, and gets a little longer."""
    worker = Silent(*events)
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: worker.now)
    quiet = SimpleNamespace(count=0)
    assert supervisor._watch(worker, quiet, 1.0, lambda event: None, lambda: None) is None  # type: ignore[arg-type]
    assert worker.now == pytest.approx(ended, abs=1e-5)


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        *(("slow", number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        *(("deaf", number) for number in (signal.SIGINT, signal.SIGTERM)),  # the two that it does not hear
        ("busy", signal.SIGHUP),
    ],
)
def test_an_interrupt_leaves_valid_files_and_no_process(folder: Path, engine: str, number: signal.Signals) -> None:
    process, started = begin(folder, engine)
    process.send_signal(number)
    out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (130, "unknown\n")
    assert "Traceback" not in err
    found, text = results(folder)
    assert text == "unknown\n"
    assert (found["verdict"], found["reason"], found["witness"]) == ("unknown", "interrupted", None)
    assert found["lower_bound"] == (-0.125 if engine == "slow" else -0.25)
    wait_for(lambda: not any(map(alive, started)))


def test_ctrl_c_reaches_the_whole_foreground_group(folder: Path) -> None:
    """A terminal signals every process of the group; the answer must be the same."""
    process = subprocess.Popen(
        [sys.executable, "-m", "netproof", *VERIFY],
        cwd=folder,
        env=environment("slow", FAKE_PIDS=str(folder / "pids")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started = pids(folder)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (130, "unknown\n")
    assert results(folder)[0]["reason"] == "interrupted"
    wait_for(lambda: not any(map(alive, started)))


def test_a_second_interrupt_does_not_spoil_the_files(folder: Path) -> None:
    process, started = begin(folder, "deaf")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert results(folder)[0]["reason"] == "interrupted"
    wait_for(lambda: not any(map(alive, started)))


def test_a_supervisor_that_is_killed_takes_everything_along(folder: Path) -> None:
    process, started = begin(folder, "deaf")
    process.kill()
    process.communicate(timeout=HANG)  # ends only when nobody holds its stdout any more
    wait_for(lambda: not any(map(alive, started)))


@pytest.mark.parametrize(
    ("engine", "reason"),
    [("killed", "killed by SIGKILL"), ("exit", "exit code 3"), ("memory", "out of memory")],
)
def test_a_worker_that_dies_is_an_unknown_with_its_reason(folder: Path, engine: str, reason: str) -> None:
    process, started = begin(folder, engine)
    out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (0, "unknown\n")
    assert reason in err
    found, text = results(folder)
    assert (found["verdict"], text) == ("unknown", "unknown\n")
    assert reason in str(found["reason"])
    wait_for(lambda: not any(map(alive, started)))


def test_what_the_worker_started_ends_with_a_good_answer_too(folder: Path) -> None:
    process, started = begin(folder, "unsat")
    out, _ = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (0, "unsat\n")
    wait_for(lambda: not any(map(alive, started)))


def test_a_stopped_job_stops_and_goes_on_as_one(folder: Path) -> None:
    """Ctrl-Z and fg."""

    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    process, (worker, helper) = begin(folder, "slow")
    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: [state(pid) for pid in (process.pid, worker, helper)] == ["T", "T", "T"])
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: "T" not in (state(pid) for pid in (process.pid, worker, helper)))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG)
    assert process.returncode == 130


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    process = start(*VERIFY, engine="sat", cwd=folder)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=HANG) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    assert results(folder)[1].startswith("sat\n")


WORK = """
import time
from netproof.errors import UsageError

def work(job, mode):
    job.tell({"n": 1})
    if mode == "wait":
        while not job.deadline.expired:
            time.sleep(0.01)
        return "late"
    if mode == "refuse":
        raise UsageError("no", remedy="yes")
    if mode == "sleep":
        time.sleep(120)
    return "x" * 5_000_000
"""
DIRECT = """
import functools, sys, time
from direct_work import work
from netproof.cli.process.supervisor import supervise
from netproof.errors import UsageError

mode, fork, timeout = sys.argv[1], sys.argv[2] == "fork", float(sys.argv[3])
events = []
try:
    task = functools.partial(work, mode=mode)
    out = supervise(task, started=time.monotonic(), timeout=timeout, on_event=events.append, fork=fork)
    print(out.ending, len(out.result or ""), events)
except UsageError as error:
    print("wrong family")
except Exception as error:
    print(type(error).__name__, error)
sys.stdout.flush()
import os; os._exit(0)
"""


@pytest.mark.parametrize("how", ["fork", "start"])
@pytest.mark.parametrize(
    ("mode", "timeout", "expected"),
    [
        ("answer", 60, "finished 5000000 [{'n': 1}]"),
        ("wait", 1, "finished 4 [{'n': 1}]"),
        ("sleep", 0.5, "timeout 0 [{'n': 1}]"),
        ("refuse", 60, "NetproofError no (yes)"),
    ],
)
def test_with_and_without_fork(how: str, mode: str, timeout: float, expected: str, tmp_path: Path) -> None:
    (tmp_path / "direct_work.py").write_text(WORK)
    given = environment()
    done = subprocess.run(
        [sys.executable, "-c", DIRECT, mode, how, str(timeout)],
        env={**given, "PYTHONPATH": os.pathsep.join([given["PYTHONPATH"], str(tmp_path)])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert done.stdout.strip() == expected
