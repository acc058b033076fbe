"""Problems for the engine, made from graphs, and points of sub-domains to hold bounds against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.model.graph import Graph
from netproof.problem.problem import InputSet, Problem, Rows
from support.awkward import GraphBuilder


def box_problem(
    graph: Graph, lower: float | np.ndarray, upper: float | np.ndarray, rows: Rows | None = None
) -> Problem:
    """`rows`: by default one target, the first output."""
    sides = [np.broadcast_to(np.asarray(side, np.float64), (graph.input.size,)) for side in (lower, upper)]
    inputs = InputSet(*(torch.from_numpy(side.copy()).reshape(graph.input.shape) for side in sides))
    chosen = rows or targets_of([[np.eye(graph.output.size)[0]]])
    return Problem(graph, inputs, chosen, tuple(range(len(chosen.valid))))


def targets_of(
    coefs: Sequence[Sequence[Sequence[float] | np.ndarray]],
    offsets: Sequence[Sequence[float]] | None = None,
    *,
    strict: bool = False,
) -> Rows:
    """One conjunction a target: coefs[target][row] over the outputs, r = coef·y − offset."""
    width, outputs = max(map(len, coefs)), len(coefs[0][0])
    coef = np.zeros((len(coefs), width, outputs))
    offset, valid = np.zeros((len(coefs), width)), np.zeros((len(coefs), width), dtype=bool)
    for t, rows in enumerate(coefs):
        for j, row in enumerate(rows):
            coef[t, j], valid[t, j] = row, True
            offset[t, j] = offsets[t][j] if offsets else 0.0
    tensors = [torch.from_numpy(a) for a in (coef, offset, valid & strict, valid)]
    return Rows(*tensors)


def random_points(problem: Problem, count: int, seed: int = 0) -> Tensor:
    """(count, *input) of the box, half of them at corners."""
    rng = np.random.default_rng(seed)
    share = rng.random((count, *problem.graph.input.shape))
    share[::2] = share[::2].round()
    low, high = problem.input_set.lower, problem.input_set.upper
    return low + torch.from_numpy(share) * (high - low)


def packed_values(root: Root, points: Tensor) -> Tensor:
    """h of every packed neuron at the points: (point, U), float64."""
    values = root.problem.graph.values(points)
    parts = [values[layer.pre].flatten(1)[:, layer.index.cpu()] for layer in root.graph32.layers]
    return torch.cat(parts, 1) if parts else torch.zeros(len(points), 0, dtype=torch.float64)


def inside(domains: Domains, h: Tensor) -> Tensor:
    """(domain, point): which points, given their h (point, U), satisfy a sub-domain's signs."""
    signs = domains.splits.sign().double()[:, None]
    return (signs * h >= 0).all(2)


def unstable_of(domains: Domains) -> Tensor:
    """(domain, U): the ReLUs that a split would make linear."""
    return (domains.lower < 0) & (domains.upper > 0)


def plain_domains(count: int, neurons: int, seed: int = 0) -> Domains:
    """Unsplit sub-domains with every neuron unstable."""
    g = torch.Generator().manual_seed(seed)
    return Domains(
        target=torch.arange(count),
        splits=torch.zeros(count, neurons, dtype=torch.int16),
        lower=-torch.rand(count, neurons, generator=g) - 0.1,
        upper=torch.rand(count, neurons, generator=g) + 0.1,
        points=torch.zeros(count, 0),
        slopes=torch.rand(count, neurons, generator=g),
        multipliers=torch.rand(count, neurons, generator=g),
        weights=torch.ones(count, 1),
        bound=torch.randn(count, generator=g, dtype=torch.float64),
        evaluated=torch.zeros(count, 2, dtype=torch.int64),
        candidates=torch.arange(neurons).repeat(count, 1),
        settled=torch.zeros(count, dtype=torch.int64),
        rebounded=torch.zeros(count, dtype=torch.int64),
        level=torch.zeros(count, dtype=torch.int64),
        inside=torch.zeros(count, 0, 0, dtype=torch.float64),
    )


def same_domains(a: Domains, b: Domains) -> bool:
    return all(torch.equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Domains))


def random_relus(seed: int, widths: tuple[int, ...], outputs: int) -> Graph:
    """Two inputs, Gaussian layers with a ReLU each, and a linear output."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(1, 2)
    node = 0
    for width in widths:
        fan = build.nodes[node].size
        node = build.relu(build.linear(node, rng.standard_normal((width, fan)), rng.normal(0, 0.3, width)))
    build.linear(node, rng.standard_normal((outputs, widths[-1])), np.zeros(outputs))
    return build.finish()


def folded_neurons(seed: int, count: int = 6) -> Problem:
    """Neurons of a third layer that are nothing but the rounding of what is folded into them.

    They read active neurons of size 20 that cancel, and 2^-60 of a switch relu(x_0) in the first layer, which is the
    one other neuron that is unstable.
    """
    rng = np.random.default_rng(seed)
    x, weight, bias = rng.uniform(0.5, 1.0, 3), rng.normal(size=(10, 3)), 20 + rng.random(10)
    null = np.linalg.svd(np.hstack([weight, bias[:, None]]).T)[2][-count:]  # null·(weight z + bias) = 0 for any z
    build = GraphBuilder(1, 3)
    first = build.relu(build.linear(0, np.vstack([np.eye(3)[0], np.eye(3)]), np.array([0.0, 3.0, 3.0, 3.0])))
    mixed = np.zeros((11, 4))
    mixed[0, 0], mixed[1:, 1:] = 1.0, weight
    second = build.relu(build.linear(first, mixed, np.concatenate([[1.0], bias])))
    third = build.linear(second, np.hstack([np.full((count, 1), 2.0**-60), null]))
    build.linear(build.relu(third), np.ones((1, count)))
    lower = x.copy()
    lower[0] = -(2.0**-30)
    return box_problem(build.finish(), lower, x)
