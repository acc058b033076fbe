"""The bundled networks, specifications and images, so that `netproof demo` works from a wheel."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path


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
    """Put the bundled files into `folder`, where they can be looked at and used, and list the questions."""
    with as_file(files(__name__) / "data") as data:
        shutil.copytree(data, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
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
