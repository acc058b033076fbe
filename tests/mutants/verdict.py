"""How a verdict is made of evidence: goals, ledgers, the loop, input splits, the hand-over, LP turns, the MIP."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
