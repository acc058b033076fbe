"""Exact arithmetic: its numbers, its operators, and passes that are done again."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import npcheck.__main__ as command
import npcheck.bound
from certificates import AGAIN, CLIP, DUALS, RAY, Case, bounds, chunks, dense, floats, header, leaf, spec, split
from npcheck.errors import Invalid
from npcheck.exact import Reservoir, dyadic, transposed, weights_of
from npcheck.network import Affine
from test_network import OPS

finite = st.floats(allow_nan=False, allow_infinity=False)
EYE = np.eye(2)
LAYERS = (([[1.1, 0.3], [-0.7, 0.9]], [0.1, -0.2]), ([[0.3, 0.7], [1.3, -0.6]], [0.3, 0.1]), ([[1, -1.7]], [5.3]))
SPEC = spec([-0.3, 0.1], [0.3, "0.7"], 1, "(<= (* 1.1 Y_0) 0.1)")


@given(arrays.arrays(np.float64, 4, elements=finite), arrays.arrays(np.float64, 4, elements=finite))
def test_numbers_are_exact(x: np.ndarray, y: np.ndarray) -> None:
    for floats_, exact in ((x, dyadic(x)), (y, dyadic(y))):
        assert [exact.fraction(i) for i in range(4)] == [Fraction(value) for value in floats_.tolist()]
    a, b = [Fraction(v) for v in x.tolist()], [Fraction(v) for v in y.tolist()]
    for found, expected in (
        (dyadic(x) + dyadic(y), [p + q for p, q in zip(a, b, strict=True)]),
        (dyadic(x) - dyadic(y), [p - q for p, q in zip(a, b, strict=True)]),
        (dyadic(x) * dyadic(y), [p * q for p, q in zip(a, b, strict=True)]),
        (dyadic(x).least(dyadic(y)), [min(p, q) for p, q in zip(a, b, strict=True)]),
    ):
        assert [found.fraction(i) for i in range(4)] == expected
        assert found.total() == sum(expected)


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_the_exact_adjoint_is_the_transpose_of_forward(op: Affine) -> None:
    """W from unit vectors is exact in float64, too: its entries are those of the file."""
    units = np.eye(sum(op.sizes))
    matrix = op.forward(np.split(units, np.cumsum(op.sizes)[:-1], axis=1)).T
    a = np.random.default_rng(1).standard_normal(op.size) * 2.0 ** np.linspace(-300, 300, op.size)
    found = [part.fraction(i) for part in transposed(op, weights_of(op), dyadic(a)) for i in range(len(part.numbers))]
    exact = [
        sum(Fraction(w) * Fraction(x) for w, x in zip(column, a.tolist(), strict=True)) for column in matrix.T.tolist()
    ]
    assert found == exact


def test_a_reservoir_gives_all_the_same_chance() -> None:
    counts = np.zeros(20)
    for seed in range(2000):
        reservoir = Reservoir(5, random.Random(seed))
        for i in range(20):
            reservoir.offer(lambda i=i: i)  # type: ignore[misc]
        assert len(set(reservoir.kept)) == 5
        counts[reservoir.kept] += 1
    assert abs(counts - 500).max() < 100


def body() -> bytes:
    """Return a body that has all kinds of bounds: by default, by slopes, by a claim's tree, and leaves of all kinds."""
    first = bounds(2, [0, 1])
    second = bounds(2, [0, 1], [0x13, 0x21]) + floats("f", -1.5) + bytes((0x5A,))
    claim = split(0, 0.0) + leaf() + bytes((8,)) + leaf(3, b"\x0a") + leaf(4, floats("e", 0.25))
    tree = bytes((8 + 2,)) + bytes((AGAIN,)) + leaf(16, floats("f", 0.7)) + split(1, 0.3) + bytes((CLIP,)) + leaf()
    tree += leaf(8, floats("f", 0.1, 0.2, -0.3, 0.5))
    return first + second + claim + tree


