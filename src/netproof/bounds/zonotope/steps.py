"""One op forward: affine forms of what it reads become those of its result, all that is rounded put into the error.

What an affine op computes of a generator misses at most γ|W||G_g|, so of all of them γ|W|Σ|G_g|: one pass with |W| over
the radius of the forms pays for every generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.windows.frame import Places
from netproof.bounds.windows.moves import Move, same, scaled, united
from netproof.bounds.windows.onward import onward
from netproof.bounds.windows.windowed import Windowed
from netproof.bounds.zonotope.accurate import at_point
from netproof.bounds.zonotope.norms import length_gain
from netproof.bounds.zonotope.zonotope import (
    Generators,
    Zonotope,
    begins_as_window,
    generators_at,
    in_parts,
    keeping,
    slices,
)
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.graph import Node
from netproof.model.ops import Affine, Nonlinear
from netproof.numerics import enlarged, few_roundings, float32_up, rounding, up, with_vanishing
from netproof.relax import relaxation_of
from netproof.relax.parallel import parallel_lines

Strip = tuple[Tensor, Tensor, Tensor]  # slopes, and what the lower and the upper line add: (entries of the node,)


def through_affine(
    node: Node, inputs: Sequence[Zonotope], deadline: Deadline, *, spent: Sequence[bool] | None = None
) -> Zonotope:
    """Carry forms through an affine op; DeadlineExpired where there is no time for it; then all is as it was.

    spent: which inputs nobody else reads, so that a sum may be written into their generators.
    """
    op = node.op
    assert isinstance(op, Affine)
    centre, rounded = at_point(op, [x.centre for x in inputs], deadline)
    deadline.check()
    absolute = op.absolute().linear()
    spread = absolute.forward(*(x.radius[None] for x in inputs))[0]
    rounded = rounded + rounding(spread, op.fan + 16 if op.fan else 0)
    if op.radius is not None:
        sizes = [(x.centre.abs() + x.radius)[None] for x in inputs]
        rounded = rounded + enlarged(op.radius.forward(*sizes)[0])
    rounded = with_vanishing(enlarged(rounded))
    deadline.check()
    error = enlarged(absolute.forward(*(x.error[None] for x in inputs))[0])
    del absolute
    narrow = op.fan > 0 and any(x.is_narrow for x in inputs)
    gain = length_gain(op, deadline if narrow else None)
    length = None if gain is None else _longer(gain, inputs, rounded)
    deadline.check()
    carried = _carried(node, inputs, deadline, spent or [False] * len(inputs))
    found = Zonotope.of(centre, enlarged(error + rounded), length, carried)
    if not narrow:
        return found
    # Of one input, results alone are rounded; where there are several, what is added up on the way as well.
    kept = keeping(found.total, found.count) if len(inputs) == 1 else keeping(spread, found.count, len(inputs))
    return found.with_more(enlarged(kept))


def _longer(gain: Tensor | float, inputs: Sequence[Zonotope], rounded: Tensor) -> Tensor:
    """Return how long an error is after an op: what came from each input, and what is rounded here."""
    before = torch.stack([x.length for x in inputs]).sum()
    length: Tensor = enlarged(gain * before + torch.linalg.vector_norm(rounded))
    return length


def through_nonlinear(node: Node, x: Zonotope, lines: Strip, deadline: Deadline, *, spent: bool = False) -> Zonotope:
    """Carry forms through a function of every entry, which lies between parallel lines.

    What lies between the lines of a neuron is a new generator. spent: nobody else reads x, whose generators become
    those of the result in place, since they are as large. DeadlineExpired where there is no time for it; then x is as
    it was.
    """
    slope, bottom, top = lines
    middle = torch.where(top == bottom, top, top / 2 + bottom / 2)
    open_ = up(torch.maximum(top - middle, middle - bottom), 2)
    places = (top != bottom).nonzero()[:, 0]
    slope, middle = slope.view(node.shape), middle.view(node.shape)
    sizes = slope.abs() * (x.centre.abs() + x.radius) + middle.abs()
    rounded = with_vanishing(enlarged(few_roundings(sizes, 8)))
    if x.is_narrow:
        rounded, open_ = rounded + enlarged(keeping(slope.abs() * x.radius, x.count)), float32_up(open_)
    error, length = enlarged(slope.abs() * x.error + rounded), _longer(slope.abs().max(), [x], rounded)
    deadline.check()
    groups = {began: _times(some, slope, spent=spent) for began, some in x.generators.items()}
    if len(places):
        groups[node.index] = generators_at(places, open_[places], node.shape)
    return Zonotope.of(torch.addcmul(middle, slope, x.centre), error, length, groups)


def narrowed(x: Zonotope, done: dict[int, Tensor]) -> Zonotope:
    """Keep generators in float32, if they are not. done: what was converted, by the identity of what it was."""
    wide = {began: some for began, some in x.generators.items() if some.values.dtype != torch.float32}
    if not wide:
        return x
    narrow = dict[int, Generators]()
    for began, some in wide.items():
        if id(some.values) not in done:
            done[id(some.values)] = some.values.float()
        narrow[began] = replace(some, values=done[id(some.values)])
    kept = keeping(x.total, x.count)
    return replace(x.with_more(enlarged(kept)), generators={**x.generators, **narrow})


def lines_between(node: Node, h: Interval) -> Strip:
    """Return parallel lines that a function of every entry lies between, on the bounds h (*node) of what it reads."""
    assert isinstance(node.op, Nonlinear)
    assert node.op.arity == 1
    return parallel_lines(relaxation_of(node.op), h.flat)


def new_numbers(node: Node, lines: Strip) -> int:
    """Return how many numbers the generators have that a function of every entry adds."""
    _, bottom, top = lines
    return int((top != bottom).sum()) * (node.shape[1] if begins_as_window(node.shape) else node.size)


def _times(some: Generators, slope: Tensor, *, spent: bool) -> Generators:
    # What an op has only expanded stands in memory once, and cannot be written to.
    values = some.values if spent and some.values.is_contiguous() else some.values.new_empty(some.values.shape)
    # No look at the deadline: half of it may be written in place. All is computed as slopes are, in float64.
    for part in slices(some.values):
        if isinstance(some, Dense):
            torch.mul(some.values[part], slope, out=values[part])
            continue
        places = Places(some.places.at(some.frame.path)[part])
        values[part] = scaled(slope, some.values[part], places, replace(some.frame, path=()))
    return replace(some, values=values)


def _some_of(some: Windowed, part: slice) -> Windowed:
    """Return some of the windows to compute with; places that strides divide are divided already."""
    places = Places(some.places.at(some.frame.path)[part])
    return Windowed(some.values[part].double(), replace(some.frame, path=()), places)


def _carried(
    node: Node, inputs: Sequence[Zonotope], deadline: Deadline, spent: Sequence[bool]
) -> dict[int, Generators]:
    """Return the generators of an affine op's result; those of one origin come by every branch."""
    found: dict[int, Generators] = {}
    in_place: dict[int, tuple[Windowed, Windowed]] = {}  # written to last, when the deadline is not looked at any more
    for began in sorted({began for x in inputs for began in x.generators}):
        parts = [x.generators.get(began) for x in inputs]
        moved = [_by_windows(node, place, some, deadline) for place, some in enumerate(parts) if some is not None]
        pair = _into_spent(moved, parts, spent)
        if pair is not None:
            in_place[began] = pair
        elif all(one is not None for one in moved):
            total = moved[0]
            for more in moved[1:]:
                total = total.plus(more)  # type: ignore[union-attr, arg-type, assignment]
            found[began] = total  # type: ignore[assignment]
        else:
            found[began] = _dense(node, parts, inputs, deadline)
    for began, (whole, more) in in_place.items():
        _, _, left, _, top, _ = more.frame.pads_to(whole.frame)
        high, wide = more.frame.size
        whole.values[:, top : top + high, left : left + wide] += more.values
        found[began] = whole
    return dict(sorted(found.items()))


