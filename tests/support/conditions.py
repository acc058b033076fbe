"""Random conditions beside plain functions that say the same, and small things to ask about."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import torch

import netproof
from netproof.problem.property import Property
from support.api import module

Point = dict[str, list[Any]]  # the numbers of each vector, by its name
Value = Callable[[Point], Any]
Said = Callable[[Point], bool]


@lru_cache(maxsize=8)
def network(inputs: int, outputs: int) -> netproof.Network:
    return netproof.load_network(module(inputs, 4, outputs), example_shape=(1, inputs))


class Conditions:
    """Draws expressions and conditions over named vectors, each with a function of a point."""

    def __init__(self, seed: int, vectors: dict[str, Any], products: bool = True) -> None:
        self.rng, self.vectors, self.products = random.Random(seed), vectors, products

    def number(self) -> tuple[Any, Fraction]:
        """A number of some kind, on a grid of quarters so that ties occur, and its exact value."""
        exact = Fraction(self.rng.randint(-6, 6), 4)
        kinds: list[Callable[[Fraction], Any]] = [
            lambda v: v,
            float,
            lambda v: Decimal(float(v)),
            lambda v: np.float32(float(v)),
            lambda v: np.float64(float(v)),
            lambda v: torch.tensor(float(v)),
            str,
        ]
        return self.rng.choice(kinds)(exact), exact

    def variable(self) -> tuple[Any, Value]:
        name = self.rng.choice(list(self.vectors))
        k = self.rng.randrange(len(self.vectors[name]))
        return self.vectors[name][k], lambda at: at[name][k]

    def expression(self, depth: int) -> tuple[Any, Value]:
        if depth == 0:
            return self.variable()
        kind = self.rng.choice(["sum", "sum", "scale", "shift", "abs", "extreme", "product", "power", "dot", "divide"])
        e, f = self.expression(depth - 1)
        if kind in ("sum", "product", "extreme"):
            other, g = self.expression(depth - 1)
            if kind == "sum":
                minus = self.rng.random() < 0.5
                return (e - other, lambda at: f(at) - g(at)) if minus else (e + other, lambda at: f(at) + g(at))
            if kind == "product" and self.products:
                return e * other, lambda at: f(at) * g(at)
            if self.rng.random() < 0.5:
                return netproof.maximum(e, other), lambda at: max(f(at), g(at))
            return netproof.minimum(e, other), lambda at: min(f(at), g(at))
        number, exact = self.number()
        if kind == "scale":
            return (number * e if not isinstance(number, str) else e * number), lambda at: exact * f(at)
        if kind == "shift":
            return number - e if not isinstance(number, str) else -e + number, lambda at: exact - f(at)
        if kind == "divide":
            return e / (number if exact else 2), lambda at: f(at) / (exact or 2)
        if kind == "power" and self.products:
            return e**2, lambda at: f(at) ** 2
        if kind == "dot":
            return self.dot()
        return abs(e), lambda at: abs(f(at))

    def dot(self) -> tuple[Any, Value]:
        name = self.rng.choice(list(self.vectors))
        weights = [self.number()[1] for _ in self.vectors[name]]
        array = np.array([float(w) for w in weights])
        vector = self.vectors[name]
        made = array @ vector if self.rng.random() < 0.5 else sum(w * v for w, v in zip(weights, vector, strict=True))
        return made, lambda at: sum(w * v for w, v in zip(weights, at[name], strict=True))

    def condition(self, depth: int) -> tuple[Any, Said]:
        while True:
            try:
                return self._condition(depth)
            except netproof.UsageError as error:  # the draw has no variable left in it
                if "compares constants" not in str(error):
                    raise

    def _condition(self, depth: int) -> tuple[Any, Said]:
        kind = self.rng.choice(["and", "or", "not", "when", "every", "some"]) if depth else "compare"
        if kind == "compare":
            return self.comparison()
        a, f = self._condition(depth - 1)
        if kind == "not":
            return ~a, lambda at: not f(at)
        b, g = self._condition(depth - 1)
        if kind in ("and", "every"):
            return (a & b if kind == "and" else netproof.every([a, b])), lambda at: f(at) and g(at)
        if kind in ("or", "some"):
            return (a | b if kind == "or" else netproof.some(iter([a, b]))), lambda at: f(at) or g(at)
        return netproof.when(a, b), lambda at: g(at) if f(at) else True

    def comparison(self) -> tuple[Any, Said]:
        kind = self.rng.choice(["<", "<=", ">", ">=", "==", "!=", "between", "argmax", "not argmax", "argmin"])
        if "arg" in kind:
            name = self.rng.choice([name for name, vector in self.vectors.items() if len(vector) > 1])
            return self.winner(kind, name)
        e, f = self.expression(self.rng.randint(0, 2))
        number, exact = self.number()
        if kind == "between":
            low, high = sorted([exact, self.number()[1]])
            return netproof.between(e, low, high), lambda at: low <= f(at) <= high
        other, g = self.expression(1) if self.rng.random() < 0.5 else (number, lambda at: exact)
        table: dict[str, tuple[Any, Said]] = {
            "<": (e < other, lambda at: f(at) < g(at)),
            "<=": (e <= other, lambda at: f(at) <= g(at)),
            ">": (e > other, lambda at: f(at) > g(at)),
            ">=": (e >= other, lambda at: f(at) >= g(at)),
            "==": (e == other, lambda at: f(at) == g(at)),
            "!=": (e != other, lambda at: f(at) != g(at)),
        }
        return table[kind]

    def winner(self, kind: str, name: str) -> tuple[Any, Said]:
        vector = self.vectors[name]
        k = self.rng.randrange(len(vector))

        def others(at: Point) -> list[Any]:
            return at[name][:k] + at[name][k + 1 :]

        if kind == "argmax":
            return vector.argmax() == k, lambda at: all(at[name][k] > v for v in others(at))
        if kind == "argmin":
            return vector.argmin() == k, lambda at: all(at[name][k] < v for v in others(at))
        return vector.argmax() != k, lambda at: any(at[name][k] < v for v in others(at))


def grid(rng: random.Random, count: int, most: int = 6) -> list[Fraction]:
    return [Fraction(rng.randint(-most, most), 4) for _ in range(count)]


def same_violations(a: Property, b: Property) -> bool:
    """Whether both have the same disjuncts, in any order and with rows in any order and scale."""
    return _canonical(a) == _canonical(b)


def _canonical(property: Property) -> tuple[Any, ...]:
    disjuncts = set()
    for disjunct in property.disjuncts:
        box = disjunct.box
        sides = (tuple(box.lower), tuple(box.upper), box.open_lower, box.open_upper)
        rows = set()
        for row in disjunct.rows:
            outputs = [(_output(property, k), c) for k, c in row.coefs.items()]
            terms = sorted([*outputs, *((f"x{k}", c) for k, c in row.inputs.items())])
            size = abs(terms[0][1])
            rows.add((tuple((name, c / size) for name, c in terms), row.rhs / size, row.strict))
        if not box.empty:
            disjuncts.add((sides, frozenset(rows), disjunct.ball))
    return frozenset(disjuncts), property.inputs, property.outputs


def _output(property: Property, k: int) -> str:
    """What row entry k is, whatever the order of derived values."""
    if k < property.outputs:
        return f"y{k}"
    one = property.derived[k - property.outputs]
    forms = []
    for form in one.forms:
        named = [
            (_output(property, property.outputs + i) if kind == "p" else f"{kind}{i}", c) for (kind, i), c in form.terms
        ]
        forms.append(f"{sorted(named)} {form.constant}")
    return f"{type(one).__name__} {sorted(forms)}"


def written(condition: Any, region: Any) -> str | None:
    """The VNN-LIB text of a condition; None where it has maxima that VNN-LIB has no word for."""
    try:
        return str(condition.vnnlib(region))
    except netproof.UsageError as error:
        if "no word for a maximum" not in str(error):
            raise
        return None