def test_everything_is_done_again(tmp_path: Path) -> None:
    case = Case(tmp_path, dense(*LAYERS), SPEC)
    heard: list[str] = []
    done = case.check(body(), exact=1000, seed=7, progress=lambda at: heard.append(at.what))
    assert done.leaves == 3
    assert done.exact is not None
    assert done.exact[0] == 3
    assert done.exact[1] >= 3 + 3
    assert heard.count("exact arithmetic") == sum(done.exact)
    assert case.check(body(), exact=2, seed=7).exact == (2, 2)
    assert case.check(body()).exact is None


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = dense(*LAYERS)
    case = Case(tmp_path, model, SPEC)
    case.certificate.write_bytes(header(model, SPEC.encode()) + chunks(body()))
    files = [str(case.certificate), str(case.model), str(case.spec)]
    assert command.main([*files, "--exact", "2", "--seed", "11"]) == 0
    text = capsys.readouterr().out
    assert "2 leaves and 2 bounds of neurons, chosen at random (seed 11), held in exact arithmetic too" in text
    assert command.main([*files, "--exact", "1"]) == 0
    assert "1 leaf and 1 bound of neurons, chosen at random (seed " in capsys.readouterr().out
    for wrong in ("-1", "x"):
        with pytest.raises(SystemExit) as stopped:
            command.main([*files, "--exact", wrong])
        assert stopped.value.code == 2


@pytest.mark.parametrize("what", ["leaf", "neuron"])
def test_a_wrong_bound_is_found(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are too high by a little, as by a charge that is missing, are told with their place."""
    case = Case(tmp_path, dense(*LAYERS), SPEC)
    right = npcheck.bound._over_the_box

    def wrong(form: Any, ranges: Any, rate: float) -> np.ndarray:
        return right(form, ranges, rate) + (1e-11 if (form.weights is None) == (what == "neuron") else 0.0)

    monkeypatch.setattr(npcheck.bound, "_over_the_box", wrong)
    case.check(body())
    with pytest.raises(
        Invalid, match=r"^(disjunct 0: leaf \d|neuron \d of node .* from \w+): .* above its exact value"
    ):
        case.check(body(), exact=1000)


def test_wrong_numbers_on_the_way_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float64 adjoint that loses a little is found, although the exact pass starts from its coefficients."""
    case = Case(tmp_path, dense(*LAYERS), SPEC)
    right = npcheck.network.Linear.adjoint
    monkeypatch.setattr(npcheck.network.Linear, "adjoint", lambda op, coef: [0.999 * x for x in right(op, coef)])
    case.check(body())
    with pytest.raises(Invalid, match="above its exact value"):
        case.check(body(), exact=1000)


def test_an_empty_part_is_empty_exactly_too(tmp_path: Path) -> None:
    """x <= 0 and x − 1 >= 0: no x is both. A ray that adds both shows it, where all weights are 0."""
    model = dense(([[1.0], [1.0]], [0.0, -1.0]), ([[0.0, 0.0]], [-1.0]))
    case = Case(tmp_path, model, spec([-2], [2], 1, "(<= Y_0 -2)"))

    def tree(ray: bytes) -> bytes:
        return bounds(2, [0, 1]) + bytes((8, 9)) + leaf() + leaf() + bytes((9,)) + ray + leaf()

    with pytest.raises(Invalid, match="leaf 2 is not shown"):
        case.check(tree(leaf(RAY)))
    assert case.check(tree(leaf(RAY + DUALS, floats("f", 1.0, -1.0))), exact=10).exact == (4, 0)


def test_the_sample_is_that_of_the_seed(tmp_path: Path) -> None:
    case = Case(tmp_path, dense(*LAYERS), SPEC)
    seeds = {case.check(body(), exact=1).seed for _ in range(3)}
    assert len(seeds) > 1
    assert max(seeds) < 2**32
