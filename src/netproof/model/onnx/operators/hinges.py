"""Converters of piecewise linear functions, written exactly with ReLUs.

max(a, b) = b + relu(a − b), and so on. The weights of such a rewriting are those of the file, 1, −1 and 2, so it is the
same function in real arithmetic, and LPs, splits and proofs of ReLUs hold for it as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import torch

from netproof.model.affine import Sum
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import broadcast, expand, scale
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

Pick = Callable[[Context, Value, Value], Value]

# --- building blocks ---------------------------------------------------------------------------------------


def maximum(c: Context, a: Value, b: Value) -> Value:
    """Return max(a, b) = b + relu(a − b), broadcast; with 0 it is the ReLU alone."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return _chosen(np.maximum, a, b)
    if isinstance(a, Constant):
        a, b = b, a
    assert isinstance(a, Ref)
    if isinstance(b, Constant):
        if _is_zero(b):
            return c.emit(Relu(), expand(c, a, broadcast(c, a.shape, b.shape)))
        return scale(c, c.emit(Relu(), scale(c, a, None, constant.negate(b))), None, b)
    if a == b:
        return a
    a, b = _alike(c, a, b)
    above = c.emit(Relu(), c.emit(Sum((1, -1)), a, b))
    return c.emit(Sum((1, 1)), b, above)


def minimum(c: Context, a: Value, b: Value) -> Value:
    """Return min(a, b) = b − relu(b − a), broadcast."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return _chosen(np.minimum, a, b)
    if isinstance(a, Constant):
        a, b = b, a
    assert isinstance(a, Ref)
    minus = constant.constant(-1.0)
    if isinstance(b, Constant):
        return scale(c, c.emit(Relu(), scale(c, a, minus, b)), minus, None if _is_zero(b) else b)
    if a == b:
        return a
    a, b = _alike(c, a, b)
    above = c.emit(Relu(), c.emit(Sum((1, -1)), b, a))
    return c.emit(Sum((1, -1)), b, above)


def _alike(c: Context, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    shape = broadcast(c, a.shape, b.shape)
    return expand(c, a, shape), expand(c, b, shape)


def _is_zero(k: Constant) -> bool:
    exact = not constant.loose(constant.radius, k) and not constant.loose(constant.slack, k)
    return exact and not np.any(k.value)


def _chosen(choose: Callable[..., np.ndarray], a: Constant, b: Constant) -> Constant:
    """Return the larger or smaller of two constants: no farther off than the worse of both."""

    def wider(bound: constant.Bound) -> np.ndarray | None:
        if not constant.loose(bound, a, b):
            return None
        return np.asarray(np.maximum(constant.widths(bound, a), constant.widths(bound, b)))

    return Constant(choose(a.value, b.value), wider(constant.radius), wider(constant.slack), constant.coarsest(a, b))


# --- of several values -------------------------------------------------------------------------------------


@converts("Max", "Min")
def _max(c: Context) -> Value:
    """Write the extreme of any number of values as ReLUs of their differences, exactly, two by two."""
    pick: Pick = maximum if c.op == "Max" else minimum
    values = [c.value(i) for i in range(len(c.inputs))]
    shape = broadcast(c, *(value.shape for value in values))
    constants = [value for value in values if isinstance(value, Constant)]
    found: list[Value] = list(dict.fromkeys(value for value in values if isinstance(value, Ref)))
    while len(found) > 1:  # a tree, so that few ReLUs lie behind each other
        pairs = [pick(c, a, b) for a, b in zip(found[::2], found[1::2], strict=False)]
        found = pairs + found[len(pairs) * 2 :]
    result = found[0]
    for value in _merged(np.maximum if c.op == "Max" else np.minimum, constants):
        result = pick(c, result, value)
    assert isinstance(result, Ref)
    return expand(c, result, shape)


def _merged(choose: Callable[..., np.ndarray], constants: list[Constant]) -> list[Constant]:
    """Return one constant for several."""
    return [reduce(lambda a, b: _chosen(choose, a, b), constants)] if constants else []


# --- of one value ------------------------------------------------------------------------------------------


@converts("Clip")
def _clip(c: Context) -> Value:
    """Write it as two hinges, one behind the other, exactly: a lower bound above the upper one gives that one."""
    result = c.value(0)
    for name, position, pick in (("min", 1, maximum), ("max", 2, minimum)):
        limit = _limit(c, name, position)
        if limit is not None:
            result = pick(c, result, limit)
    return result


def _limit(c: Context, name: str, position: int) -> Value | None:
    """Return a bound of Clip, an attribute before opset 11 and then an input; None where no finite number passes it."""
    if c.opset < 11:
        number = c.attr(name, infinite=True)
        if number == (np.inf if name == "min" else -np.inf):
            c.refuse(f"its {name} is {number}, which every number passes", "repair the bound")
        found: Value | None = None if number is None else Constant(np.asarray(float(number), dtype=np.float64))
    else:
        found = c.input(position)
        if found is not None and found.shape not in ((), (1,)):
            c.refuse(f"its {name} of shape {found.shape} is not one number", "check it with onnx.checker")
    if not isinstance(found, Constant):
        return found
    found = found.moved(lambda entries: entries.reshape(()))
    largest = torch.finfo(found.dtype).max
    beyond = found.value <= -largest if name == "min" else found.value >= largest
    return None if beyond else found


def clipped(c: Context, x: Ref, lower: Constant, upper: Constant) -> Ref:
    """Return x between two constants: two hinges, one behind the other, exactly."""
    found = minimum(c, maximum(c, x, lower), upper)
    assert isinstance(found, Ref)
    return found


@converts("HardSigmoid")
def _hard_sigmoid(c: Context) -> Value:
    """Write max(0, min(1, alpha·x + beta)) as two hinges, exactly, with the file's float32 alpha and beta."""
    alpha = Constant(np.asarray(c.attr("alpha", float(np.float32(0.2))), dtype=np.float64))
    beta = Constant(np.asarray(c.attr("beta", 0.5), dtype=np.float64))
    line = scale(c, c.node(0), alpha, beta)
    return clipped(c, line, constant.constant(0.0), constant.constant(1.0))


