"""Converters of operators that are written with several others: their parts are relaxed one by one."""

from netproof.model.onnx.operators.composite import norms, recurrent, reductions, softmax

__all__ = ["norms", "recurrent", "reductions", "softmax"]
