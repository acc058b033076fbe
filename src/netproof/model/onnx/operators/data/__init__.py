"""Converters of operators that move numbers or take fixed sums of them."""

from netproof.model.onnx.operators.data import rearrange

__all__ = ["rearrange"]
