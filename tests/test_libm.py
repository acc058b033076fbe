"""What is trusted of libraries: elementary functions against values of many digits, in both precisions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from model.onnx_models import Model
from netproof.model.nonlinear.smooth import Smooth
from netproof.numerics import LIBM, RUNTIME, TINY, UNIT
from support.smooth import FUNCTIONS

DIGITS = 60
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
PRECISIONS = [torch.float64, torch.float32]
Real = Callable[[mpmath.mpf], mpmath.mpf]

# name: (torch's, exact, from, to)
PRIMITIVES: dict[str, tuple[Callable[[Tensor], Tensor], Real, float, float]] = {
    "exp": (torch.exp, mpmath.exp, -60.0, 60.0),
    "expm1": (torch.expm1, mpmath.expm1, -60.0, 0.0),
    "log": (torch.log, mpmath.log, 1e-28, 1e28),
    "log1p": (torch.log1p, mpmath.log1p, 0.0, 1.0),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), -80.0, 80.0),
    "tanh": (torch.tanh, mpmath.tanh, -50.0, 50.0),
    "erf": (torch.erf, mpmath.erf, -8.0, 8.0),
    "sin": (torch.sin, mpmath.sin, -10.0, 10.0),
    "cos": (torch.cos, mpmath.cos, -10.0, 10.0),
    "atan": (torch.atan, mpmath.atan, -1e9, 1e9),
    "sqrt": (torch.sqrt, mpmath.sqrt, 0.0, 1e30),
    "reciprocal": (torch.reciprocal, lambda x: 1 / x, 1e-14, 1e14),
}


def arguments(low: float, high: float, dtype: torch.dtype, count: int = 1500) -> Tensor:
    """Evenly spread, and at all sizes from tiny ones on, and the ends."""
    random = np.random.default_rng(0)
    even = random.uniform(low, high, count)
    sizes = 10.0 ** random.uniform(-30, np.log10(max(abs(low), abs(high))), count) * random.choice([-1, 1], count)
    near_one = 1.0 + 10.0 ** random.uniform(-8, 0, count // 5) * random.choice([-1, 1], count // 5)
    found = np.concatenate([even, sizes, near_one, [low, high, 0.0]])
    return torch.from_numpy(found[(found >= low) & (found <= high)]).to(dtype)


def exactly(function: Real, xs: Tensor) -> list[mpmath.mpf]:
    with mpmath.workdps(DIGITS):
        return [function(mpmath.mpf(x)) for x in xs.double().tolist()]


def off_by(found: Tensor, exact: list[mpmath.mpf]) -> np.ndarray:
    with mpmath.workdps(DIGITS):
        return np.array([float(abs(mpmath.mpf(y) - z)) for y, z in zip(found.double().tolist(), exact, strict=True)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_are_within_what_is_charged(name: str, dtype: torch.dtype, device: str) -> None:
    """Relative to the result, half of what `LIBM` says: a bug of one ulp in a library must not tip a proof."""
    function, real, low, high = PRIMITIVES[name]
    xs = arguments(low, high, dtype)
    exact = exactly(real, xs)
    sizes = np.array([float(abs(z)) for z in exact])
    allowed = LIBM / 2 * UNIT[dtype] * sizes + float(torch.finfo(dtype).tiny)
    assert (off_by(function(xs.to(device)).cpu(), exact) <= allowed).all()


def real_of(name: str) -> Real:
    """The function of that name, of a number of many digits."""
    exact = FUNCTIONS[name][1]

    def real(x: mpmath.mpf) -> mpmath.mpf:
        sign, mantissa, exponent, _ = mpmath.mpf(x)._mpf_
        value = exact(Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** exponent)
        return mpmath.mpf(value.numerator) / value.denominator

    return real


def spread(op: Smooth, name: str, dtype: torch.dtype, count: int) -> Tensor:
    """Arguments at which the function is defined."""
    xs = arguments(-45.0, 45.0, dtype, count)
    xs = -xs.abs() if "less" in name or "inverse" in name else xs
    return xs[op.defined(xs, xs) & (xs.abs() > 1e-8)]  # below, a square root's slope is no longer its own


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_slopes_are_within_their_noise(name: str, dtype: torch.dtype, device: str) -> None:
    op = FUNCTIONS[name][0]
    xs = spread(op, name, dtype, 150)
    real = real_of(name)
    noise, slope_noise = (t.double().cpu().numpy() for t in op.noise(xs.to(device)))
    value, slope = (t.cpu() for t in op.both(xs.to(device)))
    tiny = TINY[dtype]
    assert (off_by(value, exactly(real, xs)) <= noise + tiny).all()
    corners = torch.tensor([point for point, _, _ in op.corners], dtype=dtype)
    smooth = (xs[:, None] - corners).abs().amin(1) > 1e-6 if len(corners) else torch.ones_like(xs, dtype=torch.bool)
    with mpmath.workdps(DIGITS):
        slopes = [mpmath.diff(real, mpmath.mpf(x), h=abs(x) * mpmath.mpf(10) ** -20) for x in xs.double().tolist()]
        size = np.array([1e-15 * float(abs(m)) for m in slopes])  # what the difference quotient itself is off by
    assert (off_by(slope, slopes) <= slope_noise + tiny + 1e-3 * size)[smooth.numpy()].all()


NODES = {
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Atan": "atan", "Softsign": "softsign", "Softplus": "softplus",
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Sin": "sin", "Cos": "cos",
    "Sinh": "sinh", "Cosh": "cosh", "Elu": "elu", "Mish": "mish", "HardSwish": "hard swish", "Gelu": "erf gate",
}  # fmt: skip


@pytest.mark.parametrize("op", NODES)
def test_onnxruntime_is_within_what_the_comparison_allows(op: str) -> None:
    """Its float32 functions are its own: with half the roundings that they are charged they must agree."""
    function = FUNCTIONS[NODES[op]][0]
    xs = arguments(-40.0, 40.0, torch.float32, 4000)
    xs = xs[function.defined(xs, xs) & (xs.abs() > 1e-20)]
    network = Model((1, len(xs)), opset=20).add(op, "x").network()
    theirs = torch.from_numpy(network.replay(xs.numpy()[None])).double().flatten()
    ours = network.graph.forward(xs.double()[None, None]).flatten()
    nodes = network.graph.nodes
    zero = torch.zeros_like(xs, dtype=torch.float64)
    own = function.error(xs.double(), zero, torch.float32)
    if op == "Gelu":  # behind a factor
        own = function.error(xs.double() * 0.5**0.5, xs.double().abs() * 2e-7, torch.float32)
    assert len(nodes) <= 4
    assert ((ours - theirs).abs() <= own / 2).all(), float(((ours - theirs).abs() / own).max())
    assert RUNTIME >= 2 * LIBM
