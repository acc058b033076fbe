"""The campaign's end of a worker process: start it, send jobs, hear answers, end it with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

COMMAND = (sys.executable, "-P", "-m", "netproof.campaign.worker")
REAP = 5.0  # seconds to wait for a process that was killed or that closed its pipe
TAIL = 4000  # characters of a lost worker's stderr that are kept


@dataclass(frozen=True)
class Setup:
    """What a worker is given for life."""

    device: str
    threads: int
    gpu: str | None = None  # as CUDA_VISIBLE_DEVICES names it
    cores: tuple[int, ...] | None = None  # processors that it is bound to

    def environment(self) -> dict[str, str]:
        """Thread pools are sized once, when the libraries are loaded."""
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        own = dict.fromkeys(names, str(self.threads)) | {"PYTHONUNBUFFERED": "1"}
        if self.gpu is not None:
            own["CUDA_VISIBLE_DEVICES"] = self.gpu
        return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **own}


Heard = tuple["Process", Mapping[str, Any] | None]  # None: it will say no more


class Process:
    """A worker. A thread puts what it says into `inbox`, so that the campaign can wait for all of them at once."""

    def __init__(self, setup: Setup, inbox: queue.Queue[Heard]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115  (closed with the process)
        self._popen = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=setup.environment(),
            start_new_session=True,  # Ctrl-C is for the campaign alone; and all that it starts can be ended with it
        )
        self._reader = threading.Thread(target=self._read, args=(inbox,), daemon=True)
        self._reader.start()
        self.send({"device": setup.device, "threads": setup.threads, "cores": setup.cores})

    def _read(self, inbox: queue.Queue[Heard]) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a line cut short by its death
                inbox.put((self, json.loads(line)))
        inbox.put((self, None))

    def send(self, message: Mapping[str, Any]) -> None:
        """One line; a worker that is gone hears nothing, and its end is noticed elsewhere."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(json.dumps(message).encode() + b"\n")
            self._popen.stdin.flush()

    def how_it_ended(self) -> str:
        """Once it says no more: the signal or the exit code, and the last line on stderr."""
        try:
            code = self._popen.wait(REAP)
        except subprocess.TimeoutExpired:
            return "the worker closed its pipe"
        if code < 0:
            name = signal.Signals(-code).name
            hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
            how = f"the worker was killed by {name}{hint}"
        else:
            how = f"the worker ended with exit code {code}"
        last = self.tail().strip().splitlines()[-1:]
        return " ".join(f"{how}: {last[0]}".split()) if last else how

    def tail(self) -> str:
        """The end of what it wrote on stderr."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - TAIL))
        return self._errors.read().decode(errors="replace")

    def kill(self) -> None:
        """End it and everything it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses on a group of zombies
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel, as a GPU's driver may be
            self._popen.wait(REAP)
        for pipe in (self._popen.stdin, self._errors):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
