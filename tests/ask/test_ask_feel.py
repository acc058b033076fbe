"""Vectors are indexed as the file or numpy would, and everything shows itself shortly."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import netproof
from netproof.core.shown.picture import png_of
from netproof.core.verdict import Stats, Status, Verdict, Witness
from netproof.problem.ask.compile import violations
from netproof.problem.ask.space import Space
from netproof.problem.ask.vectors import Vector
from support.conditions import network

x, y = netproof.variables(network(2, 4))
BOX = netproof.box([[0, 0]], [[1, 1]])


class Shaped:
    """A network that has nothing but shapes."""

    inputs = outputs = ()
    path = "shapes"

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.input_shape = self.output_shape = shape


def vector(*shape: int) -> Any:
    return Vector.variables(Space((None,), (Shaped(shape),)), "x", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "key", "name"),
    [
        ((1, 4), 3, "x[3]"),
        ((1, 4), (0, 3), "x[3]"),
        ((1, 4), -1, "x[3]"),
        ((4,), 2, "x[2]"),
        ((1, 1, 1, 5), 2, "x[2]"),
        ((1, 1, 1, 5), (0, 0, 0, 2), "x[2]"),
        ((1, 1, 3, 4), (2, 1), "x[2, 1]"),
        ((1, 1, 3, 4), (0, 2, 1), "x[2, 1]"),
        ((1, 1, 3, 4), (0, 0, 2, 1), "x[2, 1]"),
        ((1, 3, 2, 2), (2, 1, 0), "x[2, 1, 0]"),
        ((1, 3, 2, 2), (0, 2, 1, 0), "x[2, 1, 0]"),
        ((1, 1), 0, "x[0]"),
        ((1, 1), (0, 0), "x[0]"),
        ((1,), 0, "x[0]"),
        ((), 0, "x[0]"),
    ],
)
def test_an_element_by_the_shape_of_the_file_with_or_without_its_batch(
    shape: tuple[int, ...], key: Any, name: str
) -> None:
    assert repr(vector(*shape)[key]) == name


def test_slices_are_vectors() -> None:
    image = vector(1, 3, 2, 2)
    assert image.shape == (3, 2, 2)
    assert len(image) == 3
    assert [part.shape for part in image] == [(2, 2)] * 3
    assert repr(list(image[0, :, 1:, 0].flat)) == "[x[0, 1, 0], x[1, 1, 0], x[2, 1, 0]]"
    assert repr(list(image[1].flat)) == "[x[1, 0, 0], x[1, 0, 1], x[1, 1, 0], x[1, 1, 1]]"
    assert repr(list(y[[2, 0]])) == "[y[2], y[0]]"
    assert repr(list(y[np.array([True, False, False, True])])) == "[y[0], y[3]]"
    assert repr(y[1:][0]) == "y[1]"
    assert len(y[..., 1:]) == 3


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: (y[3] > y[1] + 0.1) & (y[0] < 5), "(y[3] > y[1] + 0.1) & (y[0] < 5)"),
        (lambda: ~((y[3] > y[1]) | (y[0] == 5)), "(y[3] <= y[1]) & (y[0] != 5)"),
        (lambda: 2 * y[0] - y[1] / 4 + Fraction(1, 3) <= 0, "2*y[0] - 0.25*y[1] + 1/3 <= 0"),
        (lambda: -y[0] + Decimal("0.1"), "-y[0] + 0.1"),
        (lambda: abs(y[0] - y[1]) < 1, "abs(y[0] - y[1]) < 1"),
        (lambda: (y[0] - 1) * y[1], "(y[0] - 1)*y[1]"),
        (lambda: (y[0] - 1) ** 2, "(y[0] - 1)**2"),
        (lambda: 3 * y[0] * y[1] ** 2, "(3*y[0])*y[1]**2"),
        (lambda: netproof.maximum(y[0], 2, 1), "maximum(y[0], 2)"),
        (lambda: netproof.minimum(y[0], netproof.minimum(y[1], y[2])), "minimum(y[0], y[1], y[2])"),
        (lambda: y.argmax() == 3, "y.argmax() == 3"),
        (lambda: y[1:3].argmin() != 1, "[y[1], y[2]].argmin() != 1"),
        (lambda: ~(y.argmax() == 3), "~(y.argmax() == 3)"),
        (lambda: netproof.between(y, 0, 1), "between(y, 0, 1)"),
        (lambda: netproof.between(y[0], x[0], 1), "between(y[0], x[0], 1)"),
        (lambda: netproof.when(x[0] <= x[1], y[0] > 0), "when(x[0] <= x[1], y[0] > 0)"),
        (lambda: y[0] - y[0], "0"),
        (lambda: y, "Vector(y, shape=[1, 4])"),
        (lambda: y - 1, "Vector([y[0] - 1, y[1] - 1, y[2] - 1, y[3] - 1], shape=[4])"),
        (lambda: network(2, 4), "Network(<torch module>, [1, 2] -> [1, 4])"),
        (lambda: netproof.box([[0, 0]], [[1, 0]]), "InputRegion(box, shape [1, 2], 1 of 2 numbers vary)"),
        (lambda: violations(y[0] > 0, BOX), "Property(1 case of a violation, 2 inputs, 4 outputs)"),
        (lambda: violations(y.argmax() == 0, BOX), "Property(3 cases of a violation, 2 inputs, 4 outputs)"),
        (lambda: netproof.l2_ball([0.1, 0.2], 0.5), "InputRegion(l2 ball of radius 0.5, shape [2])"),
        (lambda: netproof.linear_image([0, 0], [[1, 1]]), "InputRegion(linear image of 1 numbers, shape [2])"),
    ],
)
def test_short_and_readable(made: Any, text: str) -> None:
    assert repr(made()) == text


def test_arrays_of_the_shape_of_the_file_go_with_vectors() -> None:
    image = vector(1, 1, 2, 3)
    moved = image - np.arange(6.0).reshape(1, 1, 2, 3)
    assert moved.shape == (2, 3)
    assert repr(moved[1, 2]) == "x[1, 2] - 5"
    assert repr(netproof.between(image, np.zeros((2, 3)), 1)) == "between(x, [...], 1)"
    assert repr(netproof.between(image, 0, image)) == "between(x, 0, [...])"


def test_long_ones_are_cut_in_the_middle() -> None:
    many = vector(1, 3000)
    assert len(repr(many.sum())) < 150
    assert "2991 more" in repr(many.sum())
    assert len(repr(netproof.every(v > 0 for v in many))) < 150
    assert len(repr(many)) < 40
    assert len(repr(many * 2)) < 120


def test_a_sum_of_many_is_one_form() -> None:
    many = vector(1, 3000)
    assert len(sum(many).terms) == 3000
    assert (sum(many) - many.sum()).terms == {}


def verdict(status: str, **more: Any) -> Verdict:
    stats = Stats()
    stats.seconds["total"] = 0.2
    return Verdict(Status(status), stats=stats, **more)


IMAGE = np.linspace(0, 1, 16, dtype=np.float32).reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (verdict("unsat", lower_bound=5.3612), "Verdict(proved, margin >= 5.36, 0.2 s)"),
        (verdict("unsat", lower_bound=0.0), "Verdict(proved, 0.2 s)"),
        (verdict("unsat", reason="input set is empty"), "Verdict(proved, input set is empty, 0.2 s)"),
        (
            verdict("sat", witness=Witness(IMAGE, np.zeros((1, 2), np.float32)), upper_bound=-1.0),
            "Verdict(broken, counterexample of shape [1, 1, 4, 4], 0.2 s)",
        ),
        (
            verdict("timeout", reason="timeout", lower_bound=-0.85, upper_bound=0.25),
            "Verdict(timeout, margin in [-0.85, 0.25], 0.2 s)",
        ),
        (verdict("unknown", reason="why", upper_bound=0.25), "Verdict(undecided, margin in [-inf, 0.25], why, 0.2 s)"),
    ],
)
def test_a_verdict_in_one_line(made: Verdict, text: str) -> None:
    assert repr(made) == text
    assert (made.proved, made.broken) == (made.status == "unsat", made.status == "sat")
    assert json.loads(json.dumps(made.to_dict()))["verdict"] == made.status
    page = made._repr_html_()
    assert page.startswith("<table>")
    assert ("data:image/png" in page) == made.broken
    with pytest.raises(TypeError, match=r"verdict\.proved"):
        bool(made)


def test_what_is_shown_in_a_page_is_escaped() -> None:
    assert "<b>" not in verdict("unknown", reason="<b>")._repr_html_()


def test_an_image_is_drawn_and_anything_else_is_not() -> None:
    image = png_of(IMAGE)
    assert image is not None
    torch_image = pytest.importorskip("PIL.Image")
    import io

    read = np.asarray(torch_image.open(io.BytesIO(image)))
    assert read.shape == (4, 4)
    assert (read.reshape(-1) == np.round(IMAGE.reshape(-1) * 255.0)).all()
    colour = torch_image.open(io.BytesIO(png_of(np.random.default_rng(0).random((1, 3, 5, 6))) or b""))
    assert (colour.mode, colour.size) == ("RGB", (6, 5))
    assert png_of(np.zeros((1, 10))) is None
    assert png_of(np.zeros((1, 4, 8, 8))) is None
    assert png_of(np.zeros((2, 1, 8, 8))) is None


@pytest.mark.parametrize("wrong", [True, lambda: None, lambda a, b: None])
def test_a_progress_callback_that_cannot_be_called_is_refused(wrong: Any) -> None:
    with pytest.raises(netproof.UsageError, match="progress cannot be"):
        netproof.verify(network(2, 4), BOX, label=0, progress=wrong)


def test_what_the_package_says_it_has_is_there() -> None:
    for name in netproof.__all__:
        assert getattr(netproof, name) is not None
    assert isinstance(y[0], netproof.Expression)
    assert isinstance(y, netproof.Vector)
    assert isinstance(y[0] > 0, netproof.Condition)
