"""Pictures beside each other for a page: the original, the counterexample, the difference, with words below each."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

import numpy as np

from netproof.core.shown.picture import png
from netproof.core.shown.shades import common_range, shades, signed

SIDE, GAP, LINE = 160, 16, 21  # pixels per side of a picture, between two, and of a line of text
PLACES = 3  # beside each other, also where some are empty, so that all such drawings have one size
THEME = (  # they lie on the page's own ground
    "text{fill:#1b1f24}.name{fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#e6eaef}.name{fill:#a3adb8}}"
)
Part = tuple[np.ndarray, str, str]  # a picture (H, W) or (H, W, 3), what it is, and what is to say of it


def panels(images: Sequence[Part], title: str) -> bytes:
    """Draw one or two images as SVG, in the same shades; of two, the second being the changed one, the change too."""
    low, high = common_range(*(image for image, _, _ in images))
    parts = [(shades(image, low, high), name, words) for image, name, words in images]
    if len(images) == 2:
        change = images[1][0] - images[0][0]
        parts.append((signed(change), "difference", f"at most {np.abs(change).max(initial=0.0):.3g}"))
    width, height = PLACES * (SIDE + GAP) - GAP, SIDE + 2 * LINE + 8
    drawn = "".join(_panel(place * (SIDE + GAP), part) for place, part in enumerate(parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="sans-serif" font-size="17"><title>{escape(title)}</title><style>{THEME}</style>{drawn}</svg>'
    ).encode()


def _panel(left: int, part: Part) -> str:
    picture, name, words = part
    data = base64.b64encode(png(picture)).decode("ascii")
    lines = ((name, ' class="name"'), (words, ""))
    text = "".join(
        f'<text x="{left}" y="{SIDE + (place + 1) * LINE}"{kind}>{escape(line)}</text>'
        for place, (line, kind) in enumerate(lines)
    )
    return (
        f'<image x="{left}" y="0" width="{SIDE}" height="{SIDE}" style="image-rendering:pixelated"'
        f' href="data:image/png;base64,{data}"/>{text}'
    )
