"""ONNX element types: which arithmetic each means, which values it holds, and which a node's results have.

A tensor of a file has one of the types of `TensorProto.DataType`. Of the float types in `FLOATS` the network is what
its operators say in real numbers. Integer arithmetic is another one: it divides towards 0 and wraps at the type's end.
So what may be done with a value hangs on its type, and the type is never guessed: it is the graph's for an input, the
tensor's for a constant, and for a result what ONNX's own schema of the operator says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper

from netproof.model.onnx.file import FLOATS, type_name
from netproof.model.onnx.schema import schema_of
from netproof.model.origin.constant import Constant

_FLOATS_BY_NAME = {name: element for element, name in FLOATS.items()}
# Types of results that an attribute says: the schema's name of the type, the attribute, and what it is if left out.
_SAID = {
    "Cast": ("T2", "to", TensorProto.UNDEFINED),
    "LayerNormalization": ("U", "stash_type", TensorProto.FLOAT),
}
_GROWING = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)  # each holds every value of those before it
_WHOLE = (2**11, 2**24, 2**53)  # up to which each of these holds every integer


def is_real(element: int) -> bool:
    """Say whether arithmetic in this type stands for that of real numbers."""
    return element in FLOATS


def kind_of(value: Constant) -> int:
    """Return the element type of a constant of the file."""
    if value.is_float:
        return int(_FLOATS_BY_NAME[str(value.dtype).removeprefix("torch.")])
    return int(helper.np_dtype_to_tensor_dtype(value.value.dtype))


# --- which values a node has -------------------------------------------------------------------------------


Span = tuple[int, int]


@dataclass(frozen=True)
class Held:
    """The values of a node as a runtime computes it."""

    element: int  # the first float type that holds them all
    whole: bool = False  # whether all of them are integers
    span: Span | None = None  # of integers, between which they lie; None: it is not known

    @property
    def is_truth(self) -> bool:
        return self.span is not None and self.span[0] >= 0 and self.span[1] <= 1

    def fits(self, element: int) -> bool:
        """Say whether a cast to this type changes none of them."""
        if is_real(element):
            return _GROWING.index(self.element) <= _GROWING.index(element)
        least, most = limits(element)
        return self.span is not None and least <= self.span[0] and self.span[1] <= most


def limits(element: int) -> Span:
    """Return the least and the largest number of an integer type, or of bool."""
    if element == TensorProto.BOOL:
        return 0, 1
    found = np.iinfo(helper.tensor_dtype_to_np_dtype(element))
    return int(found.min), int(found.max)


def spanned(least: int, most: int) -> Held | None:
    """Return what integers between two are; None where no float type holds them all."""
    size = max(abs(least), abs(most))
    element = next((kind for kind, up_to in zip(_GROWING, _WHOLE, strict=True) if size <= up_to), None)
    return None if element is None else Held(element, whole=True, span=(least, most))


ZEROS = Held(TensorProto.FLOAT16, whole=True, span=(0, 0))
TRUTHS = Held(TensorProto.FLOAT16, whole=True, span=(0, 1))
PLACES = Held(TensorProto.FLOAT16, whole=True, span=(0, 255))


def held_by(element: int) -> Held:
    """Return what is known of a value that is computed in this type; of other integers than truths, nothing."""
    if element == TensorProto.BOOL:
        return TRUTHS
    return Held(element) if is_real(element) else Held(TensorProto.DOUBLE, whole=True)


def all_held(parts: Iterable[Held]) -> Held:
    """Return what holds the values of all parts."""
    found = list(parts)
    spans = [part.span for part in found if part.span is not None]
    both = (min(s[0] for s in spans), max(s[1] for s in spans)) if len(spans) == len(found) else None
    return Held(max((part.element for part in found), key=_GROWING.index), all(part.whole for part in found), both)


# --- which type a result has -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Input:
    """An input of an operator as its schema has it."""

    name: str
    kind: str  # the schema's name of its type, or the type itself
    types: frozenset[str]
    several: bool  # it stands for any number of inputs, of types of their own


@dataclass(frozen=True)
class _Schema:
    """What a schema says of types. Kept, as each look at onnx's own copies all of it."""

    inputs: tuple[_Input, ...]
    outputs: tuple[str, ...]  # by output, the schema's name of its type, or the type itself
    single: Mapping[str, str]  # by name of a type, the only one that it may be


@cache
def _schema_of(op: str, opset: int) -> _Schema | None:
    """Return the schema of an operator of ONNX's own; None where it has none."""
    schema = schema_of(op, opset)
    if schema is None:
        return None
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    inputs = [
        _Input(i.name, i.type_str, frozenset(i.types), i.option == variadic and not i.is_homogeneous)
        for i in schema.inputs
    ]
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    single = {name: types[0] for name, types in allowed.items() if len(types) == 1}
    return _Schema(tuple(inputs), tuple(output.type_str for output in schema.outputs), single)


def result_elements(node: onnx.NodeProto, inputs: Sequence[int | None], opset: int) -> list[int | None]:
    """Return the element type of each of a node's results by ONNX's schema; None where that leaves it open.

    Raises a TypeError where the schema does not allow the inputs' types: no runtime runs such a node.
    """
    schema = _schema_of(node.op_type, opset)
    if schema is None:
        return [None] * len(node.output)
    known: dict[str, int] = {}
    for position, element in enumerate(inputs):
        if element is not None and schema.inputs:
            _bind(known, schema.inputs[min(position, len(schema.inputs) - 1)], element)
    if node.op_type in _SAID:
        name, said, usual = _SAID[node.op_type]
        known[name] = next((attribute.i for attribute in node.attribute if attribute.name == said), usual)
    found: list[int | None] = []
    for position in range(len(node.output)):
        name = schema.outputs[min(position, len(schema.outputs) - 1)]
        found.append(known.get(name, _ELEMENTS.get(schema.single.get(name, name))))
    return found


def _bind(known: dict[str, int], formal: _Input, element: int) -> None:
    """Enter an input's type under the schema's name of it: all inputs of one name have one type."""
    if _written(element) not in formal.types:
        raise TypeError(f"its input {formal.name} may not be of type {type_name(element)}")
    if not formal.several and known.setdefault(formal.kind, element) != element:
        both = f"{type_name(known[formal.kind])} and {type_name(element)}"
        raise TypeError(f"its inputs are of types {both}, where they must have one type")


def _written(element: int) -> str:
    """Return a type as schemas write it."""
    return f"tensor({type_name(element).lower()})"


_ELEMENTS = {_written(element): element for element in TensorProto.DataType.values()}
