"""Converters of operators that are written with several others: their parts are relaxed one by one."""

from netproof.model.onnx.operators.composite import attention, norms, recurrent, reductions, softmax

__all__ = ["attention", "norms", "recurrent", "reductions", "softmax"]
