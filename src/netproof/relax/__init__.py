"""How a nonlinearity is enclosed by lines: one file a nonlinearity, one line here to register it."""

from __future__ import annotations

from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Op
from netproof.relax.lines import Lines, Relaxation
from netproof.relax.relu import HingeRelaxation

__all__ = ["Lines", "Relaxation", "relaxation_of"]


def relaxation_of(op: Op) -> Relaxation:
    """The relaxation of a nonlinear op."""
    match op:
        case Relu():
            return HingeRelaxation(0.0)
        case LeakyRelu(alpha=alpha):
            return HingeRelaxation(alpha)
    raise TypeError(f"no relaxation is registered for {type(op).__name__}")
