"""The converters of ONNX operators, by kind; importing this package enters them all."""

from netproof.model.onnx.operators import arithmetic, conv, hinges, moves, pools, steps

__all__ = ["arithmetic", "conv", "hinges", "moves", "pools", "steps"]
