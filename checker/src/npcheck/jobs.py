"""Pieces of a proof computed by several processes.

Each worker has a pipe of its own and computes what comes out of it, one piece after the other. Pieces are dealt to the
workers in turn, and their bounds are taken back in the same order. Few pieces wait for a worker, so memory is bounded
by the number of workers. A worker whose pipe ends has nobody left to work for, and ends too.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np

from npcheck.bound import Ranges
from npcheck.errors import Refused
from npcheck.network import Network
from npcheck.work import Done, Piece, Told

AHEAD = 3  # pieces that wait for a worker, at most
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # of numpy's library; a worker needs one thread


class Pool:
    """Has pieces computed by some processes."""

    def __init__(self, network: Network, tell: Told, count: int) -> None:
        self._tell = tell
        self._known, self._version = b"", 0
        self._pending: deque[tuple[_Worker, Done]] = deque()
        self._workers: list[_Worker] = []
        self._turn = 0
        try:
            with _one_thread_each(), _interrupts_wait():
                for _ in range(count):
                    self._workers.append(_Worker(network))
        except BaseException:  # an interrupt that had to wait, too
            self._end()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers, whatever they are at."""
        self._end()

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()

    def know(self, known: Ranges) -> None:
        """Keep it for the workers: each is sent it with its next piece."""
        self._known, self._version = pickle.dumps(known), self._version + 1

    def do(self, piece: Piece, done: Done) -> None:
        """Deal a piece to the next worker."""
        if len(self._pending) >= AHEAD * len(self._workers):
            self._take()
        worker = self._workers[self._turn]
        self._turn = (self._turn + 1) % len(self._workers)
        if worker.version != self._version:
            worker.send(self._known)
            worker.version = self._version
        worker.send(pickle.dumps(piece))
        self._pending.append((worker, done))

    def wait(self) -> None:
        """Take back all bounds."""
        while self._pending:
            self._take()

    def tell(self, what: str, leaves: int) -> None:
        """Pass it on."""
        self._tell(what, leaves)

    def _take(self) -> None:
        """Take back the bounds of the oldest piece; after a fault of one, nothing is told of the later ones."""
        worker, done = self._pending.popleft()
        try:
            done(worker.receive())
        except BaseException:
            self._pending.clear()
            raise


class _Worker:
    """One process, as this one sees it."""

    def __init__(self, network: Network) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share threads of numpy's library
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, network), daemon=True)
        self._process.start()
        theirs.close()
        self.version = 0  # of what it knows

    def send(self, data: bytes) -> None:
        try:
            self._pipe.send_bytes(data)
        except OSError:
            raise self._died() from None

    def receive(self) -> Any:
        """Return bounds; raise what the worker raised."""
        try:
            bounds, memory, fault = self._pipe.recv()
        except (OSError, EOFError):
            raise self._died() from None
        if memory:
            raise MemoryError
        if fault:
            raise RuntimeError(f"in a worker: {fault}")
        return bounds

    def _died(self) -> Refused:
        return Refused(
            "a worker ended before its work was done: memory may have run out; give a smaller number of --jobs"
        )

    def end(self) -> None:
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def _work(pipe: Connection, network: Network) -> None:
    """Compute pieces until nobody is left to send any: what one process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other process's business, which ends this one
    # Pieces are taken from the pipe even while an answer waits to be read: else each side might wait for the other.
    waiting: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, waiting), daemon=True).start()
    known = Ranges([], [])
    with np.errstate(all="ignore"):
        while (data := waiting.get()) is not None:
            try:
                piece = pickle.loads(data)
                if isinstance(piece, Ranges):
                    known = piece
                    continue
                answer = piece(network, known), False, ""
            except MemoryError:
                answer = None, True, ""
            except Exception:  # told by the process that reads
                answer = None, False, traceback.format_exc()[-5000:]
            try:
                pipe.send(answer)
            except OSError:
                return


def _receive(pipe: Connection, waiting: SimpleQueue[bytes | None]) -> None:
    """Take what is sent; None in the end."""
    try:
        while True:
            waiting.put(pipe.recv_bytes())
    except (EOFError, OSError, MemoryError):
        waiting.put(None)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started now have numpy compute with one thread, unless they are told otherwise."""
    added = [name for name in POOLS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait for a moment: processes that are started now never see one, from their first moment on."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # here, as its start would let interrupts in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
