"""Asking netproof about tiny networks: questions with little room, problems without a file, checked answers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import netproof
from netproof.bounds.base import Bounder, Bounds, Clock
from netproof.bounds.domains import Domains
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.core.extras import Extras
from netproof.core.verdict import Status, Verdict
from netproof.methods.build import with_fields
from netproof.methods.registry import METHODS, method_info
from netproof.model.graph import Graph
from netproof.problem.problem import Problem, Rows
from netproof.problem.property import Box, Disjunct, Property, Row
from support.exact import milp_minimum, rows_of
from support.problems import random_points
from support.random_graphs import NetworkBuilder, Question, TinyNetwork, input_set, rows_tensor, seeded

CPU = torch.device("cpu")
EVERY_EXTRA = with_fields(Extras, method_info("beta").options())  # as `beta` has them by default

Number = float | str | Fraction


# --- networks ---


def dense(*layers: tuple[Any, Any]) -> TinyNetwork:
    """Linear layers (weight (out, in), bias (out,)) with a ReLU between each two."""
    build = NetworkBuilder(np.asarray(layers[0][0]).shape[1])
    last = 0
    for k, (weight, bias) in enumerate(layers):
        last = build.relu(last) if k else last
        last = build.linear(last, np.asarray(weight, np.float64), np.asarray(bias, np.float64))
    return build.finish()


def gaussian(seed: int, widths: Sequence[int]) -> TinyNetwork:
    """A fully connected ReLU network with float32 weights, scaled so that values neither grow nor vanish."""
    rng = np.random.default_rng(seed)

    def normal(scale: float, *shape: int) -> np.ndarray:
        return rng.normal(scale=scale, size=shape).astype(np.float32).astype(np.float64)

    return dense(*((normal(1.5 / m**0.5, n, m), normal(0.25, n)) for m, n in itertools.pairwise(widths)))


# --- questions ---


def whole_box(lower: Sequence[Number], upper: Sequence[Number]) -> Box:
    return Box(tuple(map(Fraction, lower)), tuple(map(Fraction, upper)))


def at_most(box: Box, network: TinyNetwork, limit: Number, *, output: int = 0, strict: bool = False) -> Property:
    """The violation Y_output <= limit (or <)."""
    row = Row({output: Fraction(1)}, Fraction(limit), strict)
    return Property((Disjunct(box, (row,)),), network.graph.input.size, network.graph.output.size, "made in a test")


def knotted(seed: int, widths: Sequence[int] | None = None) -> Question:
    """A Gaussian network on few inputs with most neurons unstable: the root alone seldom decides about it."""
    pick = seeded(seed)
    widths = widths or [pick(2, 3), *([pick(5, 8)] if pick(0, 2) == 0 else [pick(4, 5), pick(3, 4)]), 2]
    box = whole_box([-1] * widths[0], [1] * widths[0])

    def row() -> Row:
        coefs = [Fraction(pick(-4, 4), 2) for _ in range(widths[-1])]
        return Row({i: c or Fraction(1) for i, c in enumerate(coefs)}, Fraction(0))

    disjuncts = tuple(Disjunct(box, tuple(row() for _ in range(pick(1, 2)))) for _ in range(pick(1, 2)))
    return Question(gaussian(seed, widths), Property(disjuncts, widths[0], widths[-1], "knotted"))


def sharpened(question: Question, margins: Sequence[Fraction]) -> Question:
    """The same question with right-hand sides moved until the least value of each disjunct is its margin.

    So a margin > 0 can just be proved and one < 0 just be broken; `margins` are repeated as needed.
    """
    moved = []
    for i, disjunct in enumerate(question.property.disjuncts):
        least = milp_minimum(question.graph, *question.box, *rows_of(disjunct, question.graph.output.size))
        shift = Fraction(least.value).limit_denominator(1 << 20) - margins[i % len(margins)]
        moved.append(replace(disjunct, rows=tuple(replace(row, rhs=row.rhs + shift) for row in disjunct.rows)))
    return Question(question.network, replace(question.property, disjuncts=tuple(moved)))


# --- answers ---


def ask(network: TinyNetwork, property: Property, folder: Path, **how: Any) -> Verdict:
    """`verify` on the network's file, on one thread of the CPU; what it says of a witness is checked here."""
    path = network.save(folder / "network.onnx")
    with contextlib.chdir(folder):  # where a case that contradicts itself is kept
        verdict = netproof.verify(path, property, device="cpu", threads=1, **how)
    check(network, property, verdict)
    return verdict


