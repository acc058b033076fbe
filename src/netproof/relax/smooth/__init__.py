"""Smooth functions of one variable between lines of any slope, moved until they enclose the function."""

from netproof.relax.smooth.relaxation import SmoothRelaxation
from netproof.relax.smooth.shapes import shape_of
from netproof.relax.smooth.wave import WaveRelaxation

__all__ = ["SmoothRelaxation", "WaveRelaxation", "shape_of"]
