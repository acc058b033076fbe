"""Converters of functions with jumps, such as Sign and Floor, of comparisons, and of what reads truth values.

A truth value is the number 1 or 0. All that jumps is written with [h >= 0], which is 1 there and 0 below, and the rest
exactly: [a > b] is 1 − [b − a >= 0], "and" is relu(p + q − 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from netproof.model.affine import Sum
from netproof.model.nonlinear import Relu
from netproof.model.nonlinear.steps import Floor, Round, Step, Within
from netproof.model.onnx.context import Context, Ref, Value, as_number, converts
from netproof.model.onnx.elements import limits, spanned
from netproof.model.onnx.file import FLOATS
from netproof.model.onnx.operators.arithmetic import added, broadcast, expand, scale
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

NEXT = 1 - 2.0**-24  # times a power of 2, the float32 before it
MOST_CUT = 2**24  # the largest integer that a float is cast to
ONE, MINUS, HALF = (constant.constant(number) for number in (1.0, -1.0, 0.5))


def negated(c: Context, x: Ref) -> Ref:
    return scale(c, x, MINUS)


def opposite(c: Context, truth: Ref) -> Ref:
    """Return 1 − truth."""
    return scale(c, truth, MINUS, ONE)


def difference(c: Context, a: Value, b: Value) -> Ref:
    """Return a − b, broadcast; one of them depends on the input."""
    if isinstance(b, Constant):
        assert isinstance(a, Ref)
        return scale(c, a, None, constant.negate(b))
    if isinstance(a, Constant):
        return scale(c, b, MINUS, a)
    shape = broadcast(c, a.shape, b.shape)
    return c.emit(Sum((1, -1)), expand(c, a, shape), expand(c, b, shape))


def at_least(c: Context, a: Value, b: Value) -> Ref:
    """Return [a >= b].

    Integers are compared half-way between them, where none of them is: at a jump of its own a step has no one value on
    bounds that were rounded.
    """
    if not _is_whole(c, a) or not _is_whole(c, b):
        return c.emit(Step(), difference(c, a, b))
    if isinstance(a, Constant):
        a = constant.constant(np.floor(a.value))
    if isinstance(b, Constant):
        b = constant.constant(np.ceil(b.value))
    return c.emit(Step(), scale(c, difference(c, a, b), None, HALF))


def _is_whole(c: Context, value: Value) -> bool:
    """Say whether it holds integers; an exact constant can be rounded to one, where the other value does."""
    if isinstance(value, Ref):
        return c.held(value).whole
    return not constant.loose(constant.radius, value) and not constant.loose(constant.slack, value)


# --- of one value ------------------------------------------------------------------------------------------


@converts("Sign")
def _sign(c: Context) -> Value:
    """Write it as [x >= 0] − [−x >= 0], each bounded as a step that is sound at the jump."""
    x = c.node(0)
    return _whole(c, c.emit(Sum((1, -1)), c.emit(Step(), x), c.emit(Step(), negated(c, x))))


def _whole(c: Context, x: Ref) -> Ref:
    return c.holds(x, replace(c.held(x), whole=True))


@converts("Floor", "Ceil")
def _floor(c: Context) -> Value:
    """Bound it as stairs that are sound at every jump; a ceiling is the floor of −x, negated."""
    x = c.node(0)
    return _whole(c, c.emit(Floor(), x) if c.op == "Floor" else negated(c, c.emit(Floor(), negated(c, x))))


@converts("Round")
def _round(c: Context) -> Value:
    """Bound rounding to the nearest integer, ties to even, as stairs that are sound at every jump."""
    return _whole(c, c.emit(Round(), c.node(0)))


@converts("ThresholdedRelu")
def _thresholded_relu(c: Context) -> Value:
    """Write it as relu(x − alpha) + alpha·[x > alpha], a hinge and a step."""
    alpha = Constant(np.asarray(float(c.attr("alpha", 1.0)), dtype=np.float64))
    return _beyond(c, c.node(0), alpha, alpha)


@converts("Shrink")
def _shrink(c: Context) -> Value:
    """Write it as a hinge and a step on either side of 0; without the step where bias = lambd."""
    x = c.node(0)
    far = Constant(np.asarray(float(c.attr("lambd", 0.5)), dtype=np.float64))
    height = constant.subtract(far, Constant(np.asarray(float(c.attr("bias", 0.0)), dtype=np.float64)))
    if float(far.value) < 0.0:
        c.refuse(f"its lambd {float(far.value)} is negative", "use a threshold that is not")
    return c.emit(Sum((1, -1)), _beyond(c, x, far, height), _beyond(c, negated(c, x), far, height))


def _beyond(c: Context, x: Ref, at: Constant, height: Constant) -> Ref:
    """Return x − at + height where x > at, and 0 elsewhere."""
    past = scale(c, x, None, constant.negate(at)) if np.any(at.value) else x
    hinge = c.emit(Relu(), past)
    if not np.any(height.value):
        return hinge
    below = c.emit(Step(), negated(c, past))
    return c.emit(Sum((1, 1)), hinge, scale(c, below, constant.negate(height), height))


# --- truth values ------------------------------------------------------------------------------------------


@converts("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
def _compare(c: Context) -> Value:
    """Write it with [a >= b], a step that is sound at the jump; equal is both ways."""
    a, b = as_number(c.value(0)), as_number(c.value(1))
    if c.op in ("Greater", "Less"):
        found = opposite(c, at_least(c, b, a) if c.op == "Greater" else at_least(c, a, b))
    elif c.op == "Equal":
        both = c.emit(Sum((1, 1)), at_least(c, a, b), at_least(c, b, a))
        found = scale(c, both, None, MINUS)
    else:
        found = at_least(c, a, b) if c.op == "GreaterOrEqual" else at_least(c, b, a)
    return found


@converts("Not")
def _not(c: Context) -> Value:
    """Write it as 1 − p."""
    return opposite(c, c.node(0))


@converts("And", "Or", "Xor")
def _logic(c: Context) -> Value:
    """Write p and q as relu(p + q − 1), p or q as p + q less that, either alone as p + q less twice that."""
    p, q = as_number(c.value(0)), as_number(c.value(1))
    p, q = (q, p) if isinstance(p, Constant) else (p, q)
    assert isinstance(p, Ref)
    total = added(c, p, q)
    both = c.emit(Relu(), scale(c, total, None, MINUS))
    if c.op == "And":
        return both
    less = both if c.op == "Or" else scale(c, both, constant.constant(2.0))
    return c.emit(Sum((1, -1)), total, less)


# --- types -------------------------------------------------------------------------------------------------


@converts("Cast")
def _cast(c: Context) -> Value:
    """Keep a value that the new type holds; truncate floats to integers, as stairs; write a cast to bool as x ≠ 0."""
    x, target = c.node(0), c.attr("to")
    held = c.held(x)
    if held.fits(target):
        return x
    if target == TensorProto.BOOL:
        return _is_not_zero(c, x)
    if target not in FLOATS and x.element in FLOATS:
        return _cut_off(c, x, target)
    if target not in FLOATS:
        c.refuse("it casts a value that depends on the input to a type that may not hold it", "keep it float32")
    c.refuse(
        f"it rounds values from {FLOATS[held.element]} to {FLOATS[target]}, which no bound accounts for",
        "export the model in one float type, without mixed precision",
    )


def _cut_off(c: Context, x: Ref, target: int) -> Ref:
    """Return x without what lies behind its point, for x within the type: floor(relu(x)) − floor(relu(−x)).

    Within are 255.9 and −0.9 of uint8, whose integers are 255 and 0, and 256 and −1 are not: up to the float32 before.
    What a runtime does beyond is its own affair, so that there is no bound; nor is there one beyond 2^24, up to which
    every float type but float16 holds the result.
    """
    least, most = limits(target)
    least, most = max(least, -MOST_CUT), min(most, MOST_CUT)
    inside = c.emit(Within((least - 1) * NEXT, (most + 1) * NEXT), x)
    if c.held(x).whole:
        found = inside
    else:
        found = c.emit(Floor(), c.emit(Relu(), inside))
        if least < 0:
            found = c.emit(Sum((1, -1)), found, c.emit(Floor(), c.emit(Relu(), negated(c, inside))))
    held = spanned(least, most)
    assert held is not None
    return c.holds(found, held)


def _is_not_zero(c: Context, x: Ref) -> Ref:
    zero = constant.constant(0.0)
    both = added(c, at_least(c, x, zero), at_least(c, zero, x))
    return scale(c, both, MINUS, constant.constant(2.0))
