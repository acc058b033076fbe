"""A picture of a counterexample: the original, what breaks it, and the difference, with both predictions."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from netproof.core.shown.shades import common_range, levels, shades, signed

PANEL = 280  # pixels per side of each panel
GAP, MARGIN, HEAD, FOOT = 28, 28, 92, 74
INK, FAINT, GOOD, BAD, FRAME = (24, 28, 36), (84, 90, 102), (22, 122, 62), (190, 32, 38), (200, 204, 212)


def draw_counterexample(
    *,
    title: str,
    original: np.ndarray,
    broken: np.ndarray,
    scores: np.ndarray,
    broken_scores: np.ndarray,
    label: int,
    start: str = "original",
) -> bytes:
    """Draw a counterexample of images (H, W) or (H, W, 3) as PNG; scores (output,) before and after.

    start: what the first of them is. Values in [0, 1] keep their meaning; others are stretched, both images alike.
    """
    canvas = Image.new("RGB", (2 * MARGIN + 3 * PANEL + 2 * GAP, HEAD + PANEL + FOOT), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((MARGIN, 16), _fitting(pen, title, canvas.width - 2 * MARGIN, 20), fill=INK, font=_font(20))
    low, high = common_range(original, broken)
    change = broken - original
    panels = (
        (start, shades(original, low, high), _answer(scores, label)),
        ("counterexample", shades(broken, low, high), _answer(broken_scores, label)),
        ("difference", signed(change), _about(change, low, high)),
    )
    for index, (name, picture, ((words, colour), more)) in enumerate(panels):
        left = MARGIN + index * (PANEL + GAP)
        canvas.paste(_enlarged(Image.fromarray(levels(picture)).convert("RGB")), (left, HEAD))
        pen.rectangle((left - 1, HEAD - 1, left + PANEL, HEAD + PANEL), outline=FRAME)
        pen.text((left, HEAD - 34), name, fill=FAINT, font=_font(18))
        below = HEAD + PANEL + 10
        pen.text((left, below), _fitting(pen, words, PANEL, 22), fill=colour, font=_font(22))
        pen.text((left, below + 32), _fitting(pen, more, PANEL, 15), fill=FAINT, font=_font(15))
    buffer = io.BytesIO()
    canvas.save(buffer, format="PNG")
    return buffer.getvalue()


def _answer(scores: np.ndarray, label: int) -> tuple[tuple[str, tuple[int, int, int]], str]:
    """Say what is read, in green where it is the label, and the two best scores."""
    if scores.size < 2:
        return (f"output {scores.reshape(-1)[0]:.4g}", INK), ""
    best = np.argsort(scores, kind="stable")[::-1][:2]
    seen = int(scores.argmax())
    words = "scores " + ", ".join(f"{i}: {scores[i]:.3f}" for i in best)
    return (f"read as {seen}", GOOD if seen == label else BAD), words


def _about(change: np.ndarray, low: float, high: float) -> tuple[tuple[str, tuple[int, int, int]], str]:
    """Say how much is changed, and what the colours mean."""
    largest = float(np.abs(change).max(initial=0.0))
    colours = "grey where nothing changed" if change.ndim == 3 else "red brighter, blue darker"
    stretched = "" if (low, high) == (0.0, 1.0) else f"; {low:.3g} to {high:.3g}"
    return (f"at most {largest:.3g} per pixel", INK), colours + stretched


def _enlarged(picture: Image.Image) -> Image.Image:
    """Fit a picture into a panel: small ones keep sharp pixels."""
    scale = PANEL / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    fitted = picture.resize(size, Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS)
    panel = Image.new("RGB", (PANEL, PANEL), FRAME)
    panel.paste(fitted, ((PANEL - size[0]) // 2, (PANEL - size[1]) // 2))
    return panel


def _fitting(pen: ImageDraw.ImageDraw, text: str, width: int, size: int) -> str:
    """Cut a text that is too wide, in its middle."""
    while pen.textlength(text, font=_font(size)) > width and len(text) > 8:
        half = (len(text) - 2) // 2
        text = f"{text[: half - 1]}…{text[-half + 1 :]}"
    return text


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
