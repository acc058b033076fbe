"""What is done to pixels before a network sees them, given once: by name, by a file, or number by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from netproof.cli import options
from netproof.errors import UsageError

PANEL = "Image"

Preprocess = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="Mean and std of a data set: cifar10, cifar100, imagenet, mnist, or of a JSON file with mean and std.",
        rich_help_panel=PANEL,
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(metavar="M,…", help="Subtracted from pixels in [0, 1]; 1, or one per channel.", rich_help_panel=PANEL),
]
Std = Annotated[
    str | None, typer.Option(metavar="S,…", help="Divides them then; 1, or one per channel.", rich_help_panel=PANEL)
]
Resize = Annotated[
    bool,
    typer.Option("--resize", help="Scale the image to the network's input, before eps.", rich_help_panel=PANEL),
]
Clip = Annotated[
    str | None,
    typer.Option(
        metavar="LO,HI",
        help="Range of values. (default: 0,1 for a picture)",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]

# Of the training images: means and standard deviations of each channel, as they are commonly given.
KNOWN = {
    "cifar10": (("0.4914", "0.4822", "0.4465"), ("0.2470", "0.2435", "0.2616")),
    "cifar100": (("0.5071", "0.4865", "0.4409"), ("0.2673", "0.2564", "0.2762")),
    "imagenet": (("0.485", "0.456", "0.406"), ("0.229", "0.224", "0.225")),
    "mnist": (("0.1307",), ("0.3081",)),
}
NORMALISED = "was it trained on pixels that were normalised? (--preprocess, --mean, --std)"
REMEDY = 'write {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}'


@dataclass(frozen=True)
class Preprocessing:
    """Pixels in [0, 1] become (pixel − mean) / std, one for all channels or one each; None: they stay."""

    mean: tuple[Fraction, ...] | None = None
    std: tuple[Fraction, ...] | None = None
    resize: bool = False
    files: tuple[str, ...] = field(default=(), compare=False)  # that it was read from

    def refuse(self, file: str, why: str) -> None:
        """Raise UsageError where anything is to be done to a file that holds no picture."""
        if self.mean is not None or self.std is not None or self.resize:
            raise UsageError(
                f"--preprocess, --mean, --std and --resize are for picture files only: {why}",
                file=file,
                remedy="leave them out, or give .png or .jpg files",
            )


def read_preprocessing(preprocess: str | None, mean: str | None, std: str | None, *, resize: bool) -> Preprocessing:
    """Read the options; UsageError where they cannot be, or say a thing twice."""
    if preprocess is not None:
        if mean is not None or std is not None:
            raise UsageError(
                "--preprocess already sets the mean and the standard deviation",
                remedy="leave out --preprocess, or --mean and --std",
            )
        return Preprocessing(*_named(preprocess), resize, () if preprocess in KNOWN else (preprocess,))
    scales = options.numbers("--std", std) if std is not None else None
    if scales and min(scales) <= 0:
        raise UsageError(f"--std: {std} is not positive", remedy="give positive numbers")
    return Preprocessing(options.numbers("--mean", mean) if mean is not None else None, scales, resize)


def _named(name: str) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    if name in KNOWN:
        return tuple(map(Fraction, KNOWN[name][0])), tuple(map(Fraction, KNOWN[name][1]))
    if not Path(name).is_file():
        raise UsageError(
            f"--preprocess: {name!r} is neither a name nor a file",
            remedy=f"names are {', '.join(KNOWN)}; a file is JSON with mean and std",
        )
    try:
        # Numbers stay text until they are read exactly.
        found = json.loads(Path(name).read_text(encoding="utf-8"), parse_float=str, parse_int=str)
    except (OSError, ValueError) as error:
        raise UsageError(f"--preprocess: not readable JSON: {error}", file=name, remedy=REMEDY) from None
    if not isinstance(found, dict):
        raise UsageError("--preprocess: not an object with mean and std", file=name, remedy=REMEDY)
    mean, std = (_listed(name, key, found.get(key, found.get(f"image_{key}"))) for key in ("mean", "std"))
    if min(std) <= 0:
        raise UsageError("--preprocess: std is not positive", file=name, remedy="give positive numbers")
    return mean, std


def _listed(file: str, key: str, value: Any) -> tuple[Fraction, ...]:
    """Read one number, or a list of them; others name a key of theirs `image_mean`, as processors of images do."""
    given: Sequence[Any] = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(one, str) for one in given):
        raise UsageError(f"--preprocess: {key} is not a list of numbers", file=file, remedy=REMEDY)
    try:
        return tuple(options.number("--preprocess", one) for one in given)
    except UsageError as error:
        raise UsageError(f"--preprocess: {key}: {error.message}", file=file, remedy=REMEDY) from None
