"""Processes that tests start: how long they may take, and whether they are still there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

HANG = 120  # seconds: far beyond any right behaviour


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
