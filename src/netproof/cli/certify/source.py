"""A data set as files: an .npz, or a folder of images with labels. Read here as far as it goes without numpy."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from netproof.cli.robust.question import PICTURES
from netproof.core.files import sha256
from netproof.errors import UsageError

SUFFIXES = (*PICTURES, ".npy")
LABELS = "labels.csv"
LAYOUT = f"put images into sub-folders named by label (0, 1, …), or a {LABELS} with the columns file,label beside them"


@dataclass(frozen=True)
class Source:
    """Where the images are: one .npz, or files with their labels."""

    path: str
    files: tuple[tuple[str, int], ...] | None = None  # relative to the folder, with labels; None: an .npz
    first: int | None = None  # only so many are asked about
    only: frozenset[int] | None = None  # only those of these numbers

    def wants(self, index: int) -> bool:
        """Say whether the image of this number is asked about."""
        return (self.first is None or index < self.first) and (self.only is None or index in self.only)

    def check(self, count: int) -> None:
        """Raise UsageError where a number is asked about that none of `count` images has."""
        missing = [number for number in sorted(self.only or ()) if number >= count]
        if missing:
            raise UsageError(
                f"--only: there is no image {missing[0]}, the last is {count - 1}",
                file=self.path,
                remedy="count images from 0, as results.csv does",
            )

    @property
    def read(self) -> list[str]:
        """List every file that is read."""
        if self.files is None:
            return [self.path]
        listed = [str(Path(self.path, LABELS))] if Path(self.path, LABELS).is_file() else []
        return [*listed, *(str(Path(self.path, name)) for name, _ in self.files)]

    def digest(self) -> str:
        """Hash everything that is read, whatever its name."""
        if self.files is None:
            return sha256(self.path)
        found = hashlib.sha256()
        for name, label in self.files:
            found.update(f"{name}\n{label}\n{sha256(Path(self.path, name))}\n".encode("utf-8", "surrogateescape"))
        return found.hexdigest()


def find_source(path: str, first: int | None, only: str | None = None) -> Source:
    """Find the data set; UsageError for what is none. only: numbers of images with commas between them."""
    return replace(_found(path, first), only=None if only is None else _numbers(only))


def _numbers(text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"--only: {text!r} are not numbers of images", remedy="give them as 4 or 0,7,31")
    return frozenset(map(int, words))


def _found(path: str, first: int | None) -> Source:
    if first is not None and first < 1:
        raise UsageError(f"--first: {first} is not a number of images", remedy="give 1 or more")
    where = Path(path)
    if not where.exists():
        raise UsageError("no such file or folder", file=path, remedy="give an .npz, or a folder of images")
    if where.is_file():
        if where.suffix.lower() != ".npz":
            raise UsageError(
                "not a data set by its name", file=path, remedy="give an .npz with X and y, or a folder of images"
            )
        return Source(path, first=first)
    files = list(_listed(where) if (where / LABELS).is_file() else _sorted_by_folder(where))
    if not files:
        raise UsageError("no images with labels there", file=path, remedy=LAYOUT)
    return Source(path, tuple(files), first)


def _listed(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the files that labels.csv names; its first line may name the columns."""
    path = folder / LABELS
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), 1) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot be read: {error}", file=str(path), remedy="write lines FILE,LABEL") from error
    if rows and [cell.strip().lower() for cell in rows[0][1]] == ["file", "label"]:
        rows = rows[1:]
    for number, row in rows:
        label = _label(row[1]) if len(row) == 2 else None
        if label is None:
            raise UsageError(
                f"line {number} is not FILE,LABEL with a label from 0 on", file=str(path), remedy="as in three.png,3"
            )
        name = row[0].strip()
        if not (folder / name).is_file():
            raise UsageError(f"line {number} names {name}, which is not there", file=str(path), remedy="check the name")
        if not name.lower().endswith(SUFFIXES):
            raise UsageError(f"line {number} names {name}", file=str(path), remedy="give .png, .jpg or .npy files")
        yield name, label


def _sorted_by_folder(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the images of the sub-folders that are named by a label, by label and name."""
    labelled = [(label, sub) for sub in folder.iterdir() if sub.is_dir() and (label := _label(sub.name)) is not None]
    for label, sub in sorted(labelled):
        for file in sorted(sub.iterdir()):
            if file.suffix.lower() in SUFFIXES:
                yield str(file.relative_to(folder)), label


def _label(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
