"""What splits are worth, against the equation that says so."""

from __future__ import annotations

import pytest
import torch

from netproof.paper.rivals.gnn.worth import LEAST, gains, worth


@pytest.mark.parametrize("gain", [0.01, 0.3, 1.0])
def test_equal_gains_are_worth_themselves(gain: float) -> None:
    assert float(worth(torch.tensor([gain, gain]))) == pytest.approx(gain, rel=1e-4)


def test_the_tree_is_as_large_as_its_two_halves() -> None:
    pairs = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)).clamp(min=0.02)
    leaves = 2 ** (1 / worth(pairs).double())
    assert torch.allclose(leaves[:, None].pow(-pairs.double()).sum(1), torch.ones(50, dtype=torch.float64), atol=1e-3)


def test_more_is_worth_more_on_either_side_and_sides_are_alike() -> None:
    low, high = torch.tensor([0.1, 0.4]), torch.tensor([0.2, 0.4])
    assert worth(low) < worth(high) < worth(torch.tensor([0.2, 0.5]))
    assert worth(low) == worth(low.flip(0))
    assert 0 < worth(torch.tensor([1.0, 0.0])) < 0.2
    assert float(worth(torch.zeros(2))) == pytest.approx(LEAST, rel=1e-4)


def test_gains_are_shares_of_what_is_missing() -> None:
    value = torch.tensor([[[-1.0, -3.0], [2.0, float("nan")], [float("inf"), -2.0]]])
    found = gains(value, torch.tensor([-2.0], dtype=torch.float64))
    assert torch.allclose(found, torch.tensor([[[0.5, 0.0], [1.0, 0.0], [1.0, 0.0]]]))
