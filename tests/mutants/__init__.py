"""Every term that a proof rests on, taken away one at a time: `make mutants` shows the test that notices."""

from __future__ import annotations

from mutants import (
    asked,
    balls,
    boxes,
    conclude,
    condensed,
    dataset,
    enveloped,
    evidence,
    graph,
    hinges,
    input_rows,
    lp,
    modules,
    planes,
    problem,
    queries,
    reading,
    rebounded,
    rivals,
    rounding,
    search,
    single,
    verdict,
    windows,
)
from mutants.mutant import PACKAGE, TESTS, Mutant

MUTANTS: tuple[Mutant, ...] = (
    *rounding.MUTANTS,
    *graph.MUTANTS,
    *hinges.MUTANTS,
    *condensed.MUTANTS,
    *single.MUTANTS,
    *planes.MUTANTS,
    *enveloped.MUTANTS,
    *rebounded.MUTANTS,
    *rivals.MUTANTS,
    *balls.MUTANTS,
    *boxes.MUTANTS,
    *lp.MUTANTS,
    *problem.MUTANTS,
    *input_rows.MUTANTS,
    *queries.MUTANTS,
    *asked.MUTANTS,
    *reading.MUTANTS,
    *modules.MUTANTS,
    *search.MUTANTS,
    *verdict.MUTANTS,
    *evidence.MUTANTS,
    *conclude.MUTANTS,
    *windows.MUTANTS,
    *dataset.MUTANTS,
)

__all__ = ["MUTANTS", "PACKAGE", "TESTS", "Mutant"]
