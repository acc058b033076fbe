"""Casts of constants, and the converter of CastLike: a cast to the type of another value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from onnx import helper

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value, converts, element_of
from netproof.model.onnx.file import FLOATS, INTEGERS
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant
from netproof.numerics import coarseness


@converts("CastLike")
def _cast_like(c: Context) -> Value:
    """Cast to the type of the second input, as Cast does."""
    cast = as_cast(c)
    if isinstance(c.value(0), Constant):
        return cast_constant(cast)
    found = CONVERTERS["Cast"](cast)
    assert isinstance(found, Constant | Ref)
    return found


def as_cast(c: Context) -> Context:
    """Return a Cast that says which type a CastLike takes from its second input."""
    return c.instead("Cast", [c.value(0)], to=element_of(c.value(1)))


def cast_constant(c: Context) -> Constant:
    """Cast a constant, rounded as the file says; refuse what is not exact."""
    source = c.constant(0)
    target = c.attr("to")
    if target in FLOATS:
        if source.is_float:
            return _rounded(c, source, FLOATS[target])
        value = source.value.astype(np.float64)
        with np.errstate(over="ignore"):  # what overflows is refused below
            narrow = value.astype(helper.tensor_dtype_to_np_dtype(target))
        if not np.array_equal(narrow.astype(np.float64), value) or np.abs(value).max(initial=0) > 2**53:
            c.refuse(f"an integer does not fit {FLOATS[target]} exactly")
        return Constant(value, dtype=getattr(torch, FLOATS[target]))
    if target not in INTEGERS:
        c.refuse("it casts to a type that is not supported")
    if source.radius is not None or not np.isfinite(source.value).all():
        c.refuse("a constant that is rounded or infinite cannot become an integer")
    return Constant(source.value.astype(helper.tensor_dtype_to_np_dtype(target)))


def _rounded(c: Context, source: Constant, kind: str) -> Constant:
    """Convert a float constant to another float type, rounded as the file says."""
    dtype = getattr(torch, kind)
    if coarseness(dtype) <= coarseness(source.dtype):
        return replace(source, dtype=dtype)
    if constant.loose(constant.radius, source) or constant.loose(constant.slack, source):
        c.refuse("a rounded constant is rounded again", "fold constants when exporting, e.g. with onnxsim")
    with np.errstate(over="ignore"):
        narrow = source.value.astype(kind).astype(np.float64)
    if not np.isfinite(narrow).all():
        c.refuse(f"a constant overflows {kind}", "export the model in float32")
    return Constant(narrow, dtype=dtype)
