"""Converters of operators that move numbers or take fixed sums of them."""

from netproof.model.onnx.operators.data import casts, einsum, rearrange, resize, sums

__all__ = ["casts", "einsum", "rearrange", "resize", "sums"]
