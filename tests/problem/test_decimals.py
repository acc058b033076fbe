"""Decimal literals rounded in bulk are rounded as each one's fraction is, to the last bit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netproof.problem.decimal import decimal
from netproof.problem.decimals import Decimals
from netproof.problem.rounding import Rounded

digits = st.text("0123456789", min_size=1, max_size=24)
plain = st.builds(
    lambda sign, whole, decimals, dot: sign + whole + (dot and dot + decimals),
    st.sampled_from(["", "-", "+"]),
    digits,
    st.just("") | digits,
    st.sampled_from(["", "."]),
)
with_exponent = st.builds(lambda text, power: f"{text}e{power}", plain, st.integers(-330, 280))
# The shortest decimal of a float, or all the digits of one of float32: what tools write into specifications.
written = st.floats(-1e6, 1e6).map(repr) | st.floats(-1e3, 1e3, width=32).map(lambda x: f"{x:.17g}")
# Between two floats, at most a digit away from the middle.
halfway = st.builds(
    lambda x, keep, last: str((Decimal(x) + Decimal(float(np.nextafter(x, 9e9)))) / 2)[:keep] + str(last),
    st.floats(0.5, 1e6),
    st.integers(15, 22),
    st.integers(0, 9),
)
literals = plain | with_exponent | written | halfway


def fractions(texts: list[str]) -> list[Fraction]:
    values = [decimal(text) for text in texts]
    return [value for value in values if value is not None]


@settings(max_examples=1000, deadline=None)
@given(st.lists(literals, min_size=1, max_size=6))
@example(["0.1", "-0.1", "0", "-0.0", "1", "-2.50", "+.5", "5.", "9007199254740993", "-9007199254740993"])
@example(["0.1000000000000000055511151231257827", "123456789012345678", "999999999999999999", "1e-5", "1e23"])
@example(["0.000000000000000001", "0.43135022170843595", "-0.02109375", "1e-400", "-1e-400"])
def test_rounds_as_fractions_do(texts: list[str]) -> None:
    mine, reference = Decimals(tuple(texts)).rounded, Rounded.of(fractions(texts))
    assert mine.near.tobytes() == reference.near.tobytes()
    assert mine.rest.tolist() == reference.rest.tolist()
    assert mine.rest.dtype == reference.rest.dtype


def test_most_literals_need_no_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes this worth its while: of the usual numbers, none takes the slow way."""
    random = np.random.default_rng(0)
    texts = [f"{x:.9g}" for x in random.uniform(-2, 2, 200)]
    texts += [repr(float(np.float32(x))) for x in random.uniform(0.001, 2, 200)]
    asked: list[object] = []
    monkeypatch.setattr(Rounded, "of", lambda values: asked.append(values))
    assert len(Decimals(tuple(texts)).rounded.near) == len(texts)
    assert not asked


def test_is_the_sequence_of_its_fractions() -> None:
    values = (Fraction(1, 4), Fraction(-3), Fraction(1, 10))
    decimals = Decimals(("0.25", "-3", "1e-1"))
    assert decimals == values
    assert values == decimals
    assert decimals == Decimals(("0.250", "-3.0", "0.1"))
    assert hash(decimals) == hash(values)
    assert decimals != values[:2]
    assert decimals != Decimals(("0.25", "-3", "0.2"))
    assert (decimals[1], list(decimals), len(decimals)) == (Fraction(-3), list(values), 3)
    assert decimals[1:] == values[1:]


@pytest.mark.parametrize("text", ["1e999999", "1" * 400, "9" * 1001, "1e309"])
def test_numbers_beyond_the_limits_overflow(text: str) -> None:
    with pytest.raises(OverflowError):
        _ = Decimals(("0.5", text)).rounded
