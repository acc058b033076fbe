"""What the operators of ONNX that are neither affine nor made of ReLUs become, as in onnx_operators.py.

Tanh        2·σ(2·x) − 1
Softmax     1 / (1 + Σ e^(x_j − x_i)), the sum over all other entries j of the vector that i is in
LogSoftmax  −log(1 + Σ e^(x_j − x_i))
Elu         relu(x) + α·e^(−relu(−x)) − α
HardSigmoid relu(t) − relu(t − 1) of t = α·x + β
HardSwish   x times that, of t = x/6 + 1/2
Pow         x·x, where the exponent is 2; x where it is 1; the root where it is 1/2
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from npcheck.errors import Refused
from npcheck.exponential import Exp, Log, Sigmoid, Softplus
from npcheck.last import ArgMax
from npcheck.network import Linear, OrderMap, Scale
from npcheck.onnx_call import Call, Value, Variable, places
from npcheck.onnx_operators import axis_of, multiplied, shifted
from npcheck.product import Reciprocal, Root
from npcheck.smooth import Curve

MOST_PLACES = 1 << 10


def _curve(op: type[Curve]) -> Callable[[Call], Value]:
    def translate(call: Call) -> Value:
        call.at_most(1)
        x = call.variable(0)
        return call.emit(op(), [x], x.shape)

    return translate


def _scaled(call: Call, x: Variable, factor: float, shift: float = 0.0) -> Variable:
    """Return factor·x + shift, both exact."""
    bias = np.full(x.size, shift) if shift else None
    return call.emit(Scale(np.full(x.size, factor), bias=bias), [x], x.shape)


def _tanh(call: Call) -> Value:
    call.at_most(1)
    x = call.variable(0)
    return _scaled(call, call.emit(Sigmoid(), [_scaled(call, x, 2.0)], x.shape), 2.0, -1.0)


def _elu(call: Call) -> Value:
    call.at_most(1)
    x, alpha = call.variable(0), call.number("alpha", 1.0)
    negative = _scaled(call, call.relu(_scaled(call, x, -1.0)), -1.0)
    below = _scaled(call, call.emit(Exp(), [negative], x.shape), alpha, -alpha)
    return call.sum(call.relu(x), below)


def _hard_sigmoid(call: Call) -> Value:
    call.at_most(1)
    x = call.variable(0)
    return _ramp(call, _scaled(call, x, call.number("alpha", 0.2), call.number("beta", 0.5)))


def _hard_swish(call: Call) -> Value:
    call.at_most(1)
    x = call.variable(0)
    # One rounding: relative error 2^-53.
    sixth = call.emit(Scale(np.full(x.size, 1.0 / 6.0), bias=np.full(x.size, 0.5), folded=True), [x], x.shape)
    return multiplied(call, x, _ramp(call, sixth))


def _ramp(call: Call, x: Variable) -> Variable:
    """Return x, but 0 below 0 and 1 above 1."""
    return call.sum(call.relu(x), call.relu(shifted(call, x, np.array(-1.0))), -1)


def _pow(call: Call) -> Value:
    call.at_most(2)
    x, exponent = call.variable(0), call.constant(1)
    if exponent.size != 1 or exponent.ndim > len(x.shape) or exponent.dtype == np.bool_:
        raise Refused("its exponent is not one number")
    power = exponent.reshape(-1).tolist()[0]
    if power == 2:
        return multiplied(call, x, x)
    if power == 0.5:
        return call.emit(Root(), [x], x.shape)
    if power != 1:
        raise Refused(f"the exponent {power:g} is not supported, only 2, 1 and 1/2")
    return x


def _softmax(call: Call) -> Value:
    return _normalised(call, log=False)


def _log_softmax(call: Call) -> Value:
    return _normalised(call, log=True)


def _normalised(call: Call, log: bool) -> Value:
    call.at_most(1)
    x = call.variable(0)
    axis = axis_of(call.integer("axis", -1 if call.opset >= 13 else 1), len(x.shape))
    if call.opset < 13:  # all axes from this one on are one vector
        whole = Variable(x.place, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        result = _over_last(call, whole, log)
        return Variable(result.place, x.shape)
    moved = call.look(x, lambda entries: np.moveaxis(entries, axis, -1))
    return call.look(_over_last(call, moved, log), lambda entries: np.moveaxis(entries, -1, axis))


def _over_last(call: Call, x: Variable, log: bool) -> Variable:
    """Normalise the vectors of the last axis."""
    width = x.shape[-1]
    if width < 2:
        raise Refused("a vector of one entry is not supported")
    shape = (*x.shape, width - 1)
    call.builder.spend(shape)
    fewer = np.arange(width - 1)
    others = fewer + (fewer >= np.arange(width)[:, None])  # row i has all but i
    minuend = call.look(x, lambda entries: entries[..., others])
    subtrahend = call.look(x, lambda entries: np.broadcast_to(entries[..., None], shape))
    raised = call.emit(Exp(), [call.sum(minuend, subtrahend, -1)], shape)
    row = np.ones((1, width - 1))
    total = call.emit(Linear(row, copies=x.size, bias=np.ones(x.size)), [raised], x.shape)
    if log:
        result = _scaled(call, call.emit(Log(), [total], x.shape), -1.0)
    else:
        result = call.emit(Reciprocal(), [total], x.shape)
    call.builder.maps[result.place] = OrderMap("log softmax" if log else "softmax", x.place, width)
    return result


def _arg_max(call: Call) -> Value:
    """Translate the place of the largest entry; its vectors' entries become operands."""
    call.at_most(1)
    x = call.variable(0)
    axis = axis_of(call.integer("axis", 0), len(x.shape))
    keep, last = call.flag("keepdims", True), call.flag("select_last_index")
    width = x.shape[axis]
    if width > MOST_PLACES:
        raise Refused(f"more than {MOST_PLACES} entries are not compared")
    moved = call.look(x, lambda entries: np.moveaxis(entries, axis, -1))
    entries = np.moveaxis(places(moved), -1, 0)
    operands = [call.take(part, [moved]) for part in entries]
    result = call.emit(ArgMax(width, last), operands, moved.shape[:-1])
    call.builder.whole.add(result.place)
    call.builder.maps[result.place] = OrderMap("argmax, last" if last else "argmax", moved.place, width)
    return Variable(result.place, tuple(1 if i == axis else n for i, n in enumerate(x.shape) if keep or i != axis))


SMOOTH: dict[str, Callable[[Call], Value]] = {
    "ArgMax": _arg_max,
    "Elu": _elu,
    "Exp": _curve(Exp),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Log": _curve(Log),
    "LogSoftmax": _log_softmax,
    "Pow": _pow,
    "Reciprocal": _curve(Reciprocal),
    "Sigmoid": _curve(Sigmoid),
    "Softmax": _softmax,
    "Softplus": _curve(Softplus),
    "Sqrt": _curve(Root),
    "Tanh": _tanh,
}
