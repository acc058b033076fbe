"""Changes of bodies, models and specifications; what has no ground for a change is left as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx

from hunt.certificates.parts import TREE, Body, Leaf, Split, Wrap, trees_of, written
from hunt.certificates.rewrite import put_in_place, some_leaf, some_part
from hunt.certificates.statements import with_disjunct
from hunt.network import HINGES, Layer, Network, to_onnx
from hunt.oracle import Oracle
from hunt.question import Disjunct, InputSet, Question, Row

# --- bytes, of anything ---


def bits(rng: random.Random, data: bytes, count: int = 1) -> bytes:
    """Some bits turned."""
    changed = bytearray(data)
    for _ in range(count if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def pieces(rng: random.Random, data: bytes) -> bytes:
    """A piece of bytes lost, doubled, moved, filled or made up, once to three times; now and then the end is lost."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(changed) + 1)
        length = min(rng.choice([1, 1, 2, 4, 8, 20]), len(changed) - at)
        piece, kind = changed[at : at + length], rng.randrange(5)
        if kind == 0:
            del changed[at : at + length]
        elif kind == 1:
            changed[at:at] = piece
        elif kind == 2:
            to = rng.randrange(len(changed) + 1)
            changed[to : to + length] = piece
        elif kind == 3:
            changed[at : at + length] = bytes([rng.choice([0, 3, 8, 9, 127, 128, 255])]) * length
        else:
            changed[at : at + length] = rng.randbytes(length)
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.05 else changed)


# --- bodies, by their parts ---

ODD = (0.0, -0.0, 1.0, -1.0, 1e-45, 65504.0, 3.4e38, -3.4e38, float("inf"), float("nan"))


def by_parts(rng: np.random.Generator, body: Body) -> bytes:
    """One to three parts changed; all lengths are right."""
    body = deepcopy(body)
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        PARTS[int(rng.integers(len(PARTS)))](rng, body)
    return written(body)


def _split_lost(rng: np.random.Generator, body: Body) -> None:
    """Half of a part is taken for the whole."""
    at, part = _some(rng, body, Split)
    if part is not None:
        put_in_place(body[at], part, part.halves[int(rng.integers(2))])


def _halves_exchanged(rng: np.random.Generator, body: Body) -> None:
    _, part = _some(rng, body, Split)
    if part is not None:
        part.halves = part.halves[::-1]


def _split_moved(rng: np.random.Generator, body: Body) -> None:
    at, part = _some(rng, body, Split)
    if part is None:
        return
    if part.point is None:
        part.at = int(rng.integers(body[at].packed + 1))
    elif rng.random() < 0.3:
        part.at = int(rng.integers(4))
    else:
        part.point = float(rng.choice([part.point + rng.normal(), np.nextafter(part.point, np.inf), *ODD]))


def _wrap_lost(rng: np.random.Generator, body: Body) -> None:
    at, part = _some(rng, body, Wrap)
    if part is not None:
        put_in_place(body[at], part, part.inner[0])


def _some(rng: np.random.Generator, body: Body, kind: type) -> tuple[int, object | None]:
    for _ in range(8):
        at, part = some_part(rng, body)
        if isinstance(part, kind):
            return at, part
    return 0, None


def _numbers(rng: np.random.Generator, body: Body) -> None:
    """A number of a leaf: a little off, or an odd one."""
    leaf = some_leaf(rng, body)
    arrays = [a for a in (leaf.weights, leaf.multipliers, leaf.duals) if a is not None and len(a)]
    if leaf.kind and len(leaf.slopes):
        arrays.append(leaf.slopes)
    if arrays:
        _off(rng, arrays[int(rng.integers(len(arrays)))])


def _off(rng: np.random.Generator, numbers: np.ndarray) -> None:
    at = int(rng.integers(len(numbers)))
    numbers[at] = float(rng.choice([numbers[at] * (1 + 0.1 * rng.normal()), -numbers[at], numbers[at] + 1.0, *ODD]))


