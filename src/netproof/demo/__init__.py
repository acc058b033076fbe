"""The bundled networks, specifications and images, so that `netproof demo` works from a wheel."""

from __future__ import annotations

import csv
import filecmp
import shutil
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from netproof.errors import UsageError


@dataclass(frozen=True)
class Instance:
    """One question of the demo; paths are relative to the data folder."""

    name: str
    onnx: str
    vnnlib: str
    image: str
    label: int
    eps: float
    expected: str
    question: str


def copy_data(folder: Path) -> list[Instance]:
    """Put the bundled files into `folder`, where they can be looked at and used, and list the questions.

    UsageError where one of another content has such a name already: it is someone's own.
    """
    with as_file(files(__name__) / "data") as data:
        targets = {found: folder / found.relative_to(data) for found in sorted(data.rglob("*")) if found.is_file()}
        for bundled, target in targets.items():
            if target.exists() and not filecmp.cmp(bundled, target, shallow=False):
                raise UsageError("another file is there", file=str(target), remedy="give another folder with --out")
        for bundled, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundled, target)
    with (folder / "instances.csv").open(newline="", encoding="utf-8") as file:
        return [
            Instance(
                row["name"],
                row["onnx"],
                row["vnnlib"],
                row["image"],
                int(row["label"]),
                float(row["eps"]),
                row["expected"],
                row["question"],
            )
            for row in csv.DictReader(file)
        ]
