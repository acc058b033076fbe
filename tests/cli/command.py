"""Runs netproof as a user does, in a process of its own, with a stand-in for the engine.

`start` and `run_cold` start Python anew, as a shell would. `run` forks a process that has the imports behind it
(serve.py): a process of its own too, with its own streams, folder, environment and exit code, but there at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from support.processes import HANG

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"


REAL = "the engine itself"
# So that no library starts a thread when it is imported.
THREADLESS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ORT_DISABLE_TELEMETRY"), "1")


def environment(engine: str = "unsat", **more: str) -> dict[str, str]:
    path = str(SOURCE) if engine == REAL else os.pathsep.join([str(HERE / "fake"), str(SOURCE)])
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


def run_cold(*arguments: str, engine: str = "unsat", cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    with start(*arguments, engine=engine, cwd=cwd, **more) as process:
        out, err = process.communicate(timeout=HANG)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def run(*arguments: str, engine: str = "unsat", cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    request = {"arguments": arguments, "cwd": str(cwd), "environment": environment(engine, **more)}
    end = _server(engine == REAL)
    with open(os.devnull) as nothing, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        socket.send_fds(end, [b"."], [file.fileno() for file in (nothing, out, err)])
        end.sendall(json.dumps(request).encode() + b"\n")
        try:
            code = int(end.recv(64))
        except (OSError, ValueError):  # it hangs or has died: what it says later must not answer another command
            _server.cache_clear()
            end.close()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@cache
def _server(real: bool) -> socket.socket:
    """Start a process that obeys commands until this one ends; it has the engine itself or the stand-in."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), str(theirs.fileno())],
            env=environment(REAL if real else "", **THREADLESS),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            preexec_fn=_hear_hangups,
        )
    ours.settimeout(HANG)
    return ours
