"""How much memory a run allows itself: what it was told to stay below, and less each time it ran out.

Everything that sizes itself by free memory asks here, by way of `bounds/linear/memory.py`. One allowance holds for one
run: `allowing` sets it for the thread that the run is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from netproof.errors import OutOfMemory, UsageError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
PLACES = ("gpu", "host")
LEAST = 1 / 256  # share of what a run may hold at once below which it is of no use to halve again
# By torch, by onnxruntime, by C++, by CUDA where not torch but the driver runs out, by its libraries.
SAID = ("can't allocate memory", "Failed to allocate memory", "bad_alloc", "CUDA error: out of memory", "ALLOC_FAILED")
REMEDY = "give a size as 8G or 500M, for one place as gpu=16G,host=8G"


@dataclass(frozen=True)
class Caps:
    """Bytes that a run may take on the GPU and on the host; None: what there is."""

    gpu: int | None = None
    host: int | None = None

    def __str__(self) -> str:
        return ",".join(f"{place}={getattr(self, place)}" for place in PLACES if getattr(self, place) is not None)


NO_CAPS = Caps()


def read_caps(given: Any, name: str = "memory") -> Caps:
    """Read `8G` (both places), `gpu=16G,host=8G`, a number of bytes, or a dictionary; None: no caps."""
    if given is None or isinstance(given, Caps):
        return given or NO_CAPS
    if isinstance(given, str) and "=" in given:
        pairs = [part.partition("=") for part in given.split(",")]
        names = [place.strip() for place, _, _ in pairs]
        if len(set(names)) < len(names):
            raise UsageError(f"{name}: {given!r} names a place twice", remedy=REMEDY)
        given = {place.strip(): size for place, _, size in pairs}
    if not isinstance(given, Mapping):
        size = _size(given, name)
        return Caps(size, size)
    unknown = [place for place in given if place not in PLACES]
    if unknown or not given:
        raise UsageError(f"{name}: {unknown[0] if unknown else given!r} is no place", remedy=REMEDY)
    return Caps(**{place: None if size is None else _size(size, name) for place, size in given.items()})


def _size(given: Any, name: str) -> int:
    """Read a size in bytes, with a unit or without."""
    text = str(given).strip().upper().removesuffix("B").removesuffix("I")
    unit = text[-1:] if text[-1:] in UNITS else ""
    number = text.removesuffix(unit).strip()
    real = not isinstance(given, bool) and number.replace(".", "", 1).isdecimal()
    size = int(float(number) * UNITS[unit]) if real and len(number) < 20 else 0
    if size < 1:
        raise UsageError(f"{name}: {given!r} is not a size of memory", remedy=REMEDY)
    return size


@dataclass
class Allowance:
    """What a run may take; `share` of what it would hold at once, halved each time that was too much."""

    caps: Caps = NO_CAPS
    share: float = 1.0
    tidied: bool = False  # whether what earlier runs left behind was looked for

    def halve(self) -> bool:
        """Allow half as much at once from now on; False where that would be of no use."""
        if self.share <= LEAST:
            return False
        self.share /= 2
        return True

    def renew(self) -> None:
        """Allow as much as at first: what was too much for one question may not be for the next."""
        self.share = 1.0


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def allowance() -> Allowance:
    """Return that of the run under way; outside of one, that of the thread, which is all there is."""
    found = _allowance.get()
    if found is None:
        found = Allowance()
        _allowance.set(found)
    return found


@contextmanager
def allowing(caps: Caps) -> Iterator[Allowance]:
    """Let a run take no more than this."""
    given = Allowance(caps)
    token = _allowance.set(given)
    try:
        yield given
    finally:
        _allowance.reset(token)


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether memory ran out: torch has an error of its own on a GPU; others are plain ones."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    told = isinstance(error, RuntimeError) or type(error).__module__.startswith("onnxruntime.")
    return told and any(words in str(error) for words in SAID)


def unless_out_of_memory(error: BaseException) -> None:
    """Raise it again where memory ran out: for a handler that takes errors of its type for something else."""
    if is_out_of_memory(error):
        raise error


@contextmanager
def said_plainly(plainly: OutOfMemory | None = None) -> Iterator[None]:
    """Let an error of memory that nothing caught be one that names a remedy: this one, or what fits everywhere."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise plainly or OutOfMemory("out of memory") from error
