"""Counterexamples: read as text, and judged by exact values of the real-valued network."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import npcheck.__main__ as command
import npcheck.values
from certificates import dense, spec
from npcheck.errors import Refused
from npcheck.network import Affine, Input, Network, Node, Scale, Take
from npcheck.values import enclosed_values, exact_values
from npcheck.witness import Judged, judge, read_witness
from test_bound import exact_values as by_fractions
from test_bound import random_network
from test_charges import chain
from test_network import OPS

SUM = dense(([[1.0, 1.0]], [0.0]))  # float32 has no 2^24 + 1


def judged(folder: Path, text: str, model: bytes = SUM, about: str = "") -> Judged:
    files = [folder / name for name in ("w.txt", "m.onnx", "s.vnnlib")]
    for path, content in zip(files, (text.encode(), model, (about or ASKED).encode()), strict=True):
        path.write_bytes(content)
    return judge(files[0], files[1], files[2])


ASKED = spec([0, 0], ["2e7", 1], 1, "(<= Y_0 16777216)")


@pytest.mark.parametrize("seed", range(40))
def test_exact_values_are_those_of_fractions_and_lie_between_the_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    point = rng.standard_normal(network.nodes[0].size)
    expected = by_fractions(network, [Fraction(value) for value in point.tolist()])[-1]
    assert exact_values(network, point).lower == expected
    ends = enclosed_values(network, point)
    for low, value, high in zip(ends.lower, expected, ends.upper, strict=True):
        assert low is not None
        assert high is not None
        assert low <= value <= high


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_exact_values_of_every_operator(op: Affine) -> None:
    parts = np.split(np.arange(sum(op.sizes)), np.cumsum(op.sizes)[:-1])
    network = Network(
        (
            Node(Input(), (), sum(op.sizes), "x"),
            *(Node(Take(part, (sum(op.sizes),)), (0,), len(part), "part") for part in parts),
            Node(op, tuple(range(1, 1 + len(parts))), op.size, "v"),
        )
    )
    point = np.random.default_rng(5).standard_normal(sum(op.sizes))
    expected = by_fractions(network, [Fraction(value) for value in point.tolist()])[-1]
    assert exact_values(network, point).upper == expected


def test_what_has_no_exact_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="computed in float64"):
        exact_values(chain(1, Scale(np.ones(1), folded=True)), np.ones(1))
    deep = chain(1, *[Scale(np.full(1, 1.0 / 3.0)) for _ in range(30)])
    monkeypatch.setattr(npcheck.values, "MOST_BITS", 1000)
    with pytest.raises(Refused, match="more than 1000 bits"):
        exact_values(deep, np.ones(1))
    monkeypatch.setattr(npcheck.values, "MOST_PRODUCTS", 10)
    with pytest.raises(Refused, match="more than 10 products"):
        exact_values(deep, np.ones(1))


def test_exact_values_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npcheck.values, "MOST_HELD", 5 * 10**4)
    with pytest.raises(Refused, match="bits together"):
        exact_values(chain(40, Scale(np.ones(40))), np.ones(40))


def test_numbers_that_no_float_holds_are_said(tmp_path: Path) -> None:
    layers = [([[2.0**100]], [0.0])] * 12
    found = judged(tmp_path, "((X_0 1.0))", dense(*layers), spec([0], [1], 1, "(<= Y_0 0)"))
    assert "row 0 is missed by more than 1e308 (exactly)" in found.lines[0]


def test_only_a_run_in_float32_breaks_it(tmp_path: Path) -> None:
    """2^24 + 1 is 2^24 in float32, which the specification calls a violation."""
    found = judged(tmp_path, "((X_0 16777216.0)\n (X_1 1.0)\n (Y_0 16777216.0))\n")
    assert not found.violated
    assert "row 0 is missed by about 1 " in found.lines[0]
    assert "do break it: only a run in rounded arithmetic" in found.lines[1]
    found = judged(tmp_path, "sat\n((X_0 16777216.0)(X_1 1.0)(Y_0 16777217.5))")
    assert not found.violated
    assert "do not break it either" in found.lines[1]


def test_the_network_breaks_it(tmp_path: Path) -> None:
    found = judged(tmp_path, "((X_0 16777212.0)(X_1 1.0))")
    assert found.violated
    assert "every row by about 3 (in float64 with all rounding charged)" in found.lines[0]


@pytest.mark.parametrize(("row", "violated"), [("(<= Y_0 1.25)", True), ("(< Y_0 1.25)", False)])
def test_a_tie_is_decided_exactly(tmp_path: Path, row: str, violated: bool) -> None:
    found = judged(tmp_path, "((X_0 0.5)(X_1 0.75))", about=spec([0, 0], [1, 1], 1, row))
    assert found.violated is violated
    assert "(exactly)" in found.lines[0]
    assert ("missed by 0, and it is strict" in found.lines[0]) is not violated


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ("(and (>= X_0 0) (<= X_0 0.25))", "X_0 is 0.5, above 0.25"),
        ("(and (>= X_0 0.75) (<= X_0 1))", "X_0 is 0.5, below 0.75"),
        ("(and (> X_0 0.5) (<= X_0 1))", "X_0 is 0.5, not strictly within 0.5"),
        ("(and (>= X_0 0) (>= X_0 0.5) (> X_0 0.5) (>= X_0 0.5) (<= X_0 1))", "X_0 is 0.5, not strictly within 0.5"),
        ("(and (>= X_0 0) (< X_0 0.5) (<= X_0 1) (<= X_0 0.5))", "X_0 is 0.5, not strictly within 0.5"),
        ("(and (>= X_0 0) (<= X_0 0.5) (< X_0 1))", ""),
        ("(and (> X_0 0) (>= X_0 0.5) (<= X_0 1))", ""),
    ],
)
def test_the_set_is_as_it_is_written(tmp_path: Path, bounds: str, why: str) -> None:
    lines = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
    lines += f"(assert {bounds})(assert (<= X_1 1))(assert (>= X_1 0))(assert (<= Y_0 9))"
    found = judged(tmp_path, "((X_0 0.5)(X_1 1.0)(Y_0 1.5))", about=lines)
    assert found.violated is (not why)
    assert why in found.lines[0]
    assert found.violated or "outside" in found.lines[0]


def test_a_number_that_no_float_equals(tmp_path: Path) -> None:
    """The float32 nearest to 0.1 stands for it: rows see 0.1, which is less."""
    pinned = spec(["0.1", 0], ["0.1", 1], 1, "(<= (+ X_0 X_1) 0.1)", "(<= Y_0 0.2)")
    found = judged(tmp_path, "((X_0 0.1)(X_1 0.0)(Y_0 0.1))", about=pinned)
    assert found.violated
    assert "inputs pinned to a number that no float32 equals, and at the nearest one: 1" in found.lines[1]
    wide = spec(["0.1", 0], ["0.10000000001", 1], 1, "(<= Y_0 0.2)")
    assert "above 0.10000000001" in judged(tmp_path, "((X_0 0.1)(X_1 0.0)(Y_0 0.1))", about=wide).lines[0]
    double = dense(([[1.0, 1.0]], [0.0]), dtype=np.float64)
    assert "pinned to a number that no float64" in judged(tmp_path, "((X_0 0.1)(X_1 0))", double, pinned).lines[1]


def test_disjuncts(tmp_path: Path) -> None:
    """The one that is broken by most counts, or the one that is nearest."""

    def among(*limits: float) -> str:
        return spec([0, 0], [1, 1], 1, f"(or {' '.join(f'(<= Y_0 {limit})' for limit in limits)})")

    assert "disjunct 2 at this point" in judged(tmp_path, "((X_0 1)(X_1 1))", about=among(1, 2.5, 3, 0)).lines[0]
    assert (
        "disjunct 1 there: row 0 is missed by about 0.5"
        in judged(tmp_path, "((X_0 1)(X_1 1))", about=among(1, 1.5, 0)).lines[0]
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("((X_0 1)(X_1 nan))", "X_1: 'nan' is no number"),
        ("((X_0 1)(X_1 1e999))", "X_1: '1e999' is no number, or is out of range"),
        ("((X_0 1)(X_1 1e300))", "beyond float32"),
        ("((X_1 1)(X_0 1))", "X_1 stands where X_0 is expected"),
        ("((X_0 1)(X_0 1))", "X_0 stands where X_1 is expected"),
        ("((X_0 1) and (X_1 1))", "does not stand at character 10"),
        ("((X_0 1", "is not a list"),
        ("(" * 100000, "is not a list"),
        ("(" * 100000 + ")", "does not stand at character 2"),
        ("((X_0 1)(X_1 1)(Y_0 1)(Y_1 1))", "has 1 outputs, the specification speaks of 1, the witness of 2"),
        ("((X_0 1))", "has 2 inputs"),
        ("(\xff)", "ASCII"),
    ],
)
def test_what_is_no_witness(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Refused, match=fault):
        judged(tmp_path, text)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_array(tmp_path: Path, kind: type[np.floating], capsys: pytest.CaptureFixture[str]) -> None:
    judged(tmp_path, "((X_0 1)(X_1 1))")
    np.save(tmp_path / "w.npy", np.array([[0.1, 0.75]], dtype=kind))
    files = [str(tmp_path / name) for name in ("w.npy", "m.onnx", "s.vnnlib")]
    assert command.main(files) == 3
    assert read_witness((tmp_path / "w.npy").read_bytes()).inputs[0] == Fraction(float(kind(0.1)))
    capsys.readouterr()
    whole = (tmp_path / "w.npy").read_bytes()
    for wrong in (whole[:-1], whole[:-4], whole + b"1234", whole.replace(b"False", b"True "), whole[:90], whole[:8]):
        (tmp_path / "w.npy").write_bytes(wrong)
        assert command.main(files) == 2
        assert capsys.readouterr().err.count("\n") == 1
    for other in (np.array([1, 2]), np.array([np.nan, 1.0]), np.array(["a"], dtype=object)):
        np.save(tmp_path / "w.npy", other, allow_pickle=True)
        assert command.main(files) == 2


def test_numbers_are_the_nearest_floats() -> None:
    """The float64 nearest to this one is a tie between two float32, and it is above the tie."""
    tie = Fraction(1) + Fraction(1, 2**24)
    above = tie + Fraction(1, 10**30)
    text = f"((X_0 1.{str((above - 1).numerator * 10**60 // (above - 1).denominator).rjust(60, '0')}))"
    (value,) = read_witness(text.encode()).inputs
    assert value > tie
    assert npcheck.witness._nearest([value, tie], np.float32).tolist() == [1.0 + 2.0**-23, 1.0]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("w.txt", "m.onnx", "s.vnnlib")]
    for text, code, first in (("((X_0 1)(X_1 1))", 3, "violated"), ("((X_0 16777217)(X_1 2))", 1, "not violated")):
        judged(tmp_path, text)
        assert command.main(files) == code
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == first
        assert lines[-1].startswith("spec  ")
    (tmp_path / "w.txt").write_text("((X_0 1)(X_1 x))")
    assert command.main(files) == 2
    streams = capsys.readouterr()
    assert not streams.out
    assert streams.err.count("\n") == 1
