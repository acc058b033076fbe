"""What `netproof robust` was asked, as plain values that are cheap to import."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Question:
    """What was typed, as plain values."""

    image: str
    eps: Fraction
    norm: str
    mean: tuple[Fraction, ...] | None = None
    std: tuple[Fraction, ...] | None = None
    clip: tuple[Fraction, Fraction] | None = None

    @property
    def is_array(self) -> bool:
        return self.image.lower().endswith(".npy")
