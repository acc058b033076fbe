"""Clipping loses no violation, and a combination of rows is as good as it claims, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor

from netproof.bounds.boxes.clip import clip
from netproof.bounds.boxes.combine import combine, combined
from netproof.bounds.linear.region import BoxRegion
from netproof.core.forms import LinearForm
from support.rational import Exact, exact


def points_of(lower: Tensor, upper: Tensor, seed: int) -> list[Exact]:
    rng = np.random.default_rng(seed)
    low, high = exact(lower), exact(upper)
    shares = [rng.integers(0, 2, len(low)), rng.random(len(low)), rng.integers(0, 2, len(low))]
    return [low + exact(share) * (high - low) for share in shares]


# --- clipping ---


def sixteenths(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda n: n / 16)


@st.composite
def clippings(draw: st.DrawFn) -> tuple[Tensor, Tensor, LinearForm, Tensor]:
    """One box of up to three coordinates, up to three rows, a threshold."""
    n, rows = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    lower = torch.tensor([[draw(sixteenths(-32, 32)) for _ in range(n)]], dtype=torch.float64) / 3
    upper = lower + torch.tensor([[draw(sixteenths(0, 32)) for _ in range(n)]], dtype=torch.float64) / 7
    coef = torch.tensor([[[draw(sixteenths(-32, 32)) for _ in range(n)] for _ in range(rows)]], dtype=torch.float64) / 5
    const = torch.tensor([[draw(sixteenths(-32, 32)) for _ in range(rows)]], dtype=torch.float64) / 9
    return lower, upper, LinearForm(coef, const), torch.tensor([draw(sixteenths(-4, 4))], dtype=torch.float64)


@given(case=clippings(), sweeps=st.integers(1, 3), seed=st.integers(0, 1 << 16))
def test_clipping_never_loses_a_violation(
    case: tuple[Tensor, Tensor, LinearForm, Tensor], sweeps: int, seed: int
) -> None:
    """Corners, points inside, and points where a row is exactly on the threshold."""
    lower, upper, form, threshold = case
    low, high = (exact(side[0]) for side in clip(lower, upper, form, threshold, sweeps))
    rng = np.random.default_rng(seed)
    box = exact(lower[0]), exact(upper[0])
    coefs, consts = [exact(row) for row in form.coef[0]], exact(form.const[0])
    tau = Fraction(float(threshold[0]))
    for _ in range(40):
        share = exact(rng.integers(0, 2, len(low)) if rng.random() < 0.5 else rng.random(len(low)))
        x = box[0] + share * (box[1] - box[0])
        j, i = rng.integers(len(coefs)), rng.integers(len(low))
        if coefs[j][i] != 0:  # move one coordinate until row j is on the threshold, where that stays in the box
            moved = x[i] - (coefs[j] @ x + consts[j] - tau) / coefs[j][i]
            x[i] = moved if box[0][i] <= moved <= box[1][i] else x[i]
        if all(a @ x + c <= tau for a, c in zip(coefs, consts, strict=True)):
            assert all(low <= x)
            assert all(x <= high)


@pytest.mark.parametrize("seed", range(60))
def test_clipping_keeps_the_last_point_that_a_row_allows(seed: int) -> None:
    """All other coordinates at their best, and coefficients of very different sizes: any rounding inwards shows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    lower = torch.from_numpy(rng.normal(size=(1, n)))
    upper = lower + torch.from_numpy(rng.random((1, n)))
    coef = torch.from_numpy(rng.normal(size=(1, 1, n)) * 10.0 ** rng.integers(-2, 4, (1, 1, n)))
    middle = lower / 2 + upper / 2
    const = -(coef[0] @ middle.T)
    low, high = (exact(side[0]) for side in clip(lower, upper, LinearForm(coef, const), torch.zeros(1).double(), 1))
    a, c = exact(coef[0, 0]), Fraction(float(const))
    best = np.where(a > 0, exact(lower[0]), exact(upper[0]))
    for i in range(n):
        x = best.copy()
        x[i] -= (a @ x + c) / a[i]
        if lower[0, i] <= float(x[i]) <= upper[0, i]:
            assert low[i] <= x[i] <= high[i]