def _flags(rng: np.random.Generator, body: Body) -> None:
    leaf = some_leaf(rng, body)
    choice = int(rng.integers(4))
    if choice == 0:
        leaf.ray = not leaf.ray
    elif choice == 1:
        leaf.weights = None if leaf.weights is not None else np.abs(rng.normal(size=1))
    elif choice == 2:
        leaf.kind = int(rng.integers(4))
    else:
        leaf.multipliers = None if leaf.multipliers is not None else np.abs(rng.normal(size=len(leaf.slopes)))


def _claims_raised(rng: np.random.Generator, body: Body) -> None:
    """A neuron is said to be bounded better than its tree shows, by little or much."""
    sections = [section for region in body for section in region.sections if len(section.claims)]
    if sections:
        claims = sections[int(rng.integers(len(sections)))].claims
        at = int(rng.integers(len(claims)))
        more = float(10 ** rng.uniform(-8, 1))
        claims[at] = float(rng.choice([claims[at] + more, claims[at] + more * abs(claims[at]), 0.0, *ODD]))


def _claim_trees(rng: np.random.Generator, body: Body) -> None:
    sections = [section for region in body for section in region.sections if section.trees]
    if sections:
        section = sections[int(rng.integers(len(sections)))]
        at = int(rng.integers(len(section.trees)))
        parts = list(trees_of(section.trees[at]))
        part = parts[int(rng.integers(len(parts)))]
        if isinstance(part, Leaf):
            part.kind, part.multipliers = int(rng.integers(4)), None
        else:
            section.trees[at] = (part.halves if isinstance(part, Split) else part.inner)[0]


def _codes(rng: np.random.Generator, body: Body) -> None:
    """A side by another code, of 0 and 1, which store nothing; or a neuron that is packed or not."""
    sections = [section for region in body for section in region.sections if section.codes.size]
    if not sections:
        return
    section = sections[int(rng.integers(len(sections)))]
    side, neuron = int(rng.integers(2)), int(rng.integers(section.codes.shape[1]))
    if rng.random() < 0.3:
        section.packed[neuron] ^= True
    elif section.codes[side, neuron] < 2:
        section.codes[side, neuron] = int(rng.choice([0, 1, 1, 1, 2, TREE, 4, 15]))


def _trees_exchanged(rng: np.random.Generator, body: Body) -> None:
    """A tree for another disjunct, or a part for another part."""
    (at, part), (other, another) = some_part(rng, body), some_part(rng, body)
    put_in_place(body[at], part, deepcopy(another))
    if rng.random() < 0.5:
        put_in_place(body[other], another, deepcopy(part))


PARTS: tuple[Callable[[np.random.Generator, Body], None], ...] = (
    _split_lost,
    _split_lost,
    _halves_exchanged,
    _split_moved,
    _wrap_lost,
    _numbers,
    _numbers,
    _flags,
    _claims_raised,
    _claims_raised,
    _claim_trees,
    _codes,
    _trees_exchanged,
)


# --- models ---


def _with(network: Network, at: int, layer: Layer) -> Network:
    return (*network[:at], layer, *network[at + 1 :])


def _places(network: Network, wanted: Callable[[Layer], bool]) -> list[int]:
    return [at for at, layer in enumerate(network) if wanted(layer)]


def _weight(rng: np.random.Generator, question: Question, oracle: Oracle) -> Network:
    network = question.network
    places = _places(network, lambda layer: bool(layer.constants) and layer.inputs != (0,))
    places = places if places and rng.random() < 0.8 else _places(network, lambda layer: bool(layer.constants))
    at = int(rng.choice(places))
    constants = [array.copy() for array in network[at].constants]
    array = constants[int(rng.integers(len(constants)))]
    entry = int(rng.integers(array.size))
    old = np.float32(array.reshape(-1)[entry])
    others = [
        np.nextafter(old, np.float32(np.inf)),
        old * np.float32(1.001),
        -old,
        0.0,
        old + np.float32(1e-6),
        old + 1,
    ]
    array.reshape(-1)[entry] = others[int(rng.integers(len(others)))]
    return _with(network, at, replace(network[at], constants=tuple(constants)))


