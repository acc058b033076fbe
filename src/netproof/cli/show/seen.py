"""A counterexample beside the original, as people see it: in words, and as a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netproof.core.shown.seen import Seen, compare
from netproof.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from netproof.core.verdict import Witness


@dataclass(frozen=True)
class Viewer:
    """Looks at a counterexample beside the original, both as `shown` arranges them."""

    original: np.ndarray  # what the network was given at first, (*input)
    scores: np.ndarray  # of the original, (output,)
    shown: Callable[[np.ndarray], np.ndarray]  # turns an input into numbers that people know, such as pixels
    picture: Callable[[np.ndarray], np.ndarray] | None = None  # these as an image; None: none is wanted
    title: str = ""
    label: int | None = None  # the output that should be the largest; None: that of the original
    start: str = ""  # what the original is, where it is none that was given

    def see(self, witness: Witness) -> Seen | None:
        """Compare, and draw where a picture is wanted; None where the network was given more than one such input."""
        import numpy as np

        if witness.given.size != self.original.size:
            return None
        before, after = (self.shown(np.asarray(x, dtype=np.float64)) for x in (self.original, witness.given))
        scores = witness.output.reshape(-1)
        label = int(self.scores.argmax()) if self.label is None else self.label
        drawn = None
        if self.picture is not None:
            from netproof.cli.show.picture import draw_counterexample

            drawn = draw_counterexample(
                title=self.title,
                original=self.picture(before),
                broken=self.picture(after),
                scores=self.scores,
                broken_scores=scores,
                label=label,
                start=self.start or "original",
            )
        return compare((before, self.scores), (after, scores), start=self.start, picture=drawn)


def check_picture(path: str | None) -> str | None:
    """Return the path of a picture that is to be drawn; UsageError unless it is a PNG by its name."""
    if path is not None and Path(path).suffix.lower() != ".png":
        raise UsageError("--picture draws a PNG", file=path, remedy="give a name that ends in .png")
    return path
