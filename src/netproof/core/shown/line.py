"""Progress in one line of a given width, for terminals and notebooks: what matters less is left out, nothing is cut."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping, Sequence
from typing import Any

BAR = 20  # characters of a bar where there is room
RATED = 30  # messages over which domains per second are counted: about ten come per second

PHASES = {
    "load": "reading",
    "attack": "looking for a counterexample",
    "root": "bounding",
    "search": "branching",
    "leaf": "deciding leaves",
    "confirm": "confirming",
}

Parts = Sequence[tuple[int, str]]  # texts, each with its rank: 0 always stays, the highest goes first


def fitting_line(parts: Parts, width: int | None, between: str = " · ") -> str:
    """Join parts in their order; where they are too wide, without those of the highest ranks."""
    left = [(rank, text) for rank, text in parts if text]
    while width is not None and len(between.join(text for _, text in left)) > width:
        worst = max(rank for rank, _ in left)
        if worst == 0:
            break
        left.remove(next(part for part in reversed(left) if part[0] == worst))
    return between.join(text for _, text in left)


def bar(done: int, total: int, width: int = BAR) -> str:
    """Draw how much is done."""
    full = width * done // max(1, total)
    return "█" * full + "░" * (width - full)


def duration(seconds: float) -> str:
    """Write a time as people say it.

    >>> duration(4.2), duration(75), duration(3900), duration(200000)
    ('4 s', '1 min 15 s', '1 h 05 min', '2 d 7 h')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


class Pace:
    """Follows the progress of a run, of one question or of a data set, and says it in parts of a line."""

    def __init__(self, started: float) -> None:
        self._started = started
        # When, how many domains were bounded, and how many are open.
        self._counts: collections.deque[tuple[float, int, int]] = collections.deque(maxlen=RATED)
        self._first: tuple[float, int] | None = None  # when the first of a data set were answered, and how many

    def note(self, latest: Mapping[str, Any]) -> None:
        """Take in what a run says of itself."""
        if "images" in latest:
            self._first = self._first or (time.monotonic(), latest["done"])
            return
        domains = latest.get("domains") or 0
        if self._counts and domains < self._counts[-1][1]:
            self._counts.clear()  # another problem began to count
        self._counts.append((time.monotonic(), domains, latest.get("frontier") or 0))

    def parts(self, latest: Mapping[str, Any], title: str = "", ends: float | None = None) -> Parts:
        """Say it, as `branching · [-0.85 … +0.25] need > 0 · 2385 open ↓ · 953/s · 12 s · 48 s left`.

        Between the brackets is what is proved so far and the least value that was seen: it is proved once the first is
        above 0, and broken where the second is not. ends: when the time is up.
        """
        if "images" in latest:
            return self._of_images(latest)
        now, phase = time.monotonic(), PHASES.get(latest["phase"], latest["phase"])
        if (latest.get("problems") or 1) > 1:
            phase += f" {latest['problem'] + 1} of {latest['problems']}"
        between = _between(latest)
        return [
            (0, title),
            (3 if title or between else 0, phase),
            (0, between),
            (2, self._open(latest)),
            (5, f"{self._rate():.0f}/s" if latest.get("domains") else ""),
            (6, duration(now - self._started)),
            (4, "" if ends is None else f"{duration(ends - now)} left"),
        ]

    def _of_images(self, latest: Mapping[str, Any]) -> Parts:
        """Say it, as `████░░░░ · 120 of 200 images · bound · 12 s · about 8 s left`."""
        now, done, images = time.monotonic(), latest["done"], latest["images"]
        since, before = self._first or (now, done)
        going = before < done < images
        left = f"about {duration((now - since) / (done - before) * (images - done))} left" if going else ""
        took = duration(now - self._started)
        return [
            (2, bar(done, images)),
            (0, f"{done} of {images} images"),
            (1, latest["phase"]),
            (4, took),
            (3, left),
        ]

    def _open(self, latest: Mapping[str, Any]) -> str:
        """Say how many sub-domains are open, and whether they become fewer."""
        count = latest.get("frontier")
        if not count:
            return ""
        before = self._counts[0][2] if self._counts else count
        return f"{count} open{' ↓' if count < before else ' ↑' if count > before else ''}"

    def _rate(self) -> float:
        """Return the domains per second over the last few seconds."""
        if not self._counts:
            return 0.0
        (since, fewer, _), (now, more, _) = self._counts[0], self._counts[-1]
        return (more - fewer) / (now - since) if now > since else 0.0


def _between(latest: Mapping[str, Any]) -> str:
    low, high = (latest.get(side) for side in ("lower_bound", "upper_bound"))
    if low is None:
        return ""
    return f"[{low:+.3g} … {'' if high is None else f'{high:+.3g}'}] need > 0"
