"""What `netproof robust` was asked, and what it found, as plain values that are cheap to import."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from netproof.cli.show.answer import Answer
from netproof.run.record import Record

PICTURES = (".png", ".jpg", ".jpeg")  # how names of picture files end


@dataclass(frozen=True)
class Question:
    """What was typed, as plain values."""

    image: str
    eps: Fraction
    norm: str
    mean: tuple[Fraction, ...] | None = None
    std: tuple[Fraction, ...] | None = None
    clip: tuple[Fraction, Fraction] | None = None
    resize: bool = False

    @property
    def is_array(self) -> bool:
        return self.image.lower().endswith(".npy")


@dataclass(frozen=True)
class Row:
    """An answer: about one target at --eps, or about all of them at one radius."""

    key: int | Fraction  # the target, or the radius
    answer: Answer
    seconds: float

    @property
    def record(self) -> Record:
        return self.answer.record


def shown_radius(eps: int | Fraction | None) -> str:
    """Write a radius as a decimal where that is exact, else as a fraction; "none" for None."""
    if eps is None:
        return "none"
    text = f"{float(eps):.10g}"
    return text if Fraction(text) == eps else str(eps)


def part_of(eps: Fraction) -> str:
    """Name the folder of what a certificate for a radius is made of."""
    return f"{eps.numerator}-{eps.denominator}"
