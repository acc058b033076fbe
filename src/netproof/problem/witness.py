"""Counterexamples in the user's terms: inside the written set, replayed, and checked with no tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from netproof.core.reasons import UNSHOWN
from netproof.core.verdict import TensorValue, Witness
from netproof.model.combined import AnyNetwork, Mapped, Merged
from netproof.model.evaluate import evaluate
from netproof.model.graph import Graph
from netproof.numerics import float_down, float_up
from netproof.problem.derived import Derived, derived_spreads, derived_values
from netproof.problem.property import Ball, Box, Disjunct, Property
from netproof.problem.rounding import Doubles, Floats, Rounded

Gap = tuple[tuple[float, ...], tuple[float, ...]]  # least and greatest left side − rhs, one per row


def project(x: NDArray[Any], disjunct: Disjunct, dtype: str = "float32") -> Floats:
    """Return the point (n,) of the disjunct's set near x, an array of n numbers of any shape.

    It is of float64 where that is the `dtype`, and otherwise of float32: the types that a witness is looked for in.
    With a ball the point is drawn towards the centre until its exact norm is within the radius. Where not
    even the point of that type at the centre is inside, that point is the answer, and `violated` refuses it.
    """
    lower, upper, _ = disjunct.box.points(dtype)
    flat = np.asarray(x, dtype=np.float64).reshape(-1)
    flat = np.where(np.isnan(flat), lower, flat)
    # Rounding is monotone, so what was clipped between two float32 stays between them.
    point: Floats = np.clip(flat, lower, upper).astype(lower.dtype)
    if disjunct.ball is None or _in_ball(point, disjunct):
        return point
    return _into_ball(point, disjunct, disjunct.ball, lower, upper)


def _into_ball(point: Floats, disjunct: Disjunct, ball: Ball, lower: Floats, upper: Floats) -> Floats:
    """Move towards the box's point nearest to the centre: by convexity, a point of the ball lies on that line."""
    centre = np.array([float(c) for c in ball.centre])
    nearest: Floats = np.clip(centre, lower, upper).astype(lower.dtype)
    anchor = nearest.astype(np.float64)
    step = point.astype(np.float64) - anchor
    share = _share_inside(centre - anchor, step, float(ball.radius), ball.p)
    slack = 2.0**-24
    while slack < 1.0:
        moved: Floats = np.clip((anchor + step * share * (1.0 - slack)).astype(lower.dtype), lower, upper)
        if _in_ball(moved, disjunct):
            return moved
        slack *= 4.0
    return nearest


def _share_inside(offset: Doubles, step: Doubles, radius: float, p: int) -> float:
    """Find about the largest t in [0, 1] with ‖t·step − offset‖_p <= radius, by bisection on a convex function."""
    inside, outside = 0.0, 1.0
    for _ in range(40):
        middle = (inside + outside) / 2
        within = np.linalg.norm(middle * step - offset, ord=p) <= radius
        inside, outside = (middle, outside) if within else (inside, middle)
    return inside


def _in_ball(x: Floats, disjunct: Disjunct) -> bool:
    """Say whether the ball of a disjunct holds the point (n,), of pinned coordinates the numbers that are written."""
    return disjunct.ball is None or disjunct.ball.contains(_as_written(x, disjunct))


def _fractions(values: NDArray[Any]) -> list[Fraction]:
    return [Fraction(v) for v in values.reshape(-1).tolist()]


def confirm(network: AnyNetwork, property: Property, disjunct: int | None, x: NDArray[Any]) -> Witness | None:
    """Make a witness of the candidate x; None when the replay does not violate the property.

    x is projected into the set of `disjunct`; with None, into that of every disjunct whose box holds its
    nearest float, or else of the one nearest to it. The violation may turn out to be another disjunct's.
    """
    dtype = network.input_dtype
    for index in [disjunct] if disjunct is not None else _nearest(property, x, dtype):
        if _between_floats(property.disjuncts[index].box, dtype):
            continue
        point = project(x, property.disjuncts[index], dtype)
        if dtype == "float16":  # it takes no other numbers; `violated` refuses a point that this moved out of its set
            point = point.astype(np.float16).astype(np.float32)
        output = network.replay(point.reshape(network.input_shape))
        found = violated(property, point, output, first=index)
        if found is not None and not _pinned_too_coarsely(network, property.disjuncts[found]):
            note = _note(property, property.disjuncts[found], dtype)
            return Witness(point.reshape(network.input_shape), output, note, _tensors(network, property, point, output))
    return None


def middle_around(property: Property, witness: Witness) -> Doubles:
    """Return the middle of the input set that a witness lies in, (n,): of a ball its centre, of a box its own."""
    disjunct = property.disjuncts[violated(property, witness.input, witness.output) or 0]
    ends = zip(disjunct.box.lower, disjunct.box.upper, strict=True)
    middle = [(low + high) / 2 for low, high in ends] if disjunct.ball is None else disjunct.ball.centre
    return np.array([float(value) for value in middle])


