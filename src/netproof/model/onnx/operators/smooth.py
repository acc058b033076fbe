"""Converters of the smooth operators of one variable."""

from __future__ import annotations

import math

import numpy as np

from netproof.model.nonlinear.smooth import (
    Atan,
    Cos,
    Cosh,
    Elu,
    Erf,
    ErfGate,
    Exp,
    HardSwish,
    InverseRoot,
    Log,
    Mish,
    Power,
    RealPower,
    Reciprocal,
    Sigmoid,
    Silu,
    Sin,
    Sinh,
    Smooth,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Tanh,
    TanhGate,
)
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import broadcast, reciprocal, scale
from netproof.model.onnx.operators.fusing import inverse
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant

MOST_FACTORS = 64  # of a whole power


@converts("Sigmoid")
def _sigmoid(c: Context) -> Value:
    """Relax Sigmoid between tangents."""
    return c.emit(Sigmoid(), c.node(0))


@converts("Tanh")
def _tanh(c: Context) -> Value:
    """Relax Tanh between tangents."""
    return c.emit(Tanh(), c.node(0))


@converts("Erf")
def _erf(c: Context) -> Value:
    """Relax Erf between tangents."""
    return c.emit(Erf(), c.node(0))


@converts("Softsign")
def _softsign(c: Context) -> Value:
    """Relax Softsign between tangents, also where it is written x / (1 + |x|)."""
    return c.emit(Softsign(), c.node(0))


@converts("Atan")
def _atan(c: Context) -> Value:
    """Relax Atan between tangents."""
    return c.emit(Atan(), c.node(0))


@converts("Softplus")
def _softplus(c: Context) -> Value:
    """Relax Softplus between tangents and the chord."""
    return c.emit(Softplus(), c.node(0))


@converts("Exp")
def _exp(c: Context) -> Value:
    """Relax Exp between tangents and the chord, where it does not overflow."""
    return c.emit(Exp(), c.node(0))


@converts("Log")
def _log(c: Context) -> Value:
    """Relax Log between the chord and tangents, where its argument is proved positive; of a Sigmoid as one function."""
    return c.emit(Log(), c.node(0))


@converts("Sinh")
def _sinh(c: Context) -> Value:
    """Relax Sinh between tangents, where it does not overflow."""
    return c.emit(Sinh(), c.node(0))


@converts("Cosh")
def _cosh(c: Context) -> Value:
    """Relax Cosh between tangents and the chord, where it does not overflow."""
    return c.emit(Cosh(), c.node(0))


@converts("Sin")
def _sin(c: Context) -> Value:
    """Relax Sin between tangents, on bounds of less than a period."""
    return c.emit(Sin(), c.node(0))


@converts("Cos")
def _cos(c: Context) -> Value:
    """Relax Cos between tangents, on bounds of less than a period."""
    return c.emit(Cos(), c.node(0))


# --- rectifiers with a smooth part -------------------------------------------------------------------------


@converts("Elu")
def _elu(c: Context) -> Value:
    """Relax Elu between tangents and the chord; where its argument is not negative it is linear."""
    return c.emit(Elu(_alpha(c, 1.0)), c.node(0))


@converts("Selu")
def _selu(c: Context) -> Value:
    """Relax Selu as a multiple of Elu."""
    alpha = _alpha(c, float(np.float32(1.67326319217681884765625)))
    gamma = float(c.attr("gamma", float(np.float32(1.05070102214813232421875))))
    return scale(c, c.emit(Elu(alpha), c.node(0)), constant.constant(gamma))


@converts("Celu")
def _celu(c: Context) -> Value:
    """Relax Celu as alpha·Elu(x / alpha)."""
    alpha = constant.constant(_alpha(c, 1.0))
    if float(alpha.value) == 0.0:
        c.refuse("its alpha is 0", "use Relu")
    x = c.node(0) if float(alpha.value) == 1.0 else scale(c, c.node(0), reciprocal(c, alpha))
    y = c.emit(Elu(), x)
    return y if float(alpha.value) == 1.0 else scale(c, y, alpha)


def _alpha(c: Context, default: float) -> float:
    alpha = float(c.attr("alpha", default))
    if not 0.0 <= alpha <= 1e6:
        c.refuse(f"its alpha {alpha} is not between 0 and 10^6")
    return alpha


@converts("Gelu")
def _gelu(c: Context) -> Value:
    """Relax Gelu, exact or approximate, between tangents, also where it is written with Erf or Tanh."""
    x, how = c.node(0), c.attr("approximate", "none")
    if how == "tanh":
        return scale(c, c.emit(TanhGate(math.sqrt(2.0 / math.pi), 0.044715), x), constant.constant(0.5))
    if how != "none":
        c.refuse(f"its approximation {how!r} is not known")
    half = constant.square_root(constant.constant(0.5))
    return scale(c, c.emit(ErfGate(), scale(c, x, half)), half)


@converts("Swish")
def _swish(c: Context) -> Value:
    """Relax Swish, x·sigmoid(alpha·x), between tangents, also where it is written so."""
    x, alpha = c.node(0), constant.constant(float(c.attr("alpha", 1.0)))
    if float(alpha.value) == 1.0:
        return c.emit(Silu(), x)
    if float(alpha.value) == 0.0:
        return scale(c, x, constant.constant(0.5))
    return scale(c, c.emit(Silu(), scale(c, x, alpha)), reciprocal(c, alpha))


@converts("Mish")
def _mish(c: Context) -> Value:
    """Relax Mish between tangents, also where it is written x·tanh(softplus(x))."""
    return c.emit(Mish(), c.node(0))


@converts("HardSwish")
def _hard_swish(c: Context) -> Value:
    """Relax HardSwish between tangents and its corners; beyond −3 and 3 it is linear."""
    return c.emit(HardSwish(), c.node(0))


# --- powers ------------------------------------------------------------------------------------------------


@converts("Sqrt")
def _sqrt(c: Context) -> Value:
    """Relax Sqrt between the chord and tangents, where its argument is proved not to be negative."""
    return c.emit(Sqrt(), c.node(0))


@converts("Reciprocal")
def _reciprocal(c: Context) -> Value:
    """Relax Reciprocal between tangents and the chord, where its argument is proved to keep one sign."""
    return inverse(c, 0)


@converts("Pow")
def _pow(c: Context) -> Value:
    """Relax a constant power between tangents; where it is not whole, of an argument proved positive."""
    x, exponent = c.node(0), c.constant(1)
    numbers = np.unique(exponent.value)
    if exponent.radius is not None or len(numbers) != 1:
        c.refuse("its exponent is not one exact number", "write each power as a node of its own")
    if broadcast(c, x.shape, exponent.shape) != x.shape:
        c.refuse("its exponent is larger than its base", "expand the base first")
    return power(c, x, float(numbers[0]))


def power(c: Context, x: Ref, p: float) -> Value:
    """Return x to the power of a number."""
    if p == 0.0:
        return Constant(np.ones(x.shape))
    if p == 1.0:
        return x
    simple: dict[float, Smooth] = {2.0: Square(), -1.0: Reciprocal(), 0.5: Sqrt(), -0.5: InverseRoot()}
    if p in simple:
        return c.emit(simple[p], x)
    if p == round(p) and abs(p) <= MOST_FACTORS:
        return c.emit(Power(int(p)), x)
    if abs(p) > MOST_FACTORS:
        c.refuse(f"its exponent {p:g} is beyond {MOST_FACTORS}")
    return c.emit(RealPower(p), x)
