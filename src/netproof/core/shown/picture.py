"""A small picture of an input that is an image, as PNG, without the packages that draw."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

HALF_STEP = 1 / 510  # half of one of the 255 steps of grey: rounding may lead as far out of [0, 1]
LARGEST = 1024  # pixels a side
WIDTH = 160  # of the picture in a page, in CSS pixels


def png_of(image: np.ndarray) -> bytes | None:
    """Draw an image (…, channels, height, width) with 1 or 3 channels as PNG; None where it is none.

    Its values are stretched so that the least is black and the largest white.
    """
    shape = tuple(image.shape)
    if len(shape) < 3 or shape[-3] not in (1, 3) or min(shape[-2:]) < 2 or max(shape[-2:]) > LARGEST:
        return None
    if image.size != shape[-3] * shape[-2] * shape[-1]:
        return None  # a batch of several
    pixels = image.reshape(shape[-3:]).transpose(1, 2, 0).astype("float64")
    return png(shades(pixels, float(pixels.min()), float(pixels.max())))


def shown_range(*images: np.ndarray) -> tuple[float, float]:
    """Return what is black and what is white: values in [0, 1] keep their meaning, others are stretched, all alike."""
    low, high = min(float(image.min()) for image in images), max(float(image.max()) for image in images)
    return (0.0, 1.0) if low >= -HALF_STEP and high <= 1 + HALF_STEP else (low, high)


def shades(image: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return an image of any shape as levels from 0, at `low` and below, to 255."""
    scaled = ((image.astype("float64") - low) / ((high - low) or 1.0)).clip(0, 1)
    return (scaled * 255).round().astype("uint8")


def embedded(png: bytes) -> str:
    """Return the HTML that shows a PNG."""
    data = base64.b64encode(png).decode("ascii")
    style = f"width:{WIDTH}px;image-rendering:pixelated"
    return f"<img alt='the counterexample' style='{style}' src='data:image/png;base64,{data}'>"


def png(levels: np.ndarray) -> bytes:
    """Encode levels (height, width) or (height, width, channels) of uint8."""
    height, width, channels = (*levels.shape, 1)[:3]
    lines = b"".join(b"\0" + levels[row].tobytes() for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*parts, strict=True)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
