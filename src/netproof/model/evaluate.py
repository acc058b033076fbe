"""A network's value at a point with a rigorous error, and the comparison with onnxruntime that rests on it.

Running error analysis: every node carries its value and a bound e on the distance from the exact one. An
affine node computed in floats satisfies

    e_out <= |W| e + R(|x| + e) + γ_fan (|W| (|x| + e) + |b|) + underflow
           = |W| (e + γ_fan (|x| + e)) + γ_fan |b| + R(|x| + e) + underflow

where R is the radius of its folded constants. ReLU passes e on; LeakyReLU scales it and rounds once.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from netproof.errors import ModelError
from netproof.model.graph import Graph, Node
from netproof.model.network import Network
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Affine, Input
from netproof.numerics import INFLATE, UNDERFLOW, UNIT, gamma

# The smallest normal number of each format: a product below it may be flushed to zero.
_TINY = {torch.float64: UNDERFLOW, torch.float32: 2.0**-126, torch.float16: 2.0**-14}

# Roundings that a float evaluation may add to a node beyond its sums: weights folded by the runtime.
_EXTRA_ROUNDINGS = 4

# The comparison allows this multiple of the bound: runtimes reorder and fuse across nodes.
CROSS_CHECK_FACTOR = 4.0

# The bound is a worst case; through many layers it grows until it would excuse anything. So the gap must also
# stay within this multiple of the rounding that a float32 run of the graph shows, plus the last digits.
OBSERVED_FACTOR = 1e3
LAST_DIGITS = 1e-5


def evaluate(graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    """The real network at the exact points x: (batch, *input), float64.

    Returns the value (batch, *output) and an elementwise bound on its distance from the exact one.
    """
    values, errors = _run(graph, x.to(torch.float64), torch.float64)
    return values[-1], errors[-1]


def float_error(graph: Graph, x: Tensor, dtype: torch.dtype) -> Tensor:
    """How far an evaluation in `dtype` may be from the exact value at x: (batch, *input) -> (batch, *output).

    It holds for any order of summation in direct sums, and x must be representable in `dtype`.
    """
    return _run(graph, x.to(torch.float64), dtype)[1][-1]


def _run(graph: Graph, x: Tensor, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    values: list[Tensor] = []
    errors: list[Tensor] = []
    for node in graph.nodes:
        if isinstance(node.op, Input):
            values.append(x)
            errors.append(torch.zeros_like(x))
            continue
        xs = [values[i] for i in node.inputs]
        values.append(node.op.forward(*xs))
        errors.append(_error(node, xs, [errors[i] for i in node.inputs], dtype))
    return values, errors


def _error(node: Node, xs: list[Tensor], es: list[Tensor], dtype: torch.dtype) -> Tensor:
    op = node.op
    if isinstance(op, Relu):
        return es[0]
    if isinstance(op, LeakyRelu):
        slope = abs(op.alpha)
        rounding = gamma(1, dtype) * slope * (xs[0].abs() + es[0]) + _TINY[dtype]
        return (max(1.0, slope) * es[0] + rounding) * INFLATE
    if not isinstance(op, Affine):
        raise ModelError(f"no error analysis for {type(op).__name__}", place=f"node {node.name!r}")
    return _affine_error(op, xs, es, dtype)


def _affine_error(op: Affine, xs: list[Tensor], es: list[Tensor], dtype: torch.dtype) -> Tensor:
    absolute, radius = op.absolute(), op.radius
    if not op.fan and radius is None:  # a data movement rounds nothing
        return absolute.linear().forward(*es)
    magnitudes = [x.abs() + e for x, e in zip(xs, es, strict=True)]
    extra = 0 if dtype == torch.float64 else _EXTRA_ROUNDINGS
    share = _gamma(op.fan + extra, dtype) if op.fan else 0.0
    error = absolute.linear().forward(*(e + share * m for e, m in zip(es, magnitudes, strict=True)))
    offset = absolute.offset()
    if offset is not None:
        error = error + share * offset
    if radius is not None:
        # Constants that float64 folded with this radius, a narrower runtime folds with a wider one.
        wider = UNIT[dtype] / UNIT[torch.float64]
        error = error + radius.forward(*magnitudes) * wider
    error = error + op.fan * _TINY[dtype]
    return (error * INFLATE).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _gamma(n: int, dtype: torch.dtype) -> float:
    """γ_n, infinite where the sum is too long for the format: no bound is the honest answer."""
    return gamma(n, dtype) if n * UNIT[dtype] < 0.5 else math.inf


def cross_check(network: Network, points: Tensor) -> None:
    """Compare the graph with onnxruntime at points (batch, *input); a mismatch is an error.

    Both may round: they must agree within CROSS_CHECK_FACTOR times the sum of their error bounds, and within
    OBSERVED_FACTOR times the rounding seen in a float32 run.
    """
    points = points.to(getattr(torch, network.input_dtype)).to(torch.float64)
    values, allowed = _allowance(network, points)
    for point, value, slack in zip(points, values, allowed, strict=True):
        answer = torch.from_numpy(network.replay(point.numpy()).astype(np.float64))
        gap = (answer - value).abs()
        if bool((gap <= slack).all()):
            continue
        worst = int((gap / slack).nan_to_num(nan=torch.inf).argmax())
        ours, theirs, most = (float(t.flatten()[worst]) for t in (value, answer, slack))
        raise ModelError(
            f"netproof and onnxruntime disagree at output {worst}: {ours:.9g} against {theirs:.9g}, "
            f"where rounding explains {most:.3g}",
            file=network.path,
            place=f"node {network.graph.output.name!r}",
            remedy="please report the model: netproof must not be trusted on it",
        )


def _allowance(network: Network, points: Tensor) -> tuple[Tensor, Tensor]:
    """The graph's values at the points, and how far onnxruntime's may lie from them: (batch, *output)."""
    dtype = _coarsest(network)
    all_values, all_errors = _run(network.graph, points, dtype)
    values, errors = all_values[-1], all_errors[-1]
    if dtype == torch.float64:
        return values, 2 * CROSS_CHECK_FACTOR * errors  # both of them may be off by so much
    # The error of the values, which are float64, is within that of the runtime's and drowns in the factor.
    allowed = CROSS_CHECK_FACTOR * errors
    single = network.graph.to("cpu", torch.float32).forward(points.to(torch.float32))
    noise = (single.to(torch.float64) - values).abs().max() * (UNIT[dtype] / UNIT[torch.float32])
    digits = values.abs().max() * LAST_DIGITS * (UNIT[dtype] / UNIT[torch.float32])
    seen = OBSERVED_FACTOR * noise + digits
    return values, torch.where(seen.isfinite(), allowed.clamp(max=seen), allowed)


def _coarsest(network: Network) -> torch.dtype:
    """The coarsest float that the runtime may compute in."""
    names = {*network.weight_dtypes, network.input_dtype}
    return next(dtype for dtype in UNIT if str(dtype).removeprefix("torch.") in names)
