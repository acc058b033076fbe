"""torch's settings while netproof computes, and the caller's again afterwards, also when it raises.

Some settings belong to the process and some to the thread. Those of the process are changed by the first call that
begins and restored by the last one that ends, so that calls in several threads do not undo each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from netproof.numerics import use_strict_float32


class _Thread(threading.local):
    inside = False  # whether this thread is in a call already


_thread = _Thread()
_lock = threading.Lock()
_running = 0  # calls under way in this process
_callers: _Settings | None = None  # what the first of them found


@dataclass(frozen=True)
class _Settings:
    """The settings of the whole process; `legacy…` is None where torch cannot say, because newer names are in use."""

    dtype: torch.dtype
    device: torch.device
    threads: int
    benchmark: bool
    deterministic: bool
    legacy_matmul: str | None
    legacy_cudnn: bool | None
    precision: tuple[str, ...]

    @classmethod
    def read(cls) -> _Settings:
        return cls(
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.get_num_threads(),
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic,
            _or_none(torch.get_float32_matmul_precision),
            _or_none(lambda: torch.backends.cudnn.allow_tf32),
            tuple(part.fp32_precision for part in _precisions()),
        )

    def restore(self) -> None:
        """Restore all but the number of threads, which every call restores for its own thread."""
        torch.set_default_dtype(self.dtype)
        torch.backends.cudnn.benchmark = self.benchmark
        torch.backends.cudnn.deterministic = self.deterministic
        if self.legacy_matmul is not None:
            torch.set_float32_matmul_precision(self.legacy_matmul)
        if self.legacy_cudnn is not None:
            torch.backends.cudnn.allow_tf32 = self.legacy_cudnn
        for part, value in zip(_precisions(), self.precision, strict=True):
            if part.fp32_precision != value:
                part.fp32_precision = value


def _precisions() -> tuple[Any, ...]:
    """Return where torch keeps the precision of float32 arithmetic, from the general to the special."""
    backends: Any = torch.backends
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    return (
        backends,
        *(backends.cuda.matmul, cudnn, cudnn.conv, cudnn.rnn),
        *(mkldnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn),
    )


def _or_none(read: Any) -> Any:
    try:
        return read()
    except RuntimeError:
        return None


@contextmanager
def engine_state() -> Iterator[None]:
    """Set strict float32, gradients on, no automatic casts, and float32 on the CPU as the default of new tensors."""
    with _process_settings() as callers, ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads() if _thread.inside else callers.threads)
        stack.callback(setattr, _thread, "inside", _thread.inside)
        if not _thread.inside:  # until it is known how much there is to do: threads that wait for each other spin
            torch.set_num_threads(1)
        _thread.inside = True
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))  # numpy's own
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())  # type: ignore[no-untyped-call,unused-ignore]
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def _process_settings() -> Iterator[_Settings]:
    global _running, _callers
    with _lock:
        if _callers is None:
            found = _Settings.read()
            use_strict_float32()
            torch.set_default_dtype(torch.float32)
            _callers = found
        _running += 1
        callers = _callers
    try:
        yield callers
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                callers.restore()
                _callers = None


@contextmanager
def callers_state() -> Iterator[None]:
    """Set the caller's default type and device again, while code of theirs runs: their module may depend on them."""
    callers = _callers
    if callers is None:
        yield
        return
    engines = torch.get_default_dtype()
    with ExitStack() as stack:
        torch.set_default_dtype(callers.dtype)
        stack.callback(torch.set_default_dtype, engines)
        if callers.device != torch.get_default_device():
            stack.enter_context(callers.device)
        yield
