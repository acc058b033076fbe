"""Roots of small networks and their children, for tests of bounds that are climbed jointly with those of neurons."""

from __future__ import annotations

from dataclasses import replace

import torch

from netproof.bounds.ascent import Schedule
from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.neurons.root import Root, build_root
from netproof.branching.babsr import Babsr
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph
from netproof.problem.problem import Problem, Rows
from support.problems import box_problem, inside, packed_values, random_relus

CPU = torch.device("cpu")
NEVER = torch.inf


def dense(seed: int, widths: tuple[int, ...] = (6, 6, 6)) -> Graph:
    return random_relus(seed, widths, outputs=2)


def rooted(graph: Graph, rows: Rows | None = None, steps: int = 5) -> Root:
    root = build_root(box_problem(graph, -1.0, 1.0, rows), CPU, Schedule(steps), Deadline())
    assert root is not None
    return root


def all_candidates(root: Root, domains: Domains) -> Domains:
    return replace(domains, candidates=torch.arange(root.count).repeat(len(domains), 1))


def some_children(root: Root, bounder: Lirpa, rounds: int) -> list[Bounds]:
    """Split what branching likes, a few rounds; every batch of bounds on the way."""
    threshold = torch.full((len(root.rows.valid),), NEVER, dtype=torch.float64)
    first = replace(bounder, root_steps=5).whole(root, threshold, Deadline(), Clock())
    found = [first]
    for _ in range(rounds):
        last = found[-1]
        ranked = replace(last.domains, candidates=Babsr().choose(root, last, 12))
        children = split(ranked, ranked.candidates[:, :1])
        never = torch.full((len(children),), NEVER, dtype=torch.float64)
        found.append(bounder.bound(root, children, never, Deadline(), Clock()))
    return found


def values_of(problem: Problem, points: torch.Tensor, domains: Domains) -> torch.Tensor:
    """(domain, point): Σ λ r with each domain's own target and weights."""
    y = problem.graph.forward(points).flatten(1)
    coef, offset = problem.rows.coef[domains.target], problem.rows.offset[domains.target]
    rows = torch.einsum("dro,po->dpr", coef, y) - offset[:, None]
    return (rows * domains.weights.double()[:, None]).sum(2)


def assert_holds(root: Root, bounds: Bounds, points: torch.Tensor) -> None:
    domains = bounds.domains
    h = packed_values(root, points)
    here = inside(domains, h)
    assert not bool((here & bounds.empty[:, None]).any())
    low, high = domains.lower.double()[:, None], domains.upper.double()[:, None]
    fits = (low <= h + 1e-9).all(2) & (h - 1e-9 <= high).all(2)
    assert bool((fits | ~here).all())
    value = values_of(root.problem, points, domains)
    assert bool(((domains.bound[:, None] <= value + 1e-6 * (1 + value.abs())) | ~here).all())
