"""A counterexample as a file: text, the array itself, or a picture of it. numpy is imported only to write one."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netproof.cli.show.output import TENSOR
from netproof.core.shown.picture import shades, shown_range
from netproof.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from netproof.core.verdict import Witness

FORMS = {".npy": "npy", ".png": "png"}  # by suffix; any other is text, except OTHER_PICTURES, which are refused
OTHER_PICTURES = {".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".svg", ".pdf"}


def form_of(path: str | None) -> str:
    """Return how a witness is written to a file of that name; UsageError for other kinds of picture."""
    suffix = os.path.splitext(path or "")[1].lower()
    if suffix in OTHER_PICTURES:
        raise UsageError(
            f"--witness cannot write {suffix}", file=path, remedy="use .png for a picture, .npy for the array, or .txt"
        )
    return FORMS.get(suffix, "text")


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


def image_layout(shape: Sequence[int], model: str, option: str = "--witness") -> Layout:
    """Find the layout as `layout_of` does, where an option asks for a picture; UsageError if it is not an image."""
    found = layout_of(shape)
    if found is None:
        raise UsageError(
            f"its input {list(shape)} is not an image, so {option} cannot draw it",
            file=model,
            remedy="use .npy or .txt" if option == "--witness" else "leave it out, or save --witness as .npy or .txt",
        )
    return found


@dataclass(frozen=True)
class Saver:
    """Turns a witness into the content of a file; `pixels` undoes what was done to pixels in [0, 1]."""

    form: str
    layout: Layout | None = None
    pixels: Callable[[np.ndarray], np.ndarray] | None = None
    serialise: bool = False  # every tensor as ONNX holds one, too

    def content(self, witness: np.ndarray) -> tuple[bytes | None, str]:
        """Return the file, None where it is the witness as text; and a note on what a picture does not show."""
        import numpy as np

        if self.form == "text":
            return None, ""
        if self.form == "npy":
            buffer = io.BytesIO()
            np.save(buffer, witness)
            return buffer.getvalue(), ""
        assert self.layout is not None
        return _png(self.layout.picture(witness if self.pixels is None else self.pixels(witness)))


def serialised(witness: Witness) -> dict[str, bytes]:
    """Return every tensor of a witness as an ONNX TensorProto, by the name of its file; without names it is X and Y."""
    from onnx import numpy_helper

    arrays = {tensor.name: (tensor.array, tensor.dtype) for tensor in witness.tensors}
    arrays = arrays or {"X": (witness.input, "real"), "Y": (witness.output, "real")}
    return {
        f"{name}{TENSOR}": numpy_helper.from_array(
            array if dtype == "real" else array.astype(dtype), name
        ).SerializeToString()
        for name, (array, dtype) in arrays.items()
    }


def _png(values: np.ndarray) -> tuple[bytes, str]:
    """Draw with eight bits per colour. Values in [0, 1] keep their meaning; others are stretched to the full range."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    low, high = shown_range(values)
    note = f"in the picture {low:.6g} is black and {high:.6g} white, in 256 steps; .npy and .txt keep every digit"
    about = PngInfo()
    about.add_text("Description", f"counterexample by netproof; {note}")
    buffer = io.BytesIO()
    Image.fromarray(shades(values, low, high)).save(buffer, format="PNG", pnginfo=about)
    return buffer.getvalue(), note
