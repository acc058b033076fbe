"""The relaxed network where a bound is attained, and what it says of splits before any is tried."""

from __future__ import annotations

import pytest
import torch

from netproof.bounds.base import Bounds
from netproof.bounds.beta import Beta
from netproof.bounds.domains import split
from netproof.bounds.neurons.root import Root
from netproof.branching.filtered import Filtered, children
from netproof.branching.minimiser import at_minimiser, changes
from support.asking import bound_of, first_problem, knotted, root_of
from support.problems import unstable_of

BETA = Beta(root_steps=5, steps=3)


def situations(seed: int) -> list[tuple[Root, Bounds]]:
    """A root, and batches in which some neurons are split, with multipliers."""
    root, bounds = root_of(BETA, first_problem(knotted(seed, (3, 6, 5, 2))))
    order = torch.randperm(root.count, generator=torch.Generator().manual_seed(seed))
    children = (split(bounds.domains, order[None, :count].expand(len(bounds.domains), -1)) for count in (1, 2))
    return [(root, bounds), *((root, bound_of(BETA, root, domains)) for domains in children)]


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_is_never_below_what_trying_shows(seed: int) -> None:
    near = 0
    for root, bounds in situations(seed):
        domains = bounds.domains
        at = at_minimiser(root, domains)
        left, right = changes(root, domains, at)
        every = torch.arange(root.count).expand(len(domains), -1)
        shown = children(root, domains, every) - at.value[:, None, None]  # right before left
        free = unstable_of(domains)
        estimate = torch.stack([right, left], 2)[free]
        over = estimate - shown[free]
        assert bool((over >= -1e-4 * (1 + estimate.abs())).all())
        near += int((over < 1e-3).sum())
    assert near > 0  # where the minimiser stays, it is exact


@pytest.mark.parametrize("seed", range(4))
def test_its_value_is_the_bound_and_neurons_lie_on_the_line_that_their_coefficients_choose(seed: int) -> None:
    root, bounds = situations(seed)[0]  # nothing is inherited at the root
    domains, at = bounds.domains, at_minimiser(root, bounds.domains)
    assert torch.allclose(at.value.double(), domains.bound, atol=1e-4)
    chord = domains.upper / (domains.upper - domains.lower) * (at.h - domains.lower)
    expected = torch.where(at.coef < 0, chord, domains.slopes * at.h)
    free = unstable_of(domains)
    assert bool(free.any())
    assert torch.allclose(at.z[free], expected[free], atol=1e-4)


def test_a_neuron_that_proves_a_half_is_named_before_one_that_gains_little() -> None:
    """As the score is the worth of what is estimated, the first it names has the greatest."""
    named = 0
    for seed in range(6):
        for root, bounds in situations(seed):
            domains = bounds.domains
            at = at_minimiser(root, domains)
            if not bool((at.value < 0).all()):
                continue
            left, right = (torch.minimum(side, -at.value[:, None]) for side in changes(root, domains, at))
            worth = torch.maximum(left, right) + 0.4 * torch.minimum(left, right)
            worth = worth.masked_fill(~unstable_of(domains), -torch.inf)
            first = Filtered().choose(root, bounds, 1)
            real = first[:, 0] >= 0
            assert torch.allclose(worth.gather(1, first.clamp(min=0))[real, 0], worth.amax(1)[real], atol=1e-5)
            named += int(real.sum())
    assert named > 0
