"""One network, a property that holds though intervals cannot prove it, and one that does not hold."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import netproof
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.core.verdict import Status
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.numerics import generator
from netproof.problem.problem import InputSet

SAMPLES = 4000
CPU = torch.device("cpu")


def box_spec(lower: Tensor, upper: Tensor, outputs: int, violation: str) -> str:
    """Write a VNN-LIB property: a box of the flat input, and what must not be."""
    lines = [f"(declare-const X_{i} Real)" for i in range(lower.numel())]
    lines += [f"(declare-const Y_{i} Real)" for i in range(outputs)]
    for i, (low, high) in enumerate(zip(lower.flatten().tolist(), upper.flatten().tolist(), strict=True)):
        lines += [f"(assert (>= X_{i} {low:.9f}))", f"(assert (<= X_{i} {high:.9f}))"]
    return "\n".join([*lines, f"(assert {violation})", ""])


def reached(network: Network, lower: Tensor, upper: Tensor, output: int = 0) -> float:
    """Return the largest value of one output among random points and corners of the box."""
    random = generator(0)
    inside = torch.rand(SAMPLES, lower.numel(), generator=random, dtype=torch.float64)
    corners = (torch.rand(SAMPLES, lower.numel(), generator=random) < 0.5).to(torch.float64)
    points = lower.flatten() + torch.cat([inside, corners]) * (upper - lower).flatten()
    values = network.graph.values(points.view(-1, *network.input_shape))[-1]
    return float(values.flatten(1)[:, output].max())


def interval_upper(network: Network, lower: Tensor, upper: Tensor, output: int = 0) -> float:
    """Return what plain interval arithmetic proves of the same output."""
    shape = network.input_shape
    inputs = InputSet(lower.to(torch.float64).reshape(shape), upper.to(torch.float64).reshape(shape))
    found = interval_bounds(network.graph, Region.of(inputs, CPU, torch.float64)).of
    return float(found[len(network.graph.nodes) - 1].upper.flatten()[output])


def decided_both_ways(
    source: str | Path | torch.nn.Module,
    lower: Tensor,
    upper: Tensor,
    folder: Path,
    *,
    output: int = 0,
    share: float = 0.5,
    nonlinear: bool = True,
    natively: float = math.inf,
    timeout: float = 60.0,
    **asked: Any,
) -> Network:
    """Ask whether an output stays below a value that it never reaches, and below one that it does reach.

    lower, upper: the box, in the shape of the input or flat. The first value lies between what sampling reaches and
    what intervals prove, `share` of the way up; of a network that is linear, intervals may be exact. natively: what
    they prove at most where an operator is bounded as the one function that it is, not as what it is written with.
    """
    network = load_network(source, example_shape=tuple(lower.shape))
    most = reached(network, lower, upper, output)
    proved = min(interval_upper(network, lower, upper, output), natively)
    width = proved - most if nonlinear else max(proved - most, 1e-3 * (1.0 + abs(most)))
    assert width > 1e-6 * (1.0 + abs(most)), f"intervals are exact here: {most} and {proved}"
    outputs = network.graph.output.size
    for name, value, expected in (
        ("holds", most + share * width, Status.UNSAT),
        ("breaks", most - 0.02 * width, Status.SAT),
    ):
        spec = folder / f"{name}.vnnlib"
        spec.write_text(box_spec(lower, upper, outputs, f"(>= Y_{output} {value:.12f})"))
        verdict = netproof.verify(network, spec, timeout=timeout, device="cpu", **asked)
        assert verdict.status == expected, f"{name}: {verdict.status} ({verdict.reason}) at {value}"
    return network
