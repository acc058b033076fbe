"""A counterexample as a file: text, the array itself, or a picture of it. numpy is imported only to write one."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netproof.cli.show.output import TENSOR
from netproof.core.shown.picture import Layout, layout_of
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

    from netproof.core.shown.shades import common_range, levels, shades

    low, high = common_range(values)
    note = f"in the picture {low:.6g} is black and {high:.6g} white, in 256 steps; .npy and .txt keep every digit"
    about = PngInfo()
    about.add_text("Description", f"counterexample by netproof; {note}")
    buffer = io.BytesIO()
    Image.fromarray(levels(shades(values, low, high))).save(buffer, format="PNG", pnginfo=about)
    return buffer.getvalue(), note
