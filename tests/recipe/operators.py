"""The operators that the recipe adds, for the tests that ask for them alone."""

from __future__ import annotations

import importlib

from netproof.model.onnx import operators  # noqa: F401 (it enters the converters of netproof's own)
from netproof.model.onnx.context import CONVERTERS

_OWN = dict(CONVERTERS)

NAMES = {
    "Pow": ("recipe.cube", "pow_three"),
    "Clip": ("recipe.floor", "clip_below"),
    "Max": ("recipe.maximum", "largest"),
    "Mul": ("recipe.product", "multiply"),
}
OPERATORS = {name: getattr(importlib.import_module(module), function) for name, (module, function) in NAMES.items()}

# Importing them has entered their converters for every test of this process: netproof's own are put back.
for name in OPERATORS:
    CONVERTERS.pop(name)
CONVERTERS.update(_OWN)
