"""Converters of the smooth operators of one variable."""

from __future__ import annotations

from netproof.model.nonlinear.smooth import Exp, Log, Reciprocal, Sigmoid, Sqrt, Tanh
from netproof.model.onnx.context import Context, Value, converts


@converts("Sigmoid")
def _sigmoid(c: Context) -> Value:
    """Bound Sigmoid between tangents and chords."""
    return c.emit(Sigmoid(), c.node(0))


@converts("Tanh")
def _tanh(c: Context) -> Value:
    """Bound Tanh between tangents and chords."""
    return c.emit(Tanh(), c.node(0))


@converts("Exp")
def _exp(c: Context) -> Value:
    """Bound Exp between tangents and the chord, where it does not overflow."""
    return c.emit(Exp(), c.node(0))


@converts("Log")
def _log(c: Context) -> Value:
    """Bound Log between the chord and tangents, where its argument is proved positive."""
    return c.emit(Log(), c.node(0))


@converts("Sqrt")
def _sqrt(c: Context) -> Value:
    """Bound Sqrt between the chord and tangents, where its argument is proved not to be negative."""
    return c.emit(Sqrt(), c.node(0))


@converts("Reciprocal")
def _reciprocal(c: Context) -> Value:
    """Bound Reciprocal between tangents and the chord, where its argument is proved to keep one sign."""
    return c.emit(Reciprocal(), c.node(0))