def carried_numbers(node: Node, inputs: Sequence[Zonotope], spent: Sequence[bool]) -> int:
    """Return how many numbers the generators of an affine op's result have that are not those of an input."""
    total = 0
    for began in {began for x in inputs for began in x.generators}:
        parts = {place: x.generators[began] for place, x in enumerate(inputs) if began in x.generators}
        moved = {place: _rule(node, place, some) for place, some in parts.items()}
        frame = united([None if move is None else move.frame for move in moved.values()])
        as_they_are = [i for i, move in moved.items() if move and _is_same(move) and move.frame == frame]
        if as_they_are and (len(parts) == 1 or _is_in_place(parts, [i for i in as_they_are if spent[i]])):
            continue
        count = len(next(iter(parts.values())).values)
        total += count * (node.size if frame is None else frame.area * node.shape[1])
    return total


def _rule(node: Node, place: int, some: Generators) -> Move | None:
    """Return what becomes of the windows of one input of an op; None where they are none, or become none."""
    return None if isinstance(some, Dense) else onward(node, place, some.frame, some.values.shape[-1])


def _is_in_place(parts: Mapping[int, Generators], spent: Sequence[int]) -> bool:
    """Say whether a sum of windows will be written into one of those that are spent, as `_into_spent` has it."""
    places = {id(some.places) for some in parts.values() if isinstance(some, Windowed)}
    return len(parts) == 2 and len(places) == 1 and any(parts[i].values.is_contiguous() for i in spent)


