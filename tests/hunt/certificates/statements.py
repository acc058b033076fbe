"""From a seed to a true statement whose exact least values are known, and to others that are false by little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hunt import nets, sets
from hunt.branches import block
from hunt.certificates.smooth import SURE, is_exact, oracle_of
from hunt.generate import fits, span
from hunt.nets import Grower, coarse
from hunt.oracle import Oracle, TooManyPiecesError, reach
from hunt.question import Disjunct, InputSet, Question, Row

DIGITS = 50  # of a right-hand side behind its point
BY = {"false by 1e-6": Fraction(1, 10**6), "false by 1e-9": Fraction(1, 10**9), "false by 0": Fraction(0)}


@dataclass(frozen=True, eq=False)
class Statement:
    """A question without a violation, and what it is an example of."""

    body: str  # of the network
    form: str  # of the specification
    question: Question
    oracle: Oracle


def make(seed: int) -> Statement:
    """The statement of a seed: bodies and forms come in turn, so that all pairs of them do."""
    rng = np.random.default_rng([seed, 5])
    body = list(BODIES)[seed % len(BODIES)]
    form = list(FORMS)[(seed + seed // len(BODIES)) % len(FORMS)]
    while True:
        k = sets.direction(rng, int(rng.integers(1, 4)))
        if form == BALLS:
            k = sets.PYTHAGOREAN[int(rng.integers(len(sets.PYTHAGOREAN)))]
        boxes, rows = FORMS[form](rng, k)
        try:
            oracle = oracle_of(_network(rng, boxes, k, body, last_bend=form == TIES), k)
            asked = (Disjunct(box, rows(oracle)) for box in boxes)
            disjuncts = tuple(one if form == TIES else _true(rng, oracle, one) for one in asked)
        except TooManyPiecesError:
            continue
        question = Question(oracle.network, k, disjuncts)
        if fits(question, oracle) and not any(oracle.answer(d).violated for d in disjuncts):
            return Statement(body, form, question, oracle)


def falsified(statement: Statement, rng: np.random.Generator, by: Fraction, *, last: bool = False) -> Question:
    """The same question with one disjunct whose least value is −by: a point breaks it by that much."""
    count = len(statement.question.disjuncts)
    at = count - 1 if last else int(rng.integers(count))
    disjunct = statement.question.disjuncts[at]
    least = statement.oracle.answer(disjunct).least
    by = by if is_exact(statement.oracle) else max(by, 2 * SURE)
    rows = tuple(replace(row, rhs=_decimal(row.rhs + least + by, up=True), strict=False) for row in disjunct.rows)
    return with_disjunct(statement.question, at, replace(disjunct, rows=rows))


def with_disjunct(question: Question, at: int, disjunct: Disjunct) -> Question:
    """The question with another disjunct in one place."""
    return replace(question, disjuncts=(*question.disjuncts[:at], disjunct, *question.disjuncts[at + 1 :]))


def _true(rng: np.random.Generator, oracle: Oracle, disjunct: Disjunct) -> Disjunct:
    """Move right-hand sides until the least value is positive, by a share of the span from 1e-9 to 0.3."""
    lowest = -1.5 if not is_exact(oracle) else -9 if rng.random() < 0.3 else -4
    share = float(10 ** rng.uniform(lowest, -0.5))
    margin = Fraction(share * span(oracle, disjunct))
    shift = oracle.answer(disjunct).least - margin
    return replace(disjunct, rows=tuple(replace(row, rhs=_decimal(row.rhs + shift)) for row in disjunct.rows))


def _decimal(value: Fraction, *, up: bool = False) -> Fraction:
    scaled = value * 10**DIGITS
    return Fraction(-(-scaled.numerator // scaled.denominator) if up else scaled.__floor__(), 10**DIGITS)


# --- networks ---


def _network(
    rng: np.random.Generator, boxes: list[InputSet], k: tuple[int, ...], body: str, *, last_bend: bool
) -> nets.Network:
    grow = Grower(rng, k, sets.hull([reach(box, k) for box in boxes]), 1, len(k))
    place = BODIES[body](grow, int(rng.integers(1, 4)), int(rng.integers(2, 7)))
    if body == "last sigmoid" and not last_bend:
        return grow.finish()
    place = grow.linear(place, int(rng.integers(1, 4)), centred=last_bend)
    if last_bend or rng.random() < 0.1:
        grow.relu(place)
    return grow.finish()


def _image(grow: Grower) -> int:
    return grow.reshape(grow.flat(grow.enter(grow.rng.normal(size=8))), (1, 2, 2, 2))


def _pooled(grow: Grower, layers: int, width: int) -> int:
    """Greatest entries of windows that overlap or do not, before or behind a convolution."""
    place = _image(grow)
    if grow.rng.random() < 0.5:
        place = grow.conv(grow.relu(place), coarse(grow.rng.normal(size=(2, 2, 1, 1))), coarse(grow.rng.normal(size=2)))
    place = grow.peak(place, 2, int(grow.rng.choice([1, 2])), int(grow.rng.choice([0, 1])))
    return grow.flat(place)


def _layered(bend: Callable[[Grower, int], int]) -> Callable[[Grower, int, int], int]:
    """A dense network with a bend that is not a ReLU, and ReLUs between."""

    def body(grow: Grower, layers: int, width: int) -> int:
        place = bend(grow, grow.enter(grow.rng.normal(size=width)))
        for _ in range(layers - 1):
            place = grow.linear(place, width)
            place = bend(grow, place) if grow.rng.random() < 0.5 else grow.relu(place)
        return grow.flat(place)

    return body


def _clip(grow: Grower, place: int) -> int:
    low, high = sorted(grow.rng.normal(size=2))
    return grow.clip(place, low, high)


def _leak(grow: Grower, place: int) -> int:
    return grow.leaky(place, float(grow.rng.choice(nets.LEAKS)))


def _blocks(grow: Grower, layers: int, width: int) -> int:
    """Residual blocks, one branch of which is three convolutions."""
    return grow.flat(block(grow, grow.flat(grow.bend(grow.flat(grow.enter(grow.rng.normal(size=8)))))))


def _last_sigmoid(grow: Grower, layers: int, width: int) -> int:
    return grow.smooth(grow.linear(nets.dense(grow, layers, width), 2), "sigmoid")


BODIES: dict[str, Callable[[Grower, int, int], int]] = {
    **nets.BODIES,
    "pooled": _pooled,
    "clipped": _layered(_clip),
    "absolute": _layered(lambda grow, place: grow.abs(place)),
    "leaking": _layered(_leak),
    "blocks": _blocks,
    "sigmoid": _layered(lambda grow, place: grow.smooth(place, "sigmoid")),
    "tanh": _layered(lambda grow, place: grow.smooth(place, "tanh")),
    "last sigmoid": _last_sigmoid,
}


# --- specifications ---

RowsOf = Callable[[Oracle], tuple[Row, ...]]
Form = tuple[list[InputSet], RowsOf]


def _box(rng: np.random.Generator, k: tuple[int, ...]) -> InputSet:
    return sets.box(rng, len(k), str(rng.choice(["plain", "decimal", "narrow", "pinned"], p=[0.4, 0.4, 0.1, 0.1])))


def _row(rng: np.random.Generator, oracle: Oracle) -> Row:
    outputs = oracle.network[-1].size
    places = rng.choice(outputs, min(outputs, int(rng.integers(1, 3))), replace=False)
    factors = [Fraction(str(rng.choice(["-2", "-1", "1", "1", "3", "0.5", "0.3"]))) for _ in places]
    return Row(dict(zip(map(int, places), factors, strict=True)), Fraction(0), bool(rng.random() < 0.2))


def _one(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    return [_box(rng, k)], lambda oracle: (_row(rng, oracle),)


def _regions(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    return [_box(rng, k) for _ in range(int(rng.integers(2, 5)))], lambda oracle: (_row(rng, oracle),)


def _many(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    box = _box(rng, k)
    return [box] * int(rng.integers(6, 20)), lambda oracle: (_row(rng, oracle),)


def _several_rows(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    """Conjunctions: no row alone needs to hold everywhere."""
    count = int(rng.integers(2, 4))

    def rows(oracle: Oracle) -> tuple[Row, ...]:
        return tuple(replace(_row(rng, oracle), rhs=Fraction(int(rng.integers(-8, 9)), 16)) for _ in range(count))

    return [_box(rng, k) for _ in range(int(rng.integers(1, 3)))], rows


def _of_inputs(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    """Rows that speak of the inputs too, and one of them alone where there are two inputs or more."""

    def rows(oracle: Oracle) -> tuple[Row, ...]:
        factor = Fraction(str(rng.choice(["-1", "0.25", "0.3", "2"])))
        first = replace(_row(rng, oracle), inputs={i: factor * k_i for i, k_i in enumerate(k)})
        if len(k) == 1 or rng.random() < 0.5:
            return (first,)
        alone = Row({}, Fraction(int(rng.integers(-8, 9)), 8), False, {i: Fraction(k_i) for i, k_i in enumerate(k)})
        return (first, alone) if rng.random() < 0.5 else (alone, first)

    return [_box(rng, k)], rows


def _balls(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    return [sets.ball(rng, len(k), 2) for _ in range(int(rng.integers(1, 3)))], lambda oracle: (_row(rng, oracle),)


def _ties(rng: np.random.Generator, k: tuple[int, ...]) -> Form:
    """Outputs of a last ReLU, which mostly reach 0 and are never below; perhaps with a row that is not strict."""

    def rows(oracle: Oracle) -> tuple[Row, ...]:
        first, second = (
            Row({i: abs(c) for i, c in _row(rng, oracle).coefs.items()}, Fraction(0), strict)
            for strict in (True, False)
        )
        return ((first,), (first, second), (second, first))[int(rng.integers(3))]

    return [_box(rng, k) for _ in range(int(rng.integers(1, 3)))], rows


BALLS, TIES = "balls", "strict ties"
FORMS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Form]] = {
    "one": _one,
    "regions": _regions,
    "many disjuncts": _many,
    "several rows": _several_rows,
    "rows on inputs": _of_inputs,
    BALLS: _balls,
    TIES: _ties,
}
