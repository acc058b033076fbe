"""How a nonlinearity is enclosed by lines: one file per nonlinearity, one `register` for each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netproof.errors import ModelError
from netproof.model.graph import Graph
from netproof.model.nonlinear import LeakyRelu, Product, Relu, SoftmaxEntry
from netproof.model.nonlinear.smooth import Sin, Smooth
from netproof.model.nonlinear.steps import Floor, Round, Step, Within
from netproof.model.ops import Nonlinear, Op
from netproof.relax.hinge import HingeRelaxation
from netproof.relax.lines import Corners, Family, Fan, Line, Lines, Mix
from netproof.relax.product import ProductRelaxation
from netproof.relax.relaxation import Relaxation
from netproof.relax.slots import Slots
from netproof.relax.smooth import SmoothRelaxation, WaveRelaxation, shape_of
from netproof.relax.smooth.shapes import smooth_types
from netproof.relax.softmax import SoftmaxRelaxation
from netproof.relax.steps import FloorRelaxation, RoundRelaxation, StepRelaxation, WithinRelaxation

__all__ = [
    "Corners",
    "Family",
    "Fan",
    "Line",
    "Lines",
    "Mix",
    "Relaxation",
    "register",
    "relaxation_of",
    "without_lp_form",
]

_MAKERS: dict[type[Op], Callable[[Any], Relaxation]] = {}


def register(op: type[Op], make: Callable[[Any], Relaxation]) -> None:
    """Say what makes the relaxation of an op of this type."""
    _MAKERS[op] = make


def relaxation_of(op: Op) -> Relaxation:
    """Return the relaxation of a nonlinear op; one of several operands by slots."""
    make = _MAKERS.get(type(op))
    if make is None:
        raise ModelError(
            f"no relaxation is registered for {type(op).__name__}", remedy="register one with netproof.relax.register"
        )
    made = make(op)
    assert isinstance(op, Nonlinear)
    if made.arity != op.arity:
        raise ModelError(
            f"{type(op).__name__} has {op.arity} operands and its relaxation {made.arity}",
            remedy="give both the same arity",
        )
    return made if made.arity == 1 else Slots(made)


def without_lp_form(graph: Graph) -> str | None:
    """Return the name of an op of the graph that the LPs here cannot express, None where there is none.

    They, the MIP and the decomposition are written for max(h, a·h).
    """
    ops = (graph.nodes[i].op for i in graph.nonlinear)
    return next((type(op).__name__ for op in ops if not isinstance(relaxation_of(op), HingeRelaxation)), None)


register(Relu, lambda op: HingeRelaxation(0.0))
register(LeakyRelu, lambda op: HingeRelaxation(op.alpha))
register(Product, lambda op: ProductRelaxation())
register(Step, lambda op: StepRelaxation())
register(Floor, lambda op: FloorRelaxation())
register(Round, lambda op: RoundRelaxation())
register(Within, lambda op: WithinRelaxation(op.least, op.most))
register(SoftmaxEntry, lambda op: SoftmaxRelaxation(op.arity))


def _smooth(op: Smooth) -> SmoothRelaxation:
    kind = WaveRelaxation if isinstance(op, Sin) else SmoothRelaxation
    return kind(op, shape_of(op))


for _type in smooth_types():
    register(_type, _smooth)
