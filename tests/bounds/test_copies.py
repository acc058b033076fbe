"""Entries that are copies of each other are found, and one of them is bounded for all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from netproof.bounds.ascent import Schedule
from netproof.bounds.linear.copies import first_copies
from netproof.bounds.neurons.each import LayerNeurons
from netproof.bounds.neurons.root import build_root
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.load import load_network
from netproof.model.nonlinear import Product
from netproof.problem.problem import InputSet, Problem, Rows


class Scores(nn.Module):
    """q kᵀ of two tokens, behind a layer of ReLUs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.q, self.k, self.last = nn.Linear(2, 4), nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        scores = self.q(h).view(1, 2, 3) @ self.k(h).view(1, 2, 3).transpose(1, 2)
        return self.last(scores.reshape(1, 4))


def test_copies_are_equal_and_others_are_not() -> None:
    graph = load_network(Scores().eval(), example_shape=(1, 2)).graph
    product = next(node for node in graph.nodes if isinstance(node.op, Product))
    (pre,) = product.inputs
    first = first_copies(graph, pre)
    assert first is not None
    values = graph.values(torch.randn(5, *graph.input.shape, dtype=torch.float64))[pre].flatten(1)
    assert torch.equal(values, values[:, first])
    assert len(first.unique()) == 12  # of 24 slots
    assert len(values[0].unique()) == 12
    assert bool((first <= torch.arange(24)).all())
    assert first_copies(graph, graph.nodes[1].index) is None


@pytest.mark.parametrize("steps", [0, 3])
def test_one_of_them_is_bounded_for_all(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    bound = LayerNeurons.bound

    def counted(self: LayerNeurons, places: Tensor) -> tuple[Interval, Tensor, Tensor]:
        counts.append(len(places))
        return bound(self, places)

    monkeypatch.setattr(LayerNeurons, "bound", counted)
    graph = load_network(Scores().eval(), example_shape=(1, 2)).graph
    one = torch.ones(1, 2, dtype=torch.float64)
    no, yes = torch.zeros(1, 1, dtype=torch.bool), torch.ones(1, 1, dtype=torch.bool)
    rows = Rows(torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64), no, yes)
    problem = Problem(graph, InputSet(-one, one), rows, (0,))
    root = build_root(problem, torch.device("cpu"), Schedule(steps), Deadline())
    assert root is not None
    assert counts[-1] == 12
    pre = root.layers[-1].pre
    bounds, first = root.intervals.of[pre].flat, first_copies(graph, pre)
    assert first is not None
    assert torch.equal(bounds.lower, bounds.lower[first])
    assert torch.equal(bounds.upper, bounds.upper[first])
    x = 2 * torch.rand(500, 1, 2, dtype=torch.float64) - 1
    values = graph.values(x)[pre].flatten(1)
    assert bool(((values >= bounds.lower) & (values <= bounds.upper)).all())
    assert root.slopes[-1].shape[1] == (24 if steps else 1)
