"""Questions asked before the last map: no violation is lost, and none is asked for that is none."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import npcheck.last
from npcheck.exponential import Exp, Sigmoid, Softplus
from npcheck.last import ArgMax, before_last_map
from npcheck.network import Affine, Input, Linear, Network, Node, Op, OrderMap, Relu, Scale, Take
from npcheck.onnx_file import read_network
from npcheck.product import Reciprocal, Square
from npcheck.vnnlib_file import Disjunct, Question, Row
from rational import VALUES
from test_onnx_file import model, node

ZERO = Fraction(0)


def question(outputs: int, *rows: dict[int, Fraction | int], right: Fraction | int = 0, **inputs: int) -> Question:
    made = tuple(
        Row({i: Fraction(c) for i, c in row.items()}, {0: Fraction(1)} if inputs else {}, Fraction(right), False)
        for row in rows
    )
    box = {"lower": (ZERO,), "upper": (Fraction(1),)}
    return Question(1, outputs, (Disjunct(**box, open=(frozenset(), frozenset()), rows=made),))


def network(*ops: Op, size: int = 4) -> Network:
    """Return a network of `size` inputs with these operators one behind the other, and a matrix first."""
    nodes = [Node(Input(), (), size, "x"), Node(Linear(np.eye(size)), (0,), size, "h")]
    for op in ops:
        width = op.size if isinstance(op, Affine) else nodes[-1].size
        nodes.append(Node(op, (len(nodes) - 1,), width, "z"))
    return Network(tuple(nodes))


def softmax(log: bool = False, width: int = 4) -> Network:
    """Return a node that is said to be the softmax of the one before it; what it is made of does not matter."""
    plain = network(Relu())
    return Network(plain.nodes, {2: OrderMap("log softmax" if log else "softmax", 1, width)})


def rows_of(asked: Question) -> list[Row]:
    (disjunct,) = asked.disjuncts
    return list(disjunct.rows)


def test_softmax_keeps_the_order_of_one_vector() -> None:
    asked = question(4, {0: 2, 3: -2}, {1: -1, 2: 1})
    left, moved, names = before_last_map(softmax(), asked)
    assert names == ("softmax",)
    assert len(left.nodes) == 2
    assert rows_of(moved) == rows_of(asked)


@pytest.mark.parametrize(
    ("row", "right", "inputs"),
    [({0: 1}, 0, 0), ({0: 1, 1: -2}, 0, 0), ({0: 1, 1: -1}, 1, 0), ({0: 1, 1: -1, 2: 1}, 0, 0), ({0: 1, 1: -1}, 0, 1)],
)
def test_more_than_order_is_asked_of_the_softmax(row: dict[int, int], right: int, inputs: int) -> None:
    asked = question(4, row, right=right, **({"x": 1} if inputs else {}))
    for whole in (softmax(), network(Softplus())):
        if len(row) == 1 and not whole.maps:
            continue  # one number can be compared with the map's
        assert before_last_map(whole, asked) == (whole, asked, ())


def test_entries_of_two_vectors_are_not_compared() -> None:
    asked = question(4, {0: 1, 2: -1})
    assert before_last_map(softmax(width=2), asked)[2] == ()
    assert before_last_map(softmax(width=2), question(4, {2: 1, 3: -1}))[2] == ("softmax",)


def test_log_softmax_keeps_differences() -> None:
    asked = question(4, {0: 1, 1: 1, 2: -2}, right=Fraction(1, 3))
    assert before_last_map(softmax(log=True), asked)[1:] == (asked, ("log softmax",))
    assert before_last_map(softmax(log=True, width=2), asked)[2] == ()
    assert before_last_map(softmax(log=True), question(4, {0: 1, 1: 1, 2: -1}))[2] == ()


@pytest.mark.parametrize("op", [Sigmoid, Softplus, Exp])
@pytest.mark.parametrize("factor", [1, -3])
def test_a_number_is_taken_to_the_other_side(op: type[Sigmoid], factor: int) -> None:
    """The float t is beyond the argument where the map has the value, and next to it."""
    rng = np.random.default_rng(1)
    for value in [Fraction(x) for x in rng.random(4).tolist()]:
        _, moved, names = before_last_map(network(op()), question(4, {1: factor}, right=factor * value))
        assert names == (op.name,)
        (row,) = rows_of(moved)
        assert row.outputs == {1: Fraction(factor)}
        t = row.right / factor
        away = Fraction(1, 10**9) * (1 if factor > 0 else -1)
        (least, _), (_, most) = VALUES[op](t), VALUES[op](t)
        assert least >= value if factor > 0 else most <= value
        (least, _), (_, most) = VALUES[op](t - away), VALUES[op](t - away)
        assert most < value if factor > 0 else least > value


@pytest.mark.parametrize(("factor", "value"), [(1, 1), (1, 2), (-1, 0), (-1, -1)])
def test_numbers_beyond_the_map_are_no_condition(factor: int, value: int) -> None:
    _, moved, _ = before_last_map(network(Sigmoid()), question(4, {0: factor}, right=factor * value))
    assert rows_of(moved) == [Row({}, {}, ZERO, False)]


@pytest.mark.parametrize(("factor", "value"), [(1, 0), (1, -1), (-1, 1), (-1, 2)])
def test_what_the_map_never_is_stays_far_away(factor: int, value: int) -> None:
    _, moved, _ = before_last_map(network(Sigmoid()), question(4, {0: factor}, right=factor * value))
    (row,) = rows_of(moved)
    assert factor * row.right / factor <= -30


def test_entries_are_followed_through_what_moves_and_scales_them() -> None:
    """tanh(x) = 2·σ(2·x) − 1, picked, with a constant: every number of the rows is exact."""
    scale = Scale(np.full(4, 2.0), bias=np.full(4, -1.0))
    take = Take(np.array([3, -1, 0, 2, 1]), (4,), bias=np.array([0.0, 0.25, 0.0, 0.0, 0.0]))
    whole = network(Scale(np.array([2.0, 2.0, 0.5, 2.0])), Sigmoid(), scale, take)
    left, moved, names = before_last_map(whole, question(5, {0: 1, 2: -1}, {4: 1, 2: -1}))
    assert names == ("sigmoid",)
    assert len(left.nodes) == 3
    assert [row.outputs for row in rows_of(moved)] == [{3: 2, 0: -2}, {1: 2, 0: -2}]
    (row,) = rows_of(before_last_map(whole, question(5, {0: 1, 1: 1}, right=Fraction(1, 4)))[1])
    assert row.outputs == {3: 2}
    assert abs(row.right) < Fraction(1, 10**12)  # tanh(z) <= 0 where z <= 0


def argmax(last: bool = False) -> Network:
    """Return the places of the largest entries of two vectors of three."""
    nodes = [Node(Input(), (), 6, "x"), Node(Linear(np.eye(6)), (0,), 6, "h")]
    nodes += [Node(Take(np.array([i, 3 + i]), (6,)), (1,), 2, "t") for i in range(3)]
    nodes.append(Node(ArgMax(3, last), (2, 3, 4), 2, "y"))
    return Network(tuple(nodes), {5: OrderMap("argmax, last" if last else "argmax", 1, 3)})


@pytest.mark.parametrize("last", [False, True])
def test_a_place_is_the_order_of_entries(last: bool) -> None:
    """What violates the rows on places violates one of the disjuncts on scores, and nothing else does; ties too."""
    whole, rng = argmax(last), np.random.default_rng(2)
    scores = np.concatenate([rng.integers(0, 3, (300, 6)).astype(float), rng.standard_normal((100, 6))])
    values = whole.values(scores)[-1].tolist()
    asks = (
        [({0: 1}, 0)],
        [({1: -2}, -1)],
        [({0: 1}, 1), ({0: -1}, -1), ({1: 3}, 4)],
        [({0: 1}, Fraction(1, 2)), ({1: -1}, -2)],
        [({0: 1}, -1)],
        [({0: 1}, 2)],
    )
    for rows in asks:
        made = tuple(Row({i: Fraction(c) for i, c in row.items()}, {}, Fraction(d), False) for row, d in rows)
        asked = replace(question(2), disjuncts=(replace(question(2).disjuncts[0], rows=made),))
        left, moved, names = before_last_map(whole, asked)
        assert (left.nodes[-1].size, names) == (6, (whole.maps[5].kind,))
        for point, places in zip(scores.tolist(), values, strict=True):
            by_scores = [all(holds(row, point) for row in disjunct.rows) for disjunct in moved.disjuncts]
            assert sum(by_scores) == all(holds(row, places) for row in made)


def test_long_and_wide_questions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may have any number of moves at its end, and any number of places."""
    asked = question(4, {0: 1, 1: -1})
    moves = [Scale(np.full(4, 2.0)) for _ in range(20)]
    assert before_last_map(network(Sigmoid(), *moves[:15]), asked)[2] == ("sigmoid",)
    assert before_last_map(network(Sigmoid(), *moves), asked)[2] == ()
    whole, two = argmax(), question(2, {0: 1}, {1: 1}, right=1)  # two places each: 4 disjuncts with 4 rows
    for most, together, names in ((16, 14, ("argmax",)), (15, 14, ()), (16, 13, ())):
        monkeypatch.setattr(npcheck.last, "MOST", most)
        monkeypatch.setattr(npcheck.last, "MOST_TOGETHER", together)
        assert before_last_map(whole, two)[2] == names


