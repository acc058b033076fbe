"""Ops of two networks that compute the same are found to be the same, whatever they are made of."""

from __future__ import annotations

from dataclasses import replace

import torch

from netproof.model.affine import Linear, Scale
from netproof.model.combined.alike import are_equal
from netproof.model.conv import Conv, Kernel


def conv(seed: int = 0, stride: int = 1) -> Conv:
    weight = torch.randn(2, 1, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    kernel = Kernel(weight, (stride, stride), (1, 1), (1, 1), 1, (1, 4, 4))
    return Conv(kernel, torch.zeros(2, dtype=torch.float64), (1, 1, 4, 4), (1, 2, 4, 4))


def test_convolutions_with_the_same_numbers_are_equal() -> None:
    assert are_equal(conv(), conv())
    assert not are_equal(conv(), conv(seed=1))
    assert not are_equal(conv(), conv(stride=2))
    assert not are_equal(conv(), replace(conv(), bias=None))
    assert not are_equal(conv(), replace(conv(), bias=torch.ones(2, dtype=torch.float64)))


def test_ops_of_different_kinds_are_not() -> None:
    weight = torch.ones(2, 2, dtype=torch.float64)
    assert not are_equal(conv(), Linear(weight))
    assert are_equal(Linear(weight), Linear(weight.clone()))


def test_numbers_with_a_radius_are_like_no_others() -> None:
    """They stand for others near them, which two networks may have folded from different constants."""
    number = torch.full((2,), 1.5, dtype=torch.float64)

    def folded() -> Scale:
        return Scale(number, None, Scale(number * 2.0**-52))

    one = folded()
    assert are_equal(one, one)
    assert not are_equal(one, folded())
    assert are_equal(Scale(number), Scale(number.clone()))
    near = replace(conv(), radius=conv())
    assert not are_equal(near, replace(conv(), radius=near.radius))
