from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from netproof.errors import UsageError
from netproof.problem.property import Row
from netproof.problem.reduce import reduce
from netproof.problem.specs import box, classification, exact, l1_ball, l2_ball, linf_ball, output_constraint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(0.1)),
        ("0.1", Fraction(1, 10)),
        ("2/255", Fraction(2, 255)),
        (" 2 / 255 ", Fraction(2, 255)),
        ("1e-3", Fraction(1, 1000)),
        ("8/2.55e2", Fraction(8, 255)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.3"), Fraction(3, 10)),
        (np.float32(0.1), Fraction(float(np.float32(0.1)))),
        (np.int64(3), Fraction(3)),
        (torch.tensor(0.1), Fraction(float(np.float32(0.1)))),
    ],
)
def test_numbers_are_taken_exactly(value: Any, expected: Fraction) -> None:
    assert exact(value) == expected


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "abc", "", "1/0", "1/2/3", "1e999999999", None, [1], 1j, torch.zeros(2)],
)
def test_what_is_not_a_number_is_refused(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        exact(value, "eps")
    assert str(caught.value).startswith("eps cannot be")


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: a.astype(np.float64),
        torch.from_numpy,
        lambda a: torch.from_numpy(a).requires_grad_(),
        lambda a: a.tolist(),
        lambda a: [[np.float32(v) for v in row] for row in a],
    ],
)
def test_every_kind_of_array_gives_the_same_ball(make: Any) -> None:
    x = np.array([[0.1, 0.9], [0.5, 0.0]], dtype=np.float32)
    region = linf_ball(make(x), "1/10", clip=(0, 1))
    centre = [Fraction(float(v)) for v in x.reshape(-1)]
    assert region.box.lower == tuple(max(c - Fraction(1, 10), Fraction(0)) for c in centre)
    assert region.box.upper == tuple(min(c + Fraction(1, 10), Fraction(1)) for c in centre)
    assert region.shape == (2, 2)
    assert region.ball is None


def test_half_precision_tensors_are_exact() -> None:
    x = torch.tensor([0.1], dtype=torch.bfloat16)
    assert linf_ball(x, 0).box.lower == (Fraction(float(x)),)


@pytest.mark.parametrize(("make", "p"), [(l1_ball, 1), (l2_ball, 2)])
def test_balls_keep_their_centre_and_a_clipped_box(make: Any, p: int) -> None:
    region = make([0.25, 0.75], 0.5, clip=([0, 0], [1, 0.875]))
    assert region.ball is not None
    assert (region.ball.centre, region.ball.radius, region.ball.p) == (
        (Fraction(1, 4), Fraction(3, 4)),
        Fraction(1, 2),
        p,
    )
    assert region.box.lower == (Fraction(0), Fraction(1, 4))
    assert region.box.upper == (Fraction(3, 4), Fraction(7, 8))


def test_classification_has_one_disjunct_a_target() -> None:
    region = box([0, 0], [1, 1])
    prop = classification(region, label=1, n_outputs=3)
    assert [d.rows for d in prop.disjuncts] == [
        (Row({1: Fraction(1), 0: Fraction(-1)}, Fraction(0)),),
        (Row({1: Fraction(1), 2: Fraction(-1)}, Fraction(0)),),
    ]
    tie = [Fraction(1), Fraction(1), Fraction(0)]
    assert [d.holds([Fraction(0), Fraction(0)], tie) for d in prop.disjuncts] == [True, False]
    assert len(classification(region, 1, 3, targets=[2]).disjuncts) == 1
    assert (prop.inputs, prop.outputs) == (2, 3)


def test_output_constraints_are_violated_strictly_below() -> None:
    prop = output_constraint(box([0], [1]), [[1, -1], [0, 2]], [0, "0.5"])
    x = [Fraction(0)]
    assert not prop.violated(x, [Fraction(1, 4), Fraction(1, 4)])
    assert prop.violated(x, [Fraction(0), Fraction(1, 4)])
    assert prop.violated(x, [Fraction(1), Fraction(1, 5)])
    assert len(prop.disjuncts) == 2


def test_constant_output_rows_are_settled_at_once() -> None:
    assert output_constraint(box([0], [1]), [[0, 0]], [0]).disjuncts == ()
    (always,) = output_constraint(box([0], [1]), [[0, 0]], [1]).disjuncts
    assert always.rows == ()


