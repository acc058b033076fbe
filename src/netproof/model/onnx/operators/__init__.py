"""The converters of ONNX operators, by kind; importing this package enters them all."""

from netproof.model.onnx.operators import arithmetic, composite, conv, hinges, moves, pools, products, smooth, steps

__all__ = ["arithmetic", "composite", "conv", "hinges", "moves", "pools", "products", "smooth", "steps"]