def _bias(rng: np.random.Generator, question: Question, oracle: Oracle) -> Network:
    """The last bias moved until a point breaks the statement by 1e-6, or by as little as a float32 allows."""
    network, disjunct = question.network, question.disjuncts[int(rng.integers(len(question.disjuncts)))]
    at = max(_places(network, lambda layer: layer.kind == "gemm"))
    least = oracle.answer(disjunct).least + Fraction(int(rng.integers(2)), 10**6)
    bias = network[at].constants[1].copy()
    for row in disjunct.rows:
        for output, factor in row.coefs.items():
            exact = Fraction(float(bias[output])) - least / factor / len(row.coefs)
            bias[output] = np.float32(float(exact))
    return _with(network, at, replace(network[at], constants=(network[at].constants[0], bias)))


def _attribute(rng: np.random.Generator, question: Question, oracle: Oracle) -> Network:
    network = question.network
    places = _places(network, lambda layer: layer.kind in ("leaky", "clip") or any(layer.attributes.get("pads", ())))
    if not places:
        return network
    at = int(rng.choice(places))
    layer = network[at]
    if layer.kind == "clip":
        low, high = (float(end) for end in layer.constants)
        ends = (low - 0.1, high) if rng.random() < 0.5 else (low, high + float(rng.choice([1e-6, 0.1])))
        return _with(network, at, replace(layer, constants=tuple(np.float32(np.array(end)) for end in ends)))
    attributes = dict(layer.attributes)
    if layer.kind == "leaky":
        attributes["alpha"] = float(rng.choice([attributes["alpha"] * 1.01, 0.0, 0.5, -0.1]))
    else:
        half = len(attributes["pads"]) // 2
        total = [attributes["pads"][i] + attributes["pads"][i + half] for i in range(half)]
        before = [int(rng.integers(whole + 1)) for whole in total]
        attributes["pads"] = before + [whole - first for whole, first in zip(total, before, strict=True)]
    return _with(network, at, replace(layer, attributes=attributes))


def _operator(rng: np.random.Generator, question: Question, oracle: Oracle) -> Network:
    """Another operator in a place: a bend, or + for −."""
    network = question.network
    places = _places(network, lambda layer: layer.kind in (*HINGES, "abs", "add", "sub"))
    if not places:
        return network
    at = int(rng.choice(places))
    kind = network[at].kind
    if kind in ("add", "sub"):
        return _with(network, at, replace(network[at], kind={"add": "sub", "sub": "add"}[kind]))
    other = str(rng.choice([bend for bend in ("relu", "leaky", "abs") if bend != kind]))
    attributes = {"alpha": 0.25} if other == "leaky" else {}
    return _with(network, at, replace(network[at], kind=other, attributes=attributes))


def _wiring(rng: np.random.Generator, question: Question, oracle: Oracle) -> Network:
    """A layer reads another one of the same shape."""
    network = question.network
    options = [
        (at, slot, other)
        for at, layer in enumerate(network)
        for slot, source in enumerate(layer.inputs)
        for other in range(1, at)
        if other != source and source and network[other].shape == network[source].shape
    ]
    if not options:
        return network
    at, slot, other = options[int(rng.integers(len(options)))]
    inputs = list(network[at].inputs)
    inputs[slot] = other
    return _with(network, at, replace(network[at], inputs=tuple(inputs)))


MODELS: dict[str, Callable[[np.random.Generator, Question, Oracle], Network]] = {
    "weight": _weight,
    "last bias": _bias,
    "attribute": _attribute,
    "operator": _operator,
    "wiring": _wiring,
}


def reordered(rng: np.random.Generator, network: Network) -> bytes:
    """The same nodes in another order, which may be one that ONNX forbids."""
    proto = to_onnx(network)
    nodes = list(proto.graph.node)
    if len(nodes) > 1:
        first = int(rng.integers(len(nodes) - 1))
        second = first + 1 if rng.random() < 0.5 else int(rng.integers(len(nodes)))
        nodes[first], nodes[second] = nodes[second], nodes[first]
    graph = onnx.GraphProto()
    graph.CopyFrom(proto.graph)
    del graph.node[:]
    graph.node.extend(nodes)
    proto.graph.CopyFrom(graph)
    return bytes(proto.SerializeToString())


# --- specifications ---


def _row(rng: np.random.Generator, question: Question, at: int, change: Callable[[Row], Row]) -> Question:
    rows = list(question.disjuncts[at].rows)
    place = int(rng.integers(len(rows)))
    rows[place] = change(rows[place])
    return with_disjunct(question, at, replace(question.disjuncts[at], rows=tuple(rows)))


