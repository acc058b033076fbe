"""Small condensed networks, and what a bound of one is in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.ascent import Schedule
from netproof.bounds.condensed.network import Condensed
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root, build_root
from netproof.bounds.packed import Packed
from netproof.core.deadline import Deadline
from netproof.problem.problem import Problem
from support.asking import CPU
from support.awkward import GraphBuilder
from support.problems import box_problem
from support.rational import Exact, exact, exact_values

HAIR = 2.0**-40  # below 0, where a lopsided neuron begins: it is unstable, and all but linear


def plain_root(problem: Problem) -> Root:
    root = build_root(problem, CPU, Schedule(0), Deadline(None))
    assert root is not None
    return root


def lopsided(first: np.ndarray, second: np.ndarray | None = None, lower: float = -HAIR) -> Problem:
    """relu(first·x), and relu(second·that), on [−hair, 1]: every neuron is unstable, and nothing is lost to lines."""
    build = GraphBuilder(1, first.shape[1])
    node = build.relu(build.linear(0, first))
    if second is not None:
        node = build.relu(build.linear(node, second))
    build.linear(node, np.ones((1, build.nodes[node].size)))
    return box_problem(build.finish(), lower, 1.0)


def lines_of(net: Condensed, domains: Domains) -> Packed:
    return Packed.of(net.layers, domains.known.to(net.dtype), proof=True)


def exact_trunk(net: Condensed) -> tuple[Exact, Exact]:
    """Return W (Y, input) and y at 0, rational."""
    assert net.charges is not None
    graph, size = net.charges.trunk.graph, net.charges.trunk.graph.input.size
    units = [exact(np.zeros(size)), *(exact(unit) for unit in np.eye(size))]
    zero, *others = (exact_values(graph, x)[net.trunk.node][net.trunk.index.numpy()] for x in units)
    columns = [y - zero for y in others]
    return np.stack(columns, 1), zero


def exact_pull(
    net: Condensed, seed: Tensor, lines: Packed, slopes: Tensor, at: int, signed: Tensor | None = None
) -> Fraction:
    """Return what `Condensed.backward` stands for, of one sub-domain, without rounding anything.

    signed (domain, U): what splits take off the coefficients of h.
    """
    matrix = exact(net.matrix).reshape(net.matrix.shape)
    form, chosen = exact(seed[at]), lines.at(slopes)
    parts = (chosen.lower_slope, chosen.upper_slope, chosen.upper_intercept)
    low, high, lift = (exact(t.expand(len(seed), -1)[at]) for t in parts)
    before, lost = exact(torch.zeros(net.count)), Fraction(0)
    less = exact(torch.zeros(net.count) if signed is None else signed[at])
    for k in reversed(range(net.count)):
        a = form[net.base + k] + before @ matrix[:, net.base + k]
        lost += min(a, Fraction(0)) * lift[k]
        before[k] = a * (high[k] if a < 0 else low[k]) - less[k]
    base = form[: net.base] + before @ matrix[:, : net.base]
    weight, zero = exact_trunk(net)
    slope = base[1:] @ weight
    least, most = exact(net.region.lower), exact(net.region.upper)
    ends = np.where(slope > 0, slope * least, slope * most)
    return base[0] + base[1:] @ zero + lost + (ends.sum() if len(ends) else 0)


def random_forms(seed: int, rows: int, columns: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.0, (rows, columns)))