def test_regions_reduce(affine) -> None:
    network = affine([[1.0, 0.0], [0.0, 1.0]])
    (problem,) = reduce(network, classification(l2_ball([0.5, 0.5], "2/255"), 0, 2))
    assert problem.input_set.p == 2
    assert Fraction(problem.input_set.radius) >= Fraction(2, 255)
    assert problem.input_set.centre is not None
    assert problem.input_set.centre.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: box([0, 0], [1]), "shape"),
        (lambda: box([], []), "empty"),
        (lambda: box([[0, 1], [2]], [1]), "ragged"),
        (lambda: linf_ball([0.0], -0.1), "eps is -0.1"),
        (lambda: linf_ball([float("nan")], 0.1), "x cannot be nan"),
        (lambda: linf_ball(np.array([np.inf]), 0.1), "x cannot be inf"),
        (lambda: linf_ball([0.0], float("nan")), "eps cannot be nan"),
        (lambda: linf_ball([0.0], float("inf")), "eps cannot be inf"),
        (lambda: linf_ball([0.0], "small"), "eps cannot be 'small'"),
        (lambda: linf_ball([0.0], True), "eps cannot be True"),
        (lambda: linf_ball([0.0], np.zeros(1000)), r"eps cannot be this ndarray .*netproof\.box\(x - eps, x \+ eps\)"),
        (lambda: linf_ball([0.0], [0.1, 0.2]), r"netproof\.box"),
        (lambda: linf_ball(torch.zeros(1, device="meta"), 0.1), "a meta tensor"),
        (lambda: linf_ball(torch.ones(1, 1).to_sparse(), 0.1), "a sparse tensor"),
        (lambda: linf_ball([None], 0.1), "x cannot be None"),
        (lambda: linf_ball([0.0], 0.1, clip=(0, 1, 2)), "clip needs"),
        (lambda: linf_ball([0.0], 0.1, clip=1), "clip needs"),  # type: ignore[arg-type]
        (lambda: linf_ball([0.0], 0.1, clip="01"), "clip needs"),  # type: ignore[arg-type]
        (lambda: linf_ball([0.0], 0.1, clip=(0, float("nan"))), "clip cannot be nan"),
        (lambda: linf_ball([0.5], 0.1, clip=(1, 0)), "clip's lower bound is above .* empty"),
        (lambda: linf_ball([0.5, 2.0], 0.1, clip=(0, 1)), "farther than eps from clip: the input set is empty"),
        (lambda: l1_ball([1.5, 1.5], 0.9, clip=(0, 1)), "farther than eps from clip"),
        (lambda: l2_ball([1.5, 1.5], 0.7, clip=(0, 1)), "farther than eps from clip"),
        (lambda: box([1.0], [0.0]), "lower is above upper: the input set is empty"),
        (lambda: classification(box([0], [1]), 1.5, 3), "label cannot be 1.5"),  # type: ignore[arg-type]
        (lambda: classification(box([0], [1]), True, 3), "label cannot be True"),
        (lambda: classification(box([0], [1]), "1", 3), "label cannot be '1'"),  # type: ignore[arg-type]
        (lambda: classification(box([0], [1]), 0, 3, targets=1), "targets cannot be 1"),  # type: ignore[arg-type]
        (lambda: classification(box([0], [1]), 0, 3, targets="12"), "targets cannot be '12'"),  # type: ignore[arg-type]
        (lambda: classification(box([0], [1]), 0, 3, targets=[1.0]), "entry of targets"),  # type: ignore[list-item]
        (lambda: linf_ball([0.0, 1.0, 2.0], 0.1, clip=([0, 0], 1)), "clip has shape"),
        (lambda: classification(box([0], [1]), 3, 3), "label 3 is not an output"),
        (lambda: classification(box([0], [1]), 0, 3, targets=[5]), "target 5 is not an output"),
        (lambda: classification(box([0], [1]), 0, 3, targets=[0]), "other than itself"),
        (lambda: classification(box([0], [1]), 0, 1), "the network has one output"),
        (lambda: output_constraint(box([0], [1]), [1, 2], [0]), "C has shape"),
    ],
)
def test_bad_arguments_are_refused(call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        call()
    assert caught.value.remedy


def test_a_centre_just_outside_the_clip_is_no_empty_set() -> None:
    """Rounding may put it there: what counts is whether any input is left."""
    assert linf_ball([1.05], "0.1", clip=(0, 1)).box.upper == (1,)
    assert l2_ball([1.5, 1.5], 0.75, clip=(0, 1)).ball is not None


def test_integers_of_every_library_are_integers() -> None:
    region = box([0], [1])
    for label in (np.int64(1), np.array(1), torch.tensor(1)):
        assert classification(region, label, 3, targets=np.array([0, 2])).outputs == 3