def holds(row: Row, values: list[float]) -> bool:
    total = sum((c * Fraction(values[i]) for i, c in row.outputs.items()), ZERO)
    return total < row.right or (total == row.right and not row.strict)


def test_places_that_are_not_asked_for_alone_stay_and_are_bounded() -> None:
    whole = argmax()
    for asked in (question(2, {0: 1, 1: 1}), question(2, {0: 1}, x=1)):
        assert before_last_map(whole, asked) == (whole, asked, ())
    with np.errstate(all="ignore"):
        low, high = (
            argmax()
            .nodes[-1]
            .op.interval(  # type: ignore[union-attr]
                [np.array([[0.0, 2.0]]), np.array([[1.0, 0.0]]), np.array([[-1.0, -np.inf]])],
                [np.array([[0.5, 3.0]]), np.array([[2.0, 0.0]]), np.array([[1.0, np.inf]])],
            )
        )
    assert (low.tolist(), high.tolist()) == ([[1.0, 0.0]], [[2.0, 2.0]])


def test_maps_one_behind_the_other() -> None:
    asked = question(4, {0: 1, 1: -1})
    left, moved, names = before_last_map(network(Sigmoid(), Exp(), Softplus()), asked)
    assert (len(left.nodes), moved, names) == (2, asked, ("softplus", "exp", "sigmoid"))


