"""A transposed convolution by phases is the adjoint of the convolution."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from netproof.model.phases import Phases


def test_phases_are_the_adjoint_for_every_kernel_stride_and_padding() -> None:
    rng = torch.Generator().manual_seed(0)
    refused = 0
    for k, s, p, size in itertools.product((1, 2, 3, 4, 5), (1, 2, 3), (0, 1, 2), (7, 8, 9)):
        if p >= k:
            continue
        weight = torch.randn(3, 2, k, k, generator=rng, dtype=torch.float64)
        x = torch.randn(2, 2, size, size, generator=rng, dtype=torch.float64, requires_grad=True)
        y = F.conv2d(x, weight, None, s, p)
        coef = torch.randn(y.shape, generator=rng, dtype=torch.float64)
        (adjoint,) = torch.autograd.grad(y, x, coef)
        phases = Phases.of(weight, s, p, (size, size), y.shape[-1])
        if phases is None:  # then some of the image is out of every window's reach
            refused += 1
            assert bool((adjoint[..., -1] == 0).all())
        else:
            torch.testing.assert_close(phases(coef), adjoint)
    assert refused < 20
