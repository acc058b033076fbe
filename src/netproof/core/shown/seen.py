"""What a counterexample looks like in a line: what it is read as, and how far it is from where it started."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MIDDLE = "middle of the input set"  # where one starts that was given no image


@dataclass(frozen=True)
class Seen:
    """Plain values, which the worker sends."""

    read_as: int | None  # the largest output; None of a network that has one
    was: int | None  # the same of the original
    changed: float  # the largest change of one number
    picture: bytes | None = None
    start: str = ""  # what the original is, where it is none that was given

    @property
    def words(self) -> str:
        """Say it as in `read as 3 (was 5), changed by at most 0.1`."""
        far = f"changed by at most {self.changed:.4g}"
        if self.read_as is None:
            return far
        still = "still " if self.read_as == self.was else ""
        was = f"{self.was} in the {self.start}" if self.start else f"{self.was}"
        return f"{still}read as {self.read_as}{'' if still else f' (was {was})'}, {far}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for --json."""
        return {"read_as": self.read_as, "was": self.was, "changed": self.changed}


def compare(
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
    *,
    start: str = "",
    picture: bytes | None = None,
) -> Seen:
    """Compare two inputs of a network, each with its outputs."""
    import numpy as np

    (x, old), (changed, new) = before, after
    far = float(np.abs(changed - x.reshape(changed.shape)).max(initial=0.0))
    read = [int(scores.argmax()) if scores.size > 1 else None for scores in (new, old)]
    return Seen(read[0], read[1], far if math.isfinite(far) else 0.0, picture, start)
