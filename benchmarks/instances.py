"""An instance of a VNN-COMP folder, what is known of it, and ways to look for oneself."""

from __future__ import annotations

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import netproof
from netproof.errors import UsageError

HOME = "NETPROOF_BENCHMARKS"  # the folder that holds one folder a set
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

    def unpacked(self, folder: Path) -> tuple[Path, Path]:
        """Model and property as plain files: copies in `folder` of what is packed, as not every tool reads that."""
        return plain(self.folder / self.onnx, folder), plain(self.folder / self.vnnlib, folder)


def find_sets(names: Iterable[str]) -> list[Path]:
    """The folders with an instances.csv that are meant: paths, or names in $NETPROOF_BENCHMARKS; no name: all there.

    A folder of such folders stands for them all.
    """
    home = os.environ.get(HOME)
    names = list(names)
    if not names and not home:
        raise UsageError("no folder of instances", remedy=f"give one with an instances.csv, or set {HOME}")
    return [folder for name in names or [str(home)] for folder in _find(name, home)]


def _find(name: str, home: str | None) -> list[Path]:
    for place in [Path(name), *([Path(home) / name] if home else [])]:
        inner = sorted(place.iterdir()) if place.is_dir() else []
        found = [folder.resolve() for folder in (place, *inner) if lines(folder / "instances.csv")]
        if found:
            return found[:1] if found[0] == place.resolve() else found
    tried = f"nor in {HOME}={home}" if home else f"and {HOME} is not set"
    raise UsageError(f"{name}: no instances.csv there, {tried}", remedy="give a folder of VNN-COMP instances")


def read_row(name: str) -> Instance:
    """`SET:ROW`, with rows counted from 1 as the lines of instances.csv are."""
    folder, _, row = name.rpartition(":")
    if not folder or not row.isdecimal():
        raise UsageError(f"{name!r} is neither a MODEL.onnx and its SPEC.vnnlib nor SET:ROW", remedy="as in oval21:3")
    instances = [instance for found in find_sets([folder])[:1] for instance in read_set(found, None)]
    if not 1 <= int(row) <= len(instances):
        raise UsageError(f"{name}: no such row", remedy=f"the set has rows 1 to {len(instances)}")
    return instances[int(row) - 1]


def read_set(folder: Path, first: int | None) -> list[Instance]:
    known = defaultdict(set)
    for told in csv.DictReader(lines(folder / "known.csv")):
        known[told["onnx"], told["vnnlib"]].add(told["truth"].strip())
    instances = []
    for row in csv.reader(lines(folder / "instances.csv")):
        if not row or row[0] == "onnx":  # a header
            continue
        if len(row) < 3 or not _is_number(row[2]):
            raise UsageError(f"not onnx,vnnlib,timeout: {','.join(row)}", file=str(folder / "instances.csv"))
        onnx, vnnlib, timeout = row[:3]
        named = {Path(name).name.split("_")[0] for name in (onnx, vnnlib)}
        said = (("known.csv", known[onnx, vnnlib]), ("file name", named))
        truths = tuple((who, truth) for who, words in said for truth in ("sat", "unsat") if truth in words)
        instances.append(Instance(folder, onnx, vnnlib, float(timeout), truths))
    if not instances:
        raise UsageError("no instances", file=str(folder / "instances.csv"))
    return instances[:first]


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def plain(path: Path, folder: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    if path.is_file() or not packed.is_file():
        return path
    copy = folder / path.name
    copy.write_bytes(gzip.decompress(packed.read_bytes()))
    return copy


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
