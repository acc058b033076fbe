"""A picture of a counterexample: the original, what breaks it, and the difference, with both predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PANEL = 280  # pixels per side of each panel
GAP, MARGIN, HEAD, FOOT = 28, 28, 92, 74
INK, FAINT, GOOD, BAD = (24, 28, 36), (112, 118, 130), (22, 122, 62), (190, 32, 38)
LESS, MORE = np.array([33, 102, 172.0]), np.array([178, 24, 43.0])  # darker, brighter


def draw_counterexample(
    path: Path,
    *,
    title: str,
    original: np.ndarray,
    broken: np.ndarray,
    scores: np.ndarray,
    broken_scores: np.ndarray,
    label: int,
) -> None:
    """Draw a counterexample of grey images (H, W) in [0, 1]; scores (output,) before and after."""
    width = 2 * MARGIN + 3 * PANEL + 2 * GAP
    canvas = Image.new("RGB", (width, HEAD + PANEL + FOOT), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((MARGIN, 16), title, fill=INK, font=_font(20))

    change = broken - original
    panels = (
        ("original", _grey(original), scores),
        ("counterexample", _grey(broken), broken_scores),
        ("difference", _signed(change), None),
    )
    for index, (name, picture, answer) in enumerate(panels):
        left = MARGIN + index * (PANEL + GAP)
        canvas.paste(_enlarged(picture), (left, HEAD))
        pen.rectangle((left - 1, HEAD - 1, left + PANEL, HEAD + PANEL), outline=(200, 204, 212))
        pen.text((left, HEAD - 34), name, fill=FAINT, font=_font(18))
        below = HEAD + PANEL + 10
        if answer is None:
            largest = float(np.abs(change).max(initial=0.0))
            pen.text((left, below), f"at most {largest:.3g} per pixel", fill=INK, font=_font(20))
            pen.text((left, below + 30), "red brighter, blue darker", fill=FAINT, font=_font(15))
        else:
            seen = int(answer.argmax())
            pen.text((left, below), f"read as {seen}", fill=GOOD if seen == label else BAD, font=_font(22))
            pen.text((left, below + 30), _top(answer), fill=FAINT, font=_font(15))
    canvas.save(path)


def _top(scores: np.ndarray) -> str:
    best = np.argsort(scores)[::-1][:2]
    return "scores " + ", ".join(f"{i}: {scores[i]:.3f}" for i in best)


def _grey(image: np.ndarray) -> Image.Image:
    return Image.fromarray(np.rint(image.clip(0, 1) * 255).astype(np.uint8)).convert("RGB")


def _signed(change: np.ndarray) -> Image.Image:
    """Colour a change: white where nothing changed, full colour at the largest change."""
    scale = float(np.abs(change).max(initial=0.0)) or 1.0
    share = (np.abs(change) / scale)[..., None]
    colour = np.where(change[..., None] > 0, MORE, LESS)
    return Image.fromarray(np.rint(255 * (1 - share) + colour * share).astype(np.uint8))


def _enlarged(picture: Image.Image) -> Image.Image:
    return picture.resize((PANEL, PANEL), Image.Resampling.NEAREST)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