def _number(rng: np.random.Generator, question: Question, at: int) -> Question:
    size = Fraction(str(rng.choice(["1e-9", "1e-6", "1e-3", "1"]))) * int(rng.choice([-1, 1]))
    return _row(rng, question, at, lambda row: replace(row, rhs=row.rhs + size))


def _factor(rng: np.random.Generator, question: Question, at: int) -> Question:
    scale = Fraction(str(rng.choice(["-1", "1.000001", "0.999", "2"])))

    def change(row: Row) -> Row:
        if not row.coefs:
            return row
        name = int(rng.choice(list(row.coefs)))
        return replace(row, coefs={**row.coefs, name: scale * row.coefs[name]})

    return _row(rng, question, at, change)


def _relation(rng: np.random.Generator, question: Question, at: int) -> Question:
    """< for <=, or >= for <=."""
    if rng.random() < 0.3:
        return _row(rng, question, at, lambda row: replace(row, strict=not row.strict))
    return _row(rng, question, at, _turned)


def _turned(row: Row) -> Row:
    coefs, inputs = ({i: -c for i, c in side.items()} for side in (row.coefs, row.inputs))
    return replace(row, coefs=coefs, inputs=inputs, rhs=-row.rhs)


def _box(rng: np.random.Generator, question: Question, at: int) -> Question:
    disjunct = question.disjuncts[at]
    inputs = disjunct.inputs
    sides = {"lower": list(inputs.lower), "upper": list(inputs.upper)}
    place, side = int(rng.integers(len(inputs.lower))), str(rng.choice(list(sides)))
    size = Fraction(str(rng.choice(["1e-9", "1e-6", "1e-3", "1"]))) * int(rng.choice([-1, 1]))
    if inputs.centre is not None:
        return with_disjunct(question, at, replace(disjunct, inputs=_ball(rng, inputs, size)))
    sides[side][place] += size
    if sides["lower"][place] > sides["upper"][place]:
        return question
    box = replace(inputs, lower=tuple(sides["lower"]), upper=tuple(sides["upper"]))
    return with_disjunct(question, at, replace(disjunct, inputs=box))


def _ball(rng: np.random.Generator, inputs: InputSet, size: Fraction) -> InputSet:
    """A ball whose radius or centre is another; its box fits it."""
    assert inputs.centre is not None
    centre, radius = list(inputs.centre), inputs.radius
    if rng.random() < 0.5:
        radius = abs(radius + size)
    else:
        centre[int(rng.integers(len(centre)))] += size
    lower, upper = (tuple(c + sign * radius for c in centre) for sign in (-1, 1))
    return replace(inputs, lower=lower, upper=upper, centre=tuple(centre), radius=radius)


def _disjuncts(rng: np.random.Generator, question: Question, at: int) -> Question:
    """One lost, twice there, or in another place."""
    disjuncts = list(question.disjuncts)
    kind = int(rng.integers(3))
    if kind == 0 and len(disjuncts) > 1:
        del disjuncts[at]
    elif kind == 1:
        disjuncts.insert(int(rng.integers(len(disjuncts) + 1)), disjuncts[at])
    else:
        disjuncts.append(disjuncts.pop(at))
    return replace(question, disjuncts=tuple(disjuncts))


def _rows(rng: np.random.Generator, question: Question, at: int) -> Question:
    """A row lost, or one that belongs to another disjunct."""
    disjunct = question.disjuncts[at]
    if len(disjunct.rows) > 1:
        lost = int(rng.integers(len(disjunct.rows)))
        return with_disjunct(question, at, replace(disjunct, rows=disjunct.rows[:lost] + disjunct.rows[lost + 1 :]))
    other: Disjunct = question.disjuncts[int(rng.integers(len(question.disjuncts)))]
    return with_disjunct(question, at, replace(disjunct, rows=other.rows))


SPECS: dict[str, Callable[[np.random.Generator, Question, int], Question]] = {
    "number": _number,
    "factor": _factor,
    "relation": _relation,
    "box": _box,
    "disjuncts": _disjuncts,
    "rows": _rows,
}