def test_clipping_cuts_what_it_can() -> None:
    """x + y <= −1 and −x <= 0.5 on [−1, 1]²: two sweeps leave [−0.5, 0] × [−1, −0.5]."""
    lower, upper = -torch.ones(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    coef = torch.tensor([[[1.0, 1.0], [-1.0, 0.0]]], dtype=torch.float64)
    form = LinearForm(coef, torch.tensor([[1.0, -0.5]], dtype=torch.float64))
    low, high = clip(lower, upper, form, torch.zeros(1, dtype=torch.float64), 2)
    torch.testing.assert_close(low, torch.tensor([[-0.5, -1.0]], dtype=torch.float64))
    torch.testing.assert_close(high, torch.tensor([[0.0, -0.5]], dtype=torch.float64))


def test_clipping_leaves_nothing_where_a_row_is_positive() -> None:
    lower, upper = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    form = LinearForm(torch.ones(1, 1, 2, dtype=torch.float64), torch.full((1, 1), 0.25, dtype=torch.float64))
    low, high = clip(lower, upper, form, torch.zeros(1, dtype=torch.float64), 1)
    assert bool((low > high).any())


# --- combinations ---


def random_forms(seed: int, rows: int, n: int, boxes: int = 6) -> tuple[LinearForm, Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    coef, const = torch.from_numpy(rng.normal(size=(boxes, rows, n))), torch.from_numpy(rng.normal(size=(boxes, rows)))
    lower = torch.from_numpy(rng.normal(size=(boxes, n)))
    return LinearForm(coef, const), lower, lower + torch.from_numpy(rng.random((boxes, n)))


@pytest.mark.parametrize(("rows", "n"), [(2, 1), (2, 4), (3, 2), (5, 3), (12, 2)])
def test_a_combination_is_rounded_down_and_its_weights_are_convex(rows: int, n: int) -> None:
    form, lower, upper = random_forms(rows, rows, n)
    least = BoxRegion.of(lower, upper).least(form)
    weights = combine(form, least, lower, upper)
    assert bool((weights >= 0).all())
    mixed, value = combined(form, weights, lower, upper)
    for b in range(len(lower)):
        share = exact(weights[b])
        assert share.sum() == 1
        for x in points_of(lower[b], upper[b], b):
            true = sum(s * (exact(form.coef[b, j]) @ x + exact(form.const[b])[j]) for j, s in enumerate(share))
            below = exact(mixed.coef[b, 0]) @ x + Fraction(float(mixed.const[b, 0]))
            assert Fraction(float(value[b])) <= below <= true


@pytest.mark.parametrize("n", [1, 3, 6])
def test_two_rows_are_combined_as_well_as_an_lp_would(n: int) -> None:
    """max over λ of the least value is the least t with both rows at most t."""
    form, lower, upper = random_forms(n, 2, n)
    least = BoxRegion.of(lower, upper).least(form)
    value = combined(form, combine(form, least, lower, upper), lower, upper)[1]
    for b in range(len(lower)):
        above = np.hstack([form.coef[b].numpy(), -np.ones((2, 1))])
        bounds = [*zip(lower[b].tolist(), upper[b].tolist(), strict=True), (None, None)]
        found = linprog(np.append(np.zeros(n), 1.0), above, -form.const[b].numpy(), bounds=bounds)
        best = max(float(value[b]), float(least[b].max()))  # an end of the segment is a row alone
        assert best == pytest.approx(found.fun, abs=1e-7)


def test_padding_takes_no_part_in_a_combination() -> None:
    form, lower, upper = random_forms(4, 3, 2)
    form = LinearForm(form.coef.clone(), form.const.clone())
    form.coef[:, 1], form.const[:, 1] = 0.0, -torch.inf
    least = BoxRegion.of(lower, upper).least(form).nan_to_num(nan=-torch.inf)
    weights = combine(form, least, lower, upper)
    _, value = combined(form, weights, lower, upper)
    assert bool((weights[:, 1] == 0).all())
    assert bool(value.isfinite().all())
