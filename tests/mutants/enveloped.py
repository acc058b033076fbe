"""Proofs on the enveloped network: planes about every nonlinearity that is no hinge, and what is made of them."""

from __future__ import annotations

from mutants.mutant import Mutant

CONFORM = ("relax/test_conformance.py",)
ENVELOPE = ("search/test_envelope.py",)

MUTANTS = (
    Mutant(
        "parallel-rounding",
        "relax/parallel.py",
        "return intercept + furthest + outward * slack",
        "return intercept + furthest",
        "an offset is a rounded sum of rounded products",
        CONFORM,
    ),
    Mutant(
        "parallel-tilt",
        "relax/parallel.py",
        "return intercept + furthest + outward * slack",
        "return intercept + outward * slack",
        "a plane that is tilted comes nearer to g at one end of the bounds",
        CONFORM,
    ),
    Mutant(
        "parallel-wrong-end",
        "relax/parallel.py",
        "(ends.amin(0) if outward < 0 else ends.amax(0))",
        "ends.amax(0)",
        "the lower plane lies below g at both ends",
        CONFORM,
    ),
    Mutant(
        "envelope-sum-rounding",
        "bounds/neurons/envelope.py",
        "return Interval(lower - slack, upper + slack)",
        "return Interval(lower, upper)",
        "the box of a sum of errors is a rounded sum",
        ENVELOPE,
    ),
    Mutant(
        "envelope-noise",
        "bounds/neurons/envelope.py",
        "        if node.index in noise.at:\n",
        "        if node.index in noise.at and node.index in planes:\n",
        "every plane is off by what its neuron's e says, be it added up or not",
        ENVELOPE,
    ),
    Mutant(
        "envelope-targets",
        "search/envelope/first.py",
        "proved[place] = max(",
        "proved[0] = max(",
        "what is proved of a target is that target's",
        ENVELOPE,
    ),
    Mutant(
        "envelope-half-covered",
        "search/envelope/first.py",
        "outcome.bounds[0] if outcome.proved[0] == 1 else -math.inf",
        "outcome.bounds[0]",
        "the least bound of what a search has is one of the set only where it has all of it",
        ENVELOPE,
    ),
)
