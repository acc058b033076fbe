"""LSTM, GRU and RNN, unrolled: every direction, first states, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.onnx_models import Model, ints
from netproof.errors import UnsupportedOp
from netproof.model.onnx.file import parse
from netproof.model.onnx.reader import read_graph
from support.both_ways import decided_both_ways

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Recurrent(nn.Module):
    """Two numbers as a sequence of two, a recurrent layer, and a linear output of its last step."""

    def __init__(self, cell: nn.RNNBase, *, state: bool = False, seed: int = 1) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.cell, self.state = cell, state
        for weight in cell.parameters():
            nn.init.normal_(weight, std=0.8)
        directions = 2 if cell.bidirectional else 1
        self.first = nn.Linear(2, 2 * directions)
        self.last = nn.Linear(2 * directions, 1)

    def forward(self, x: Tensor) -> Tensor:
        sequence = x.view(1, 2, 1) if self.cell.batch_first else x.view(2, 1, 1)
        state: Any = None
        if self.state:
            state = self.first(x).view(-1, 1, 2)
            state = (state, torch.tanh(state)) if isinstance(self.cell, nn.LSTM) else state
        y = self.cell(sequence, state)[0]
        return self.last(y[:, -1] if self.cell.batch_first else y[-1])


CELLS = {
    "LSTM": lambda: nn.LSTM(1, 2),
    "LSTM, both ways": lambda: nn.LSTM(1, 2, bidirectional=True, batch_first=True),
    "LSTM, two layers": lambda: nn.LSTM(1, 2, num_layers=2),
    "LSTM without bias": lambda: nn.LSTM(1, 2, bias=False),
    "GRU": lambda: nn.GRU(1, 2),
    "GRU, both ways": lambda: nn.GRU(1, 2, bidirectional=True),
    "RNN": lambda: nn.RNN(1, 2),
    "RNN, relu": lambda: nn.RNN(1, 2, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", CELLS)
def test_what_torch_exports_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    seed = 4 if "relu" in name else 1  # with which it bends
    decided_both_ways(Recurrent(CELLS[name](), seed=seed).eval(), -torch.ones(1, 2), torch.ones(1, 2), tmp_path)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_first_state_may_depend_on_the_input(name: str, tmp_path: Path) -> None:
    decided_both_ways(Recurrent(CELLS[name](), state=True).eval(), -torch.ones(1, 2), torch.ones(1, 2), tmp_path)


def node(kind: str, direction: str = "forward", seed: int = 0, **more: Any) -> Model:
    """A sequence of 3, a batch of 2, 2 numbers each; hidden 2. `more`: inputs by name, and attributes."""
    model = Model((3, 2, 2), opset=14, seed=seed)
    count, gates = 2 if direction == "bidirectional" else 1, GATES[kind]
    inputs = ["x", model.weights(count, 2 * gates, 2), model.weights(count, 2 * gates, 2)]
    inputs += [model.weights(count, 4 * gates), more.pop("lengths", None)]
    inputs += [model.weights(count, 2, 2) if more.pop("state", False) else None]
    if kind == "LSTM":
        inputs += [model.weights(count, 2, 2) if inputs[-1] is not None else None]
        inputs += [model.weights(count, 6) if more.pop("peepholes", False) else None]
    model.add(kind, *inputs, out=["seq", "end"], hidden_size=2, direction=direction, **more)
    model.add("Reshape", "seq", ints(-1), out="a").add("Reshape", "end", ints(-1), out="b")
    return model.add("Concat", "a", "b", axis=0)


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    (kind, more)
    for kind in GATES
    for more in (
        {},
        {"direction": "reverse"},
        {"direction": "bidirectional", "state": True},
        {"lengths": np.array([3, 3], dtype=np.int32)},
    )
]
VARIANTS += [("LSTM", {"peepholes": True, "state": True}), ("GRU", {"clip": 0.4}), ("RNN", {"clip": 0.4})]
VARIANTS += [("GRU", {"linear_before_reset": 1}), ("GRU", {"linear_before_reset": 1, "state": True})]
VARIANTS += [("RNN", {"activations": ["Sigmoid"]}), ("LSTM", {"activations": ["Tanh", "Sigmoid", "Relu"]})]


@pytest.mark.parametrize(("kind", "more"), VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_every_variant_agrees_with_onnxruntime(kind: str, more: dict[str, Any], seed: int) -> None:
    network = node(kind, seed=seed, **more).network()
    for x in np.random.default_rng(seed).normal(size=(5, 3, 2, 2)).astype(np.float32):
        ours = network.graph.forward(torch.from_numpy(x)[None].double())[0].numpy()
        assert np.abs(ours - network.replay(x)).max() < 1e-5


@pytest.mark.parametrize("kind", GATES)
def test_a_batch_may_come_first(kind: str) -> None:
    """onnxruntime does not run that layout, so the graph alone is compared, with the other layout."""
    usual, turned = node(kind, state=True), node(kind, state=True)
    turned.nodes[0].attribute.extend([*node(kind, layout=1).nodes[0].attribute][-1:])
    turned.shape = (2, 3, 2)
    for position in (5, 6):  # initial_h, initial_c
        if position < len(turned.nodes[0].input) and (held := turned.nodes[0].input[position]):
            turned.constants[held] = turned.constants[held].swapaxes(0, 1).copy()
    one, other = (read_graph(parse(m.proto().SerializeToString(), "test.onnx", "0")).graph for m in (usual, turned))
    x = torch.randn(3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    first, second = one.forward(x[None])[0], other.forward(x.swapaxes(0, 1)[None])[0]
    sequence = first[:12].view(3, 1, 2, 2).permute(2, 0, 1, 3).flatten()  # (batch, seq, direction, hidden)
    assert torch.allclose(second[:12], sequence, rtol=1e-12)
    assert torch.allclose(second[12:], first[12:].view(1, 2, 2).swapaxes(0, 1).flatten(), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        ("LSTM", {"input_forget": 1}, "coupled"),
        ("LSTM", {"clip": 0.4}, "clips"),
        ("GRU", {"lengths": np.array([3, 2], dtype=np.int32)}, "sequence lengths"),
        ("RNN", {"activations": ["Softsign"]}, "activations"),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.1]}, "parameters"),
        ("RNN", {"direction": "sideways"}, "direction"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(kind: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedOp, match=why):
        read_graph(parse(node(kind, **more).proto().SerializeToString(), "test.onnx", "0"))
