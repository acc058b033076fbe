"""Obeys commands of netproof in forks of one process that has the heavy imports behind it: `python serve.py SOCKET`.

A request is one byte with the three standard streams, then a line of JSON; the answer is a line with the exit code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import socket
import sys
from typing import Any, NoReturn

# What a command would import by itself; `api` is the engine or its stand-in, as PYTHONPATH has it.
LIBRARIES = ("numpy", "torch", "onnx", "onnxruntime", "highspy", "PIL.Image", "rich.live", "rich.console", "rich.table")
OWN = ("cli.app", "cli.robust.work", "api", "methods.registry", "methods.device", "model.load", "problem.witness")


def main(number: int) -> None:
    for name in (*LIBRARIES, *(f"netproof.{module}" for module in OWN)):
        importlib.import_module(name)
    with contextlib.redirect_stderr(io.StringIO()):
        importlib.import_module("netproof.cli.app").run(["verify"])  # a usage error, and typer's own late imports
    gc.collect()
    gc.freeze()
    assert _threads() == 1, "of several threads a fork would keep one"
    end = socket.socket(fileno=number)
    requests = end.makefile("rb")
    while True:
        byte, streams, _, _ = socket.recv_fds(end, 1, 3)
        if not byte:  # nobody is left to ask
            return
        request = json.loads(requests.readline())
        pid = os.fork()
        if pid == 0:
            end.close()
            requests.close()
            _obey(request, streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        end.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _threads() -> int:
    """Those of libraries too, where the kernel tells."""
    tasks = "/proc/self/task"
    return len(os.listdir(tasks)) if os.path.isdir(tasks) else 1


def _obey(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the process that `python -m netproof` would have been."""
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = ["netproof", *request["arguments"]]
        importlib.import_module("netproof.cli.main").main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
