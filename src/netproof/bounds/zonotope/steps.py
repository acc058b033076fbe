"""One op forward: affine forms of what it reads become those of its result, all that is rounded put into the error.

What an affine op computes of a generator misses at most γ|W||G_g|, so of all of them γ|W|Σ|G_g|: one pass with |W| over
the radius of the forms pays for every generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.windows.frame import Frame, Places, correlated, transposed
from netproof.bounds.windows.moves import (
    HEIGHT,
    WIDTH,
    Move,
    channels_among,
    correlated_values,
    image_sides,
    negated,
    same,
    scaled,
    transposed_values,
)
from netproof.bounds.windows.windowed import Windowed
from netproof.bounds.zonotope.accurate import at_point
from netproof.bounds.zonotope.norms import length_gain
from netproof.bounds.zonotope.zonotope import Generators, Zonotope, generators_at, slices
from netproof.core.forms import Interval
from netproof.model.affine import Scale, Sum
from netproof.model.conv import Conv, ConvTranspose
from netproof.model.graph import Node
from netproof.model.moves import Concat, Index, Pad, Reshape
from netproof.model.ops import Affine, Nonlinear
from netproof.numerics import down, enlarged, few_roundings, rounding, up, with_vanishing
from netproof.relax import relaxation_of


def through_affine(node: Node, inputs: Sequence[Zonotope]) -> Zonotope:
    """Carry forms through an affine op."""
    op = node.op
    assert isinstance(op, Affine)
    centre, rounded = at_point(op, [x.centre for x in inputs])
    absolute = op.absolute().linear()
    spread = absolute.forward(*(x.radius[None] for x in inputs))[0]
    rounded = rounded + rounding(spread, op.fan + 16 if op.fan else 0)
    if op.radius is not None:
        sizes = [(x.centre.abs() + x.radius)[None] for x in inputs]
        rounded = rounded + enlarged(op.radius.forward(*sizes)[0])
    rounded = with_vanishing(enlarged(rounded))
    error = enlarged(absolute.forward(*(x.error[None] for x in inputs))[0])
    gain = length_gain(op)
    length = None if gain is None else _longer(gain, inputs, rounded)
    return Zonotope.of(centre, enlarged(error + rounded), length, _carried(node, inputs))


def _longer(gain: Tensor | float, inputs: Sequence[Zonotope], rounded: Tensor) -> Tensor:
    """Return how long an error is after an op: what came from each input, and what is rounded here."""
    before = torch.stack([x.length for x in inputs]).sum()
    length: Tensor = enlarged(gain * before + torch.linalg.vector_norm(rounded))
    return length


def through_nonlinear(node: Node, x: Zonotope, h: Interval, *, spent: bool = False) -> Zonotope:
    """Carry forms through a function of every entry, between parallel lines on the bounds h (*node) of what it reads.

    What lies between the lines of a neuron is a new generator. spent: nobody else reads x, whose generators become
    those of the result in place, since they are as large.
    """
    assert isinstance(node.op, Nonlinear)
    assert node.op.arity == 1
    relaxation, flat = relaxation_of(node.op), h.flat
    lines = relaxation.family(flat, proof=True).at(relaxation.parallel(flat))
    slope, top = lines.upper_slope, lines.upper_intercept
    bottom = torch.zeros_like(top) if lines.lower_intercept is None else lines.lower_intercept
    tilt = (lines.lower_slope - slope).abs() * flat.magnitude  # where the lower line is not parallel after all
    bottom = torch.where(tilt > 0, down(bottom - up(tilt, 4)), bottom)
    middle = torch.where(top == bottom, top, top / 2 + bottom / 2)
    open_ = up(torch.maximum(top - middle, middle - bottom), 2)
    places = (top != bottom).nonzero()[:, 0]
    slope, middle = slope.view(node.shape), middle.view(node.shape)
    sizes = slope.abs() * (x.centre.abs() + x.radius) + middle.abs()
    rounded = with_vanishing(enlarged(few_roundings(sizes, 8)))
    error, length = enlarged(slope.abs() * x.error + rounded), _longer(slope.abs().max(), [x], rounded)
    groups = {began: _times(some, slope, spent=spent) for began, some in x.generators.items()}
    if len(places):
        groups[node.index] = generators_at(places, open_[places], node.shape)
    return Zonotope.of(torch.addcmul(middle, slope, x.centre), error, length, groups)


def _times(some: Generators, slope: Tensor, *, spent: bool) -> Generators:
    # What an op has only expanded stands in memory once, and cannot be written to.
    values = some.values if spent and some.values.is_contiguous() else some.values.new_empty(some.values.shape)
    if isinstance(some, Dense):
        return Dense(torch.mul(some.values, slope, out=values), some.rank)
    for part in slices(some):  # what windows gather of the slopes is as large as they are
        places = Places(some.places.at(some.frame.path)[part])
        values[part] = scaled(slope, some.values[part], places, replace(some.frame, path=()))
    return Windowed(values, some.frame, some.places)


def _carried(node: Node, inputs: Sequence[Zonotope]) -> dict[int, Generators]:
    """Return the generators of an affine op's result; those of one origin come by every branch."""
    found: dict[int, Generators] = {}
    for began in sorted({began for x in inputs for began in x.generators}):
        parts = [x.generators.get(began) for x in inputs]
        moved = [_by_windows(node, place, some) for place, some in enumerate(parts) if some is not None]
        if all(one is not None for one in moved):
            total = moved[0]
            for more in moved[1:]:
                total = total.plus(more)  # type: ignore[union-attr, arg-type, assignment]
            found[began] = total  # type: ignore[assignment]
        else:
            found[began] = _dense(node, parts, inputs)
    return found


