"""An image and a radius as an input region. Pixels are exact fractions throughout.

A picture is perturbed in pixel space, clipped to [0, 1], and then normalised as (pixel − mean) / std; an .npy is
the network's own input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from netproof.cli.robust.files import read_picture
from netproof.core.shown.picture import Layout
from netproof.errors import UsageError

if TYPE_CHECKING:
    from netproof.cli.robust.question import Question
    from netproof.problem.specs import InputRegion


@dataclass(frozen=True)
class Centre:
    """The unperturbed input: exact values and channels, both of the network's input shape."""

    values: np.ndarray  # of Fraction, in pixel space
    channels: np.ndarray  # of int; all 0 for an array
    mean: tuple[Fraction, ...]
    std: tuple[Fraction, ...]
    layout: Layout | None = None  # of the picture that it was read from
    notes: tuple[str, ...] = ()  # what was done to that

    def pixels(self, values: np.ndarray) -> np.ndarray:
        """Turn inputs of the network back into pixels."""
        mean, std = (np.array(side, dtype=np.float64)[self.channels] for side in (self.mean, self.std))
        return np.asarray(values.reshape(self.channels.shape) * std + mean)

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """Return (value − mean) / std, by channel."""
        known: dict[tuple[Fraction, int], Fraction] = {}

        def scale(value: Fraction, channel: int) -> Fraction:
            key = (value, channel)
            if key not in known:
                known[key] = (value - self.mean[channel]) / self.std[channel]
            return known[key]

        return _each(scale, values, self.channels)

    def as_input(self) -> np.ndarray:
        with np.errstate(over="ignore"):  # what no float32 holds, the input set refuses
            return self.normalised(self.values).astype(np.float32)


def _each(function: Callable[..., Fraction], *arrays: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), dtype=object)


def refuse_unread(question: Question, model: str) -> None:
    """Raise UsageError for an image that cannot be read, or is none for this model; without the engine.

    It is for when the time was up before the engine was there to say so.
    """
    from netproof.model.onnx.declared import only_input_shape

    shape = only_input_shape(model)
    if shape is not None:
        read_centre(question, shape)
    elif question.is_array:
        _load_array(question.image)


def read_centre(question: Question, shape: tuple[int, ...]) -> Centre:
    if question.is_array:
        values = _read_array(question.image, shape)
        return Centre(values, np.zeros(shape, dtype=int), (Fraction(0),), (Fraction(1),))
    picture = read_picture(question.image, shape, resize=question.resize)
    pixels = picture.pixels
    values, channels, first = _arrange(question.image, pixels, shape)
    count = 1 if pixels.ndim == 2 else 3
    mean = _per_channel("--mean", question.mean or (Fraction(0),), count)
    std = _per_channel("--std", question.std or (Fraction(1),), count)
    height, width = pixels.shape[:2]
    exact = _each(lambda pixel: Fraction(int(pixel), picture.white), values)
    return Centre(exact, channels, mean, std, Layout(height, width, count, first), picture.notes)


def region(question: Question, centre: Centre) -> InputRegion:
    """Return the set of perturbed inputs as the network sees them."""
    from netproof.problem import specs

    clip = question.clip or (None if question.is_array else (Fraction(0), Fraction(1)))
    eps, values = question.eps, centre.values
    if question.norm == "inf":
        lower, upper = values - eps, values + eps
        if clip is not None:
            lower, upper = _each(lambda v: max(v, clip[0]), lower), _each(lambda v: min(v, clip[1]), upper)
            if (lower > upper).any():
                raise UsageError(
                    "it lies farther than --eps from --clip: the input set is empty",
                    file=question.image,
                    remedy="give the range that its values have",
                )
        return specs.box(centre.normalised(lower), centre.normalised(upper))
    if len(set(centre.std)) > 1:
        raise UsageError(
            f"--norm {question.norm} is no ball once the channels are scaled by different --std",
            remedy="use --norm inf, or the same std for every channel",
        )
    ball = specs.l2_ball if question.norm == "2" else specs.l1_ball
    sides = None if clip is None else tuple(centre.normalised(np.full_like(values, side)) for side in clip)
    return ball(centre.normalised(values), eps / centre.std[0], clip=sides)  # type: ignore[arg-type]


def _per_channel(option: str, given: tuple[Fraction, ...], count: int) -> tuple[Fraction, ...]:
    if len(given) not in (1, count):
        raise UsageError(
            f"{option} or --preprocess gives {len(given)} values, the image has {count} channel{'s' * (count > 1)}",
            remedy=f"give 1 or {count}" if count > 1 else "give 1",
        )
    return given * count if len(given) == 1 else given


def _load_array(path: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(
            f"not a readable .npy file: {_first_line(error)}", file=path, remedy="save it with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise UsageError("does not hold an array of real numbers", file=path, remedy="save floats with numpy.save")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise UsageError(f"holds numbers of type {array.dtype}", file=path, remedy="save float64")
    if not np.isfinite(array).all():
        raise UsageError("holds NaN or infinite values", file=path, remedy="save finite numbers")
    return array


def _read_array(path: str, shape: tuple[int, ...]) -> np.ndarray:
    array = _load_array(path)
    if array.shape != shape and _without_ones(*array.shape) != _without_ones(*shape):
        raise UsageError(
            f"has shape {list(array.shape)}, the network's input {list(shape)}",
            file=path,
            remedy="save that shape",
        )
    exact = _each(lambda value: Fraction(value), array.reshape(shape).astype(object))
    return exact.reshape(shape)


def _arrange(path: str, pixels: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, bool]:
    """Put pixels and their channels into the network's shape, grey, or RGB with channels first (True) or last."""
    body = _without_ones(*shape)
    height, width = pixels.shape[:2]
    channels = np.zeros_like(pixels)
    if pixels.ndim == 2:
        if body in (_without_ones(height, width), _without_ones(height * width)):
            return pixels.reshape(shape), channels.reshape(shape), True
        have = f"a grey image of {width}x{height}"
    else:
        channels[:] = np.arange(3)
        if body == _without_ones(3, height, width):
            first = (2, 0, 1)
            return pixels.transpose(first).reshape(shape), channels.transpose(first).reshape(shape), True
        if body == _without_ones(height, width, 3):
            return pixels.reshape(shape), channels.reshape(shape), False
        have = f"an RGB image of {width}x{height}"
    raise UsageError(
        f"{have} does not fit the network's input {list(shape)}",
        file=path,
        remedy="--resize scales it; or save the network's own input as .npy",
    )


def _without_ones(*axes: int) -> tuple[int, ...]:
    return tuple(axis for axis in axes if axis != 1)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
