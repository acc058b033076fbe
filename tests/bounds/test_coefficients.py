"""A second kind of coefficients, known to nobody but its own class, carries a whole search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import netproof
from netproof.bounds.condensed import condenser
from netproof.bounds.linear.backward import Backward
from netproof.bounds.linear.coefficients import Coefficients, Dense
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.demo import copy_data
from netproof.model.ops import Affine
from netproof.relax import Lines
from support.random_graphs import random_network, seeded

DTYPE = torch.float64


@dataclass(frozen=True, eq=False)
class Columns(Coefficients):
    """Only the entries of the node that some form has a coefficient for; forms along one axis."""

    values: Tensor  # (form, k)
    index: Tensor  # (k,) places in the flattened node
    shape: tuple[int, ...]

    @classmethod
    def of(cls, coef: Tensor) -> Columns:
        """Keep what is not 0 of (form, *node)."""
        flat = coef.flatten(1)
        index = (flat != 0).any(0).nonzero()[:, 0]
        return cls(flat[:, index], index, tuple(coef.shape[1:]))

    def zero(self) -> Tensor:
        return self.values.new_zeros(len(self.values))

    def dense(self) -> Tensor:
        full = self.values.new_zeros(len(self.values), torch.Size(self.shape).numel())
        return full.index_copy(1, self.index, self.values).view(-1, *self.shape)

    def take(self, index: Tensor) -> Tensor:
        return self.dense().flatten(1)[:, index]

    def dot(self, weight: Tensor) -> Tensor:
        return self.values @ weight.flatten()[self.index]

    def size(self, weight: Tensor) -> Tensor:
        return self.values.abs() @ weight.flatten()[self.index]

    def adjoint(self, op: Affine) -> list[Columns]:
        return [Columns.of(part) for part in op.adjoint(self.dense())]

    def relaxed(self, lines: Lines, taken: Tensor | None, arity: int) -> tuple[Columns, list[Tensor]]:
        back, terms = Dense(self.dense(), len(self.shape)).relaxed(lines, taken, arity)
        return Columns.of(back.values), terms

    def plus(self, more: Columns) -> Columns:
        return Columns.of(self.dense() + more.dense())


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let every walk of a lined graph carry `Columns`; the nodes that walks began at."""
    starts: list[int] = []

    def begin(self: LinedGraph, start: int, coef: Tensor) -> Columns:
        starts.append(start)
        return Columns.of(coef)

    monkeypatch.setattr(LinedGraph, "begin", begin)
    return starts


@pytest.mark.parametrize("seed", range(6))
def test_a_walk_arrives_at_the_same_form(seed: int) -> None:
    graph = random_network(seeded(seed), neurons=12).graph.to("cpu", DTYPE)
    coef = torch.randn(5, *graph.output.shape, dtype=DTYPE, generator=torch.Generator().manual_seed(seed))
    lines = {i: _between(graph.nodes[i].shape) for i in graph.nonlinear}
    back = Backward(graph)
    plain = back.form(graph.output.index, coef, lines)
    done = back.walk(graph.output.index, Columns.of(coef), lines, 0)
    ours = back.over_input(done)
    torch.testing.assert_close(ours.coef, plain.coef, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.const, plain.const, rtol=1e-12, atol=1e-12)


def _between(shape: tuple[int, ...]) -> Lines:
    """Some lines of each neuron."""
    half = torch.full(shape, 0.5, dtype=DTYPE)
    return Lines(0.2 * half, half, half)


@pytest.mark.parametrize("condensed", [True, False], ids=["condensed", "graph"])
@pytest.mark.parametrize("method", ["auto", "beta", "lirpa"])
def test_a_search_runs_with_it(
    begun: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, condensed: bool
) -> None:
    """Prove and break demo questions with no dense coefficients but those of the class itself."""
    monkeypatch.setattr(condenser, "holds", lambda size, device: condensed)
    asked = [one for one in copy_data(tmp_path) if Path(one.vnnlib).stem in ("fc-4-needs-splits", "fc-5-breaks")]
    found = [
        netproof.verify(tmp_path / one.onnx, tmp_path / one.vnnlib, method=method, device="cpu", attack=False)
        for one in asked
    ]
    assert [verdict.status for verdict in found] == ["unsat", "sat"]
    assert found[0].stats.domains > 0
    assert begun
