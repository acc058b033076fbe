"""The methods of netproof itself, each declared once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from netproof.core.extras import CANDIDATES
from netproof.methods.options import Field
from netproof.methods.registry import MethodInfo

MAX_STEPS = 10_000
MAX_RATE = 1e6


def batch(default: int | None = None) -> Field:
    """Declare n, which fits the device unless it is given."""
    fits = " (none: by device)" if default is None else ""
    return Field("batch", int, default, f"n: sub-domains picked per round{fits}", 1, 1 << 20)


def steps(root: int, neuron: int, below: int) -> tuple[Field, ...]:
    """Declare how many steps of optimisation each kind of bound takes."""
    return (
        Field("root_steps", int, root, "optimisation steps of the bound at the root", 0, MAX_STEPS),
        Field("neuron_steps", int, neuron, "optimisation steps of the neurons' bounds at the root", 0, MAX_STEPS),
        Field("steps", int, below, "optimisation steps per sub-domain", 0, MAX_STEPS),
    )


def rates(root: float = 0.25, below: float = 0.1, of: str = "") -> tuple[Field, ...]:
    """Declare the sizes of these steps."""
    return (
        Field("rate", float, root, f"step size at the root{of}", 0.0, MAX_RATE),
        Field("child_rate", float, below, "step size below the root", 0.0, MAX_RATE),
    )


def rebound(default: int, after: str = "a split") -> Field:
    """Declare how many neurons per layer are bounded again."""
    return Field("rebound", int, default, f"neurons per layer bounded again after {after}, 0: none", 0)


LEAF_LP = Field("leaf_lp", bool, True, "decide by LP what cannot be split; without it the search is incomplete")

# What a method may do beside plain rounds, each with its one default. A method that does not declare it leaves it out.
REBOUNDING = (
    Field("rebound_after", int, 6, "splits before a sub-domain's neurons are bounded again, at least", 1, 64),
    Field("rebound_gain", float, 0.2, "share of the way to proof that rebounding must gain in a trial", 0.0, 1.0),
)
TIGHTER_ROOTS = Field("tighter_roots", int, None, "times that the root is tightened, 0: never (none: while it pays)", 0)
PLANES = Field("planes", int, 20, "steps of planes above the first layer, at tighter roots, 0: none", 0, MAX_STEPS)
PROBES = Field("probes", int, 6, "neurons tried per sub-domain before it is split, 0: none", 0, CANDIDATES)
LP_TURNS = Field("lp_turns", bool, True, "turns of the LP where bounds are stuck (without η: on small networks only)")
ENVELOPE = Field("envelope", bool, True, "search ReLUs alone first, where most is lost there and the rest costs much")
ATTACK_AFTER = Field(
    "attack_after", int, None, "sub-domains before a second, longer attack, 0: none (none: by device)", 0
)
BOX_BATCHES = Field(
    "box_batches", int, 64, "batches of boxes tried first, on one layer, more than 10 and up to 100 inputs, 0: none", 0
)

# What proves; a second attack is no part of it, and there is none on boxes or beside a MIP solver.
PROOF = (
    batch(),
    *steps(20, 20, 5),
    rebound(32, "many splits"),
    *REBOUNDING,
    TIGHTER_ROOTS,
    PLANES,
    PROBES,
    *rates(),
    LEAF_LP,
    LP_TURNS,
)
BETA = (*PROOF, ENVELOPE, ATTACK_AFTER)
AUTO = (*BETA, BOX_BATCHES)


# Algorithm 1 as it is printed; after its own fields where the authors' released code differs, and what netproof found
# better, each off.
_ALGORITHM_1 = (
    batch(),
    Field("lp_threshold", int, 12_000, "η: open sub-domains above which the LP takes over", 1),
    Field("root_steps", int, 100, "optimisation steps of the bound at the root", 0, MAX_STEPS),
    Field("steps", int, 10, "optimisation steps per sub-domain", 0, MAX_STEPS),
    *rates(0.1),
    Field("grow", bool, False, "while few are open, grow them by several levels per round instead of one"),
    Field("parallel", bool, True, "slopes start parallel to the upper lines, else as CROWN has them"),
    LEAF_LP,
    Field("free_splits", bool, False, "neurons that a split holds on one side keep a free lower slope"),
    Field("layer_slopes", bool, False, "slopes of their own for the bounds of each layer, which its neurons share"),
    Field("fresh", bool, False, "bounds of neurons rest on those of the same pass, not on the best that is known"),
    Field("joint", bool, True, "optimise slopes below the root through the neurons' bounds, not after them"),
    Field("strict", bool, False, "always take the least bounds; else the deepest of those within 0.01 of each other"),
    Field("lp_restart", bool, False, "past η start again, one at a time, with LPs where children gain below 20 %"),
    Field("own_slopes", bool, False, "slopes of their own for every neuron's bounds, not one for all bounds"),
    Field("neuron_steps", int, 20, "with own_slopes, steps of the neurons' bounds at the root", 0, MAX_STEPS),
    Field("rebound", int, None, "neurons per layer bounded again after a split, 0: none (none: all it moves)", 0),
    Field("ranked", bool, False, "bound again only neurons that branching ranked highest"),
    Field("root_gain", float, None, "share of its bound to gain in four steps at the root (none: any)", 0.0, 1.0),
    Field("gain", float, 0.0, "share of its bound to gain in four steps below it (none: any)", 0.0, 1.0, True),
    Field("gains_only", bool, False, "branch by BaBSR's gains alone, not by its rule as published"),
    Field("lp_batch", int, None, "sub-domains per turn of the LP past η, 0: few, with pauses (none: η of them)", 0),
    Field("lp_turns", bool, False, LP_TURNS.help),
    Field("patience", int, 0, "with lp_turns, rounds without a better bound before one, 0: by size", 0),
    Field("attack_after", int, 0, "where there is an attack, sub-domains before a second, 0: none", 0),
)
RELEASED: dict[str, Any] = {
    "free_splits": True,
    "layer_slopes": True,
    "fresh": True,
    "joint": False,
    "strict": True,
    "lp_restart": True,
    "rate": 0.5,
    "steps": 20,
    "gain": None,
}
BETTER: dict[str, Any] = {
    "grow": True,
    "parallel": False,
    "own_slopes": True,
    "rebound": 16,
    "ranked": True,
    "gains_only": True,
    "rate": 0.25,
    "root_gain": 1e-3,
    "gain": 1e-3,
    "lp_batch": 0,
    "lp_turns": True,
}


def lirpa(**defaults: Any) -> tuple[Field, ...]:
    """Declare the fields of Algorithm 1, some with other defaults; what may be none in one may be none in all."""
    found = []
    for field in _ALGORITHM_1:
        optional = field.optional or field.default is None
        found.append(replace(field, default=defaults.get(field.name, field.default), optional=optional))
    return tuple(found)


def _lirpa(name: str, summary: str, **defaults: Any) -> MethodInfo:
    return MethodInfo(name, summary, lirpa(**defaults), "netproof.methods.build:lirpa", attacks=False)


_BETA = "netproof.methods.build:beta"

METHODS = (
    MethodInfo("auto", "the strongest method for the problem", AUTO, _BETA, "few"),
    MethodInfo("beta", "slopes and a multiplier per split, filtered branching", BETA, _BETA),
    MethodInfo("input-split", "boxes of the input, in batches; then beta on what is left", PROOF, _BETA, "always"),
    _lirpa("lirpa", "Algorithm 1 as its authors' released code runs it", **RELEASED),
    _lirpa("lirpa-printed", "Algorithm 1 as the paper prints it"),
    _lirpa("lirpa-printed-single", "as lirpa-printed, one sub-domain at a time", batch=1),
    _lirpa("lirpa-printed-fixed", "as lirpa-printed, slopes not optimised", root_steps=0, steps=0),
    _lirpa("lirpa-forced", "as lirpa, without free slopes of split neurons", **RELEASED | {"free_splits": False}),
    _lirpa("lirpa-grown", "as lirpa, few leaves grown by several levels", **RELEASED | {"grow": True}),
    _lirpa("lirpa-single", "as lirpa, one sub-domain at a time", **RELEASED | {"batch": 1}),
    _lirpa("lirpa-fixed", "as lirpa, slopes not optimised", **RELEASED | {"root_steps": 0, "steps": 0}),
    _lirpa("lirpa-tight", "as lirpa-printed, with what netproof found better, short of multipliers", **BETTER),
)
