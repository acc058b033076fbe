"""Damaged certificates: the answer is always valid, invalid or refused, and a false statement is never valid.

What is changed is the body, whose chunks and header are then made right, or any bit of the file. A mutant of a true
statement may be valid: a slope or a multiplier may be any number. So the sharp test is a false statement: the right
side of the specification is moved so that a point breaks it by 1e-6 or 1e-9. (The same as a change of the last bias,
which could not be as small: biases are float32.) `NPCHECK_MUTANTS` says how many there are in all, for longer ones,
and `NPCHECK_MUTANTS_SEED` makes others.
"""

from __future__ import annotations

import io
import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from certificates import (
    AGAIN,
    DUALS,
    MULTIPLIERS,
    NEURON,
    Case,
    bounds,
    chunks,
    dense,
    floats,
    header,
    leaf,
    onnx_model,
    spec,
    split,
    varint,
)
from npcheck.errors import Invalid, Refused
from npcheck.network import Network
from npcheck.onnx_file import read_network
from npcheck.stream import Stream, read_header
from npcheck.vnnlib_file import Ball, read_question
from rational import exact_values
from test_exact import LAYERS, SPEC, body

DATA = Path(__file__).parent / "data"
COUNT = int(os.environ.get("NPCHECK_MUTANTS", "2000"))
SEED = int(os.environ.get("NPCHECK_MUTANTS_SEED", "0"))


def stored(name: str) -> tuple[bytes, str, bytes]:
    """Return a model, a specification and the body of a certificate that netproof wrote."""
    with (DATA / f"{name}.npcert").open("rb") as file:
        read_header(file)
        rest, raw = Stream(file), b""
        with suppress(Invalid):
            while True:
                raw += rest.take(1)
    return (DATA / f"{name}.onnx").read_bytes(), (DATA / f"{name}.vnnlib").read_text(), raw