@pytest.mark.parametrize("op", [Relu(), Square(), Reciprocal(), Scale(np.full(4, 0.1), folded=True)])
def test_what_keeps_no_order_stays(op: Op) -> None:
    whole, asked = network(Sigmoid(), op), question(4, {0: 1, 1: -1})
    assert before_last_map(whole, asked) == (whole, asked, ())


def test_one_row_that_does_not_fit_keeps_the_map() -> None:
    whole, asked = softmax(), question(4, {0: 1, 1: -1}, {0: 1})
    assert before_last_map(whole, asked) == (whole, asked, ())
    only_inputs = question(4, {0: 1, 1: -1}, {})
    assert before_last_map(whole, only_inputs)[2] == ("softmax",)


def test_a_softmax_of_a_file_is_left_out() -> None:
    proto = model([node("Relu", ["x"], ["z"]), node("Softmax", ["z"], axis=1)], [1, 3, 2])
    whole = read_network(proto.SerializeToString())
    left, moved, names = before_last_map(whole, question(6, {0: 1, 2: -1}))
    assert names == ("softmax",)
    assert not left.nonlinear
    point = np.array([[1.0, 2.0, -3.0, 4.0, 5.0, 6.0]])
    ((before, after),) = [row.outputs for row in rows_of(moved)]
    assert left.values(point)[-1][0, [before, after]].tolist() == [1.0, 0.0]
    assert before_last_map(whole, question(6, {0: 1, 1: -1}))[2] == ()  # of two vectors, since the axis is 1
