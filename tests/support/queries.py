"""VNN-LIB 2.0 queries for tests: declarations, random formulas written in both versions, networks to ask about."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from netproof.problem.property import Property
from netproof.problem.vnnlib.reader import parse_property
from support.asking import dense
from support.random_graphs import TinyNetwork

VERSION = "(vnnlib-version <2.0>)\n"


def network(name: str, inputs: Mapping[str, str], outputs: Mapping[str, str], more: str = "") -> str:
    """A declaration; tensors are given as NAME: SHAPE, all of type real."""
    parts = [f"(declare-input {tensor} real {shape})" for tensor, shape in inputs.items()]
    ends = [f"(declare-output {tensor} real {shape})" for tensor, shape in outputs.items()]
    return f"(declare-network {name} {more}\n    " + "\n    ".join([*parts, *ends]) + "\n)\n"


def query(*assertions: str, inputs: int = 2, outputs: int = 2) -> str:
    """A query on one network with vectors X and Y."""
    declared = network("f", {"X": f"[{inputs}]"}, {"Y": f"[{outputs}]"})
    return VERSION + declared + "".join(f"(assert {assertion})\n" for assertion in assertions)


def boxed(*assertions: str, inputs: int = 2, outputs: int = 2, low: str = "-1.0", high: str = "1.0") -> str:
    """The same, with every input between two numbers."""
    box = [f"(and (>= X[{i}] {low}) (<= X[{i}] {high}))" for i in range(inputs)]
    return query(*box, *assertions, inputs=inputs, outputs=outputs)


def reading(*assertions: str, inputs: int = 2, outputs: int = 2) -> Property:
    return parse_property(boxed(*assertions, inputs=inputs, outputs=outputs), "q.vnnlib")


# --- one question in both versions ---


class Both:
    """Random formulas over inputs and outputs, as text of VNN-LIB 1.0 and of 2.0."""

    def __init__(self, seed: int, inputs: int = 2, outputs: int = 2) -> None:
        self._random = random.Random(seed)
        self._inputs, self._outputs = inputs, outputs

    def texts(self, assertions: int = 3, depth: int = 2) -> tuple[str, str]:
        names = [f"X_{i}" for i in range(self._inputs)] + [f"Y_{j}" for j in range(self._outputs)]
        old = "".join(f"(declare-const {name} Real)\n" for name in names)
        formulas = [self._formula(depth) for _ in range(assertions)]
        box = [f"(and (>= X_{i} -1.0) (<= X_{i} 1.0))" for i in range(self._inputs)]
        old += "".join(f"(assert {formula})\n" for formula in (*box, *(one for one, _ in formulas)))
        new = boxed(*(two for _, two in formulas), inputs=self._inputs, outputs=self._outputs)
        return old, new

    def _formula(self, depth: int) -> tuple[str, str]:
        if depth == 0 or self._random.random() < 0.3:
            return self._comparison()
        word = self._random.choice(("and", "or"))
        parts = [self._formula(depth - 1) for _ in range(self._random.randint(2, 3))]
        return tuple(f"({word} {' '.join(part[k] for part in parts)})" for k in (0, 1))  # type: ignore[return-value]

    def _comparison(self) -> tuple[str, str]:
        (a, b), (c, d) = self._term(), self._term()
        word = self._random.choice(("<=", ">=", "<", ">", "==", "!="))
        new = f"({word} {b} {d})"
        if word == "!=":
            return f"(or (< {a} {c}) (> {a} {c}))", new
        return f"({'=' if word == '==' else word} {a} {c})", new

    def _term(self) -> tuple[str, str]:
        kind = self._random.randint(0, 4)
        if kind == 0:
            number = f"{self._random.randint(-8, 8) / 4}"
            return number, number
        if kind <= 2:
            letter, count = self._random.choice((("X", self._inputs), ("Y", self._outputs)))
            index = self._random.randrange(count)
            return f"{letter}_{index}", f"{letter}[{index}]"
        left, right = self._term(), self._term()
        if kind == 3:
            word = self._random.choice("+-")
            return tuple(f"({word} {one} {two})" for one, two in zip(left, right, strict=True))  # type: ignore
        factor = f"{self._random.randint(-4, 4) / 2}"
        return tuple(f"(* {factor} {one})" for one in left)  # type: ignore[return-value]


# --- two networks whose largest difference is known exactly ---

Layers = Sequence[tuple[list[list[Fraction]], list[Fraction]]]


def dyadic_layers(seed: int, widths: Sequence[int]) -> Layers:
    """Layers from one input to one output, with weights that are eighths: floats hold them, and their sums, exactly."""
    rng = random.Random(seed)

    def number(most: int) -> Fraction:
        return Fraction(rng.randint(-most, most), 8)

    return [
        ([[number(8) for _ in range(before)] for _ in range(after)], [number(4) for _ in range(after)])
        for before, after in itertools.pairwise(widths)
    ]


def value_at(layers: Layers, x: Fraction) -> list[list[Fraction]]:
    """What every layer computes at x, before its ReLU."""
    found, h = [], [x]
    for k, (weight, bias) in enumerate(layers):
        h = [max(v, Fraction(0)) for v in h] if k else h
        h = [sum((w * v for w, v in zip(row, h, strict=True)), b) for row, b in zip(weight, bias, strict=True)]
        found.append(h)
    return found


def bends(layers: Layers, low: Fraction, high: Fraction) -> list[Fraction]:
    """The points of [low, high] between which the network is linear, the ends among them, exactly."""
    points = [low, high]
    for depth in range(len(layers) - 1):
        more = set(points)
        for a, b in itertools.pairwise(points):
            for left, right in zip(value_at(layers, a)[depth], value_at(layers, b)[depth], strict=True):
                if left * right < 0:
                    more.add(a + (b - a) * left / (left - right))
        points = sorted(more)
    return points


def differences(f: Layers, g: Layers, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the largest g(x) − f(x) on [low, high], exactly."""
    points = {*bends(f, low, high), *bends(g, low, high)}
    values = [value_at(g, x)[-1][0] - value_at(f, x)[-1][0] for x in points]
    return min(values), max(values)


def side_by_side(parts: Sequence[Layers]) -> TinyNetwork:
    """The sum of networks of one input each, as one network of all these inputs."""
    made = []
    for depth in range(len(parts[0])):
        blocks = [(np.array(p[depth][0], dtype=float), np.array(p[depth][1], dtype=float)) for p in parts]
        weight = np.zeros((sum(len(w) for w, _ in blocks), sum(w.shape[1] for w, _ in blocks)))
        row = column = 0
        for block, _ in blocks:
            weight[row : row + len(block), column : column + block.shape[1]] = block
            row, column = row + len(block), column + block.shape[1]
        made.append((weight, np.concatenate([b for _, b in blocks])))
    last_weight, last_bias = made[-1]
    made[-1] = (last_weight.sum(0, keepdims=True), last_bias.sum(keepdims=True))
    return dense(*made)


def save_text(folder: Path, text: str, name: str = "q.vnnlib") -> Path:
    (folder / name).write_text(text)
    return folder / name