def sharp() -> tuple[bytes, str, bytes]:
    """Return |x| >= −1e-10 by two splits, with bounds that are exact but for their charges of 1e-13."""
    model = dense(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    first, second = leaf(MULTIPLIERS, floats("e", 1.0, 0.0)), leaf(MULTIPLIERS, floats("e", 0.0, 1.0))
    tree = varint(NEURON) + varint(NEURON + 1) + leaf() + first + varint(NEURON + 1) + second + leaf()
    return model, spec([-1], [1], 1, "(<= Y_0 -1e-10)"), bounds(2, [0, 1]) + tree


def smooth() -> tuple[bytes, str, bytes]:
    """Return x·σ(x) + e^x of two neurons, on boxes of the input."""
    constants = {"w": np.array([[1.0, 0.5], [-0.5, 1.0]], np.float32), "v": np.array([[1.0], [1.0]], np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["s"]),
        helper.make_node("Mul", ["h", "s"], ["p"]),
        helper.make_node("Exp", ["p"], ["e"]),
        helper.make_node("Add", ["p", "e"], ["z"]),
        helper.make_node("MatMul", ["z", "v"], ["y"]),
    ]
    text = spec([-1, -1], [1, 1], 1, "(<= Y_0 0.1)")
    sections = bounds(2, [], [0x11, 0x11]) + bounds(2, []) + bounds(2, [], [0x11, 0x11])
    tree = (
        split(0, 0.0) + split(1, 0.0) + (bytes((AGAIN,)) + leaf()) * 2 + split(1, 0.0) + (bytes((AGAIN,)) + leaf()) * 2
    )
    return onnx_model(nodes, 2, constants), text, sections + tree


def sharp_and_smooth() -> tuple[bytes, str, bytes]:
    """Return σ(x) >= 1/2 − 1e-10 on [0, 1], where the chord touches it at 0."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["s"]),
        helper.make_node("Gemm", ["s", "w"], ["y"]),
    ]
    model = onnx_model(nodes, 1, {"w": np.ones((1, 1), np.float32)})
    return model, spec([0], [1], 1, "(<= Y_0 0.4999999999)"), bounds(1) + leaf()


def disc() -> tuple[bytes, str, bytes]:
    """Return a difference of two neurons on a disc, where their bounds and the leaves need the ball."""
    layers = ([[1.0, 1.0], [1.0, -1.0]], [0.8, 0.8]), ([[1.0, -1.0]], [0.0])
    text = spec([-1, -1], [1, 1], 1, "(<= (+ (* X_0 X_0) (* X_1 X_1)) 0.5)", "(<= Y_0 -1.81)")
    halves = split(1, 0.1) + bytes((AGAIN,)) + leaf() + leaf(DUALS, floats("f", 0.0, -1.0))
    tree = varint(NEURON) + leaf(1, b"\x01") + halves
    return dense(*layers), text, bounds(2, [0, 1], [0x11, 0x11]) + tree


def tie() -> tuple[bytes, str, bytes]:
    """Return relu(x) − relu(x) >= 0, where a violation is strict."""
    model = dense(([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))
    away = leaf(MULTIPLIERS, floats("e", 1.0, 0.0))
    tree = varint(NEURON) + varint(NEURON + 1) + leaf() + away + varint(NEURON + 1) + away + leaf()
    return model, spec([-1], [1], 1, "(< Y_0 0)"), bounds(2, [0, 1]) + tree


CASES: dict[str, Callable[[], tuple[bytes, str, bytes]]] = {
    "boxes": lambda: stored("boxes"),
    "neurons": lambda: stored("neurons"),
    "residual": lambda: stored("residual"),
    "wide": lambda: stored("wide"),
    "all kinds": lambda: (dense(*LAYERS), SPEC, body()),
    "sharp": sharp,
    "smooth": smooth,
    "sharp and smooth": sharp_and_smooth,
    "disc": disc,
    "tie": tie,
}


def made_false(model: bytes, text: str, by: Fraction) -> str:
    """Return a specification that the best point that is found breaks by so much, exactly."""
    network, disjunct = read_network(model), read_question(text).disjuncts[0]
    (row,) = disjunct.rows
    lower, upper = (np.array([float(end) for end in side]) for side in (disjunct.lower, disjunct.upper))
    factors = np.array([float(row.outputs.get(i, 0)) for i in range(network.nodes[-1].size)])
    point = _least(network, lower, upper, factors, disjunct.ball)
    # A float may lie outside of the box of decimals by its last place: then the nearest end is taken.
    exact = [
        min(max(Fraction(x), low), high)
        for x, low, high in zip(point.tolist(), disjunct.lower, disjunct.upper, strict=True)
    ]
    assert disjunct.ball is None or disjunct.ball.contains(exact)
    value = sum((factor * exact_values(network, exact)[-1][i] for i, factor in row.outputs.items()), Fraction(0))
    right = value + by
    left = " ".join(f"(* {_written(factor)} Y_{i})" for i, factor in row.outputs.items())
    head = text[: text.rindex("(assert")]
    return f"{head}(assert (<= (+ {left}) {_written(right)}))\n"


def _written(number: Fraction) -> str:
    """Return a decimal that is not less, by 1e-20 at most."""
    digits = -(-number.numerator * 10**20 // number.denominator)
    return f"{'-' if digits < 0 else ''}{abs(digits) // 10**20}.{abs(digits) % 10**20:020d}"


def _least(network: Network, lower: np.ndarray, upper: np.ndarray, row: np.ndarray, ball: Ball | None) -> np.ndarray:
    rng, at, best = np.random.default_rng(0), (lower + upper) / 2, np.inf
    for width in 0.5 ** np.arange(30):
        points = np.clip(at + width * rng.uniform(-1, 1, (500, len(lower))) * (upper - lower), lower, upper)
        if ball is not None:  # about 0, of all inputs
            points *= np.minimum(1.0, float(ball.square) ** 0.5 * (1 - 1e-12) / np.linalg.norm(points, axis=1))[:, None]
        values = network.values(points)[-1] @ row
        if values.min() < best:
            best, at = values.min(), points[values.argmin()]
    return np.asarray(at)


def mutant(chance: random.Random, raw: bytes) -> bytes:
    """Return a body with one to three changes."""
    changed = bytearray(raw)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        place = chance.randrange(len(changed) + 1)
        length = min(chance.choice([1, 1, 2, 4, 8, 20]), len(changed) - place)
        part = changed[place : place + length]
        kind = chance.randrange(8)
        if kind <= 1 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            changed[place : place + length] = chance.randbytes(length)
        elif kind == 3:
            del changed[place : place + length]
        elif kind == 4:
            changed[place:place] = part
        elif kind == 5:
            changed[place:place] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 6:
            other = chance.randrange(len(changed) + 1)
            changed[other : other + length] = part
        else:
            changed[place : place + length] = bytes([chance.choice([0, 3, 8, 9, 127, 128, 255])]) * length
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.05 else changed)


@pytest.fixture(scope="module", params=CASES)
def files(request: pytest.FixtureRequest) -> tuple[bytes, str, bytes]:
    return CASES[request.param]()


def offered(case: Case, data: bytes, **options: Any) -> bool:
    """Say whether a certificate is valid; anything else than Invalid and Refused is a fault of the checker."""
    try:
        case.offer(data, **options)
    except (Invalid, Refused):
        return False
    return True


def test_the_certificates_are_valid(tmp_path: Path, files: tuple[bytes, str, bytes]) -> None:
    model, text, raw = files
    case = Case(tmp_path, model, text)
    exact = case.check(raw, exact=20, seed=1).exact
    assert exact is not None
    assert exact[0] > 0
    for by in (Fraction(0), Fraction(1, 10**9), Fraction(1, 10**6)):
        with pytest.raises(Invalid, match="not shown"):
            Case(tmp_path, model, made_false(model, text, by)).check(raw)


@pytest.mark.parametrize("by", [None, Fraction(1, 10**6), Fraction(1, 10**9)], ids=["true", "by 1e-6", "by 1e-9"])
def test_mutants(tmp_path: Path, files: tuple[bytes, str, bytes], by: Fraction | None) -> None:
    model, text, raw = files
    text = text if by is None else made_false(model, text, by)
    case, head = Case(tmp_path, model, text), header(model, text.encode())
    chance = random.Random(f"{SEED} {by} {len(raw)}")
    valid, count = 0, COUNT // (3 * len(CASES))
    for number in range(count):
        if number % 8:
            data = head + chunks(mutant(chance, raw), chance.choice([1 << 20, 1 << 20, 50]))
        else:
            whole = bytearray(head + chunks(raw))
            whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            data = bytes(whole)
        accepted = offered(case, data)
        assert by is None or not accepted, f"accepted: {data.hex()}"
        valid += accepted
    assert by is not None or valid < count


def test_bits_of_the_specification(tmp_path: Path, files: tuple[bytes, str, bytes]) -> None:
    """Its text is changed and the hash made right: what is said is refused, invalid, or still proved."""
    model, text, raw = files
    chance = random.Random(SEED)
    for _ in range(COUNT // 100):
        changed = bytearray(text.encode())
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        offered(Case(tmp_path, model, bytes(changed)), header(model, bytes(changed)) + chunks(raw))


def test_the_parts_of_a_body_are_those_of_the_file() -> None:
    for name in ("boxes", "neurons", "residual", "wide"):
        model, text, raw = stored(name)
        again = Stream(io.BytesIO(chunks(raw, 77)))
        assert again.take(len(raw)) == raw
        again.end()
        assert re.search(r"\(assert \(<= ", text)
        assert len(model) < 4000
