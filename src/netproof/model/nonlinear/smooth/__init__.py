"""Smooth functions of one variable: what each is, its slope, and how exactly it can be computed."""

from netproof.model.nonlinear.smooth.base import Smooth
from netproof.model.nonlinear.smooth.exponential import Cosh, Exp, Log, LogSigmoid, Sinh, Softplus
from netproof.model.nonlinear.smooth.gates import Elu, ErfGate, HardSwish, Mish, Silu, TanhGate
from netproof.model.nonlinear.smooth.powers import InverseRoot, Power, RealPower, Reciprocal, Sqrt, Square
from netproof.model.nonlinear.smooth.sigmoids import Atan, Erf, Sigmoid, Softsign, Tanh
from netproof.model.nonlinear.smooth.waves import Cos, Sin

__all__ = [
    "Atan",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "ErfGate",
    "Exp",
    "HardSwish",
    "InverseRoot",
    "Log",
    "LogSigmoid",
    "Mish",
    "Power",
    "RealPower",
    "Reciprocal",
    "Sigmoid",
    "Silu",
    "Sin",
    "Sinh",
    "Smooth",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Square",
    "Tanh",
    "TanhGate",
]
