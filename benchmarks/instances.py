"""An instance of a VNN-COMP folder, what is known of it, and ways to look for oneself."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import netproof

SAMPLES = 10_000


@dataclass(frozen=True)
class Instance:
    folder: Path
    onnx: str
    vnnlib: str
    timeout: float
    truths: tuple[tuple[str, str], ...]  # (who says so, "sat" or "unsat")

    def __str__(self) -> str:
        return f"{self.folder.name}: {self.onnx} {self.vnnlib}"

    def load(self) -> tuple[Any, Any]:
        return netproof.load_network(self.folder / self.onnx), netproof.load_property(self.folder / self.vnnlib)


def read_set(folder: Path, first: int | None) -> list[Instance]:
    known = defaultdict(set)
    for row in csv.DictReader(lines(folder / "known.csv")):
        known[row["onnx"], row["vnnlib"]].add(row["truth"].strip())
    instances = []
    for onnx, vnnlib, timeout in (row[:3] for row in csv.reader(lines(folder / "instances.csv")) if row):
        if onnx == "onnx":
            continue  # a header
        named = {Path(name).name.split("_")[0] for name in (onnx, vnnlib)}
        said = (("known.csv", known[onnx, vnnlib]), ("file name", named))
        truths = tuple((who, truth) for who, words in said for truth in ("sat", "unsat") if truth in words)
        instances.append(Instance(folder, onnx, vnnlib, float(timeout), truths))
    return instances[:first]


def lines(path: Path) -> list[str]:
    """Of the file or of its .gz; none where there is neither."""
    packed = path.with_name(f"{path.name}.gz")
    if packed.is_file() and not path.is_file():
        return gzip.decompress(packed.read_bytes()).decode().splitlines()
    return path.read_text().splitlines() if path.is_file() else []


def replays(instance: Instance, x: np.ndarray) -> bool:
    """Whether input x, run again, violates the property."""
    network, property = instance.load()
    y = network.replay(x)
    near = (d for d in property.disjuncts if np.array_equal(x.ravel(), np.clip(x.ravel(), *ends(d.box))))
    return any(violation(disjunct, y)[0] for disjunct in near)


def ends(box: Any) -> list[np.ndarray]:
    """The nearest float32, so that an input pinned to a decimal has a value too."""
    return [np.array([float(v) for v in end], dtype=np.float32) for end in (box.lower, box.upper)]


def violation(disjunct: Any, y: np.ndarray) -> tuple[bool, float]:
    """Whether output y satisfies every row exactly as written, and by how much it misses (if positive)."""
    if not np.isfinite(y).all():
        return False, float("inf")
    exact = [Fraction(v) for v in y.ravel().tolist()]
    gap = max((row.value(exact) - row.rhs for row in disjunct.rows), default=Fraction(0))
    return all(row.holds(exact) for row in disjunct.rows), float(gap)


def second_look(instance: Instance) -> str:
    """Random points and corners of the input boxes through onnxruntime: can a known sat be right?"""
    network, property = instance.load()
    boxes = defaultdict(list)
    for disjunct in property.disjuncts:
        boxes[disjunct.box].append(disjunct)
    sets = [(*ends(box), disjuncts) for box, disjuncts in boxes.items() if not box.empty]
    rng, hits, least = np.random.default_rng(0), 0, float("inf")
    for i in range(SAMPLES if sets else 0):
        lower, upper, disjuncts = sets[rng.integers(len(sets))]
        share = rng.integers(0, 2, lower.shape) if i % 2 else rng.random(lower.shape)
        y = network.replay(np.clip((lower + share * (upper - lower)).astype(np.float32), lower, upper))
        found = [violation(disjunct, y) for disjunct in disjuncts]
        hits += any(violated for violated, _ in found)
        least = min(least, *(gap for _, gap in found))
    if hits:
        return f"{hits} of {SAMPLES} sampled points violate the property, so it is sat"
    return f"none of {SAMPLES} sampled points violates it (nearest miss {least:.3g}), so a known sat may be wrong"
