"""A deadline that is counted in looks at it: the same on every machine, under any load."""

from __future__ import annotations

from netproof.core.deadline import Deadline


class Looks(Deadline):
    """Comes once it was looked at so many times, however long that takes."""

    def __init__(self, left: float) -> None:
        super().__init__()
        self.left = left

    @property
    def expired(self) -> bool:
        self.left -= 1
        return self.left < 0

    def remaining(self) -> float:
        return 1000.0 if self.left > 0 else 0.0
