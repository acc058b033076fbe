"""The converters of ONNX operators, by kind; importing this package enters them all."""

from netproof.model.onnx.operators import (
    arithmetic,
    choices,
    composite,
    conv,
    data,
    hinges,
    moves,
    pools,
    products,
    smooth,
    steps,
)

__all__ = [
    "arithmetic",
    "choices",
    "composite",
    "conv",
    "data",
    "hinges",
    "moves",
    "pools",
    "products",
    "smooth",
    "steps",
]
