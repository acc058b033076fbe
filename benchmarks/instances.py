"""Finds instances of VNN-COMP folders by the package's own reader, and looks for itself at single answers."""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import netproof
from netproof.campaign.instances import HOME, INSTANCES, Instance, find_folders, read_folder
from netproof.errors import UsageError

SAMPLES = 10_000


def load(instance: Instance) -> tuple[Any, Any]:
    return netproof.load_network(instance.onnx), netproof.load_property(instance.vnnlib)


def unpacked(instance: Instance, folder: Path) -> tuple[Path, Path]:
    """Model and property as plain files: copies in `folder` of what is packed, as not every tool reads that."""
    return plain(instance.onnx, folder), plain(instance.vnnlib, folder)


def find_sets(names: Iterable[str]) -> list[Path]:
    """The folders that are meant: paths, or names in $NETPROOF_BENCHMARKS; no name: all there."""
    home = os.environ.get(HOME)
    names = list(names)
    if not names and not home:
        raise UsageError("no folder of instances", remedy=f"give one with an instances.csv, or set {HOME}")
    return find_folders(names or [str(home)])


def read_row(name: str) -> Instance:
    """`SET:ROW`, with rows counted from 1 as the lines of instances.csv are."""
    folder, _, row = name.rpartition(":")
    if not folder or not row.isdecimal():
        raise UsageError(f"{name!r} is neither a MODEL.onnx and its SPEC.vnnlib nor SET:ROW", remedy="as in oval21:3")
    instances = [instance for found in find_sets([folder])[:1] for instance in read_folder(found)]
    if not 1 <= int(row) <= len(instances):
        raise UsageError(f"{name}: no such row", remedy=f"the set has rows 1 to {len(instances)}")
    return instances[int(row) - 1]


def read_sets(names: Iterable[str], first: int | None, timeout: float | None) -> list[tuple[Instance, float]]:
    """The first instances of every set, each with its limit: the one given, or its own."""
    found = []
    for folder in find_sets(names):
        for instance in read_folder(folder)[:first]:
            limit = timeout or instance.timeout
            if limit is None:
                raise UsageError("no column timeout", file=str(folder / INSTANCES), remedy="give --timeout")
            found.append((instance, limit))
    return found


def plain(path: Path, folder: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file() or not packed.is_file():
        return path
    copy = folder / path.name
    copy.write_bytes(gzip.decompress(packed.read_bytes()))
    return copy


def replays(instance: Instance, x: np.ndarray) -> bool:
    """Whether input x, run again, violates the property."""
    network, property = load(instance)
    y = network.replay(x)
    near = (d for d in property.disjuncts if np.array_equal(x.ravel(), np.clip(x.ravel(), *ends(d.box))))
    return any(violation(disjunct, x, y)[0] for disjunct in near)


def ends(box: Any) -> list[np.ndarray]:
    """The nearest float32, so that an input pinned to a decimal has a value too."""
    return [np.array([float(v) for v in end], dtype=np.float32) for end in (box.lower, box.upper)]


def violation(disjunct: Any, x: np.ndarray, y: np.ndarray) -> tuple[bool, float]:
    """Whether input x with output y satisfies every row exactly as written, and by how much it misses (if positive)."""
    if not np.isfinite(y).all():
        return False, float("inf")
    exact = [[Fraction(v) for v in side.ravel().tolist()] for side in (x, y)]
    gap = max((row.value(*exact) - row.rhs for row in disjunct.rows), default=Fraction(0))
    return all(row.holds(*exact) for row in disjunct.rows), float(gap)


def second_look(instance: Instance) -> str:
    """Random points and corners of the input boxes through onnxruntime: can a known sat be right?"""
    network, property = load(instance)
    boxes = defaultdict(list)
    for disjunct in property.disjuncts:
        boxes[disjunct.box].append(disjunct)
    sets = [(*ends(box), disjuncts) for box, disjuncts in boxes.items() if not box.empty]
    rng, hits, least = np.random.default_rng(0), 0, float("inf")
    for i in range(SAMPLES if sets else 0):
        lower, upper, disjuncts = sets[rng.integers(len(sets))]
        share = rng.integers(0, 2, lower.shape) if i % 2 else rng.random(lower.shape)
        x = np.clip((lower + share * (upper - lower)).astype(np.float32), lower, upper)
        y = network.replay(x)
        found = [violation(disjunct, x, y) for disjunct in disjuncts]
        hits += any(violated for violated, _ in found)
        least = min(least, *(gap for _, gap in found))
    if hits:
        return f"{hits} of {SAMPLES} sampled points violate the property, so it is sat"
    return f"none of {SAMPLES} sampled points violates it (nearest miss {least:.3g}), so a known sat may be wrong"
