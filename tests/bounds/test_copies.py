"""Entries that are copies of each other are found, and one of them is bounded for all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from netproof.bounds.linear.copies import first_copies
from netproof.bounds.neurons import root as root_module
from netproof.model.load import load_network
from netproof.model.nonlinear import Product
from support.both_ways import decided_both_ways


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


def test_one_of_them_is_bounded_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    bound = root_module._Neurons.bound

    def counted(self: root_module._Neurons, places: Tensor) -> object:
        counts.append(len(places))
        return bound(self, places)

    monkeypatch.setattr(root_module._Neurons, "bound", counted)
    decided_both_ways(Scores().eval(), -torch.ones(1, 2), torch.ones(1, 2), tmp_path, method="beta", share=0.9)
    assert counts
    assert max(counts) <= 12
