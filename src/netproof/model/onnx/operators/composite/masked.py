"""Scores that a mask hides from a softmax: −∞ is added to them, or stands in their place.

exp(−∞) is 0, so a hidden score takes no part in its row, and its entry of the softmax is 0: exactly. −∞ itself is no
number to compute with. So a node that hides scores is read as what it makes of the others, which places it hides is
noted in `Builder.hidden`, and a softmax alone may read it: one over what each row shows. onnxruntime runs the file's
own nodes, and is compared with from what the mask is put on to what the softmax gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netproof.errors import ModelError
from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value
from netproof.model.origin.constant import Constant

_HIDE = {"Add": (0, 1), "Where": (1, 2)}  # by operator, the inputs that its result is made of
_MAY_READ = {"Attention"}  # constants of −∞, beside those


def hides(c: Context) -> bool:
    """Say whether a node reads −∞, and refuse it where it may not."""
    constants = [value for value in c.inputs if isinstance(value, Constant)]
    read = any(isinstance(value, Ref) and value.index in c.builder.hidden for value in c.inputs)
    held = any(_is_hidden(value).any() for value in constants)
    if (read and c.op not in ("Softmax", *_HIDE)) or (held and c.op not in (*_HIDE, *_MAY_READ)):
        raise ModelError(
            f"the operator {c.op} reads a value that holds NaN or infinity",
            file=c.file.path,
            place=f"node {c.name!r}",
            remedy="use -inf for masks alone, as an addend or a choice before Softmax",
        )
    return c.op in _HIDE and (read or held)


def _is_hidden(value: Constant) -> np.ndarray:
    return np.isneginf(value.value) if value.is_float else np.zeros(value.shape, dtype=bool)


def masked(c: Context) -> Value:
    """Convert an Add or a Where whose result is −∞ in places; refuse a choice of them by the network's input."""
    if c.op == "Where" and isinstance(c.value(0), Ref):
        c.refuse("it hides scores by a condition that depends on the input", "use a mask of constants")
    inputs = [shown(value) if isinstance(value, Constant) else value for value in c.inputs]
    found = CONVERTERS[c.op](c.with_inputs(inputs))
    assert isinstance(found, Ref)
    sides = [np.broadcast_to(_hidden(c, c.value(i)), found.shape) for i in _HIDE[c.op]]
    if c.op == "Add":
        hidden = sides[0] | sides[1]
    else:
        hidden = np.where(np.broadcast_to(c.constant(0).value.astype(bool), found.shape), *sides)
    if hidden.any():
        c.builder.hidden[found.index] = hidden
    return found


def shown(value: Constant) -> Constant:
    """Return a constant with 0 for each −∞."""
    hidden = _is_hidden(value)
    return replace(value, value=np.where(hidden, 0.0, value.value)) if hidden.any() else value


def _hidden(c: Context, value: Value) -> np.ndarray:
    if isinstance(value, Constant):
        return _is_hidden(value)
    return c.builder.hidden.get(value.index, np.zeros(value.shape, dtype=bool))
