"""Rows on outputs of several networks that are equal whatever the input is: what such a row says is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from netproof.core.reasons import EQUAL
from netproof.model.combined import AnyNetwork, Merged
from netproof.problem.property import Disjunct, Property, Row


def without_ties(network: AnyNetwork, property: Property) -> Property:
    """Return the property without disjuncts that ask equal outputs to differ: bounds never exclude a tie of theirs."""
    same = network.same_outputs if isinstance(network, Merged) else ()
    if property.outputs != len(same) or list(same) == list(range(len(same))):
        return property
    left = tuple(disjunct for disjunct in property.disjuncts if not _never(disjunct, same))
    if len(left) == len(property.disjuncts):
        return property
    return replace(property, disjuncts=left, vacuous=property.vacuous or ("" if left else EQUAL))


def _never(disjunct: Disjunct, same: Sequence[int]) -> bool:
    """Say whether a row is a number that does not satisfy it, once equal outputs are one."""
    constant = (Row({}, row.rhs, row.strict) for row in disjunct.rows if not row.inputs and _is_constant(row, same))
    return any(not row.holds((), ()) for row in constant)


def _is_constant(row: Row, same: Sequence[int]) -> bool:
    total: dict[int, Fraction] = defaultdict(Fraction)
    for i, c in row.coefs.items():
        total[same[i] if i < len(same) else i] += c  # what lies beyond is derived from outputs
    return not any(total.values())