def check(network: TinyNetwork, property: Property, verdict: Verdict) -> None:
    """A witness exactly when `sat`, of float32, inside the set, and a violation in a session of its own."""
    assert (verdict.witness is not None) == (verdict.status == Status.SAT)
    if verdict.witness is not None:
        x = verdict.witness.input
        assert x.dtype == np.float32
        session = onnxruntime.InferenceSession(network.model.SerializeToString(), providers=["CPUExecutionProvider"])
        y = session.run(None, {"x0": x})[0]
        np.testing.assert_array_equal(y, verdict.witness.output)
        assert property.violated(*([Fraction(v) for v in side.reshape(-1).tolist()] for side in (x, y)))


# --- problems, without a file ---


def problem_of(graph: Graph, box: tuple[np.ndarray, np.ndarray], rows: Rows) -> Problem:
    return Problem(graph, input_set(*box, graph.input.shape), rows, tuple(range(len(rows.valid))))


def first_problem(question: Question) -> Problem:
    """The question's first disjunct alone."""
    rows = rows_tensor(*rows_of(question.property.disjuncts[0], question.graph.output.size))
    return problem_of(question.graph, question.box, rows)


def root_of(bounder: Bounder, problem: Problem) -> tuple[Root, Bounds]:
    """The root, with nothing settled early."""
    never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64)
    found = bounder.root(problem, never, CPU, Deadline(None), Clock())
    assert found is not None
    return found


def bound_of(bounder: Bounder, root: Root, domains: Domains) -> Bounds:
    never = torch.full((len(domains),), torch.inf, dtype=torch.float64)
    return bounder.bound(root, domains, never, Deadline(None), Clock())


def signs_of(root: Root, splits: torch.Tensor) -> dict[tuple[int, int], int]:
    """By (node of h, element), the sign that splits (U,) decided."""
    found = {}
    for layer in root.graph32.layers:
        for element, sign in zip(layer.index.tolist(), splits[layer.packed].sign().tolist(), strict=True):
            if sign:
                found[layer.pre, element] = sign
    return found


def satisfy(graph: Graph, signs: dict[tuple[int, int], int], x: torch.Tensor) -> torch.Tensor:
    """(n,) bool: which points (n, *input) have the signs; both halves of a split are closed."""
    values = graph.values(x)
    inside = torch.ones(len(x), dtype=torch.bool)
    for (node, element), sign in signs.items():
        inside &= values[node].flatten(1)[:, element] * sign >= 0
    return inside


def sample(problem: Problem, count: int, seed: int) -> torch.Tensor:
    """(count, *input): uniform points, a quarter of their coordinates pushed to an end."""
    rng = torch.Generator().manual_seed(seed)
    lower, upper = problem.input_set.lower, problem.input_set.upper
    share = torch.rand(count, *lower.shape, generator=rng, dtype=torch.float64)
    ends = torch.rand(share.shape, generator=rng) < 0.25
    return lower + torch.where(ends, share.round(), share) * (upper - lower)


def worst_row(problem: Problem, x: torch.Tensor, target: int = 0) -> torch.Tensor:
    """(n,): max_j r_j at points (n, *input)."""
    rows = problem.rows
    each = problem.graph.forward(x).flatten(1) @ rows.coef[target].T - rows.offset[target]
    return each.masked_fill(~rows.valid[target], -torch.inf).amax(1)


def nearly_broken(seed: int, widths: Sequence[int] = (3, 7, 6, 5, 2), room: float = 0.1) -> Problem:
    """Make a problem that holds, though not by much: what is asked lies a little below all of many sampled values."""
    problem = first_problem(knotted(seed, widths))
    points = random_points(problem, 4000, seed)
    y = problem.graph.forward(points).flatten(1)
    rows = problem.rows
    each = torch.einsum("tro,po->tpr", rows.coef, y) - rows.offset[:, None]
    worst = each.masked_fill(~rows.valid[:, None], -torch.inf).amax(2)  # (target, point)
    shift = worst.amin(1) - room * (worst.amax(1) - worst.amin(1))
    return replace(problem, rows=replace(rows, offset=rows.offset + shift[:, None]))


BRIEF = {"root_steps": "20", "neuron_steps": "5", "steps": "5"}


def brief(method: str) -> dict[str, str]:
    """Few steps, where a method has any: optimising for long changes no verdict, only how soon it comes."""
    known = {field.name for field in METHODS[method].fields}
    return {} if method == "lirpa-fixed" else {name: value for name, value in BRIEF.items() if name in known}
