"""Conditions as VNN-LIB: the text of their violation on a region."""

from __future__ import annotations

from typing import Any

from netproof.errors import UsageError
from netproof.problem.ask.compile import regions_of, violations, whole_box
from netproof.problem.ask.conditions import Condition
from netproof.problem.formulas.build import MANY
from netproof.problem.vnnlib.writer import version_1, version_2


def vnnlib_of(condition: Condition, region: Any) -> str:
    """Write the violation of a condition on a region: as VNN-LIB 1.0, or as 2.0 where that is needed."""
    space = condition.space
    regions = regions_of(space, region)
    if any(one.map is not None for one in regions):
        raise UsageError("VNN-LIB cannot say a linear image of a box", remedy="use a box, linf_ball or l2_ball")
    found = violations(condition, region, cases=MANY)
    plain = found.interface is None
    place = tuple(range(found.inputs)) if found.interface is None else found.interface.place
    box = whole_box(regions, place)
    if plain and not found.derived and regions[0].ball is None:
        return version_1(found, box)
    return version_2(found, box, space.interface(place))
