"""The worker process: `python -m netproof.campaign.worker`, one JSON line in a job, one out an answer.

It keeps the last network loaded. What the user can mend is an answer; anything else that is raised ends the process,
and the campaign records how, as it does when a library brings the process down. Where the campaign itself is killed,
the pipe closes and the worker ends at once.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from netproof.core.reasons import CONTRADICTION
from netproof.errors import NetproofError, UsageError

WARM = ("conv-3-holds", "fc-4-needs-splits")  # bundled questions: a convolution, and one that takes a search
WARM_LIMIT = 60.0
TELL_EVERY = 0.5  # seconds between words of progress


def main() -> None:
    send, inbox = _pipes()
    setup = inbox.get()
    if setup["cores"] is not None:
        os.sched_setaffinity(0, setup["cores"])
    try:
        ready = _warm_up(setup["device"], setup["threads"])
    except NetproofError as error:
        send({"kind": "refused", "error": str(error)})
        return
    send({"kind": "ready", **ready})
    worker = Worker(setup["threads"], send)
    while True:
        send({"kind": "result", **worker.answer(inbox.get())})


def _pipes() -> tuple[Callable[[Mapping[str, Any]], None], queue.Queue[Any]]:
    """A way to send and what was received. stdout becomes stderr: a library that prints cannot spoil an answer."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock, inbox = threading.Lock(), queue.Queue[Any]()

    def send(message: Mapping[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message, allow_nan=False) + "\n")
            out.flush()

    def read() -> None:
        for line in sys.stdin:
            inbox.put(json.loads(line))
        _end_all()

    threading.Thread(target=read, daemon=True).start()
    return send, inbox


def _end_all() -> None:
    """The campaign is gone: so must be this process and all that it started."""
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _warm_up(device: str, threads: int) -> dict[str, Any]:
    """The imports, the device's context and kernels: what a process does once is in no instance's seconds."""
    from netproof import api
    from netproof.demo import copy_data

    with tempfile.TemporaryDirectory() as folder:
        for instance in copy_data(Path(folder)):
            if instance.name in WARM:
                files = (Path(folder) / name for name in (instance.onnx, instance.vnnlib))
                api.verify(*files, device=device, threads=threads, timeout=WARM_LIMIT)
    return {"versions": _versions(device)}


def _versions(device: str) -> dict[str, str | None]:
    """Of what an answer rests on."""
    import importlib.metadata

    from netproof._version import __version__

    found: dict[str, str | None] = {"netproof": __version__, "python": sys.version.split()[0]}
    for name in ("torch", "onnxruntime", "onnxruntime-gpu", "highspy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    torch = sys.modules.get("torch")
    if torch is not None:
        used = device == "cuda"
        found |= {"cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name() if used else None}
    return found


class Worker:
    """Answers one job after another."""

    def __init__(self, threads: int, send: Callable[[Mapping[str, Any]], None]) -> None:
        self._threads, self._send = threads, send
        self._loaded: tuple[str, Any] = ("", None)  # the network, and what tells it from others

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        _forget_peak_memory()
        try:
            found = self._verify(job, began)
        except NetproofError as error:
            found = {"verdict": "error", "error": str(error)}
        return {**found, "total": time.monotonic() - began}

    def _verify(self, job: Mapping[str, Any], began: float) -> dict[str, Any]:
        from netproof import api
        from netproof.core.deadline import Deadline

        network = self._network(job["onnx"], job["onnx_sha256"])
        loaded = time.monotonic() - began
        verdict = api.verify(
            network,
            job["vnnlib"],
            method=job["method"],
            options=job["options"],
            device=job["device"],
            threads=job["threads"] or self._threads,
            seed=job["seed"],
            attack=job["attack"],
            deadline=Deadline(job["timeout"], started=began),
            progress=self._teller(),
        )
        return _plain(verdict, loaded)

    def _network(self, path: str, sha256: str) -> Any:
        """The network of the file; read again only where it, or a file that it needs, is another than the last."""
        from netproof.model.load import load_network

        if not sha256 or self._loaded[0] != sha256:
            self._loaded = ("", None)  # the old one's memory first
            network = load_network(path)
            if sha256 and network.identity != sha256:
                raise UsageError("the model changed while the campaign ran", file=path, remedy="run it again")
            self._loaded = (sha256, network)
        return self._loaded[1]

    def _teller(self) -> Callable[[Any], None]:
        last = -math.inf

        def tell(progress: Any) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL_EVERY:
                last = time.monotonic()
                bound = _finite(progress.lower_bound)
                self._send(
                    {"kind": "progress", "phase": progress.phase, "domains": int(progress.domains), "bound": bound}
                )

        return tell


def _plain(verdict: Any, loaded: float) -> dict[str, Any]:
    """A verdict as JSON can have it."""
    stats, text = verdict.stats, ""
    if verdict.witness is not None:
        from netproof.problem.witness import format_witness

        text = format_witness(verdict.witness).rstrip("\n") + "\n"
    wrong = verdict.details.get(CONTRADICTION)
    return {
        "verdict": str(verdict.status),
        "reason": verdict.reason,
        "decided_by": verdict.decided_by,
        "seconds": {"network": loaded} | {phase: float(seconds) for phase, seconds in stats.seconds.items()},
        "lower_bound": _finite(verdict.lower_bound),
        "upper_bound": _finite(verdict.upper_bound),
        "domains": int(stats.domains),
        "leaf_lps": int(stats.leaf_lps),
        "rounds": int(stats.rounds),
        "peak_memory": int(stats.peak_memory),
        "witness": text,
        "error": "" if wrong is None else f"{wrong['what']}; the case is kept in {wrong['saved']}",
    }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _forget_peak_memory() -> None:
    """The kernel keeps the peak of the process; Linux lets it be forgotten, so that it is this job's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
