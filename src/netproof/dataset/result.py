"""What certifying a data set gave: an answer for each image, and the three accuracies that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from netproof.core.about import About
from netproof.core.verdict import Witness


class ImageStatus(StrEnum):
    """What is known of one image."""

    MISREAD = "misread"  # the network reads the image itself as something else
    BROKEN = "broken"  # it reads the image right, and a replayed counterexample within the radius not
    PROVED = "proved"  # no counterexample exists
    OPEN = "open"  # neither a proof nor a counterexample was found


FAILURES = (ImageStatus.BROKEN, ImageStatus.MISREAD)  # what people want to see


@dataclass(frozen=True, eq=False)
class ImageResult:
    """One image: what the network reads, and what holds within the radius."""

    index: int
    label: int
    predicted: int  # onnxruntime's largest output for the image itself, see `predicted_class`
    status: ImageStatus
    seconds: float = 0.0  # its share of what was done in batches, and its own search
    margin: float | None = None  # proved: within the radius the label leads every other output by at least so much
    read_as: int | None = None  # the largest output for the witness
    witness: Witness | None = None
    decided_by: str = ""  # "image", "attack", "root", "search" or "leaf"
    reason: str = ""  # why it is open
    certificate: Mapping[str, Any] | None = None  # of a proof, what became of its certificate, where one was asked for

    def __repr__(self) -> str:
        read = "" if self.read_as is None else f", read as {self.read_as}"
        return f"ImageResult({self.index}: label {self.label}, {self.status}{read}, {self.seconds:.3f} s)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the witness's arrays, as plain values for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "witness"}
        return {**plain, "status": str(self.status)}


@dataclass(frozen=True, eq=False)
class Certification:
    """The answers for a data set, and its accuracies: clean, attacked and certified.

    The true robust accuracy is at least `certified` and at most `attacked`; they differ by what is open.
    """

    images: tuple[ImageResult, ...]
    eps: str
    norm: str
    seconds: float = 0.0
    about: About | None = None  # which network

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[ImageResult]:
        return iter(self.images)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many images have each status."""
        return counts(self.images)

    @property
    def clean(self) -> float:
        """Return the share of images that the network reads right."""
        return self._share(ImageStatus.BROKEN, ImageStatus.PROVED, ImageStatus.OPEN)

    @property
    def attacked(self) -> float:
        """Return the share that is read right and was not broken: the robust accuracy is at most this."""
        return self._share(ImageStatus.PROVED, ImageStatus.OPEN)

    @property
    def certified(self) -> float:
        """Return the share that is proved: the robust accuracy is at least this."""
        return self._share(ImageStatus.PROVED)

    @property
    def open(self) -> int:
        """Return how many images are neither proved nor broken."""
        return self.counts["open"]

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the least and the most that the true robust accuracy can be."""
        return self.certified, self.attacked

    def _share(self, *statuses: ImageStatus) -> float:
        found = self.counts
        return sum(found[status] for status in statuses) / max(1, len(self.images))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the witnesses' arrays, as plain values for JSON."""
        return {
            "eps": self.eps,
            "norm": self.norm,
            "images": len(self.images),
            "clean": self.clean,
            "attacked": self.attacked,
            "certified": self.certified,
            "counts": self.counts,
            "seconds": self.seconds,
            "about": None if self.about is None else self.about.to_dict(),
            "results": [image.to_dict() for image in self.images],
        }

    def line(self) -> str:
        """Say the three accuracies in one line, `key value` pairs that a script can split."""
        shares = f"clean {self.clean:.4f} attacked {self.attacked:.4f} certified {self.certified:.4f}"
        return f"{shares} open {self.open} images {len(self.images)}"

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {percent(getattr(self, name))}" for name in ("clean", "attacked", "certified"))
        return f"Certification({len(self.images)} images, eps {self.eps}, norm {self.norm}: {found}, {self.open} open)"


def counts(images: Sequence[ImageResult]) -> dict[str, int]:
    """Return how many images have each status, all four named."""
    found = Counter(str(image.status) for image in images)
    return {str(status): found[status] for status in ImageStatus}


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