def _pinned_too_coarsely(network: AnyNetwork, disjunct: Disjunct) -> bool:
    """Say whether a float32 stands in for a pinned input of a network that could take a nearer float64.

    So it is where networks of several types are asked about together: the point is one of the coarsest of them.
    """
    if not isinstance(network, Merged) or network.input_dtype == "float64":
        return False
    pinned = set(disjunct.box.float32[2])
    return any(m.network.input_dtype == "float64" and not pinned.isdisjoint(m.reads) for m in network.members)


def _tensors(network: AnyNetwork, property: Property, x: Floats, y: NDArray[Any]) -> tuple[TensorValue, ...]:
    """Return the tensors that a query declares; of a network behind a linear map, its own input and output."""
    if property.interface is not None:
        # What a float64 network was given is written as float64: the shortest float32 reads back as another number.
        wide = isinstance(network, Merged) and any(m.network.input_dtype == "float64" for m in network.members)
        return tuple(property.interface.values(x.astype(np.float64) if wide else x, y))
    if isinstance(network, Mapped):
        taken = "float64" if network.network.input_dtype == "float64" else "float32"
        return TensorValue("X", taken, network.x(x).astype(taken)), TensorValue("Y", str(y.dtype), y)
    return ()


def violated(property: Property, x: NDArray[Any], y: NDArray[Any], first: int = 0) -> int | None:
    """Return the first disjunct that `violations` finds; None where there is none."""
    return next(violations(property, x, y, first), None)


def violations(property: Property, x: NDArray[Any], y: NDArray[Any], first: int = 0) -> Iterator[int]:
    """Yield the disjuncts that input x with output y satisfies, exactly as written; `first` is tried first.

    x is float64 of a network that takes it, otherwise float32; a pinned coordinate must have the nearest number of that
    type. Outputs that are not finite violate nothing.
    """
    point = _floats(x)
    if not (np.isfinite(y).all() and np.isfinite(point).all()):
        return
    value = _fractions(y)
    order = [first, *(i for i in range(len(property.disjuncts)) if i != first)] if property.disjuncts else []
    inside: dict[tuple[int, int], bool] = {}  # by identity: disjuncts share their boxes and balls
    for index in order:
        disjunct = property.disjuncts[index]
        exact = _as_written(point, disjunct) if property.inputs_read or property.derived else []
        values = property.with_derived(exact, value)
        if all(row.holds(exact, values) for row in disjunct.rows):
            key = (id(disjunct.box), id(disjunct.ball))
            if key not in inside:
                inside[key] = in_set(point, disjunct)
            if inside[key]:
                yield index


def _floats(x: NDArray[Any]) -> Floats:
    """Return x flat: float64 where it is that, otherwise as float32."""
    return np.asarray(x, dtype=np.float64 if np.asarray(x).dtype == np.float64 else np.float32).reshape(-1)


def _as_written(point: Floats, disjunct: Disjunct) -> list[Fraction]:
    """Return the point (n,) as rows and balls see it: of a pinned coordinate the number that is written.

    So the float that stands for it decides neither whether a row of inputs holds, nor whether a ball holds the point.
    """
    exact = _fractions(point)
    for i in disjunct.box.points(point.dtype)[2]:
        exact[i] = disjunct.box.lower[i]
    return exact


def in_set(point: Floats, disjunct: Disjunct) -> bool:
    """Say whether the point (n,) lies in the disjunct's set as written, pinned coordinates aside."""
    if disjunct.box.empty:
        return False
    lower, upper, _ = disjunct.box.points(point.dtype)
    return bool(((lower <= point) & (point <= upper)).all()) and _in_ball(point, disjunct)


def _between_floats(box: Box, dtype: str) -> tuple[int, ...]:
    """Return the coordinates of a box whose intervals hold no number of the type."""
    lower, upper, _ = box.points(dtype)
    return tuple(np.flatnonzero(lower > upper).tolist())


def without_points(property: Property, disjunct: Disjunct, dtype: str) -> str:
    """Say why no point of the type, of which a counterexample is one, lies in a disjunct's set; empty where one may."""
    lower, upper, _ = disjunct.box.points(dtype)
    if between := _between_floats(disjunct.box, dtype):
        return _hold_none(property, between, lower.dtype, UNSHOWN)
    if disjunct.ball is None:
        return ""
    centre = Rounded.of(disjunct.ball.centre)
    near = centre.near if lower.dtype == np.float64 else centre.single_near()
    # No point of the type is nearer to the centre in any coordinate.
    if _in_ball(np.clip(near, lower, upper), disjunct):
        return ""
    return f"the ball holds no point of {lower.dtype}, so {UNSHOWN}"


