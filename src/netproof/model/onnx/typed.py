"""Values of integer types and bool: what may be done with them as if they were real numbers.

Integer arithmetic is another one: it divides towards 0 and wraps where the type ends. And a type is forgotten once a
value is read as a number. So such values are moved, compared, cast, and read as truths; all else is refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value
from netproof.model.origin.constant import Constant

_MOVES = {
    "Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split", "Expand", "Tile",
}  # fmt: skip
_TRUTHS = {"Not", "And", "Or", "Xor"}
_COMPARISONS = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}
_READERS = {"Cast", "Where", *_TRUTHS, *_COMPARISONS}


def converted(c: Context) -> list[Value]:
    """Convert a node that depends on the network's input; of integers only what is the same for real numbers."""
    refuse_integers(c, _MOVES | _READERS)
    if c.op == "Where" and any(_is_typed(value) for value in c.inputs[1:]):
        c.refuse("it chooses between integers", "choose between floats")
    if c.op in _TRUTHS and not all(_is_truth(value) for value in c.inputs):
        c.refuse("its inputs are not all truth values", "check it with onnx.checker")
    found = CONVERTERS[c.op](c)
    results: list[Value] = [found] if isinstance(found, Constant | Ref) else list(found)
    moved = c.inputs[0] if c.op in _MOVES else None
    if not isinstance(moved, Ref) or not moved.typed:
        return results
    return [replace(r, holds=moved.holds, typed=True) if isinstance(r, Ref) else r for r in results]


def refuse_integers(c: Context, but: set[str]) -> None:
    """Refuse a node that reads integers that depend on the network's input, but for these operators."""
    if c.op not in but and any(isinstance(value, Ref) and value.typed for value in c.inputs):
        c.refuse("it computes with integers that depend on the network's input", "cast them to a float type first")


def _is_typed(value: Value | None) -> bool:
    """Say whether a value, if there is one, has an integer type or bool."""
    if isinstance(value, Ref):
        return value.typed
    return value is not None and not value.is_float


def _is_truth(value: Value | None) -> bool:
    if isinstance(value, Ref):
        return value.typed and value.holds == "truths"
    return value is None or value.value.dtype == bool
