"""Short ways to ask the public functions, and small networks and properties to ask about."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import torch

from netproof.api import verify
from netproof.core.verdict import Verdict
from netproof.problem.property import Box, Disjunct, Property, Row


def ask(model: Any, spec: Any, **more: Any) -> Verdict:
    return verify(model, spec, device="cpu", threads=1, **more)


def module(*widths: int, seed: int = 0) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for fan, width in itertools.pairwise(widths):
        layers += [torch.nn.Linear(fan, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def constant_property(rows: tuple[Row, ...], low: float = -1.0, high: float = 1.0, n: int = 2, m: int = 2) -> Property:
    sides = [tuple(Fraction(v) for _ in range(n)) for v in (low, high)]
    return Property((Disjunct(Box(*sides), rows),), n, m)


def below(output: int, value: float) -> Row:
    """The violation y_output <= value."""
    return Row({output: Fraction(1)}, Fraction(value))


def least_of(net: torch.nn.Module, low: float, high: float, n: int, count: int = 4000) -> float:
    """The least first output seen on a box of the network's inputs."""
    x = low + torch.rand(count, n, generator=torch.Generator().manual_seed(0)) * (high - low)
    x[::2] = x[::2].sub(low).div(high - low).round().mul(high - low).add(low)
    with torch.no_grad():
        return float(net(x)[:, 0].min())
