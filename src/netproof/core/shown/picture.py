"""A small picture of an input that is an image, as PNG, without the packages that draw."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LARGEST = 1024  # pixels a side
WIDTH = 160  # of the picture in a page, in CSS pixels


@dataclass(frozen=True)
class Layout:
    """The layout of an input that is an image."""

    height: int
    width: int
    colours: int  # 1 or 3
    colours_first: bool

    def picture(self, values: np.ndarray) -> np.ndarray:
        """Arrange an input as a picture, (height, width) or (height, width, 3)."""
        if self.colours == 1:
            return values.reshape(self.height, self.width)
        if self.colours_first:
            return values.reshape(3, self.height, self.width).transpose(1, 2, 0)
        return values.reshape(self.height, self.width, 3)


def layout_of(shape: Sequence[int]) -> Layout | None:
    """Find the layout of an input of this shape: grey or RGB, colours first or last, after any axes of size 1."""
    body = tuple(shape)
    while len(body) > 3 and body[0] == 1:
        body = body[1:]
    if len(body) == 2:
        body = (1, *body)
    if len(body) != 3:
        return None
    for colours, height, width, first in ((*body, True), (body[2], body[0], body[1], False)):
        if colours in (1, 3) and height > 1 and width > 1:
            return Layout(height, width, colours, first)
    return None


def small_layout(shape: Sequence[int]) -> Layout | None:
    """Find the layout as `layout_of` does; None of an image that is too large for a page."""
    found = layout_of(shape)
    return None if found is None or max(found.height, found.width) > LARGEST else found


def png_of(image: np.ndarray) -> bytes | None:
    """Draw an input that is an image as PNG; None where it is none.

    Its values are stretched so that the least is black and the largest white.
    """
    layout = small_layout(image.shape)
    if layout is None:
        return None
    pixels = layout.picture(image.astype("float64"))
    low, high = float(pixels.min()), float(pixels.max())
    return png((pixels - low) / ((high - low) or 1.0))


def embedded(png: bytes) -> str:
    """Return the HTML that shows a PNG."""
    data = base64.b64encode(png).decode("ascii")
    style = f"width:{WIDTH}px;image-rendering:pixelated"
    return f"<img alt='the counterexample' style='{style}' src='data:image/png;base64,{data}'>"


def png(shades: np.ndarray) -> bytes:
    """Encode shades (height, width) or (height, width, 3) between 0 and 1."""
    from netproof.core.shown.shades import levels

    rows = levels(shades)
    height, width = rows.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if rows.ndim == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*parts, strict=True)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
