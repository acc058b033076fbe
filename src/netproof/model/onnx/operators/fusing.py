"""Products that are one smooth function of one variable: bounded as one, they are bounded more tightly."""

from __future__ import annotations

from netproof.model.nonlinear.smooth import Square
from netproof.model.onnx.context import Context, Ref


def fused_product(c: Context, left: Ref, right: Ref) -> Ref | None:
    """Return left·right as one function of one variable, or None where it is not known to be one."""
    if left.index == right.index:
        return c.emit(Square(), left)
    return None
