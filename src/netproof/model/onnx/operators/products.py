"""Converters of products: by a constant they are affine; of two values that vary, one nonlinear op for each product."""

from __future__ import annotations

from netproof.model.nonlinear import Product
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import (
    gemm_by_constant,
    matmul_by_constant,
    reciprocal,
    reduce_axes,
    scale,
    swap_last,
    with_addend,
)
from netproof.model.onnx.operators.fusing import fused_product, fused_quotient, inverse
from netproof.model.onnx.operators.moves import reshape, stacked
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


def product(c: Context, left: Value, right: Value) -> Ref:
    """Add left · right with broadcasting: exactly by a constant, between planes where both depend on the input."""
    if isinstance(left, Constant):
        left, right = right, left
    assert isinstance(left, Ref)
    if isinstance(right, Constant):
        return scale(c, left, right)
    return fused_product(c, left, right) or c.emit(Product(), stacked(c, left, right))


def matrix_product(c: Context, left: Ref, right: Ref) -> Ref:
    """Add left @ right, (…, m, k) and (…, k, n): all m·n·k products of broadcast operands, then a sum over k.

    Operands are moved, never multiplied by selection matrices; all that this makes counts as the network's size.
    """
    inner = left.shape[-1]
    if right.shape[-2] != inner:
        c.refuse(f"shapes {left.shape} and {right.shape} do not fit")
    rows = reshape(c, left, (*left.shape[:-1], 1, inner))
    turned = swap_last(c, right)
    columns = reshape(c, turned, (*turned.shape[:-2], 1, *turned.shape[-2:]))
    terms = product(c, rows, columns)  # (…, m, n, k)
    return reduce_axes(c, terms, (len(terms.shape) - 1,), mean=False, keep=False)


@converts("Mul")
def _mul(c: Context) -> Value:
    """Scale by a constant; relax x·y between McCormick's planes."""
    return product(c, c.value(0), c.value(1))


@converts("Div")
def _div(c: Context) -> Value:
    """Scale by the reciprocal of a constant; else multiply by a relaxed reciprocal of a divisor of known sign."""
    left, divisor = c.value(0), c.value(1)
    if isinstance(divisor, Constant):
        return scale(c, c.node(0), reciprocal(c, divisor))
    if isinstance(left, Ref) and (fused := fused_quotient(c, left, divisor)):
        return fused
    return product(c, left, inverse(c, 1))


@converts("MatMul")
def _matmul(c: Context) -> Value:
    """Multiply by a constant matrix; of two variables, sum relaxed products x·y."""
    left, right = c.value(0), c.value(1)
    if isinstance(left, Constant) or isinstance(right, Constant):
        return matmul_by_constant(c, left, right)
    one, other = len(left.shape) == 1, len(right.shape) == 1
    left = reshape(c, left, (1, *left.shape)) if one else left
    right = reshape(c, right, (*right.shape, 1)) if other else right
    y = matrix_product(c, left, right)
    shape = list(y.shape)
    if other:
        del shape[-1]
    if one:
        del shape[-1 if other else -2]
    return reshape(c, y, shape)


@converts("Gemm")
def _gemm(c: Context) -> Value:
    """Multiply by a constant matrix and add; of two variables, sum relaxed products x·y."""
    left, right = c.value(0), c.value(1)
    if isinstance(left, Constant) or isinstance(right, Constant):
        return gemm_by_constant(c)
    if len(left.shape) != 2 or len(right.shape) != 2:
        c.refuse(f"its factors {left.shape} and {right.shape} are not matrices")
    left = swap_last(c, left) if c.attr("transA", 0) else left
    right = swap_last(c, right) if c.attr("transB", 0) else right
    y = matrix_product(c, left, right)
    alpha, beta = constant.constant(c.attr("alpha", 1.0)), constant.constant(c.attr("beta", 1.0))
    y = y if alpha.value == 1.0 else scale(c, y, alpha)
    addend = c.input(2)
    if addend is None:
        return y
    return with_addend(c, y, constant.multiply(addend, beta) if isinstance(addend, Constant) else addend, beta)
