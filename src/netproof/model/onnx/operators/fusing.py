"""Products and quotients that are one smooth function of one variable: bounded as one, they are bounded more tightly.

Exporters write activations as several nodes: x·sigmoid(x), x·(1 + erf(x/√2))/2, x·tanh(softplus(x)), x / (1 + |x|).
The last node of such a pattern becomes the function itself, of the value that all of it depends on. The nodes before it
stay where something else reads them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from netproof.model.affine import Scale, Sum
from netproof.model.graph import Node
from netproof.model.nonlinear.smooth import (
    Erf,
    ErfGate,
    InverseRoot,
    Mish,
    Power,
    Reciprocal,
    Sigmoid,
    Silu,
    Smooth,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Tanh,
    TanhGate,
)
from netproof.model.onnx.context import Context, Ref
from netproof.model.onnx.file import FLOATS
from netproof.model.onnx.operators.arithmetic import scale
from netproof.model.ops import Affine
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


def fused_product(c: Context, left: Ref, right: Ref) -> Ref | None:
    """Return left·right as one function of one variable, or None where it is not known to be one."""
    if left.index == right.index:
        return c.emit(Square(), left)
    if left.shape != right.shape:
        return None
    for x, gate in ((left, right), (right, left)):
        for pattern in (_cube, _silu, _mish, _erf_gate, _tanh_gate):
            found = pattern(c, x, gate)
            if found is not None:
                c.fused = True
                return found
    return None


def fused_quotient(c: Context, dividend: Ref, divisor: Ref) -> Ref | None:
    """Return x / (1 + |x|) as one function, where the node divides that; else None."""
    adds = c.maker(c.proto.input[1])
    if adds is None or adds.op_type != "Add" or _less_one(c, divisor) is None or dividend.shape != divisor.shape:
        return None
    absolute = (c.maker(name) for name in adds.input)
    found = any(node is not None and node.op_type == "Abs" and node.input[0] == c.proto.input[0] for node in absolute)
    c.fused = found
    return c.emit(Softsign(), dividend) if found else None


def _cube(c: Context, x: Ref, square: Ref) -> Ref | None:
    return c.emit(Power(3), x) if _reads(c, square, Square, x) else None


def _silu(c: Context, x: Ref, gate: Ref) -> Ref | None:
    """Match x·sigmoid(βx): it is silu(βx) / β."""
    node = c.made(gate.index)
    if not isinstance(node.op, Sigmoid):
        return None
    return _of_multiple(c, x, node.inputs[0], lambda y: c.emit(Silu(), y))


def _mish(c: Context, x: Ref, gate: Ref) -> Ref | None:
    node = c.made(gate.index)
    if not isinstance(node.op, Tanh):
        return None
    inner = c.ref(node.inputs[0])
    return c.emit(Mish(), x) if _reads(c, inner, Softplus, x) else None


def _erf_gate(c: Context, x: Ref, gate: Ref) -> Ref | None:
    """Match x·(1 + erf(βx)), or a multiple of x: it is that of βx, over β."""
    inner = _less_one(c, gate)
    if inner is None or not isinstance(inner.op, Erf):
        return None
    return _scaled(c, x, lambda y: _of_multiple(c, y, inner.inputs[0], lambda z: c.emit(ErfGate(), z)))


def _tanh_gate(c: Context, x: Ref, gate: Ref) -> Ref | None:
    """Match x·(1 + tanh(k·(x + a·x³))), or a multiple of x."""
    inner = _less_one(c, gate)
    if inner is None or not isinstance(inner.op, Tanh):
        return None
    return _scaled(c, x, lambda y: _approximate(c, y, c.made(inner.inputs[0])))


def _approximate(c: Context, x: Ref, argument: Node) -> Ref | None:
    k = _factor(argument)
    added = None if k is None else c.made(argument.inputs[0])
    if added is None or k is None or not isinstance(added.op, Sum) or added.op.signs != (1, 1):
        return None
    if x.index not in added.inputs or len(set(added.inputs)) != 2:
        return None
    (other,) = (i for i in added.inputs if i != x.index)
    scaled = c.made(other)
    a = _factor(scaled)
    if a is None or not _reads(c, c.ref(scaled.inputs[0]), Power, x) or c.made(scaled.inputs[0]).op != Power(3):
        return None
    usual = abs(k - 0.79788456) < 1e-3 and abs(a - 0.044715) < 1e-4  # the shape is known near these
    return c.emit(TanhGate(k, a), x) if usual else None


# --- parts of patterns ---------------------------------------------------------------------------------------


def _reads(c: Context, value: Ref, kind: type[Smooth], x: Ref) -> bool:
    """Say whether a value is that function of x."""
    node = c.made(value.index)
    return isinstance(node.op, kind) and node.inputs == (x.index,)


def _factor(node: Node) -> float | None:
    """Return the number that a node multiplies its input with, exactly; None where it does anything else."""
    op = node.op
    if not isinstance(op, Scale) or op.mult is None or op.add is not None or op.radius is not None:
        return None
    return float(op.mult.flatten()[0]) if bool((op.mult == op.mult.flatten()[0]).all()) else None


def _less_one(c: Context, value: Ref) -> Node | None:
    """Return the node that 1 was added to; None where nothing was, or anything else."""
    node = c.made(value.index)
    op = node.op
    if not isinstance(op, Scale) or op.add is None or op.mult is not None or op.radius is not None:
        return None
    return c.made(node.inputs[0]) if bool((op.add == 1.0).all()) else None


def _scaled(c: Context, x: Ref, pattern: Callable[[Ref], Ref | None]) -> Ref | None:
    """Match a pattern of x, or else of what x is a multiple of, times the factor."""
    found = pattern(x)
    factor = _factor(c.made(x.index))
    if found is not None or factor is None:
        return found
    found = pattern(c.ref(c.made(x.index).inputs[0]))
    return None if found is None else scale(c, found, constant.constant(factor))


def _of_multiple(c: Context, x: Ref, index: int, make: Callable[[Ref], Ref]) -> Ref | None:
    """Return g(y)/β where node `index` is y = β·x, for β·x·gate(y) = g(y); None where it is not, or β may be 0."""
    if index == x.index:
        return make(x)
    op = c.made(index).op
    if not isinstance(op, Scale) or c.made(index).inputs != (x.index,) or op.add is not None or op.mult is None:
        return None
    multiple = Constant(
        op.mult.numpy(), _factors(op.radius), _factors(c.slack_of(index)), getattr(torch, FLOATS[x.element])
    )
    inverse = constant.divide(constant.constant(1.0), multiple)
    if not all(np.isfinite(part).all() for part in (inverse.value, inverse.radius, inverse.slack) if part is not None):
        return None
    return scale(c, make(c.ref(index)), inverse)


def _factors(op: Affine | None) -> np.ndarray | None:
    """Return the factors of a bound on those of another op; None where there is no bound."""
    assert op is None or isinstance(op, Scale)
    return None if op is None or op.mult is None else op.mult.numpy()


def inverse(c: Context, position: int) -> Ref:
    """Return 1 / x of the input at a position, of a square root as one function."""
    x = c.node(position)
    root = c.before(c.proto.input[position], "Sqrt") if isinstance(c.made(x.index).op, Sqrt) else None
    return c.emit(Reciprocal(), x) if root is None else c.emit(InverseRoot(), root)
