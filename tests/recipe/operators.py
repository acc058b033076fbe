"""The operators that the recipe adds, for the tests that ask for them alone."""

from __future__ import annotations

from netproof.model.onnx.context import CONVERTERS
from recipe.cube import pow_three
from recipe.floor import clip_below
from recipe.maximum import largest
from recipe.product import multiply
from support.own_converters import OWN

OPERATORS = {"Pow": pow_three, "Clip": clip_below, "Max": largest, "Mul": multiply}

# Importing them has entered their converters for every test of this process: netproof's own are put back.
CONVERTERS.update(OWN)
