"""Trees and bounds of a certificate: what is refused in them, and that no size in them does harm."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from certificates import (
    AGAIN,
    CLIP,
    DUALS,
    INPUT,
    LEAF,
    MULTIPLIERS,
    NEURON,
    RAY,
    WEIGHTS,
    Case,
    bounds,
    dense,
    floats,
    leaf,
    spec,
    split,
    varint,
)
from npcheck.errors import Invalid

EYE = np.eye(2)
MODEL = dense((EYE, [0, 0]), (EYE, [-1, -1]), ([[1, 1]], [5]))
SPEC = spec([-1, -1], [1, 1], 1, "(<= Y_0 0)")
FIRST = bounds(2, [0, 1]) * 2  # of both layers: four packed neurons


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path, MODEL, SPEC)


def neuron(i: int) -> bytes:
    return varint(NEURON + i)


@pytest.mark.parametrize(
    ("tree", "leaves"),
    [
        (leaf(), 1),
        (bytes((AGAIN,)) + leaf(), 1),
        (bytes((AGAIN, AGAIN)) + split(0, 0.0) + leaf() + leaf(), 2),
        (split(0, 0.5) + leaf() + split(0, 0.5) + leaf() + leaf(), 3),  # an empty width, but a part
        (split(0, -1.0) + leaf() + leaf(), 2),
        (neuron(0) + leaf() + neuron(1) + leaf() + leaf(), 3),
        (bytes((CLIP,)) + leaf(), 1),
        (split(0, 0.5) + bytes((CLIP, CLIP)) + leaf() + bytes((AGAIN, CLIP)) + leaf(), 2),
        (neuron(0) + neuron(2) + leaf() + bytes((AGAIN,)) + leaf() + leaf(), 3),
        (neuron(0) + leaf() + split(1, 0.25) + neuron(3) + leaf() + leaf() + leaf(), 4),
        (leaf(1, b"\x0f"), 1),
        (leaf(2, b"\xff"), 1),
        (leaf(3, b"\xff\x80"), 1),
        (neuron(1) + leaf(1 | MULTIPLIERS, b"\x07" + floats("e", -0.25)) + leaf(MULTIPLIERS, floats("e", 0.5)), 2),
        (leaf(WEIGHTS, floats("f", 2.0)), 1),
        (leaf(WEIGHTS | DUALS, floats("f", 1e-3, 0, 0, 0, 0)), 1),
    ],
)
def test_good_trees(case: Case, tree: bytes, leaves: int) -> None:
    assert case.check(FIRST + tree).leaves == leaves


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        (b"", "ends too early"),
        (bytes((LEAF,)), "ends too early"),
        (leaf() + b"\0", "goes on after its end"),
        (leaf() + leaf(), "goes on after its end"),
        (split(0, 0.0) + leaf(), "ends too early"),
        (neuron(0) + leaf(), "ends too early"),
        (neuron(0) + neuron(0) + leaf() * 3, "split twice"),
        (neuron(0) + leaf() + neuron(1) + neuron(0) + leaf() * 3, "split twice"),
        (neuron(4) + leaf() * 2, "packed neuron 4 of 4"),
        (varint(2**35 - 1) + leaf() * 2, "of 4"),
        (b"\xff" * 9 + leaf() * 2, "more than 5 bytes"),
        (split(2, 0.0) + leaf() * 2, "input 2 of 2"),
        (bytes((INPUT,)) + varint(2**34) + floats("d", 0.0) + leaf() * 2, "of 2"),
        (split(0, 1.0000001) + leaf() * 2, "outside of"),
        (split(0, -2.0) + leaf() * 2, "outside of"),
        (split(0, 0.5) + split(0, 0.75) + leaf() * 3, "outside of"),
        (split(0, 0.5) + leaf() + split(0, 0.25) + leaf() * 2, "outside of"),
        (split(0, np.nan) + leaf() * 2, "not finite"),
        (split(0, np.inf) + leaf() * 2, "not finite"),
        (b"\x02" + leaf(), "tree code 2"),
        (b"\x05" + leaf(), "tree code 5"),
        (b"\x06" + leaf(), "tree code 6"),
        (b"\x07" + leaf(), "tree code 7"),
        (leaf(64), "flags 64"),
        (leaf(128), "flags 128"),
        (leaf(255), "flags 255"),
        (leaf(DUALS | 1), "flags 9"),
        (leaf(DUALS | MULTIPLIERS), "flags 12"),
        (leaf(WEIGHTS | RAY), "flags 48"),
        (leaf(WEIGHTS, floats("f", -1.0)), "weight below 0"),
        (leaf(WEIGHTS, floats("f", -1e-45)), "weight below 0"),
        (leaf(WEIGHTS, floats("f", np.nan)), "not finite"),
        (leaf(WEIGHTS, floats("f", np.inf)), "not finite"),
        (leaf(WEIGHTS, floats("f", 0.0)), "not shown"),
        (leaf(RAY), "not shown"),
        (leaf(DUALS, floats("f", 0, np.nan, 0, 0)), "not finite"),
        (neuron(0) + leaf(MULTIPLIERS, floats("e", np.inf)) + leaf(), "not finite"),
        (leaf(DUALS, floats("f", 1e38, -1e38, 1e38, 0)), "not shown"),
    ],
)
def test_bad_trees(case: Case, tree: bytes, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        case.check(FIRST + tree)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (bounds(2, codes=[4, 0]), "code of a neuron"),
        (bounds(2, codes=[0, 0x40]), "code of a neuron"),
        (bounds(2, codes=[0xFF, 0]), "code of a neuron"),
        (bounds(2, codes=[3, 0]) + floats("f", np.nan), "not finite"),
        (bounds(2, codes=[3, 0]) + floats("f", np.inf), "not finite"),
        (bounds(2, codes=[3, 0]) + floats("f", 0.0) + leaf(), "neuron 0 of node .* from below: leaf 0 is not shown"),
        (bounds(2, codes=[0x30, 0]) + floats("f", -0.5) + leaf(), "neuron 0 of node .* from above: leaf 0"),
        (bounds(2, codes=[3, 0]) + floats("f", -2.0) + bytes((CLIP,)) + leaf(), "tree code 1 is not known"),
        (bounds(2, codes=[3, 0]) + floats("f", -2.0) + neuron(0) + leaf() * 2, "packed neuron 0 of 0"),
        (bounds(2, codes=[3, 3]) + floats("f", -2.0, -2.0) + leaf() + FIRST, "not shown|tree code|flags|goes on|early"),
    ],
)
def test_bad_bounds(case: Case, data: bytes, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        case.check(data + bounds(2) + leaf())


def test_a_claim_does_not_rest_on_claims_of_its_own_node(case: Case) -> None:
    """Splits of neurons of the same node are not there yet."""
    claim = bounds(2, [0, 1], [3, 0]) + floats("f", 0.0) + neuron(0) + leaf() + leaf()
    with pytest.raises(Invalid, match="packed neuron 0 of 0"):
        case.check(claim + bounds(2) + leaf())
    deeper = bounds(2, [0, 1], [3, 0]) + floats("f", -2.5) + neuron(1) + leaf() + leaf()
    assert case.check(bounds(2, [0, 1]) + deeper + leaf()).leaves == 1


@pytest.mark.parametrize(
    ("side", "least", "tree"),
    [
        (0x03, -1.0, leaf(3, b"\0")),
        (0x03, -1.0, neuron(0) + leaf(MULTIPLIERS, floats("e", 1.0)) + leaf()),
        (0x03, -1.0, split(0, 0.0) + leaf(3, b"\0") + neuron(0) + leaf(MULTIPLIERS, floats("e", 1.0)) + leaf()),
        (0x30, 0.0, leaf()),
        (0x30, 0.0, neuron(0) + leaf() + leaf()),
    ],
)
def test_a_claim_is_less_than_what_its_tree_shows(case: Case, side: int, least: float, tree: bytes) -> None:
    """h = relu(x) − 1 is from −1 to 0, which all of these trees show but for charges; the least itself they do not."""
    for claim, holds in ((least - 2.0**-20, True), (least, False), (least + 2.0**-20, False)):
        body = bounds(2, [0, 1]) + bounds(2, [0, 1], [side, 0]) + floats("f", claim) + tree + leaf()
        if holds:
            assert case.check(body).leaves == 1
        else:
            with pytest.raises(Invalid, match=r"neuron 0 of node .* is not shown: .* is not above"):
                case.check(body)


@pytest.mark.parametrize("kind", ["again", "input"])
def test_deep_trees(case: Case, kind: str) -> None:
    """100 000 levels: refused at 2^16, with no more memory than the stack of splits needs."""
    step = bytes((AGAIN,)) if kind == "again" else split(0, -1.0)
    began = time.process_time()
    tracemalloc.start()
    with pytest.raises(Invalid, match="deeper than 65536"):
        case.check(FIRST + step * 100_000 + leaf() * 100_001)
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
    assert time.process_time() - began < 20


def test_a_deep_tree_that_is_good(case: Case) -> None:
    depth = 3000
    assert case.check(FIRST + (split(0, 1.0) + leaf()) * depth + leaf()).leaves == depth + 1


def test_no_more_slopes_are_held_than_for_256_sides(tmp_path: Path) -> None:
    """4000 sides with slopes for 2000 packed neurons each would be 64 MB, twice, and come from a file of a few kB."""
    size = 2000
    eye = np.eye(size, dtype=np.float32)
    model = dense((eye[:, :2], np.zeros(size)), (eye[:1].repeat(size, 0), np.zeros(size)), (eye[:1], [2.0]))
    case = Case(tmp_path, model, spec([-1, -1], [1, 1], 1, "(<= Y_0 0)"))
    body = bounds(size, range(size)) + bounds(size, codes=[0x22] * size) + bytes(size * size) + leaf()
    tracemalloc.start()
    assert case.check(body).leaves == 1
    assert tracemalloc.get_traced_memory()[1] < 400 << 20
    tracemalloc.stop()


def test_batches_of_leaves(case: Case) -> None:
    """More leaves than are bounded at once, with ones between for which all is bounded again; the last one fails."""
    some = b"".join(split(0, -1 + i / 300) + (bytes((AGAIN,)) if i % 97 == 5 else b"") + leaf() for i in range(590))
    assert case.check(FIRST + some + leaf()).leaves == 591
    with pytest.raises(Invalid, match="leaf 590 is not shown"):
        case.check(FIRST + some + leaf(RAY))