def _nearest(property: Property, x: NDArray[Any], dtype: str) -> Iterator[int]:
    """Yield one disjunct per input set whose box holds x; the nearest one when none does."""
    point = np.asarray(x, dtype=np.float64).reshape(-1)
    point = point if dtype == "float64" else point.astype(np.float32)
    seen: set[tuple[int, int]] = set()
    best, least = None, np.inf
    for index, disjunct in enumerate(property.disjuncts):
        key = (id(disjunct.box), id(disjunct.ball))
        if key in seen or disjunct.box.empty or _between_floats(disjunct.box, dtype):
            continue
        seen.add(key)
        lower, upper, _ = disjunct.box.points(dtype)
        outside = float(np.max(np.maximum(lower - point, point - upper), initial=0.0))
        if outside <= 0.0:
            yield index
            best, least = None, -1.0
        elif outside < least:
            best, least = index, outside
    if best is not None:
        yield best


def _note(property: Property, disjunct: Disjunct, dtype: str) -> str:
    lower, _, pinned = disjunct.box.points(dtype)
    if not pinned:
        return ""
    return _hold_none(property, pinned, lower.dtype, "the nearest one stands there")


def _hold_none(property: Property, inputs: Sequence[int], dtype: np.dtype[Any], so: str) -> str:
    interface = property.interface
    named = (f"X_{i}" if interface is None else interface.name(i) for i in inputs[:3])
    names = ", ".join(named) + (", ..." if len(inputs) > 3 else "")
    ranges = "the range of 1 input holds" if len(inputs) == 1 else f"the ranges of {len(inputs)} inputs hold"
    return f"{ranges} no {dtype}, so {so} ({names})"


def rounding_gaps(
    graph: Graph,
    disjuncts: Sequence[Disjunct],
    x: NDArray[Any],
    derived: Sequence[Derived] = (),
    known: Sequence[tuple[int, int]] | None = None,
) -> list[Gap]:
    """Bound the rows of each disjunct for the real-valued graph at the point x.

    known: by output, between which numbers it lies, where that is known without its rounding.
    """
    if known is None:
        point = torch.from_numpy(np.asarray(x, dtype=np.float64)).reshape(1, *graph.input.shape)
        value, error = evaluate(graph, point)
        if not bool((value.isfinite() & error.isfinite()).all()):  # beyond float64: nothing is known
            return [((-math.inf,) * len(disjunct.rows), (math.inf,) * len(disjunct.rows)) for disjunct in disjuncts]
        middle, radius = _fractions(value.numpy()), _fractions(error.numpy())
    else:
        middle = [Fraction(low + high, 2) for low, high in known]
        radius = [Fraction(high - low, 2) for low, high in known]
    return [_gap(disjunct, _floats(x), middle, radius, derived) for disjunct in disjuncts]


def _gap(
    disjunct: Disjunct, x: Floats, middle: list[Fraction], radius: list[Fraction], derived: Sequence[Derived]
) -> Gap:
    """Bound a disjunct's rows at x, where outputs differ from `middle` by at most `radius`."""
    exact = _as_written(x, disjunct) if derived or any(row.inputs for row in disjunct.rows) else []
    if derived:
        more = derived_values(derived, exact, middle)
        radius = [*radius, *derived_spreads(derived, exact, middle, radius, more)]
        middle = [*middle, *more]
    low, high = [], []
    for row in disjunct.rows:
        centre = row.value(exact, middle) - row.rhs
        spread = sum((abs(c) * radius[i] for i, c in row.coefs.items()), Fraction(0))
        low.append(float_down(centre - spread))
        high.append(float_up(centre + spread))
    return tuple(low), tuple(high)


def confirmed(disjunct: Disjunct, high: Sequence[float]) -> bool:
    """Say whether upper bounds on the rows show the violation; otherwise it lies within rounding."""
    return all(h < 0 if row.strict else h <= 0 for row, h in zip(disjunct.rows, high, strict=True))


def format_witness(witness: Witness) -> str:
    """Write the counterexample form of VNN-COMP, or of VNN-LIB 2.0; every decimal reads back as the same float."""
    if witness.tensors:
        return "\n".join(line for tensor in witness.tensors for line in _tensor_lines(tensor))
    pairs = [
        f"({name}_{i} {value!s})"
        for name, array in (("X", witness.input), ("Y", witness.output))
        for i, value in enumerate(np.asarray(array).reshape(-1))
    ]
    return "(" + "\n ".join(pairs) + ")"


def _tensor_lines(tensor: TensorValue) -> Iterator[str]:
    """Yield the head of a tensor, NAME TYPE SHAPE, and its entries, one a line."""
    yield f"{tensor.name} {tensor.dtype} [{','.join(map(str, tensor.array.shape))}]"
    yield from map(str, tensor.array.reshape(-1))
