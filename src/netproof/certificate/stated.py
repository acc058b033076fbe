"""Bounds that a certificate cannot state: a search does without them where one is asked for."""

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
    """Name the options that a search of the problem might have used, and does without for a certificate."""
    graph, named = problem.graph, []
    if options.get("planes") and options.get("tighter_roots") != 0 and graph.nonlinear:
        first = relaxation_of(graph.nodes[graph.nonlinear[0]].op)
        if isinstance(first, HingeRelaxation) and first.leak >= 0 and problem.input_set.p is None:
            named.append("planes")
    if options.get("envelope") and can_be_enveloped(graph):
        named.append("envelope")
    return named
