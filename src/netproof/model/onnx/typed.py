"""Values of integer types and bool: what may be done with them as if they were real numbers.

Integer arithmetic is another one: it divides towards 0 and wraps where the type ends. So such values are moved,
compared, chosen between and cast; anything else is refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value
from netproof.model.origin.constant import Constant

_MOVES = {
    "Identity", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Gather", "GatherElements",
    "GatherND", "Concat", "Split", "Expand", "Tile", "Max", "Min",
}  # fmt: skip
_TRUTHS = {"Not", "And", "Or", "Xor"}
_READERS = {"Cast", "CastLike", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Where", *_TRUTHS}


def converted(c: Context) -> list[Value]:
    """Convert a node that depends on the network's input; of integers only what is the same for real numbers."""
    given = [value for value in c.inputs if isinstance(value, Ref) and value.typed]
    if given and c.op not in _MOVES | _READERS:
        c.refuse("it computes with integers that depend on the network's input", "cast them to a float type first")
    if c.op in _TRUTHS and not all(_is_truth(value) for value in c.inputs):
        c.refuse("its inputs are not all truth values", "check it with onnx.checker")
    found = CONVERTERS[c.op](c)
    results: list[Value] = [found] if isinstance(found, Constant | Ref) else list(found)
    chosen = [value for value in c.inputs[1:] if isinstance(value, Ref)] if c.op == "Where" else given
    if (c.op in _MOVES and given) or (c.op == "Where" and any(value.typed for value in chosen)):
        holds = "truths" if all(_is_truth(value) for value in chosen) else "integers"
        return [replace(r, holds=holds, typed=True) if isinstance(r, Ref) else r for r in results]
    return results


def _is_truth(value: Value | None) -> bool:
    if isinstance(value, Ref):
        return value.typed and value.holds == "truths"
    return value is None or value.value.dtype == bool
