"""Conversion of one node by types: what may be done with integers and truth values, and what types results have.

Such values are moved, compared, cast, chosen from, and read as truths, which is the same for integers and for real
numbers. Sums, differences, products and extremes are the same as long as nothing wraps, which the spans of the values
tell. All else is refused by name, and so is a node whose result has no certain type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch
from onnx import TensorProto

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value, as_number, element_of
from netproof.model.onnx.elements import TRUTHS, Held, Span, all_held, is_real, spanned
from netproof.model.onnx.file import FLOATS, INTEGERS, type_name
from netproof.model.onnx.operators.composite.masked import hides, masked
from netproof.model.origin.constant import Constant

_MOVES = {
    "Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Expand", "Tile",
}  # fmt: skip
_TRUTHS = {"Not", "And", "Or", "Xor"}
_COMPARISONS = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}
_READERS = {"Cast", "CastLike", "Where", *_TRUTHS, *_COMPARISONS}
INTEGERS_TOO_LARGE = "its integers may wrap, or be larger than floats hold exactly"


def _ends(of_two: Callable[[int, int], int], a: Span, b: Span) -> Span:
    """Return the extremes of a function that has them at the ends of its operands."""
    found = [of_two(x, y) for x, y in itertools.product(a, b)]
    return min(found), max(found)


# What arithmetic on integers spans, as long as it does not wrap.
_SPANS: dict[str, Callable[[Span, Span], Span]] = {
    "Add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "Sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "Mul": lambda a, b: _ends(lambda x, y: x * y, a, b),
    "Max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "Min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
}


def converted(c: Context) -> list[Value]:
    """Convert a node that depends on the network's input; of integers only what is the same for real numbers."""
    types = [_certain(c, position) for position, name in enumerate(c.proto.output) if name or position == 0]
    if c.op != "Where" and any(isinstance(value, Ref) and value.index in c.builder.is_nan for value in c.inputs):
        c.refuse("it reads whether a value is NaN, which only a Where may, in its place", "drop the test for NaN")
    refuse_integers(c, _MOVES | _READERS | _SPANS.keys())
    held = None
    if not is_real(types[0]) and (c.op in _SPANS or c.op == "Where"):
        held = _of_integers(c, types[0])
        # exactly: their spans say that floats hold them
        c = c.with_inputs([None if value is None else as_number(value) for value in c.inputs])
    found = masked(c) if hides(c) else CONVERTERS[c.op](c)
    results: list[Value] = [found] if isinstance(found, Constant | Ref) else list(found)
    named = [_of_type(c, result, element) for result, element in zip(results, c.results, strict=False)]
    return [c.holds(named[0], held)] if held is not None and isinstance(named[0], Ref) else named


def _of_integers(c: Context, element: int) -> Held:
    """Return what the result of arithmetic on integers, or of a choice between them, holds; refuse what may wrap."""
    values = [value for value in (c.inputs[1:] if c.op == "Where" else c.inputs) if value is not None]
    spans = [_held(c, value).span for value in values]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        c.refuse(INTEGERS_TOO_LARGE, "cast them to a float type first")
    if c.op == "Where":
        return all_held(_held(c, value) for value in values)
    total = known[0]
    for span in known[1:]:
        total = _SPANS[c.op](total, span)
    held = spanned(*total)
    if held is None or not held.fits(element):
        c.refuse(INTEGERS_TOO_LARGE, "cast them to a float type first")
    return held


def _held(c: Context, value: Value) -> Held:
    """Return what values a node or a constant of integers has; of ones that no float holds, nothing."""
    if isinstance(value, Ref):
        return c.held(value)
    ends = (int(value.value.min()), int(value.value.max())) if value.value.size else (0, 0)
    return spanned(*ends) or Held(TensorProto.DOUBLE, whole=True)


def _certain(c: Context, position: int) -> int:
    """Return the type of a result that the file names; refuse one that ONNX's rules leave open, or that is not read."""
    element = c.results[position]
    if element is None:
        c.refuse("the type of its result is not certain", "cast it to a float type, or export with a newer opset")
    if element not in FLOATS and element not in INTEGERS:
        c.refuse(f"its result has type {type_name(element)}, which is not supported", "keep it float32")
    return element


def _of_type(c: Context, result: Value, element: int | None) -> Value:
    """Return a result with its type: a converter's own steps have the one that the node computes in."""
    if element is None:  # an output that the file leaves out
        return result
    if isinstance(result, Ref):
        typed = replace(result, element=element)
        return c.holds(typed, TRUTHS) if element == TensorProto.BOOL else typed
    if is_real(element) and result.is_float:
        return replace(result, dtype=getattr(torch, FLOATS[element]))
    if element_of(result) != element:
        c.refuse(f"its result, a constant, is not of type {type_name(element)}", "fold constants when exporting")
    return result


def refuse_integers(c: Context, but: set[str]) -> None:
    """Refuse a node that reads integers that depend on the network's input, but for these operators."""
    if c.op not in but and any(isinstance(value, Ref) and not is_real(value.element) for value in c.inputs):
        c.refuse("it computes with integers that depend on the network's input", "cast them to a float type first")
