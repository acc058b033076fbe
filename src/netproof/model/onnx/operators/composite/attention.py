"""The converter of Attention: products of queries and keys, a softmax of each row, products with values."""

from __future__ import annotations

import numpy as np

from netproof.model.moves import Transpose
from netproof.model.onnx.context import Context, Ref, Value, converts
from netproof.model.onnx.operators.arithmetic import added, scale, swap_last
from netproof.model.onnx.operators.composite.masked import shown
from netproof.model.onnx.operators.composite.softmax import masked_softmax, softmax
from netproof.model.onnx.operators.moves import reshape, select
from netproof.model.onnx.operators.products import matrix_product
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant


@converts("Attention")
def _attention(c: Context) -> Value:
    """Sum relaxed products of queries and keys, relax a softmax of each row, sum relaxed products with values."""
    _refuse_what_is_missing(c)
    flat = len(c.node(0).shape) == 3
    queries = _by_head(c, c.node(0), int(c.attr("q_num_heads", 0)))
    keys, values = (_by_head(c, c.node(i), int(c.attr("kv_num_heads", 0))) for i in (1, 2))
    heads, size = queries.shape[1], queries.shape[3]
    keys, values = (_repeated(c, x, heads) for x in (keys, values))
    scores = scale(c, matrix_product(c, queries, swap_last(c, keys)), _factor(c, size))
    y = matrix_product(c, _weights(c, scores), values)
    if not flat:
        return y
    turned = c.emit(Transpose((0, 2, 1, 3)), y)
    return reshape(c, turned, (turned.shape[0], turned.shape[1], heads * y.shape[3]))


def _weights(c: Context, scores: Ref) -> Ref:
    """Return the softmax of scores that are shown: not where a mask is false or -inf, nor of later tokens if causal."""
    mask, hidden = c.input(3), np.zeros(scores.shape, dtype=bool)
    if isinstance(mask, Constant):
        hidden |= np.isneginf(mask.value) if mask.is_float else ~mask.value
        mask = shown(mask) if mask.is_float else None
    if c.attr("is_causal", 0):
        hidden |= np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)
    scores = scores if mask is None else added(c, scores, mask)
    return masked_softmax(c, scores, hidden) if hidden.any() else softmax(c, scores)


def _refuse_what_is_missing(c: Context) -> None:
    if c.attr("softcap", 0.0):
        c.refuse("it caps its scores", "export attention as MatMul, Softmax and MatMul")
    if any(c.input(i) is not None for i in range(4, len(c.inputs))) or any(c.proto.output[1:]):
        c.refuse("it has a cache, lengths or more outputs than one", "export attention as MatMul, Softmax and MatMul")
    mask = c.input(3)
    if isinstance(mask, Constant) and not mask.is_float and mask.value.dtype != bool:
        c.refuse("its mask is made of integers", "export attention as MatMul, Softmax and MatMul")


def _by_head(c: Context, x: Ref, heads: int) -> Ref:
    """Return (batch, head, token, size) of that, or of (batch, token, head·size)."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) != 3 or heads < 1 or x.shape[2] % heads:
        c.refuse(f"an input of shape {x.shape} does not have {heads} heads", "check it with onnx.checker")
    apart = reshape(c, x, (*x.shape[:2], heads, x.shape[2] // heads))
    return c.emit(Transpose((0, 2, 1, 3)), apart)


def _repeated(c: Context, x: Ref, heads: int) -> Ref:
    """Return keys or values for as many heads as queries have, each for several where they are fewer."""
    if heads % x.shape[1]:
        c.refuse(f"{heads} heads of queries do not share {x.shape[1]} of keys", "check it with onnx.checker")
    return select(c, x, 1, np.arange(x.shape[1]).repeat(heads // x.shape[1]))


def _factor(c: Context, size: int) -> Constant:
    """Return what scores are multiplied by: 1 / √size unless the node says."""
    given = c.attr("scale")
    if given is not None:
        return constant.constant(float(given))
    return constant.divide(constant.constant(1.0), constant.square_root(constant.constant(float(size))))