def _dense(node: Node, parts: Sequence[Generators | None], inputs: Sequence[Zonotope]) -> Dense:
    """Apply an op without its constant to dense generators; a branch that has none of them has 0."""
    assert isinstance(node.op, Affine)
    count = next(len(some.values) for some in parts if some is not None)
    xs = [
        x.centre.new_zeros(1, *x.centre.shape).expand(count, *x.centre.shape) if some is None else some.dense()
        for some, x in zip(parts, inputs, strict=True)
    ]
    return Dense(node.op.linear().forward(*xs), len(node.shape))


def _by_windows(node: Node, place: int, some: Generators) -> Generators | None:
    """Carry the windows of one input of an op forward; None where they are none, or become none."""
    move = None if isinstance(some, Dense) else onward(node, place, some.frame, some.values.shape[-1])
    return None if move is None or isinstance(some, Dense) else some.moved(move)


def onward(node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    """Return what becomes of windows of the op's input number `place`; None where they would save nothing."""
    move = _rule(node, place, frame, channels) if image_sides(node.shape) is not None else None
    return None if move is None or move.frame.covers else move


def _rule(node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    op = node.op
    if isinstance(op, Conv) and len(op.kernel.window) == 2:
        where = correlated(frame, op.kernel)
        return None if where is None else Move(where.frame, partial(correlated_values, op.kernel, where), cut=True)
    if isinstance(op, ConvTranspose) and len(op.kernel.window) == 2:
        return Move(transposed(frame, op.kernel), partial(transposed_values, op.kernel), cut=True)
    if isinstance(op, Sum):
        return Move(frame, same if op.signs[place] > 0 else negated)
    if isinstance(op, Scale):
        return Move(frame, partial(scaled, op.mult))
    if isinstance(op, Reshape) and op.in_shape == op.out_shape:
        return Move(frame, same)
    if isinstance(op, Index) and op.axis == 1:
        return Move(frame, partial(_some_channels, op.index))
    if isinstance(op, Pad) and not any((*op.before[:HEIGHT], *op.after[:HEIGHT])):
        by = (op.before[HEIGHT], op.before[WIDTH])
        return Move(frame.moved(by, (node.shape[HEIGHT], node.shape[WIDTH])), same, cut=True)
    if isinstance(op, Concat):
        return _joined(op, node, place, frame, channels)
    return None


def _joined(op: Concat, node: Node, place: int, frame: Frame, channels: int) -> Move | None:
    branches = [i for i, part in enumerate(op.parts) if part is None]
    start = sum(op.sizes[: branches[place]])
    if op.axis == 1:
        return Move(frame, partial(channels_among, start, node.shape[1] - start - channels))
    if op.axis not in (HEIGHT, WIDTH):
        return None
    by = (start, 0) if op.axis == HEIGHT else (0, start)
    return Move(frame.moved(by, (node.shape[HEIGHT], node.shape[WIDTH])), same)


def _some_channels(index: Tensor, values: Tensor, places: Places, frame: Frame) -> Tensor:
    return values[..., index]
