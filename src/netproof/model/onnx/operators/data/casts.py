"""The converter of CastLike: a cast to the type of another value."""

from __future__ import annotations

import onnx

from netproof.model.onnx.context import CONVERTERS, Context, Ref, Value, converts
from netproof.model.onnx.file import FLOATS

_KINDS = {name: kind for kind, name in FLOATS.items()}


@converts("CastLike")
def _cast_like(c: Context) -> Value:
    """Cast to the type of the second input, as Cast does."""
    found = CONVERTERS["Cast"](as_cast(c))
    assert not isinstance(found, (list, tuple))
    return found  # type: ignore[return-value]


def as_cast(c: Context) -> Context:
    """Return a Cast that says which type a CastLike takes from its second input."""
    like = c.value(1)
    if isinstance(like, Ref):
        kind = onnx.TensorProto.BOOL if like.holds == "truths" else _KINDS[like.kind]
    elif like.is_float:
        kind = _KINDS[str(like.dtype).removeprefix("torch.")]
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(like.value.dtype)
    return c.instead("Cast", [c.value(0)], to=kind)
