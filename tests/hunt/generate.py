"""From a seed to a question: a network, a set, and right-hand sides at a chosen distance from the exact least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hunt import nets, sets
from hunt.network import Network
from hunt.oracle import Oracle, TooManyPiecesError, magnitudes, reach, scale_of
from hunt.question import Disjunct, InputSet, Question, Row, number

LARGEST = 1e30  # of a value: float32 ends at 3e38
LONGEST = 900  # characters of a number that netproof reads


@dataclass(frozen=True, eq=False)
class Case:
    """A seed's question, and the family that made it."""

    seed: int
    family: str
    question: Question
    oracle: Oracle


def make(seed: int) -> Case:
    """The question of a seed; the same for ever as long as this package is the same."""
    rng = np.random.default_rng([seed, 0])
    while True:
        family = str(rng.choice(list(FAMILIES), p=[share for share, _ in FAMILIES.values()]))
        try:
            question, oracle = FAMILIES[family][1](rng)
        except TooManyPiecesError:
            continue
        if fits(question, oracle):
            return Case(seed, family, question, oracle)


def fits(question: Question, oracle: Oracle) -> bool:
    """Whether float32 holds every value, and every number can be written."""
    largest = max(float(max(map(abs, d.inputs.lower + d.inputs.upper))) for d in question.disjuncts)
    sizes = magnitudes(question.network, oracle.sums, [largest] * len(question.direction))
    numbers = [n for d in question.disjuncts for r in d.rows for n in (r.rhs, *r.coefs.values())]
    return max(float(m.max()) for m in sizes) < LARGEST and all(len(number(n)) < LONGEST for n in numbers)


# --- right-hand sides ---


def wide(rng: np.random.Generator) -> float:
    """A distance from the tie, as a share of what the rows' values span."""
    return float(10 ** rng.uniform(-2, 0))


def place(
    rng: np.random.Generator, oracle: Oracle, disjunct: Disjunct, *, violated: bool, margin: float, of: float
) -> Disjunct:
    """The disjunct with all right-hand sides moved alike, until its least value lies margin·of beyond 0."""
    least = oracle.answer(disjunct).least
    shift = least + Fraction(margin * of) * (1 if violated else -1)
    rows = tuple(replace(row, rhs=_short(rng, row.rhs + shift, margin)) for row in disjunct.rows)
    return replace(disjunct, rows=rows)


def _short(rng: np.random.Generator, value: Fraction, margin: float) -> Fraction:
    """Often a decimal that is exact enough for the margin; the exact number where there is none, or it is too long."""
    if value and ((margin > 0 and rng.random() < 0.7) or len(number(value)) >= LONGEST):
        digits = 40 if margin <= 0 else int(3 - np.log10(margin)) + 3
        power = digits - int(np.floor(np.log10(abs(float(value))))) if float(value) else 400
        return Fraction(round(value * 10**power), 10**power) if power >= 0 else value
    return value


def span(oracle: Oracle, disjunct: Disjunct) -> float:
    """How far the rows' values reach over the set, 1 where they are constant."""
    ranges = oracle.ranges(disjunct.inputs)
    widths = [
        sum(abs(float(c)) * float(ranges[i][1] - ranges[i][0]) for i, c in row.coefs.items()) for row in disjunct.rows
    ]
    return max(*widths, 0.0) or 1.0


def random_rows(
    rng: np.random.Generator, oracle: Oracle, inputs: InputSet, count: int, *, strict: float = 0.2
) -> tuple[Row, ...]:
    """Rows that all hold with equality at one t of the set, in any directions."""
    outputs = oracle.network[-1].size
    low, high = reach(inputs, oracle.direction)
    pieces = oracle.pieces(low, high)
    rows = []
    at = pieces[int(rng.integers(len(pieces)))]
    for _ in range(count):
        coefs = {
            int(i): Fraction(int(rng.choice([-2, -1, 1, 3])))
            for i in rng.choice(outputs, min(outputs, int(rng.integers(1, 3))), replace=False)
        }
        if rng.random() < 0.15:
            coefs = {i: c / 3 for i, c in coefs.items()}
        middle = (at.low + at.high) / 2
        value = sum((c * (at.outputs[i][0] * middle + at.outputs[i][1]) for i, c in coefs.items()), Fraction(0))
        rows.append(Row(coefs, value if count > 1 else Fraction(0), bool(rng.random() < strict)))
    return tuple(rows)


def asked(
    rng: np.random.Generator,
    oracle: Oracle,
    input_sets: Sequence[InputSet],
    margins: Callable[[], tuple[float, str]],
) -> tuple[Disjunct, ...]:
    """One to three disjuncts on each set, of which none or one is violated. margins: a share, and of what."""
    sets_asked = [s for s in input_sets for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15])))]
    violated = int(rng.integers(len(sets_asked))) if rng.random() < 0.5 else -1
    found = []
    for i, inputs in enumerate(sets_asked):
        rows = random_rows(rng, oracle, inputs, int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])))
        disjunct = Disjunct(inputs, rows)
        margin, kind = margins()
        of = span(oracle, disjunct) if kind == "span" else scale_of(oracle, disjunct)
        found.append(place(rng, oracle, disjunct, violated=i == violated, margin=margin, of=of))
    return tuple(found)


