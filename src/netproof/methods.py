"""Method names and their fields: one declaration each of default, range and help. No heavy imports here."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netproof.arguments import fields, shown
from netproof.errors import UsageError


@dataclass(frozen=True)
class Field:
    """An option of a method: its default, range and help."""

    name: str
    type: type
    default: int | float | bool | None
    help: str
    low: float | None = None
    high: float | None = None

    def parse(self, given: Any) -> int | float | bool:
        """The value of a text, or of a value of this type."""
        try:
            value = _parse(self.type, given)
        except ValueError:
            kind = "an int" if self.type is int else f"a {self.type.__name__}"
            text = given if isinstance(given, str) else shown(given)
            raise UsageError(f"{self.name}={text}: not {kind}", remedy=f"{self.name}: {self.help}") from None
        inside = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        if not inside or not math.isfinite(value):
            raise UsageError(f"{self.name}={value}: outside {self.range}", remedy=f"{self.name}: {self.help}")
        return value

    @property
    def range(self) -> str:
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"[{low}, {high}]"


def _parse(kind: type, given: Any) -> int | float | bool:
    if isinstance(given, str):
        return _WORDS[given.lower()] if kind is bool and given.lower() in _WORDS else _number(kind, given)
    accepted = {bool: bool, int: numbers.Integral, float: numbers.Real}[kind]
    if not isinstance(given, accepted) or isinstance(given, bool) != (kind is bool):
        raise ValueError
    return kind(given)  # type: ignore[no-any-return]


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _number(kind: type, text: str) -> int | float:
    if kind is bool:
        raise ValueError
    return int(text) if kind is int else float(text)


@dataclass(frozen=True)
class MethodInfo:
    name: str
    summary: str
    fields: tuple[Field, ...]

    def options(self, given: Mapping[str, Any] | None = None) -> dict[str, int | float | bool | None]:
        """Every field's value: the default, or what was given, as text or as a value."""
        values = {f.name: f.default for f in self.fields}
        known = {f.name: f for f in self.fields}
        for name, value in fields(given, "options").items():
            if name not in known:
                raise UsageError(
                    f"{name}: method {self.name!r} has no such field", remedy=f"its fields: {', '.join(sorted(known))}"
                )
            values[name] = known[name].parse(value)
        return values


def _lirpa(batch: int | None, steps: int, root_steps: int, neuron_steps: int) -> tuple[Field, ...]:
    return (
        Field("batch", int, batch, "n: sub-domains picked a round (none: by device)", 1, 1 << 20),
        Field("lp_threshold", int, 12_000, "η: open sub-domains above which the LP takes over", 1),
        Field("root_steps", int, root_steps, "optimisation steps of the bound at the root", 0, 10_000),
        Field(
            "neuron_steps",
            int,
            neuron_steps,
            "optimisation steps of the neurons' bounds at the root",
            0,
            10_000,
        ),
        Field("steps", int, steps, "optimisation steps a sub-domain", 0, 10_000),
        Field("refresh", int, 16, "neurons a layer bounded again after a split, 0: none", 0),
        Field("rate", float, 0.25, "step size at the root", 0.0),
        Field("child_rate", float, 0.1, "step size below the root", 0.0),
        Field("patience", int, 0, "rounds without a better global bound before the LP has a turn, 0: by size", 0),
        Field("leaf_lp", bool, True, "decide by LP what cannot be split; without it the search is incomplete"),
    )


def _gnn() -> tuple[Field, ...]:
    weak = Field("weak", float, 0.2, "a choice of the network worth less is compared with BaBSR's, 0: none", 0.0, 1.0)
    return (*_lirpa(None, 10, 100, 20), weak)


def _beta() -> tuple[Field, ...]:
    return (
        Field("batch", int, None, "n: sub-domains picked a round (none: by device)", 1, 1 << 20),
        Field("root_steps", int, 20, "optimisation steps of the bound at the root", 0, 10_000),
        Field("neuron_steps", int, 20, "optimisation steps of the neurons' bounds at the root", 0, 10_000),
        Field("steps", int, 5, "optimisation steps a sub-domain", 0, 10_000),
        Field("renew", int, 32, "neurons a layer bounded again after many splits, 0: none", 0),
        Field("probes", int, 6, "neurons tried a sub-domain before it is split", 0, 12),
        Field("rate", float, 0.25, "step size at the root", 0.0),
        Field("child_rate", float, 0.1, "step size below the root", 0.0),
        Field("leaf_lp", bool, True, "decide by LP what cannot be split; without it the search is incomplete"),
    )


def _bdd() -> tuple[Field, ...]:
    return (
        Field("batch", int, None, "n: sub-domains picked a round (none: by device)", 1, 1 << 20),
        Field("root_steps", int, 200, "optimisation steps of the bound at the root", 0, 10_000),
        Field("neuron_steps", int, 0, "optimisation steps of the neurons' bounds at the root", 0, 10_000),
        Field("steps", int, 100, "optimisation steps a sub-domain", 0, 10_000),
        Field("refresh", int, 0, "neurons a layer bounded again after a split, 0: none", 0),
        Field("rate", float, 0.2, "step size at the root, of the size of a layer's coefficients", 0.0),
        Field("child_rate", float, 0.1, "step size below the root", 0.0),
        Field("proximal", bool, False, "proximal steps (Frank-Wolfe) instead of supergradients (Adam)"),
        Field("leaf_lp", bool, True, "decide by LP what cannot be split; without it the search is incomplete"),
    )


def _babsr_lp() -> tuple[Field, ...]:
    return (Field("again", bool, True, "bound the neurons after a split again, by fixed slopes"),)


METHODS: dict[str, MethodInfo] = {
    m.name: m
    for m in (
        MethodInfo("auto", "the strongest there is for the problem", _beta()),
        MethodInfo("beta", "slopes and a multiplier a split, filtered branching", _beta()),
        MethodInfo("input-split", "boxes of the input, in batches; then as beta what is left", _beta()),
        MethodInfo("lirpa", "Algorithm 1: optimised slopes, batched, LP where needed", _lirpa(None, 10, 100, 20)),
        MethodInfo("lirpa-single", "the same, one sub-domain at a time", _lirpa(1, 10, 100, 20)),
        MethodInfo("lirpa-fixed", "the same, slopes not optimised", _lirpa(None, 0, 0, 0)),
        MethodInfo("bdd", "Lagrangian decomposition, batched, with BaBSR", _bdd()),
        MethodInfo("gnn", "as lirpa, branching by a graph network trained on strong branching", _gnn()),
        MethodInfo("gnn-online", "the same, and it goes on learning during the run", _gnn()),
        MethodInfo("babsr-lp", "one sub-domain at a time, each bounded by its LP", _babsr_lp()),
        MethodInfo("mip", "a MIP solver; what it claims is then proved by beta, or is unknown", _beta()),
    )
}


def method_info(name: str) -> MethodInfo:
    if name not in METHODS:
        raise UsageError(f"no method {name!r}", remedy=f"one of: {', '.join(METHODS)}")
    return METHODS[name]
