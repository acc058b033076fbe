"""The converter of Where: a choice by a constant, or by a comparison.

Where([h >= 0], a, b) = b + (a − b)·[h >= 0]. With a − b = m·h + j for constants m and j that is b + m·relu(h) +
j·[h >= 0], exactly: a hand-written ReLU, leaky ReLU, clip or threshold. Anything else is a product with the step.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from netproof.model.affine import Scale, Sum
from netproof.model.nonlinear import Relu
from netproof.model.nonlinear.steps import Step
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import added, broadcast, expand, scale
from netproof.model.onnx.operators.products import product
from netproof.model.onnx.operators.steps import difference
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

Terms = dict[int, Constant]  # a sum: the factor of each node, and under CONSTANT what is added
CONSTANT = -1
ONE, MINUS, ZERO = (constant.constant(number) for number in (1.0, -1.0, 0.0))


@converts("Where")
def _where(c: Context) -> Value:
    """Choose by a constant, exactly; by a comparison with a hinge and a step where that is exact, else by a product."""
    condition, a, b = c.value(0), c.value(1), c.value(2)
    if isinstance(condition, Ref) and condition.index in c.builder.is_nan:
        return _number(c, condition, a, b)
    found = _chosen(c, condition, a, b)
    whole = _is_whole(c, a) and _is_whole(c, b)  # then what is chosen is so too
    return c.holds(found, replace(c.held(found), whole=True)) if whole else found


@converts("IsNaN")
def _is_nan(c: Context) -> Value:
    """Read it where a Where puts something in the place of NaN: what has a bound is a number, and stays."""
    x = c.node(0)
    found = scale(c, x, ZERO)
    c.builder.is_nan[found.index] = x.index
    return found


def _number(c: Context, condition: Ref, a: Value, b: Value) -> Ref:
    """Return b where it is what the condition asks of: it is a number wherever it has a bound."""
    if not isinstance(b, Ref) or b.index != c.builder.is_nan[condition.index]:
        c.refuse("it asks whether one value is NaN and keeps another", "drop the test for NaN")
    return expand(c, b, broadcast(c, b.shape, a.shape))


def _is_whole(c: Context, value: Value) -> bool:
    """Say whether a value is made of integers, exactly."""
    if isinstance(value, Ref):
        return c.held(value).whole
    exact = not constant.loose(constant.radius, value) and not constant.loose(constant.slack, value)
    return exact and bool((value.value == np.floor(value.value)).all())


def _chosen(c: Context, condition: Value, a: Value, b: Value) -> Ref:
    shape = broadcast(c, condition.shape, a.shape, b.shape)
    if isinstance(condition, Constant):
        return _by_constant(c, condition.value.astype(bool), a, b, shape)
    if isinstance(a, Constant) and isinstance(b, Constant):
        return expand(c, scale(c, condition, constant.subtract(a, b), b), shape)
    return _hinged(c, condition, a, b, shape) or added(
        c, expand(c, product(c, difference(c, a, b), condition), shape), b
    )


def _by_constant(c: Context, mask: np.ndarray, a: Value, b: Value, shape: tuple[int, ...]) -> Ref:
    """Return a where the mask is, and b elsewhere: each times 0 or 1."""
    here = constant.constant(np.broadcast_to(mask, shape).astype(np.float64))
    parts = [_masked(c, value, by) for value, by in ((a, here), (b, constant.subtract(ONE, here)))]
    refs = [part for part in parts if isinstance(part, Ref)]
    if len(refs) == 2:
        return c.emit(Sum((1, 1)), *refs)
    (fixed,) = (part for part in parts if isinstance(part, Constant))
    return scale(c, refs[0], None, fixed)


def _masked(c: Context, value: Value, by: Constant) -> Value:
    exact = constant.constant(by.value)
    if isinstance(value, Ref):
        return scale(c, value, exact)
    moved = value.moved(lambda entries: np.broadcast_to(entries, by.shape) * by.value)
    return moved


# --- a comparison that makes it piecewise linear -----------------------------------------------------------


def _hinged(c: Context, condition: Ref, a: Value, b: Value, shape: tuple[int, ...]) -> Ref | None:
    """Return b + m·relu(h) + j·[h >= 0] where a − b = m·h + j; None where that is not seen or not exact."""
    step, positive = _step_of(c, condition)
    if step is None or any(isinstance(v, Ref) and v.shape != shape for v in (condition, a, b)):
        return None
    if not positive:
        a, b = b, a
    (h,) = c.made(step).inputs
    refs = [v.index for v in (a, b) if isinstance(v, Ref)]
    for atoms in ([refs[0]], [refs[-1]], refs):
        found = [_terms(c, v.index if isinstance(v, Ref) else v, atoms) for v in (h, a, b)]
        if any(part is None for part in found):
            continue
        line = _line(*found)  # type: ignore[arg-type]
        if line is not None:
            slope, jump = line
            change = scale(c, c.emit(Relu(), c.ref(h)), slope)
            if np.any(jump.value):
                change = c.emit(Sum((1, 1)), change, scale(c, c.ref(step), jump))
            return added(c, change, b)
    return None


def _step_of(c: Context, condition: Ref) -> tuple[int | None, bool]:
    """Return the node [h >= 0] that a truth value is, or is the opposite of; None where it is neither."""
    node = c.made(condition.index)
    if isinstance(node.op, Step):
        return node.index, True
    before = c.made(node.inputs[0])
    if isinstance(node.op, Scale) and isinstance(before.op, Step) and node.op.mult is not None:
        opposite = bool((node.op.mult == -1).all()) and node.op.add is not None and bool((node.op.add == 1).all())
        return (before.index, False) if opposite else (None, False)
    return None, False


def _terms(c: Context, value: int | Constant, atoms: list[int]) -> Terms | None:
    """Write a node as a sum of multiples of the atoms, exactly; None where it is not one."""
    if isinstance(value, Constant):
        return None if constant.loose(constant.radius, value) else {CONSTANT: value}
    if value in atoms:
        return {value: ONE}
    node = c.made(value)
    if isinstance(node.op, Sum):
        parts = [_terms(c, i, atoms) for i in node.inputs]
        if any(part is None for part in parts):
            return None
        signed = [_times(part, ONE if sign > 0 else MINUS) for part, sign in zip(parts, node.op.signs, strict=True)]  # type: ignore[arg-type]
        return reduce(_added, signed)
    if isinstance(node.op, Scale) and node.op.radius is None:
        inner = _terms(c, node.inputs[0], atoms)
        if inner is None:
            return None
        scaled = inner if node.op.mult is None else _times(inner, constant.constant(node.op.mult.numpy()))
        return scaled if node.op.add is None else _added(scaled, {CONSTANT: constant.constant(node.op.add.numpy())})
    return None


def _times(terms: Terms, factor: Constant) -> Terms:
    return {node: constant.multiply(factor, part) for node, part in terms.items()}


def _added(left: Terms, right: Terms) -> Terms:
    return {node: constant.add(left.get(node, ZERO), right.get(node, ZERO)) for node in left | right}


def _line(h: Terms, a: Terms, b: Terms) -> tuple[Constant, Constant] | None:
    """Return m and j with a − b = m·h + j; None where there are none, or where they would be rounded."""
    change = _added(a, _times(b, MINUS))
    nodes = sorted((set(h) | set(change)) - {CONSTANT})
    own = [h.get(node, ZERO).value for node in nodes]
    if not own or not all(np.all(factor) for factor in own[:1]):
        return None
    slope = constant.divide(change.get(nodes[0], ZERO), h.get(nodes[0], ZERO))
    rest = _added(change, _times(h, constant.negate(slope)))
    left = [part for node, part in rest.items() if node != CONSTANT]
    exact = not constant.loose(constant.radius, slope, *rest.values())
    if not exact or any(np.any(part.value) for part in left):
        return None
    return slope, rest.get(CONSTANT, ZERO)
