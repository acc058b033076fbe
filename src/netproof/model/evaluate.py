"""Values of a graph, or of a part of it, with a rigorous bound on their error.

Running error analysis: every node carries its value and a bound e on the distance from the exact one. An
affine node computed in floats satisfies

    e_out <= |W| e + R(|x| + e) + γ_fan (|W| (|x| + e) + |b|) + underflow
           = |W| (e + γ_fan (|x| + e)) + γ_fan |b| + R(|x| + e) + underflow

where R is how far its constants may be off. A nonlinear op says itself what becomes of e.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Nonlinear
from netproof.numerics import coarseness, compounded, enlarged, with_vanishing


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of the values whose error is bounded, which may differ from the arithmetic here.

    `spread(node)` is an op with non-negative weights, as `Affine.radius`: how far the node's constants may lie from the
    true ones; it is charged `wider` times. Each term of a sum is charged one rounding per term, and `extra` more.
    """

    dtype: torch.dtype
    spread: Callable[[Node], Affine | None]
    extra: int = 0
    wider: float = 1.0


def _radius(node: Node) -> Affine | None:
    return node.op.radius if isinstance(node.op, Affine) else None


FOLDED = 4  # roundings of a term beyond those of its sum: a folded weight, batch normalisation step by step
EXACTLY = Arithmetic(torch.float64, _radius)  # float64, against the exact constants of the file
AS_STORED = Arithmetic(torch.float64, lambda node: None)  # float64, against the constants as the graph has them


def evaluate(graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate the real network at the exact points x: (batch, *input), float64.

    Returns the value (batch, *output) and an elementwise bound on its distance from the exact one.
    """
    return evaluate_part(graph.nodes, {0: x.to(torch.float64)}, graph.output.index, EXACTLY)


def float_error(graph: Graph, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Bound how far an evaluation in `dtype` may be from the exact value at x: (batch, *input) -> (batch, *output).

    It holds for any order of summation in direct sums, and x must be representable in `dtype`. The radius of constants
    that were folded here in float64 is widened, because a coarser arithmetic folds them less exactly.
    """
    arithmetic = Arithmetic(dtype, _radius, FOLDED, coarseness(dtype))
    return evaluate_part(graph.nodes, {0: x.to(torch.float64)}, graph.output.index, arithmetic)[1]


def evaluate_part(
    nodes: Sequence[Node], given: Mapping[int, Tensor], output: int, arithmetic: Arithmetic
) -> tuple[Tensor, Tensor]:
    """Compute node `output` in float64 from the exact values (batch, *shape) of the nodes `given`.

    Returns the value (batch, *shape) and the `error_of_part`. A KeyError names an input that is not given.
    """
    values = values_of_part(nodes, given, output)
    return values[output], error_of_part(nodes, given, values, output, arithmetic)


def values_of_part(nodes: Sequence[Node], given: Mapping[int, Tensor], output: int) -> dict[int, Tensor]:
    """Compute node `output`, and all that it needs, in float64: values (batch, *shape) by node, those given too."""
    values = dict(given)
    for node in between(nodes, given, output):
        values[node.index] = node.op.forward(*(values[i] for i in node.inputs))
    return values


def error_of_part(
    nodes: Sequence[Node],
    given: Mapping[int, Tensor],
    values: Mapping[int, Tensor],
    output: int,
    arithmetic: Arithmetic,
    off: Mapping[int, Tensor] | None = None,
) -> Tensor:
    """Bound, entry by entry, how far node `output` computed in `arithmetic` may be from the exact one.

    From the exact `given` and the `values_of_part`, for any order of summation in direct sums. off: by given node, how
    far from these it may be what `arithmetic` computes with.
    """
    errors = {index: torch.zeros_like(value) for index, value in given.items()} | dict(off or {})
    for node in between(nodes, given, output):
        xs, es = [values[i] for i in node.inputs], [errors[i] for i in node.inputs]
        errors[node.index] = _error(node, xs, es, arithmetic)
    return errors[output]


def between(nodes: Sequence[Node], given: Mapping[int, Tensor], output: int) -> list[Node]:
    """Return the nodes to compute to reach `output` from what is given, in order; KeyError if an input is missing."""
    found: set[int] = set()
    stack = [output]
    while stack:
        index = stack.pop()
        if index in given or index in found:
            continue
        if not nodes[index].inputs:
            raise KeyError(index)
        found.add(index)
        stack.extend(nodes[index].inputs)
    return [nodes[index] for index in sorted(found)]


def _error(node: Node, xs: list[Tensor], es: list[Tensor], arithmetic: Arithmetic) -> Tensor:
    op = node.op
    if isinstance(op, Nonlinear):
        return op.error(xs[0], es[0], arithmetic.dtype)
    assert isinstance(op, Affine)
    return _affine_error(op, arithmetic.spread(node), xs, es, arithmetic)


def _affine_error(op: Affine, spread: Affine | None, xs: list[Tensor], es: list[Tensor], how: Arithmetic) -> Tensor:
    absolute = op.absolute()
    if not op.fan:  # a data movement rounds nothing; the constants that it places may be off
        error = absolute.linear().forward(*es)
        placed = None if spread is None else spread.offset()
        return error if placed is None else enlarged(error + how.wider * placed)
    share = compounded(op.fan + how.extra, how.dtype)
    magnitudes = [x.abs() + e for x, e in zip(xs, es, strict=True)]
    error = absolute.linear().forward(*(e + share * m for e, m in zip(es, magnitudes, strict=True)))
    bias = absolute.offset()
    if bias is not None:
        error = error + share * bias
    if spread is not None:
        error = error + (1.0 + share) * how.wider * spread.forward(*magnitudes)
    error = with_vanishing(error, op.fan, how.dtype)
    return enlarged(error).nan_to_num(nan=torch.inf, posinf=torch.inf)