# --- families ---

Made = tuple[Question, Oracle]


def grown(
    rng: np.random.Generator,
    input_sets: Sequence[InputSet],
    k: tuple[int, ...],
    body: str | None = None,
    *,
    last_bend: float = 0.1,
) -> Network:
    reaches = [reach(s, k) for s in input_sets]
    shape = (1, len(k)) if rng.random() < 0.8 or len(k) % 2 else (1, 1, 2, len(k) // 2)
    grow = nets.Grower(rng, k, sets.hull(reaches), *shape)
    name = body or str(rng.choice(list(nets.BODIES)))
    place = nets.BODIES[name](grow, int(rng.integers(1, 5)), int(rng.integers(2, 7)))
    place = grow.linear(place, int(rng.integers(1, 4)), centred=False)
    if rng.random() < last_bend:
        grow.relu(place)
    return grow.finish()


def _sets(rng: np.random.Generator, k: tuple[int, ...]) -> list[InputSet]:
    kinds = rng.choice(["plain", "decimal", "narrow", "pinned", "point"], p=[0.35, 0.35, 0.1, 0.15, 0.05])
    return [sets.box(rng, len(k), str(kinds))]


def _plain(rng: np.random.Generator) -> Made:
    """Any network, one box, clear answers."""
    k = sets.direction(rng, int(rng.integers(1, 6)))
    boxes = _sets(rng, k)
    oracle = Oracle(grown(rng, boxes, k), k)
    return Question(oracle.network, k, asked(rng, oracle, boxes, lambda: (wide(rng), "span"))), oracle


def _boxes(rng: np.random.Generator) -> Made:
    """Several boxes in one `or`."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = [sets.box(rng, len(k), str(rng.choice(["plain", "decimal"]))) for _ in range(int(rng.integers(2, 4)))]
    oracle = Oracle(grown(rng, boxes, k), k)
    return Question(oracle.network, k, asked(rng, oracle, boxes, lambda: (wide(rng), "span"))), oracle


def _balls(rng: np.random.Generator) -> Made:
    p = int(rng.choice([1, 2]))
    k = (
        sets.PYTHAGOREAN[int(rng.integers(len(sets.PYTHAGOREAN)))]
        if p == 2
        else sets.direction(rng, int(rng.integers(1, 5)))
    )
    regions = [sets.ball(rng, len(k), p)]
    oracle = Oracle(grown(rng, regions, k), k)
    return Question(oracle.network, k, asked(rng, oracle, regions, lambda: (wide(rng), "span"))), oracle


def _ties(rng: np.random.Generator) -> Made:
    """Near ties on both sides, and exact ones with <= and <."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = _sets(rng, k)
    oracle = Oracle(grown(rng, boxes, k, last_bend=0.3), k)

    def margins() -> tuple[float, str]:
        return (0.0 if rng.random() < 0.3 else float(10 ** rng.uniform(-18, -4))), "scale"

    return Question(oracle.network, k, asked(rng, oracle, boxes, margins)), oracle


def _scales(rng: np.random.Generator) -> Made:
    """Weights from 1e-40 to 1e12, of which the output shows nothing."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = _sets(rng, k)
    network = grown(rng, boxes, k, str(rng.choice(["dense", "residual", "doubled"])))
    network = nets.rescaled(network, rng) if rng.random() < 0.7 else nets.specked(network, rng)
    oracle = Oracle(network, k)
    return Question(oracle.network, k, asked(rng, oracle, boxes, lambda: (wide(rng), "span"))), oracle


def _pockets(rng: np.random.Generator) -> Made:
    """A violation in a tent that is a thousandth to a millionth of the box wide, or one that just does not reach."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = [sets.box(rng, len(k), "plain")]
    low, high = sets.hull([reach(boxes[0], k)])
    grow = nets.Grower(rng, k, (low, high), 1, len(k))
    count = int(rng.integers(1, 4))
    steep = [10 ** rng.uniform(1, 4) / (high - low) for _ in range(count)]
    heights = 10 ** rng.uniform(-1, 1, count)
    nets.tents(grow, None, steep, rng.uniform(low, high, count), heights, rng.normal(scale=0.1, size=count))
    oracle = Oracle(grow.finish(), k)
    disjuncts = _one_each(rng, oracle, boxes[0], int(rng.integers(count + 2)))
    return Question(oracle.network, k, disjuncts), oracle


def _one_each(rng: np.random.Generator, oracle: Oracle, inputs: InputSet, violated: int) -> tuple[Disjunct, ...]:
    """A disjunct on each output, one of them violated."""
    found = []
    for i in range(oracle.network[-1].size):
        disjunct = Disjunct(inputs, (Row({i: Fraction(1)}, Fraction(0)),))
        of = span(oracle, disjunct)
        found.append(place(rng, oracle, disjunct, violated=i == violated, margin=float(rng.uniform(0.1, 0.9)), of=of))
    return tuple(found)


def _lost(rng: np.random.Generator) -> Made:
    """A narrow violation that only an LP finds, beside a wide tent that misses its threshold by float32's noise."""
    many = rng.random() < 0.4  # more than the inputs that `auto` splits, and more layers than one
    k = (1,) * 12 if many else sets.direction(rng, int(rng.integers(1, 3)))
    half = Fraction(1, 16) if many else Fraction(1)
    inputs = InputSet((-half,) * len(k), (half,) * len(k))
    low, high = sets.hull([reach(inputs, k)])
    grow = nets.Grower(rng, k, (low, high), 1, len(k))
    source = None
    if many or rng.random() < 0.3:
        source = grow.relu(grow.gemm(0, np.array([k, k], dtype=np.float64), np.array([4.0 * np.ceil(high), 0.0])))
    steep = [float(rng.choice([64.0, 256.0, 1024.0])), float(rng.choice([4.0, 8.0, 16.0]))]
    centres = rng.uniform(0.8 * low, 0.8 * high, 2)
    heights = [float(rng.choice([1.0, 4.0])), float(rng.choice([1.0, 100.0]))]
    nets.tents(grow, source, steep, centres, heights, rng.normal(scale=0.1, size=2))
    oracle = Oracle(grow.finish(), k)
    narrow, broad = (Disjunct(inputs, (Row({i: Fraction(1)}, Fraction(0)),)) for i in range(2))
    narrow = place(rng, oracle, narrow, violated=True, margin=float(rng.uniform(0.2, 0.6)), of=span(oracle, narrow))
    margin = float(10 ** rng.uniform(-8, -5.5))
    broad = place(
        rng, oracle, broad, violated=bool(rng.random() < 0.2), margin=margin, of=abs(float(oracle.answer(broad).least))
    )
    pair = (narrow, broad) if rng.random() < 0.7 else (broad, narrow)
    return Question(oracle.network, k, pair), oracle


def _edges(rng: np.random.Generator) -> Made:
    """Outputs that a last ReLU keeps at 0 or above, asked about 0 itself with <= and <: a pocket may reach it."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    inputs = sets.box(rng, len(k), "plain")
    low, high = sets.hull([reach(inputs, k)])
    grow = nets.Grower(rng, k, (low, high), 1, len(k))
    count = int(rng.integers(1, 3))
    steep = 10 ** rng.uniform(1, 4, count) / (high - low)
    offsets = rng.uniform(0.2, 1.8, count)  # the tents are 1 high
    grow.relu(nets.tents(grow, None, steep, rng.uniform(low, high, count), [1.0] * count, offsets))
    oracle = Oracle(grow.finish(), k)
    rows = [Row({i: Fraction(1)}, Fraction(0), bool(rng.random() < 0.4)) for i in range(count)]
    if rng.random() < 0.2:
        return Question(oracle.network, k, (Disjunct(inputs, tuple(rows)),)), oracle
    return Question(oracle.network, k, tuple(Disjunct(inputs, (row,)) for row in rows)), oracle


def _cancelling(rng: np.random.Generator) -> Made:
    """Large numbers that cancel, with a least value at the level of float64's rounding, on either side of 0."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = [sets.box(rng, len(k), "plain")]
    network = list(grown(rng, boxes, k, str(rng.choice(["dense", "doubled", "residual"]))))
    at = max(i for i, layer in enumerate(network) if layer.kind == "gemm")
    weight, bias = (c.astype(np.float64) for c in network[at].constants)
    big = 10 ** rng.uniform(3, 12)
    size = weight.shape[1]
    i, j = (0, size // 2) if size >= 2 else (0, 0)
    weight[:, i] += big
    weight[:, j] -= big if i != j else 0.0
    network[at] = nets.with_constants(network[at], weight, bias)
    oracle = Oracle(tuple(network), k)

    def margins() -> tuple[float, str]:
        return float(10 ** rng.uniform(-18, -14)), "scale"

    return Question(oracle.network, k, asked(rng, oracle, boxes, margins)), oracle


# By name: how often, and what makes it.
FAMILIES: dict[str, tuple[float, Callable[[np.random.Generator], Made]]] = {
    "plain": (0.18, _plain),
    "boxes": (0.11, _boxes),
    "balls": (0.11, _balls),
    "ties": (0.15, _ties),
    "scales": (0.09, _scales),
    "pockets": (0.08, _pockets),
    "lost": (0.12, _lost),
    "edges": (0.06, _edges),
    "cancelling": (0.1, _cancelling),
}