@converts("Abs")
def _abs(c: Context) -> Value:
    """Write |x| as 2·relu(x) − x, exactly."""
    return absolute(c, c.node(0))


def absolute(c: Context, x: Ref) -> Ref:
    """Add |x| = 2·relu(x) − x, exactly."""
    return c.emit(Sum((1, -1)), scale(c, c.emit(Relu(), x), constant.constant(2.0)), x)


@converts("PRelu")
def _prelu(c: Context) -> Value:
    """Write it as s·x + (1 − s)·relu(x), exactly, whatever the constant slopes s are."""
    x, slope = c.node(0), c.constant(1)
    if broadcast(c, x.shape, slope.shape) != x.shape:
        c.refuse(f"its slopes {slope.shape} do not fit an input of shape {x.shape}", "give one slope for each channel")
    return leaky(c, x, slope)


@converts("LeakyRelu")
def _leaky_relu(c: Context) -> Value:
    """Bound it by its hinge; with a slope that is negative or above 1, written with a ReLU, exactly."""
    alpha = Constant(np.asarray(c.attr("alpha", float(np.float32(0.01))), dtype=np.float64))
    return leaky(c, c.node(0), alpha)


def leaky(c: Context, x: Ref, slope: Constant) -> Ref:
    """Return x where it is positive and slope·x elsewhere; slopes broadcast to x."""
    first = float(slope.value.flat[0])
    exact = not constant.loose(constant.radius, slope) and not constant.loose(constant.slack, slope)
    if exact and 0.0 <= first <= 1.0 and bool((slope.value == first).all()):
        return c.emit(LeakyRelu(first), x)
    rest = constant.subtract(constant.constant(1.0), slope)
    return c.emit(Sum((1, 1)), scale(c, x, slope), scale(c, c.emit(Relu(), x), rest))
