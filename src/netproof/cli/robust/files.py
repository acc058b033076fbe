"""Picture files as whole numbers: PNG and JPEG, grey or colour, with or without transparency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netproof.core.shown.picture import Layout, layout_of
from netproof.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

PLAIN = {"L": 255, "RGB": 255, "I;16": 65535}  # by mode of a picture that is taken as it is, its value for white
GREY = {"1": "L", "L": "L", "I;16": "I;16"}  # by mode that has no colours, what it is read as
COLOURED = ("P", "RGB", "CMYK", "YCbCr")


@dataclass(frozen=True)
class Picture:
    """Pixels (H, W) or (H, W, 3) as whole numbers, the value of white, and what was done to get them."""

    pixels: np.ndarray
    white: int
    notes: tuple[str, ...] = ()


def read_picture(path: str, shape: tuple[int, ...], *, resize: bool) -> Picture:
    """Read a picture for an input of this shape: as it is where that fits, else with its channels converted.

    A picture of another size is scaled only where that was asked for.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as file:
            _refuse_cut(path, file)
            file.load()
            image: Image.Image = ImageOps.exif_transpose(file)
            transparent = "transparency" in file.info or file.mode in ("LA", "PA", "RGBA")
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"not a readable picture: {first}", file=path, remedy="save it again as PNG or JPEG"
        ) from error
    notes: list[str] = []
    plain = _opaque(path, image, notes) if transparent else _plain(path, image)
    layout = layout_of(shape)
    if resize:
        plain = _resized(path, plain, layout, shape, notes)
    pixels = np.asarray(plain).astype(np.int64)
    return Picture(_with_channels(plain, pixels, layout, notes), PLAIN[plain.mode], tuple(notes))


def _refuse_cut(path: str, file: ImageFile) -> None:
    """Refuse what would be read with fewer bits than it has: colours of 16 bits, whose lower half is left out."""
    stored = {tile[3] if isinstance(tile[3], str) else tile[3][0] for tile in file.tile if tile[3]}
    if file.mode != "I;16" and any(";16" in str(raw) for raw in stored):
        raise UsageError("colours of 16 bits are not read exactly", file=path, remedy="save it with 8 bits, or as grey")


def _plain(path: str, image: Image) -> Image:
    if image.mode in GREY:
        return image if image.mode == GREY[image.mode] else image.convert("L")
    if image.mode not in COLOURED:
        raise UsageError(f"colour mode {image.mode} is not supported", file=path, remedy="save it as plain grey or RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _opaque(path: str, image: Image, notes: list[str]) -> Image:
    """Leave out a channel of transparency; what is transparent shows white."""
    from PIL import Image as Module

    if image.mode not in (*GREY, *COLOURED, "LA", "PA", "RGBA") or image.mode == "I;16":
        raise UsageError(
            f"transparency of colour mode {image.mode} is not supported", file=path, remedy="save it as RGBA"
        )
    grey = image.mode in ("LA", "L", "1")
    full = image.convert("RGBA")
    if full.getchannel("A").getextrema()[0] != 255:
        white = Module.new("RGBA", full.size, "white")
        full = Module.alpha_composite(white, full)
        notes.append("transparent parts of the image are white")
    return full.convert("RGB").getchannel(0) if grey else full.convert("RGB")


def _resized(path: str, image: Image, layout: Layout | None, shape: tuple[int, ...], notes: list[str]) -> Image:
    from PIL import Image as Module

    if layout is None:
        raise UsageError(
            f"--resize: the network's input {list(shape)} is not an image", file=path, remedy="scale the image yourself"
        )
    size = (layout.width, layout.height)
    if image.size == size:
        return image
    if image.mode == "I;16":
        raise UsageError("--resize: 16 bits are not scaled", file=path, remedy="save it with 8 bits, or scale it")
    notes.append("the image was scaled from {}x{} to {}x{}".format(*image.size, *size))
    return image.resize(size, Module.Resampling.BILINEAR)


def _with_channels(image: Image, pixels: np.ndarray, layout: Layout | None, notes: list[str]) -> np.ndarray:
    """Convert colours to grey, or grey to three equal channels, where the size fits and the channels do not."""
    if layout is None or pixels.shape[:2] != (layout.height, layout.width):
        return pixels
    if layout.colours == 1 and pixels.ndim == 3:
        notes.append("the image was converted to grey")
        return np.asarray(image.convert("L")).astype(np.int64)
    if layout.colours == 3 and pixels.ndim == 2:
        notes.append("the grey image has three equal channels")
        return np.stack([pixels] * 3, axis=-1)
    return pixels
