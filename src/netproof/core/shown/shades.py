"""Numbers as shades between 0 and 1: of an image, and of a change between two; and shades as bytes."""

from __future__ import annotations

import numpy as np

HALF_STEP = 1 / 510  # half of one of the 255 steps of grey: rounding may lead as far out of [0, 1]
LESS, MORE = np.array([33, 102, 172]) / 255, np.array([178, 24, 43]) / 255  # darker, brighter


def common_range(*images: np.ndarray) -> tuple[float, float]:
    """Return what is black and what is white in all of them: 0 and 1 where they are pixels, else the extremes."""
    low, high = min(float(image.min()) for image in images), max(float(image.max()) for image in images)
    return (0.0, 1.0) if low >= -HALF_STEP and high <= 1 + HALF_STEP else (low, high)


def shades(image: np.ndarray, low: float, high: float) -> np.ndarray:
    """Shade values between black and white."""
    found: np.ndarray = ((image.astype(np.float64) - low) / ((high - low) or 1.0)).clip(0, 1)
    return found


def levels(shades: np.ndarray) -> np.ndarray:
    """Return shades between 0 and 1 in the 256 steps of a picture."""
    found: np.ndarray = np.rint(shades * 255).astype(np.uint8)
    return found


def signed(change: np.ndarray) -> np.ndarray:
    """Colour a change, strongest at the largest: of grey images on white, of colours about middle grey."""
    scale = float(np.abs(change).max(initial=0.0)) or 1.0
    if change.ndim == 3:
        return shades(change, -scale, scale)
    share = (np.abs(change) / scale)[..., None]
    found: np.ndarray = 1 - share + np.where(change[..., None] > 0, MORE, LESS) * share
    return found
