"""`certify` against `verify`, image by image, and both against exact arithmetic where a set is a box.

Images of every type, radii from 0 over ones that hold no float to ones that break everything, and last operators that
saturate in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import netproof
from hunt import sets
from hunt.judge import Finding, Run
from hunt.last import ORDERED, scaled, several, with_last
from hunt.nets import with_constants
from hunt.network import to_onnx
from hunt.oracle import Oracle
from hunt.question import Disjunct, InputSet, Row

STATUSES = {"unsat": "proved", "sat": "broken", "unknown": "open", "timeout": "open"}
BALLS = {"inf": netproof.linf_ball, "1": netproof.l1_ball, "2": netproof.l2_ball}
IMAGES = 3


@dataclass(frozen=True)
class Asked:
    """Images with their labels, and what is asked of them."""

    model: str
    images: np.ndarray
    labels: np.ndarray
    eps: str
    norm: str
    clip: tuple[Any, Any] | None


def classifiers(rng: np.random.Generator, folder: Path, runs: list[Run]) -> list[tuple[Run, Finding]]:
    """One network, and a few images that are asked about both ways."""
    k = sets.direction(rng, int(rng.integers(2, 6)))
    around = InputSet((Fraction(-3),) * len(k), (Fraction(3),) * len(k))
    network = several(rng, [around], k)
    last = str(rng.choice(["", "", *ORDERED]))
    network = scaled(rng, network, Oracle(network, k), around) if last else network
    if last and rng.random() < 0.5:
        weight, bias = network[-1].constants
        network = (*network[:-1], with_constants(network[-1], weight, bias + 90.0))  # all of them are 1 in float32
    oracle = Oracle(network, k)
    model = folder / "model.onnx"
    onnx.save(with_last(network, last) if last else to_onnx(network), str(model))
    shape = network[0].shape[1:]
    images = _images(rng, shape)
    labels = _labels(rng, oracle, images)
    norm = str(rng.choice(["inf", "inf", "1", "2"]))
    eps = str(rng.choice(["0", "3e-9", "2e-8", "1e-6", "0.02", "1/10", "0.3", "0.7", "1.5"]))
    clip = (-3, 3) if rng.random() < 0.3 else None
    asked = Asked(str(model), images, labels, eps, norm, clip)
    return [found for run in runs[:1] for found in _both(asked, oracle, run)]


def _images(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    kind = str(rng.choice(["float32", "float64", "float16", "uint8", "int64", "edge"]))
    if kind in ("uint8", "int64"):
        return rng.integers(0, 3, (IMAGES, *shape)).astype(kind)
    if kind == "edge":  # float64, a little beside a float32
        return rng.uniform(-2, 2, (IMAGES, *shape)).astype(np.float32) + rng.choice([-1, 1]) * 2e-8
    found: np.ndarray = rng.uniform(-2, 2, (IMAGES, *shape)).astype(kind)
    return found


def _labels(rng: np.random.Generator, oracle: Oracle, images: np.ndarray) -> np.ndarray:
    """Mostly what the real network says of an image, now and then another class."""
    logits = [oracle.outputs([Fraction(float(v)) for v in image.reshape(-1)]) for image in images]
    labels = np.array([int(np.argmax([float(v) for v in one])) for one in logits])
    other = rng.integers(0, len(logits[0]), IMAGES)
    return np.where(rng.random(IMAGES) < 0.8, labels, other)


def _both(asked: Asked, oracle: Oracle, run: Run) -> list[tuple[Run, Finding]]:
    how = {"device": "cpu", "threads": 1, "timeout": run.timeout, "seed": run.seed}
    together = netproof.certify(asked.model, asked.images, asked.labels, asked.eps, asked.norm, asked.clip, **how)
    found = []
    for image, x, label in zip(together, asked.images, asked.labels.tolist(), strict=True):
        region = BALLS[asked.norm](x, asked.eps, clip=asked.clip)
        alone = netproof.verify(asked.model, region, label=label, **how)
        fault = _fault(image, alone, region, oracle, label)
        detail = f"{asked}: image {image.index}: certify {image}, {image.reason}; verify {alone}" if fault else ""
        found.append((run, Finding(str(alone.status), fault, detail)))
    return found


def _fault(image: Any, alone: netproof.Verdict, region: Any, oracle: Oracle, label: int) -> str:
    together = "broken" if image.status == "misread" else str(image.status)
    apart = STATUSES[str(alone.status)]
    if {together, apart} == {"proved", "broken"}:
        return "certify and verify contradict"
    if image.status == "misread" and "no counterexample can be shown" in alone.reason:
        return ""  # what is misread is the image as float32, which lies in no set of real numbers around it
    if together != apart and str(alone.status) != "timeout" and "time" not in image.reason:
        return "certify and verify differ"
    if "proved" in (together, apart) and region.ball is None and _is_broken(region, oracle, label):
        return "wrong proof"
    if image.witness is not None and image.status == "broken" and not _lies_in(region, image.witness):
        return "wrong witness"
    return ""


def _is_broken(region: Any, oracle: Oracle, label: int) -> bool:
    inputs = InputSet(tuple(region.box.lower), tuple(region.box.upper))
    others = [i for i in range(oracle.network[-1].size) if i != label]
    return any(
        oracle.answer(Disjunct(inputs, (Row({label: Fraction(1), i: Fraction(-1)}, Fraction(0)),))).violated
        for i in others
    )


def _lies_in(region: Any, witness: netproof.Witness) -> bool:
    """Whether a counterexample lies in the set as written; what is one number may be rounded, where that is said."""
    x = [Fraction(float(v)) for v in witness.input.reshape(-1)]
    sides = zip(region.box.lower, x, region.box.upper, strict=True)
    inside = all(lo <= v <= hi or (lo == hi and bool(witness.note)) for lo, v, hi in sides)
    return inside and (region.ball is None or region.ball.contains(x))
