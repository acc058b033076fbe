"""Converters of operators that move numbers or take fixed sums of them."""

from netproof.model.onnx.operators.data import argmax, casts, einsum, rearrange, resize, sums

__all__ = ["argmax", "casts", "einsum", "rearrange", "resize", "sums"]