def _is_same(move: Move) -> bool:
    return move.apply is same and not move.cut


def _into_spent(
    moved: Sequence[Generators | None], parts: Sequence[Generators | None], spent: Sequence[bool]
) -> tuple[Windowed, Windowed] | None:
    """Return the windows of a sum that hold those of its other branch and may be written to, and those; None: none do.

    They are the largest forms there are, and a third of the same size would be held for the sum.
    """
    if len(moved) != 2 or len(parts) != 2:
        return None
    for place in (0, 1):
        whole, more, mine = moved[place], moved[1 - place], parts[place]
        if not (isinstance(whole, Windowed) and isinstance(more, Windowed) and mine is not None and spent[place]):
            continue
        same_values = whole.values is mine.values and more.places is whole.places
        if same_values and whole.values.is_contiguous() and united([whole.frame, more.frame]) == whole.frame:
            return whole, more
    return None


def _dense(node: Node, parts: Sequence[Generators | None], inputs: Sequence[Zonotope], deadline: Deadline) -> Dense:
    """Apply an op without its constant to dense generators; a branch that has none of them has 0."""
    assert isinstance(node.op, Affine)
    values = next(some.values for some in parts if some is not None)
    linear, largest = node.op.linear(), max(x.centre.numel() for x in inputs)

    def carried(part: slice) -> Tensor:  # windows become dense some at a time: all of them would be far larger
        count = len(values[part])
        each = (_dense_part(some, x, part, count) for some, x in zip(parts, inputs, strict=True))
        return linear.forward(*each).to(values.dtype)

    return Dense(in_parts(carried, values, max(node.size, largest), deadline), len(node.shape))


def _dense_part(some: Generators | None, x: Zonotope, part: slice, count: int) -> Tensor:
    """Return a slice of an input's generators, (count, *its node): 0 where it has none."""
    if some is None:
        return x.centre.new_zeros(1, *x.centre.shape).expand(count, *x.centre.shape)
    return some.values[part].double() if isinstance(some, Dense) else _some_of(some, part).dense()


def _by_windows(node: Node, place: int, some: Generators, deadline: Deadline) -> Generators | None:
    """Carry the windows of one input of an op forward; None where they are none, or become none."""
    move = _rule(node, place, some)
    if move is None or isinstance(some, Dense):
        return None
    if _is_same(move):
        return Windowed(some.values, move.frame, some.places)

    def carried(part: slice) -> Tensor:
        few = _some_of(some, part)
        move = _rule(node, place, few)
        assert move is not None
        return few.moved(move).values.to(some.values.dtype)

    entries = move.frame.area * node.shape[1]
    return Windowed(in_parts(carried, some.values, entries, deadline), move.frame, some.places)
