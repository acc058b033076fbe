"""Smooth functions of one variable: what each is, its slope, and how exactly it can be computed."""

from netproof.model.nonlinear.smooth.base import Smooth
from netproof.model.nonlinear.smooth.exponential import Exp, Log, Sigmoid, Tanh
from netproof.model.nonlinear.smooth.powers import Reciprocal, Sqrt, Square

__all__ = ["Exp", "Log", "Reciprocal", "Sigmoid", "Smooth", "Sqrt", "Square", "Tanh"]
