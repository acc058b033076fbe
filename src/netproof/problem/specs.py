"""Properties made in Python: input regions, and what must hold on them. Every number is taken exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netproof.arguments import shown, whole, whole_numbers
from netproof.errors import UsageError
from netproof.problem.decimal import LIMITS, decimal
from netproof.problem.property import Ball, Box, Disjunct, Property, Row

if TYPE_CHECKING:
    from netproof.model.combined import LinearMap

Number = int | float | str | Fraction | Decimal
Clip = tuple[Any, Any]  # lower and upper, each a number or an array of the input's shape


@dataclass(frozen=True, repr=False)
class InputRegion:
    """A set of inputs: a box, and maybe a ball in it. `shape` is that of the array it was made from.

    With a `map` it is the image of that box: the inputs c + E ξ with ξ in the box.
    """

    box: Box
    ball: Ball | None
    shape: tuple[int, ...]
    map: LinearMap | None = None

    def __repr__(self) -> str:
        """Say what kind of set it is, and of which size, without its numbers."""
        kind = "box" if self.ball is None else f"l{self.ball.p} ball of radius {float(self.ball.radius):.6g}"
        if self.map is not None:
            kind = f"linear image of {len(self.box.lower)} numbers"
        moving = sum(low != high for low, high in zip(self.box.lower, self.box.upper, strict=True))
        varies = "" if moving == len(self.box.lower) else f", {moving} of {len(self.box.lower)} numbers vary"
        return f"InputRegion({kind}, shape {list(self.shape)}{varies})"


def box(lower: Any, upper: Any) -> InputRegion:
    """Make the region lower <= x <= upper, elementwise, of arrays, tensors or nested lists of one shape."""
    low, shape = exact_array(lower, "lower")
    high, other = exact_array(upper, "upper")
    if shape != other:
        raise UsageError(f"lower has shape {list(shape)}, upper {list(other)}", remedy="give equal shapes")
    _refuse_empty(low, high, "lower is above upper")
    return InputRegion(Box(low, high), None, shape)


def linf_ball(x: Any, eps: Number, clip: Clip | None = None) -> InputRegion:
    """Make the region of every input within eps of x in each coordinate, and within `clip` where it is given.

    >>> linf_ball([0.5], "1/4").box.lower
    (Fraction(1, 4),)
    """
    centre, shape = exact_array(x, "x")
    return InputRegion(_around(centre, shape, _radius(eps), clip), None, shape)


def l2_ball(x: Any, eps: Number, clip: Clip | None = None) -> InputRegion:
    """Make the region of every input with ‖input − x‖₂ <= eps, and within `clip` where it is given."""
    return _ball(x, eps, clip, 2)


def l1_ball(x: Any, eps: Number, clip: Clip | None = None) -> InputRegion:
    """Make the region of every input with ‖input − x‖₁ <= eps, and within `clip` where it is given."""
    return _ball(x, eps, clip, 1)


def linear_image(centre: Any, generators: Any, lower: Any = -1, upper: Any = 1) -> InputRegion:
    """Make the region of every input x = centre + Σ_k ξ_k · generators[k] with lower <= ξ <= upper.

    generators: (n, *shape of centre), such as directions in which an image changes; lower, upper: numbers, or (n,).
    A counterexample's input is ξ, and its `tensors` hold x, rounded to float32; a proof covers that rounding.
    """
    from netproof.model.combined import LinearMap  # with onnxruntime, which other regions do not need

    middle, shape = exact_array(centre, "centre")
    directions, size = exact_array(generators, "generators")
    if size[1:] != shape:
        remedy = f"give generators of shape (n, {', '.join(map(str, shape))})"
        raise UsageError(f"centre has shape {list(shape)}, generators {list(size)}", remedy=remedy)
    low, high = (_broadcast(side, size[:1], "lower and upper", "generators") for side in (lower, upper))
    _refuse_empty(low, high, "lower is above upper")
    try:
        numbers = [[float(v) for v in values] for values in (middle, directions)]
    except OverflowError as error:
        raise UsageError("a number of centre or generators is beyond float64", remedy="rescale them") from error
    c, e = (torch.tensor(values, dtype=torch.float64) for values in numbers)
    return InputRegion(Box(tuple(low), tuple(high)), None, shape, LinearMap(c, e.reshape(size[0], -1).T.contiguous()))


def classification(region: InputRegion, label: int, n_outputs: int, targets: Sequence[int] | None = None) -> Property:
    """Ask that the label's logit stay above every target's (default: above all others); a tie is a violation."""
    check_classes(n_outputs)
    label = whole(label, "label")
    others = [t for t in range(n_outputs) if t != label] if targets is None else whole_numbers(targets, "targets")
    for name, index in (("label", label), *(("target", t) for t in others)):
        if not 0 <= index < n_outputs:
            raise UsageError(f"{name} {index} is not an output of this network", remedy=f"choose 0 to {n_outputs - 1}")
    if label in others or not others:
        raise UsageError(f"label {label} needs targets other than itself", remedy="name other classes")
    one = Fraction(1)
    rows = [Row({label: one, target: -one}, Fraction(0)) for target in others]
    return _property(region, rows, n_outputs)


def check_classes(n_outputs: int, file: str | None = None) -> None:
    """Raise UsageError unless there are at least two outputs, of which one can be the largest.

    What a single output means (above 0? above 1/2?) the file does not say, so it is not guessed.
    """
    if n_outputs < 2:
        raise UsageError(
            "the network has one output, so no other class could be larger",
            file=file,
            remedy="ask `netproof verify` about its sign or threshold, by a spec such as (assert (<= Y_0 0.0))",
        )


def output_constraint(region: InputRegion, C: Any, d: Any) -> Property:
    """Ask that C·y >= d hold in every row; C has shape (row, output), d (row,)."""
    coefs, shape = exact_array(C, "C")
    bounds, size = exact_array(d, "d")
    if len(shape) != 2 or size != shape[:1]:
        raise UsageError(f"C has shape {list(shape)} and d {list(size)}", remedy="give C (row, output) and d (row,)")
    width = shape[1]
    rows = [
        Row({i: c for i, c in enumerate(coefs[r * width : (r + 1) * width]) if c != 0}, bound, strict=True)
        for r, bound in enumerate(bounds)
    ]
    return _property(region, rows, width)


def _property(region: InputRegion, rows: Sequence[Row], outputs: int) -> Property:
    """Make one disjunct per row: any of them is a violation. A row that no output can satisfy is left out."""
    zero = [Fraction(0)] * outputs
    disjuncts = tuple(
        Disjunct(region.box, (row,) if row.coefs else (), region.ball)
        for row in rows
        if row.coefs or row.holds((), zero)
    )
    return Property(disjuncts, len(region.box.lower), outputs, map=region.map)


def _ball(x: Any, eps: Number, clip: Clip | None, p: int) -> InputRegion:
    centre, shape = exact_array(x, "x")
    radius = _radius(eps)
    inside = _around(centre, shape, radius, clip)
    away = (
        max(low - c, c - high, Fraction(0)) for low, c, high in zip(inside.lower, centre, inside.upper, strict=True)
    )
    if sum(distance**p for distance in away) > radius**p:
        raise UsageError("x is farther than eps from clip: the input set is empty", remedy="give x within clip")
    return InputRegion(inside, Ball(centre, radius, p), shape)


def _around(centre: Sequence[Fraction], shape: tuple[int, ...], eps: Fraction, clip: Clip | None) -> Box:
    lower, upper = [c - eps for c in centre], [c + eps for c in centre]
    if clip is None:
        return Box(tuple(lower), tuple(upper))
    least, most = (_broadcast(side, shape) for side in _sides(clip))
    _refuse_empty(least, most, "clip's lower bound is above its upper one")
    low, high = tuple(map(max, lower, least)), tuple(map(min, upper, most))
    _refuse_empty(low, high, "x is farther than eps from clip")
    return Box(low, high)


def _sides(clip: Any) -> Clip:
    sides: Any = None if isinstance(clip, str) else clip
    try:
        lower, upper = sides
    except (TypeError, ValueError):  # no sequence, or not of two
        raise UsageError(
            f"clip needs a lower and an upper bound, not {shown(clip)}", remedy="give clip=(0, 1)"
        ) from None
    return lower, upper


def _refuse_empty(lower: Sequence[Fraction], upper: Sequence[Fraction], why: str) -> None:
    """Raise UsageError for a set without a point: it has every property, which is never what was meant."""
    if any(low > high for low, high in zip(lower, upper, strict=True)):
        raise UsageError(f"{why}: the input set is empty", remedy="check the bounds")


def _broadcast(side: Any, shape: tuple[int, ...], what: str = "clip", whose: str = "x") -> Sequence[Fraction]:
    values, own = exact_array(side, what)
    if math.prod(own) == 1:
        return values * math.prod(shape)
    if own != shape:
        raise UsageError(
            f"{what} has shape {list(own)}, {whose} has {list(shape)}",
            remedy=f"give a number or an array of {whose}'s shape",
        )
    return values


def _radius(eps: Any) -> Fraction:
    if isinstance(eps, list | tuple) or getattr(eps, "ndim", 0) > 0:
        raise UsageError(
            f"eps cannot be {shown(eps)}", remedy="give one number; for one per entry, netproof.box(x - eps, x + eps)"
        )
    value = exact(eps, "eps")
    if value < 0:
        raise UsageError(f"eps is {eps}", remedy="give a radius that is not negative")
    return value


def exact(value: Any, what: str = "the number") -> Fraction:
    """Return the exact value of a number, or of a text such as 0.1, 1e-3 or 2/255; UsageError if it has none."""
    refuse_unread(value, what)
    try:
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, np.generic | np.ndarray | torch.Tensor):
            value = value.item()
        if isinstance(value, bool):
            raise TypeError("a truth value is no number")
        return Fraction(value)
    except (ValueError, OverflowError, TypeError, ZeroDivisionError, RuntimeError) as error:
        raise UsageError(
            f"{what} cannot be {shown(value)}: {error}",
            remedy=f"give a finite number or a text such as 2/255; {LIMITS}",
        ) from error


def _text(text: str) -> Fraction:
    parts = [decimal(part.strip(" \t\r\n")) for part in text.split("/")]
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts) or len(parts) > 2:
        raise ValueError("not a number")
    return numbers[0] if len(numbers) == 1 else numbers[0] / numbers[1]


def refuse_unread(values: Any, what: str) -> None:
    """Raise UsageError for arrays, alone or in lists, of which more or less would be read than their entries.

    numpy hands out the hidden entries of a masked array as if they were data, and rounds numbers beyond float64.
    """
    if isinstance(values, list | tuple):
        for value in values:
            refuse_unread(value, what)
    elif isinstance(values, np.ndarray | np.generic):
        if np.ma.is_masked(values):
            raise UsageError(f"{what} is masked in places", remedy="fill them with numbers, as .filled(0) does")
        if values.dtype.kind == "f" and values.dtype.itemsize > 8:
            raise UsageError(f"{what} is of {values.dtype}", remedy="round it to float64, as .astype(float) does")


def exact_array(values: Any, what: str) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
    """Return the exact entries of an array, tensor or nested list, row-major, and its shape."""
    refuse_unread(values, what)
    if isinstance(values, torch.Tensor):
        if values.is_meta or values.layout != torch.strided or values.is_quantized:
            kind = "meta" if values.is_meta else "quantized" if values.is_quantized else "sparse"
            raise UsageError(f"{what} cannot be a {kind} tensor", remedy="give a dense tensor with values")
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    if not isinstance(values, np.ndarray):
        values = _object_array(values, what)
    if values.size == 0:
        raise UsageError(f"{what} is empty", remedy="give at least one number")
    known: dict[Any, Fraction] = {}
    found = []
    for value in values.reshape(-1).tolist():
        if value not in known:
            known[value] = exact(value, what)
        found.append(known[value])
    return tuple(found), tuple(values.shape)


def _object_array(values: Any, what: str) -> np.ndarray:
    """Make an array of objects, so that numpy rounds nothing; UsageError where it is ragged."""
    try:
        made = np.array(values, dtype=object)
        ragged = any(isinstance(value, list | tuple) for value in made.reshape(-1))
    except ValueError:
        ragged = True
    if ragged:
        raise UsageError(f"{what} is ragged", remedy="give a rectangular array")
    return made
