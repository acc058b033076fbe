"""Folding of any other node of constants: what its converter makes of it, at one point, with its rounding.

The converter takes the first constant for an input of the network. Its graph is evaluated there as networks are, with a
running bound on the error, once of float64 against real numbers and once of the file's own arithmetic.
"""

from __future__ import annotations

import numpy as np
import torch

from netproof.model.evaluate import EXACTLY, FOLDED, Arithmetic, error_of_part, values_of_part
from netproof.model.onnx.context import CONVERTERS, Builder, Context, Ref, Value, element_of
from netproof.model.onnx.elements import is_real
from netproof.model.onnx.typed import converted
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant
from netproof.numerics import coarseness


def fold_by_converter(c: Context) -> list[Value]:
    """Compute the outputs of a node with a converter, all of whose inputs are constants."""
    first = c.constant(0)
    real = first.is_float and all(element is not None and is_real(element) for element in c.results)
    if c.op not in CONVERTERS or not real or not first.value.size:
        c.refuse("its constant inputs cannot be folded", "fold constants when exporting, e.g. with onnxsim")
    builder = Builder(first.shape, c.name, element_of(first), c.builder.room)
    x = Ref(0, first.shape, element_of(first))
    results = converted(Context(c.proto, [x, *c.inputs[1:]], builder, c.file, c.name))
    c.builder.room = builder.room
    return [_number(c, first, builder, value) if isinstance(value, Ref) else value for value in results]


def _number(c: Context, first: Constant, builder: Builder, result: Ref) -> Constant:
    """Return a node of the builder's as a constant: at the first input, with its radius and its slack."""
    given = {0: first.tensor()[None]}
    values = values_of_part(builder.nodes, given, result.index)
    runtime = Arithmetic(first.dtype, lambda node: builder.slack.get(node.index), FOLDED)

    def error(arithmetic: Arithmetic, bound: constant.Bound) -> np.ndarray:
        off = {0: torch.from_numpy(constant.widths(bound, first))[None]}
        return error_of_part(builder.nodes, given, values, result.index, arithmetic, off)[0].numpy()

    value, radius = values[result.index][0].numpy(), error(EXACTLY, constant.radius)
    if not np.isfinite(value).all() or not np.isfinite(radius).all():
        c.refuse("folding its constants may give NaN or infinity", "repair the weights")
    slack = error(runtime, constant.slack) * (1.0 + 1.0 / coarseness(first.dtype))
    return Constant(value, radius if radius.any() else None, slack, first.dtype)
