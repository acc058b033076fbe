"""A data set as it is given in Python, checked: images, labels, a radius and a norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from netproof.arguments import shown
from netproof.core.machine.allowance import unless_out_of_memory
from netproof.errors import UsageError
from netproof.problem.specs import InputRegion, Number, exact, l1_ball, l2_ball, linf_ball, refuse_unread

BALLS: dict[str, Callable[..., InputRegion]] = {"inf": linf_ball, "2": l2_ball, "1": l1_ball}
KINDS = "fiub"  # numpy's letters of real numbers


@dataclass(frozen=True, eq=False)
class Item:
    """One image: where it stands in the data set, and how it is read."""

    index: int
    label: int
    # The network's input and the set around it, made when they are needed: exact numbers take memory.
    load: Callable[[], tuple[np.ndarray, InputRegion]]


def read_images(X: Any, y: Any, eps: Number, norm: Any = "inf", clip: Any = None) -> list[Item]:
    """Check images X (N, *input), labels y (N,) and the radius; UsageError in one line for what does not fit."""
    images, labels = real_array(X, "X"), whole_array(y, "y")
    if images.ndim < 2:
        raise UsageError(f"X has shape {list(images.shape)}", remedy="give X as (N, *input)")
    if labels.shape != images.shape[:1]:
        raise UsageError(
            f"X has {len(images)} images, y has shape {list(labels.shape)}", remedy="give one label for each image"
        )
    if len(images) == 0:
        raise UsageError("X has no images", remedy="give at least one")
    ball = BALLS[read_norm(norm)]
    _refuse_outside(images, clip)
    ball(images[0], eps, clip=clip)  # refuses a bad radius or range before the rest is looked at

    def load(i: int) -> Callable[[], tuple[np.ndarray, InputRegion]]:
        return lambda: (images[i], ball(images[i], eps, clip=clip))

    return [Item(i, int(labels[i]), load(i)) for i in range(len(images))]


def read_norm(norm: Any) -> str:
    """Return the name of a norm: "inf", "2" or "1", given as that, as a number or as math.inf."""
    if isinstance(norm, float) and math.isinf(norm) and norm > 0:
        return "inf"
    name = str(int(norm)) if isinstance(norm, int | float) and not isinstance(norm, bool) and norm == norm else norm
    if not isinstance(name, str) or name not in BALLS:
        raise UsageError(f"norm cannot be {shown(norm)}", remedy='give "inf", 2 or 1')
    return name


def real_array(values: Any, name: str) -> np.ndarray:
    """Return an array of finite real numbers as it is; UsageError for anything else."""
    found = _array(values, name)
    if found.dtype.kind not in KINDS:
        raise UsageError(f"{name} holds {found.dtype}, not real numbers", remedy="give an array of floats")
    if not np.isfinite(found).all():
        raise UsageError(f"{name} holds NaN or infinite values", remedy="give finite numbers")
    return found


def whole_array(values: Any, name: str) -> np.ndarray:
    """Return an array of whole numbers as int64; UsageError for anything else."""
    found = _array(values, name)
    fractional = found.dtype.kind == "f" and not (np.isfinite(found).all() and (found == np.round(found)).all())
    if found.dtype.kind not in "iuf" or fractional:
        raise UsageError(f"{name} does not hold whole numbers", remedy="give labels as integers, from 0 on")
    return found.astype(np.int64)


def _array(values: Any, name: str) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        # numpy has no bfloat16, and every number of it is a float32.
        plain = values.detach().float() if values.dtype == torch.bfloat16 else values.detach()
        try:
            return np.asarray(plain.cpu().numpy())
        except (RuntimeError, TypeError, NotImplementedError) as error:  # it is sparse, or holds no numbers
            unless_out_of_memory(error)
            raise UsageError(f"{name} is no plain tensor: {error}", remedy="give a dense one, or an array") from None
    refuse_unread(values, name)
    try:
        return np.asarray(values)
    except ValueError:
        raise UsageError(f"{name} is ragged", remedy="give a rectangular array") from None


def _refuse_outside(images: np.ndarray, clip: Any) -> None:
    """Raise UsageError where an image has values outside the range: then it was scaled otherwise than is said."""
    if not isinstance(clip, tuple | list) or len(clip) != 2:
        return  # none, or no range: the input set says so
    refuse_unread(clip, "clip")
    low, high = (
        np.asarray([float(exact(v, "clip")) for v in np.asarray(side, dtype=object).reshape(-1)]) for side in clip
    )
    flat = images.reshape(len(images), -1)
    if not {low.size, high.size} <= {1, flat.shape[1]} or (low > high).any():
        return  # no range of these images, or none at all: the input set says that too
    outside = ((flat < low) | (flat > high)).any(1)
    if outside.any():
        i = int(outside.argmax())
        raise UsageError(
            f"image {i} has values from {flat[i].min():.4g} to {flat[i].max():.4g}, outside of clip",
            remedy="give the range that the images have, or leave clip out",
        )
