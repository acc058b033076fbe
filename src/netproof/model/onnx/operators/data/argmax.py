"""The converter of ArgMax and ArgMin: the place of an extreme, written with steps.

Entry i is the first of the largest where it is above all before it and not below any after it. So the place is the sum
of i·[xᵢ > all before]·[xᵢ >= all after], and a product of two truth values is relu(p + q − 1).
"""

from __future__ import annotations

import numpy as np

from netproof.model.affine import Sum
from netproof.model.nonlinear import Relu
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.elements import PLACES
from netproof.model.onnx.operators.arithmetic import linear, scale
from netproof.model.onnx.operators.hinges import maximum
from netproof.model.onnx.operators.moves import joined, reshape, select, turned_last
from netproof.model.onnx.operators.steps import MINUS, at_least, negated, opposite
from netproof.model.origin import constant

MOST = 256  # entries that are compared: their places are 0 to 255, as `PLACES` says


@converts("ArgMax", "ArgMin")
def _arg_extreme(c: Context) -> Value:
    """Add up the places of entries times [it is above all before]·[it is not below any after], each a step."""
    x = c.node(0)
    axis = c.axis(int(c.attr("axis", 0)), len(x.shape))
    if x.shape[axis] > MOST:
        c.refuse(f"it compares {x.shape[axis]} entries, more than {MOST}", "compare the scores themselves")
    values = negated(c, x) if c.op == "ArgMin" else x
    last = bool(c.attr("select_last_index", 0))
    y = turned_last(c, values, axis, lambda z: _place(c, z, last=last))
    if not c.attr("keepdims", 1):
        y = reshape(c, y, [size for i, size in enumerate(y.shape) if i != axis])
    return c.holds(y, PLACES)


def _place(c: Context, x: Ref, *, last: bool) -> Ref:
    """Return the place of the largest entry along the last axis, kept with size 1; of several the last, if so."""
    size, axis = x.shape[-1], len(x.shape) - 1
    entries = [select(c, x, axis, np.array([i])) for i in range(size)]
    if size == 1:
        return scale(c, x, constant.constant(0.0))
    before = _running(c, entries)  # before[i]: the largest of the entries up to i
    after = _running(c, entries[::-1])[::-1]
    truths: list[Ref] = []
    for i in range(1, size):  # place 0 adds nothing
        first = at_least(c, entries[i], before[i - 1]) if last else _above(c, entries[i], before[i - 1])
        if i == size - 1:
            truths.append(first)
            continue
        then = _above(c, entries[i], after[i + 1]) if last else at_least(c, entries[i], after[i + 1])
        both = c.emit(Sum((1, 1)), first, then)
        truths.append(c.emit(Relu(), scale(c, both, None, MINUS)))
    places = constant.constant(np.arange(1.0, size)[None])
    y = linear(c, joined(c, truths, axis), places)
    c.builder.argmax[y.index] = (x.index, last)  # see `Trace`
    return y


def _above(c: Context, a: Ref, b: Ref) -> Ref:
    """Return [a > b]."""
    return opposite(c, at_least(c, b, a))


def _running(c: Context, entries: list[Ref]) -> list[Ref]:
    """Return the largest of the first entry, of the first two, and so on."""
    found = entries[:1]
    for entry in entries[1:]:
        larger = maximum(c, found[-1], entry)
        assert isinstance(larger, Ref)
        found.append(larger)
    return found
