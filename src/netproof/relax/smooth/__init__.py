"""Smooth functions of one variable between lines of any slope, moved until they enclose the function."""

from netproof.relax.smooth.relaxation import SmoothRelaxation
from netproof.relax.smooth.shapes import shape_of

__all__ = ["SmoothRelaxation", "shape_of"]
