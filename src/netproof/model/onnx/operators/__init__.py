"""The converters of ONNX operators, by kind; importing this package enters them all."""

from netproof.model.onnx.operators import arithmetic, conv, moves, products

__all__ = ["arithmetic", "conv", "moves", "products"]
