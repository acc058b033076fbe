"""Bounds that a certificate cannot state: where one is asked for, a search does without them as long as it can."""

from __future__ import annotations

from netproof.bounds.neurons.envelope import can_be_enveloped
from netproof.methods.options import Value
from netproof.methods.registry import Options
from netproof.problem.problem import Problem
from netproof.relax import relaxation_of
from netproof.relax.hinge import HingeRelaxation

OFF: dict[str, Value] = {"planes": 0, "envelope": False}


def stated(options: Options) -> Options:
    """Return a method's options without bounds that no certificate can state."""
    return {name: OFF.get(name, value) for name, value in options.items()}


def left_out(options: Options, problem: Problem) -> list[str]:
    """Name what a search of the problem with these options might use that no certificate can state."""
    graph, named = problem.graph, []
    if options.get("planes") and options.get("tighter_roots") != 0 and graph.nonlinear:
        first = relaxation_of(graph.nodes[graph.nonlinear[0]].op)
        if isinstance(first, HingeRelaxation) and first.leak >= 0 and problem.input_set.p is None:
            named.append("planes above the first layer")
    if options.get("envelope") and can_be_enveloped(graph):
        named.append("enveloped networks")
    return named
