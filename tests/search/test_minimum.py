"""A least value that was seen is an upper bound of the minimum in real arithmetic, with its own rounding added."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch

from netproof.search.goals import Judge, Minimise
from support.awkward import GraphBuilder
from support.problems import box_problem, targets_of
from support.rational import exact, exact_values


def test_a_value_seen_is_not_below_the_exact_one() -> None:
    """Terms of size 5 that cancel: what is left is rounding, and only the error tells."""
    below = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, weight, bias = rng.uniform(0.5, 1.0, 3).astype(np.float32).astype(np.float64), rng.normal(size=(8, 3)), 5.0
        null = np.linalg.svd(np.hstack([weight, np.full((8, 1), bias)]).T)[2][-1]
        build = GraphBuilder(1, 3)
        build.linear(build.relu(build.linear(0, weight, np.full(8, bias))), null[None])
        problem = box_problem(build.finish(), x, x, targets_of([[[1.0]]]))
        goal = Minimise(problem, 1e-9)
        judge = Judge(problem.graph.to("cpu", torch.float32), problem.rows)
        goal.offer(judge, torch.from_numpy(x).float()[None, None], torch.zeros(1, dtype=torch.int64))
        (truth,) = exact_values(problem.graph, exact(x))[-1]
        assert Fraction(float(goal.upper[0])) >= truth
        below += Fraction(float(problem.graph.forward(torch.from_numpy(x)[None, None]))) < truth
    assert below > 0
