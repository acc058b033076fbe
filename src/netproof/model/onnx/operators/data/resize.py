"""Converters of Resize and Upsample: along one axis after the other, a selection or a matrix of fixed weights.

Where an entry of the result lies in the original is computed in fractions, and so are the weights of linear and cubic
interpolation; what float64 cannot hold of them goes into a radius. onnxruntime computes both in float32: its weights
may lie as far from these as its coordinates are off (the slack), and where its nearest entry is another one than the
exact one, the node is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import linear, scale
from netproof.model.onnx.operators.moves import select, turned_last
from netproof.model.origin.constant import Constant, constant
from netproof.numerics import few_roundings

HALF = Fraction(1, 2)
MODES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_half_pixel_for_nn", "tf_crop_and_resize"),
)
ROUNDS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Axis:
    """One axis of the image: how many entries it has and gets, by which scale, and which part of it is meant."""

    index: int
    size: int
    result: int
    scale: Fraction
    part: tuple[Fraction, Fraction] = (Fraction(0), Fraction(1))

    def original(self, mode: str, number: Any) -> Any:
        """Return where entry x of the result lies in the original; in fractions, or as float32 computes it."""
        kind = type(number)
        size, result, by = kind(self.size), kind(self.result), kind(self.scale)
        one, half = kind(1), kind(HALF)
        if mode == "asymmetric":
            return number / by
        if mode == "tf_half_pixel_for_nn":
            return (number + half) / by
        if mode == "align_corners":
            return number * (size - one) / (result - one) if self.result > 1 else kind(0)
        if mode == "tf_crop_and_resize":
            start, end = (kind(side) for side in self.part)
            if self.result == 1:
                return half * (start + end) * (size - one)
            return start * (size - one) + number * (end - start) * (size - one) / (result - one)
        if mode == "pytorch_half_pixel" and self.result == 1:
            return kind(0)
        middle = (number + half) / by - half
        if mode == "half_pixel_symmetric":
            return middle + size / kind(2) * (one - result / (by * size))
        return middle

    def nearest(self, mode: str, rounds: str, number: Any) -> int:
        """Return the entry of the original that is nearest to entry x of the result."""
        place = self.original(mode, number)
        low = math.floor(place)
        if rounds in ("floor", "ceil"):
            found = low if rounds == "floor" else math.ceil(place)
        else:
            rest = place - type(place)(low)
            half = type(place)(HALF)
            up = rest > half or (rest == half and rounds == "round_prefer_ceil")
            found = low + 1 if up else low
        return int(min(max(found, 0), self.size - 1))


@converts("Resize", "Upsample")
def _resize(c: Context) -> Value:
    """Select the nearest entries, or multiply by fixed weights of linear or cubic interpolation, along each axis."""
    x = c.node(0)
    mode, way = c.attr("mode", "nearest"), _transformation(c)
    if mode not in ("nearest", "linear", "cubic"):
        c.refuse(f"mode {mode!r}", "use nearest, linear or cubic")
    if c.attr("antialias", 0):
        c.refuse("antialias widens its window by the scale", "export with antialias=0")
    for axis in _axes(c, x, way):
        c.claim((axis.result,))
        x = _along(c, x, axis, mode, way)
    return x


def _transformation(c: Context) -> str:
    if c.op == "Upsample" or c.opset < 11:
        return "asymmetric"
    way = str(c.attr("coordinate_transformation_mode", "half_pixel"))
    since = {"half_pixel_symmetric": 19, "tf_half_pixel_for_nn": 11}
    if way not in MODES or c.opset < since.get(way, 11) or (way == "tf_half_pixel_for_nn" and c.opset > 12):
        c.refuse(f"coordinate_transformation_mode {way!r} in opset {c.opset}", "check it with onnx.checker")
    return way


def _rounds(c: Context, axis: Axis) -> str:
    if c.op == "Upsample" or c.opset < 11:  # onnx's tests of opset 10, and onnxruntime, take the upper one of fewer
        return "floor" if axis.scale >= 1 else "ceil"
    rounds = str(c.attr("nearest_mode", "round_prefer_floor"))
    return rounds if rounds in ROUNDS else c.refuse(f"nearest_mode {rounds!r}", "check it with onnx.checker")


# --- sizes and scales --------------------------------------------------------------------------------------


def _axes(c: Context, x: Ref, way: str) -> list[Axis]:
    """Return the axes that change."""
    rank = len(x.shape)
    named = [c.axis(int(axis), rank) for axis in c.attr("axes") or range(rank)]
    scales, sizes = _scales(c), None
    if c.op == "Resize" and c.opset > 10:
        sizes = c.integers(3)
    if (scales is None) == (sizes is None):
        c.refuse("it needs either scales or sizes", "check it with onnx.checker")
    if len(scales or sizes or ()) != len(named):
        c.refuse(f"its scales or sizes do not fit {len(named)} axes", "check it with onnx.checker")
    parts = _parts(c, len(named)) if way == "tf_crop_and_resize" else [(Fraction(0), Fraction(1))] * len(named)
    axes = []
    if sizes is not None:
        kept = _policy(c, [Fraction(size, x.shape[axis]) for axis, size in zip(named, sizes, strict=True)])
        for axis, size, part, by in zip(named, sizes, parts, kept, strict=True):
            result = size if by is None else math.floor(by * x.shape[axis] + HALF)
            axes.append(Axis(axis, x.shape[axis], result, by or Fraction(size, x.shape[axis]), part))
    for axis, by, part in zip(named, scales or (), parts, strict=False):
        if by <= 0:
            c.refuse(f"its scale {float(by)} is not positive", "check it with onnx.checker")
        sides = x.shape[axis] * (part[1] - part[0]) * by
        if way in ("align_corners", "tf_crop_and_resize") and sides.denominator != 1:
            c.refuse(f"onnx and onnxruntime differ on {way} where a scale gives no whole size", "export with sizes")
        if part == (0, 1) and math.floor(np.float32(by) * np.float32(x.shape[axis])) != math.floor(sides):
            c.refuse(f"float32 gives another size than the exact one, {float(sides)}", "export with sizes")
        axes.append(Axis(axis, x.shape[axis], math.floor(sides), by, part))
    c.fits(*(axis.result for axis in axes), what="the sides of its result")
    if any(axis.result < 1 for axis in axes):
        c.refuse("its result has size zero", "zero-size tensors cannot be verified")
    whole = (Fraction(0), Fraction(1))
    return [axis for axis in axes if axis.size != axis.result or axis.scale != 1 or axis.part != whole]


def _scales(c: Context) -> list[Fraction] | None:
    """Return the scales, of which every float is a fraction; None where there are none."""
    found = c.attr("scales")
    if c.op == "Resize" or c.opset > 8:
        position = 2 if c.op == "Resize" and c.opset > 10 else 1
        given = c.optional_constant(position)
        if given is not None and given.radius is not None:
            c.refuse("its scales are rounded constants", "export with sizes, or with scales as constants")
        found = None if given is None or not given.value.size else given.value.reshape(-1).tolist()
    return None if found is None else [Fraction(float(number)) for number in found]


def _policy(c: Context, scales: Sequence[Fraction]) -> list[Fraction | None]:
    """Return the one scale of all axes that keep_aspect_ratio_policy asks for; None by axis where it stretches."""
    policy = c.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [None] * len(scales)
    if policy not in ("not_larger", "not_smaller"):
        c.refuse(f"keep_aspect_ratio_policy {policy!r}", "check it with onnx.checker")
    return [min(scales) if policy == "not_larger" else max(scales)] * len(scales)


def _parts(c: Context, axes: int) -> list[tuple[Fraction, Fraction]]:
    roi = c.optional_constant(1)
    if roi is None or roi.value.size != 2 * axes or roi.radius is not None:
        c.refuse(f"its roi does not hold a start and an end for each of {axes} axes", "check it with onnx.checker")
    numbers = [Fraction(float(number)) for number in roi.value.reshape(-1)]
    return list(zip(numbers[:axes], numbers[axes:], strict=True))


# --- one axis ----------------------------------------------------------------------------------------------


def _along(c: Context, x: Ref, axis: Axis, mode: str, way: str) -> Ref:
    outside = [way == "tf_crop_and_resize" and not 0 <= p <= axis.size - 1 for p in _places(axis, way)]
    if mode == "nearest":
        y = select(c, x, axis.index, _nearest(c, axis, way))
    else:
        weight = _weights(c, axis, way, mode)
        y = turned_last(c, x, axis.index, lambda z: linear(c, z, weight))
    if not any(outside):
        return y
    shape = [-1, *(1 for _ in y.shape[axis.index + 1 :])]
    keep = constant(1.0 - np.asarray(outside, dtype=np.float64).reshape(shape))
    fill = float(c.attr("extrapolation_value", 0.0))
    return scale(c, y, keep, constant((1.0 - keep.value) * fill) if fill else None)


def _places(axis: Axis, way: str) -> list[Fraction]:
    return [axis.original(way, Fraction(x)) for x in range(axis.result)]


def _nearest(c: Context, axis: Axis, way: str) -> np.ndarray:
    rounds = _rounds(c, axis)
    exact = [axis.nearest(way, rounds, Fraction(x)) for x in range(axis.result)]
    with np.errstate(all="ignore"):
        theirs = [axis.nearest(way, rounds, np.float32(x)) for x in range(axis.result)]
    if exact != theirs:
        where = next(x for x in range(axis.result) if exact[x] != theirs[x])
        c.refuse(
            f"float32 takes another entry than the exact nearest one, at {where} of axis {axis.index}",
            "export with sizes that are multiples of the original's, or with another nearest_mode",
        )
    return np.asarray(exact)


def _weights(c: Context, axis: Axis, way: str, mode: str) -> Constant:
    """Return the matrix (result, size) of an interpolation."""
    c.claim((axis.result, axis.size))
    rows = np.zeros((axis.result, axis.size), dtype=object)
    slack = np.zeros(rows.shape)
    # A scale, a quotient and a difference are rounded, of numbers up to the size of the axis; cubic weights are
    # polynomials of the third degree, whose slope is below 4.
    off = few_roundings(float(axis.size + 2), 8, torch.float32) * (4.0 if mode == "cubic" else 1.0)
    for x, place in enumerate(_places(axis, way)):
        low = math.floor(place)
        for offset, weight in _taps(c, place - low, mode):
            entry = low + offset
            if mode == "cubic" and c.attr("exclude_outside", 0) and not 0 <= entry < axis.size:
                continue
            rows[x, min(max(entry, 0), axis.size - 1)] += weight
        total = sum(rows[x])
        if total != 1:
            if not total:
                c.refuse("no entry of its window lies inside the image", "export with exclude_outside=0")
            rows[x] = [weight / total for weight in rows[x]]
        near = np.clip(np.arange(low - 2, low + 4), 0, axis.size - 1)
        slack[x, near] = off
    value = rows.astype(np.float64)
    inexact = [Fraction(number) != weight for number, weight in zip(value.flat, rows.flat, strict=True)]
    radius = np.where(np.reshape(inexact, rows.shape), few_roundings(np.abs(value), 2), 0.0)
    return Constant(value, radius if radius.any() else None, slack, dtype=torch.float32)


def _taps(c: Context, ratio: Fraction, mode: str) -> list[tuple[int, Fraction]]:
    """Return the offsets from the entry below and their weights, for a place this far above it."""
    if mode == "linear":
        return [(0, 1 - ratio), (1, ratio)]
    a = Fraction(float(c.attr("cubic_coeff_a", -0.75)))
    s = ratio

    def outer(t: Fraction) -> Fraction:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    def inner(t: Fraction) -> Fraction:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    return [(-1, outer(s + 1)), (0, inner(s)), (1, inner(1 - s)), (2, outer(2 - s))]
